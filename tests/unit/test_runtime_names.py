"""Every class and method of sections 14 to 17 and 22 of the 0.2 API is there."""

from __future__ import annotations

import importlib
import inspect

import pytest

import pygpukit as gp

# class: its methods, attributes and static members, as section 17 names them.
RUST = {
    "TaskMeta": "id name state policy priority memory_estimate submitted_at started_at "
    "completed_at error dependencies is_terminal elapsed duration",
    "Scheduler": "submit evaluate_admission admit admission_stats get_runnable_tasks should_run "
    "start_task complete_task fail_task cancel_task get_task get_task_state stats task_stats clear",
    "SchedulerStats": "total_submitted pending_count running_count completed_count failed_count "
    "cancelled_count reserved_memory available_memory avg_wait_time avg_exec_time",
    "TaskStats": "id name state wait_time exec_time memory_used",
    "AdmissionConfig": "max_memory max_bandwidth max_pending_tasks enable_best_effort",
    "AdmissionController": "try_admit release stats",
    "AdmissionStats": "admitted_count rejected_count queued_count pending_count reserved_memory "
    "used_memory reserved_bandwidth used_bandwidth available_memory available_bandwidth",
    "AdmissionDecision": "Admitted Queued is_admitted is_rejected is_queued reject_reason "
    "decision_type reserved_memory reserved_bandwidth queue_position estimated_wait_ms "
    "rejection_reason",
    "RejectReasonDetails": "reason_type requested_memory available_memory message",
    "RejectReason": "InsufficientMemory InsufficientBandwidth QueueFull "
    "UnsatisfiableDependencies Custom",
    "QosClass": "Guaranteed Burstable BestEffort priority can_preempt memory_overcommit_ratio "
    "bandwidth_ratio",
    "ResourceRequirements": "guaranteed burstable best_effort memory_request memory_limit "
    "bandwidth_request bandwidth_limit",
    "QosPolicy": "guaranteed burstable best_effort qos_class memory_to_reserve "
    "bandwidth_to_reserve",
    "QosTaskMeta": "guaranteed burstable best_effort id name qos_class memory_request "
    "memory_limit burst_ratio bandwidth_request effective_priority",
    "QosPolicyEvaluator": "evaluate reserve release stats reset",
    "QosEvaluation": "is_admitted is_throttled is_queued is_rejected decision_type qos_class "
    "reserved_memory reject_reason",
    "QosStats": "total_memory total_bandwidth guaranteed_memory guaranteed_bandwidth "
    "burstable_memory best_effort_queue available_memory available_bandwidth",
    "PartitionLimits": "with_memory with_compute memory compute bandwidth memory_quota "
    "compute_share bandwidth_share max_streams max_pending_kernels max_pending_transfers",
    "PartitionConfig": "total_memory allow_overcommit overcommit_ratio",
    "PartitionManager": "create_partition delete_partition get assign_task get_task_partition "
    "unassign_task set_default default_partition partition_ids stats clear",
    "Partition": "id name limits usage tasks enabled memory_utilization",
    "PartitionUsage": "memory_used active_streams pending_kernels pending_transfers "
    "total_kernels total_transfers compute_time_ms",
    "PartitionStats": "partition_count active_partitions total_memory_allocated "
    "total_compute_allocated total_bandwidth_allocated available_memory available_compute "
    "available_bandwidth",
    "SliceConfig": "max_items_per_slice max_duration_ms min_slices max_slices adaptive",
    "SliceScheduler": "submit submit_for_task get_next_slice complete_slice pending_slices "
    "pending_kernels stats clear config",
    "SliceInfo": "kernel_handle",
    "KernelType": "FP32_FMA TF32_MMA FP16_MMA BF16_MMA L2_NAIVE TILED_SMEM uses_tensor_cores "
    "min_sm_version name",
    "DeviceCapabilities": "ampere hopper supports_kernel best_matmul_kernel",
}

ONLY_IN_SUBMODULES = {
    "scheduler": {
        "TaskState": "Pending Running Completed Failed Cancelled",
        "TaskPolicy": "Fifo Sjf Priority",
    },
}

SUBMODULES = ("memory", "scheduler", "transfer", "dispatch", "device")


@pytest.mark.parametrize("name", sorted(RUST))
def test_classes_of_pygpukit_rust(name: str) -> None:
    rust = importlib.import_module("_pygpukit_rust")
    found = getattr(rust, name)
    for member in RUST[name].split():
        assert hasattr(found, member), f"{name}.{member}"
    homes = [getattr(rust, module) for module in SUBMODULES if hasattr(getattr(rust, module), name)]
    assert homes, name
    assert all(getattr(home, name) is found for home in homes)
    assert inspect.getdoc(found)


@pytest.mark.parametrize("module", sorted(ONLY_IN_SUBMODULES))
def test_classes_of_submodules(module: str) -> None:
    rust = importlib.import_module("_pygpukit_rust")
    home = importlib.import_module(f"_pygpukit_rust.{module}")
    for name, members in ONLY_IN_SUBMODULES[module].items():
        for member in members.split():
            assert hasattr(getattr(home, name), member), f"{module}.{name}.{member}"
        assert not hasattr(rust, name), name


def test_the_three_spellings_of_0_2_give_the_same_classes() -> None:
    import _pygpukit_rust
    import _pygpukit_rust._pygpukit_rust as inner
    import pygpukit._pygpukit_rust as private

    for name in RUST:
        assert getattr(inner, name) is getattr(_pygpukit_rust, name) is getattr(private, name)
    assert _pygpukit_rust.__version__ == gp.__version__


def test_numbers_of_enumerations() -> None:
    from _pygpukit_rust import QosClass, RejectReason
    from _pygpukit_rust.scheduler import TaskPolicy, TaskState

    names = ["Pending", "Running", "Completed", "Failed", "Cancelled"]
    assert [int(getattr(TaskState, name)) for name in names] == [0, 1, 2, 3, 4]
    assert [int(getattr(TaskPolicy, name)) for name in ("Fifo", "Sjf", "Priority")] == [0, 1, 2]
    reasons = RUST["RejectReason"].split()
    assert [int(getattr(RejectReason, name)) for name in reasons] == [0, 1, 2, 3, 4]
    classes = ("Guaranteed", "Burstable", "BestEffort")
    assert [int(getattr(QosClass, name)) for name in classes] == [0, 1, 2]
    assert TaskState.Running == 1
    assert hash(TaskState.Running) == hash(TaskState.Running)


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


def test_sizes() -> None:
    assert (gp.scheduler.KB, gp.scheduler.MB, gp.scheduler.GB) == (2**10, 2**20, 2**30)


def test_importing_the_package_loads_none_of_it(run_python) -> None:  # type: ignore[no-untyped-def]
    code = (
        "import sys, pygpukit as gp; a = 'pygpukit._runtime' in sys.modules; gp.scheduler; "
        "gp.memory; print(a, 'pygpukit._runtime' in sys.modules, 'numpy' in sys.modules)"
    )
    done = run_python(code)
    assert done.stdout.split() == ["False", "True", "False"], done.stderr
