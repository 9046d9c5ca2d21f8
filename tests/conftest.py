"""Shared by all Python tests: a private kernel cache, child processes, and the gpu marker."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

# The same examples in every run; HYPOTHESIS_PROFILE=search looks for new ones.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# Set before the package reads its environment (on first use): never the user's cache. Processes
# that share the work may share one (GPK_TEST_CACHE).
_cache = tempfile.TemporaryDirectory(prefix="pygpukit-tests-")
os.environ["PYGPUKIT_CACHE_DIR"] = os.environ.get("GPK_TEST_CACHE", _cache.name)

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything in tests/gpu needs a GPU."""
    for item in items:
        if Path(item.path).is_relative_to(Path(__file__).parent / "gpu"):
            item.add_marker(pytest.mark.gpu)


def pytest_collection_finish(session: pytest.Session) -> None:
    """GPK_TEST_SHARD=2/6 keeps every sixth test from the second on, for parallel processes."""
    shard, _, count = os.environ.get("GPK_TEST_SHARD", "1/1").partition("/")
    session.items[:] = session.items[int(shard) - 1 :: int(count)]
    gc.collect()
    gc.freeze()  # thousands of collected tests: not for every garbage collection to visit


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is not None:
        import pygpukit as gp

        if not gp.is_cuda_available():
            pytest.skip(f"no GPU: {gp.check_driver_compatibility()[1]}")
    hardware = item.get_closest_marker("hardware")
    if hardware is not None and os.environ.get("PYGPUKIT_DEVICE", "").startswith("sim"):
        pytest.skip(f"not in the simulator: {hardware.args[0]}")
    if item.get_closest_marker("nvrtc") is not None:
        from pygpukit import _native

        if not _native.jit_available():
            pytest.skip("NVRTC is not available")


# A shell ignores SIGINT for what it runs in the background, and children would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """run_python(code, VARIABLE=value, ...): a fresh interpreter; our other variables are unset."""

    def run(
        code: str, *, timeout_s: float = 120, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        kept = ("PYGPUKIT_CACHE_DIR", "PYGPUKIT_DEVICE")
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PYGPUKIT_") or name in kept
        }
        environment.update(variables)
        return subprocess.run(
            [sys.executable, "-c", code],
            env={name: value for name, value in environment.items() if value},
            cwd=tmp_path,  # so that nothing but the installed package can be imported
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    return run


@pytest.fixture(scope="session", autouse=True)
def _remove_cache() -> Iterator[None]:
    yield
    _cache.cleanup()
