"""Where the names of 0.2 live. What they do is in test_compat_*.py."""

from __future__ import annotations

import importlib
import inspect

import pytest

import pygpukit as gp

# Classes that 0.2 has only in a submodule of _pygpukit_rust.
ONLY_IN_SUBMODULES = {
    "scheduler": "TaskState TaskPolicy",
    "transfer": "TransferType TransferState StreamType",
    "dispatch": "KernelState KernelLaunchRequest StreamPacingStats ArchFingerprint PersistentCache "
    "PersistentCacheConfig PersistentCacheStats PersistentCacheEntry",
}
SUBMODULES = ("memory", "scheduler", "transfer", "dispatch", "device", "llm")


def test_the_three_spellings_of_0_2_give_the_same_classes() -> None:
    import _pygpukit_rust
    import _pygpukit_rust._pygpukit_rust as inner
    import pygpukit._pygpukit_rust as private

    names = [name for name in _pygpukit_rust.__all__ if name[0].isupper()]
    assert len(names) > 50
    for name in names:
        found = getattr(_pygpukit_rust, name)
        assert getattr(inner, name) is found is getattr(private, name)
        homes = [getattr(_pygpukit_rust, module) for module in SUBMODULES]
        assert {getattr(home, name, None) for home in homes} - {None} == {found}
        assert inspect.getdoc(found)
    assert _pygpukit_rust.__version__ == gp.__version__


@pytest.mark.parametrize("module", sorted(ONLY_IN_SUBMODULES))
def test_classes_of_submodules(module: str) -> None:
    rust = importlib.import_module("_pygpukit_rust")
    home = importlib.import_module(f"_pygpukit_rust.{module}")
    for name in ONLY_IN_SUBMODULES[module].split():
        assert inspect.isclass(getattr(home, name))
        assert not hasattr(rust, name), name


MODULES = {
    "scheduler": "TaskState TaskPolicy Task Scheduler RustScheduler RustTaskMeta RustTaskState "
    "RustTaskPolicy RustSchedulerStats RustTaskStats HAS_RUST_BACKEND HAS_MULTI_LLM KB MB GB "
    "initialize create_context get_context destroy_context list_contexts session context_session "
    "is_session_active reset stats SchedulerStats ExecutionContext ContextStats AsyncKernelRequest "
    "KernelFuture KernelResult",
    "memory": "MemoryBlock MemoryPool get_default_pool set_default_pool RustMemoryPool "
    "RustMemoryBlock RustPoolStats HAS_RUST_BACKEND PinnedMemoryManager",
    "transfer": "AsyncTransferEngine TransferOp PinnedMemoryManager PinnedPoolConfig",
    "dispatch": "KernelDispatcher LaunchConfig KernelPacingEngine SliceScheduler KernelCache "
    "PersistentCache",
    "profiling": "KernelRecord ProfilerContext Profiler MemorySnapshot MemoryProfiler "
    "export_chrome_trace export_combined_trace profile_matmul get_global_profiler",
}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_modules_are_reached_from_the_package(module: str) -> None:
    found = getattr(gp, module)
    assert found is importlib.import_module(f"pygpukit.{module}")
    assert set(MODULES[module].split()) <= set(found.__all__)
    for name in found.__all__:
        assert hasattr(found, name), name


def test_the_product_does_not_load_the_names_of_0_2(run_python) -> None:  # type: ignore[no-untyped-def]
    code = """
import sys, pygpukit as gp
gp.memory.stats(), gp.transfer.stats(), gp.dispatch.stats()
with gp.scheduler.Scheduler() as scheduler:
    task = scheduler.submit(int, memory=1)
    print(task.result(), scheduler.stats().counts["completed"], hasattr(scheduler, "nothing"))
    print([name for name in sys.modules if "_compat" in name])
    print(scheduler.task_count, "pygpukit._compat.schedulers" in sys.modules)
"""
    done = run_python(code)
    assert done.stdout.splitlines() == ["0 1 False", "[]", "1 True"], done.stderr


def test_importing_the_package_loads_none_of_it(run_python) -> None:  # type: ignore[no-untyped-def]
    code = (
        "import sys, pygpukit as gp; a = 'pygpukit._runtime' in sys.modules; gp.scheduler; "
        "gp.memory; print(a, 'pygpukit._runtime' in sys.modules, 'numpy' in sys.modules)"
    )
    done = run_python(code)
    assert done.stdout.split() == ["False", "True", "False"], done.stderr
