"""Unit tests run on CPU simulation, also on a machine with a GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pygpukit.scheduler import Scheduler

TESTS = Path(__file__).parent.parent

os.environ["PYGPUKIT_DEVICE"] = "cpu"
# As on a machine of any size: the default grows with the memory there is.
os.environ["PYGPUKIT_MEMORY_CHUNK"] = "2MiB"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "error")


def _built(name: str) -> str:
    """A library that the C++ tests were built with."""
    build = os.environ.get("GPK_TEST_BUILD_DIR", "")
    found = sorted(Path(build).rglob(name)) if build else []
    if not found:
        pytest.skip(f"{name} is not built (make cpp)")
    return str(found[0])


@pytest.fixture
def fake_driver() -> str:
    """The CUDA driver in software, for PYGPUKIT_CUDA_DRIVER."""
    return _built("libgpk_fake_cuda.so")


# What programs on the fake driver start with.
FAKE_PRELUDE = f"""
import ctypes, os, sys, threading, time
import numpy as np
fake = ctypes.CDLL(os.environ["PYGPUKIT_CUDA_DRIVER"])
fake.gpk_fake_set_busy.argtypes = [ctypes.c_uint64, ctypes.c_int]
fake.gpk_fake_stream_priority.argtypes = [ctypes.c_uint64]
fake.gpk_fake_stream_sms.argtypes = [ctypes.c_uint64]
fake.gpk_fake_used_bytes.restype = ctypes.c_uint64
import pygpukit as gp
sys.path.append({str(TESTS)!r})
from cases.tasks import until
"""


@pytest.fixture
def run_on_fake(run_python: Callable[..., Any], fake_driver: str) -> Callable[..., str]:
    """run_on_fake(program, VARIABLE=value, ...): what it prints on the fake driver."""

    def run(program: str, **variables: str) -> str:
        done = run_python(
            FAKE_PRELUDE + program,
            PYGPUKIT_CUDA_DRIVER=fake_driver,
            PYGPUKIT_DEVICE="cuda",
            **variables,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return str(done.stdout)

    return run


@pytest.fixture
def fake_cublaslt() -> str:
    """cuBLASLt in software, for PYGPUKIT_CUBLASLT_PATH."""
    return _built("libcublasLt.so.12")


@pytest.fixture
def sched() -> Iterator[Scheduler]:
    """Two workers and 100 MB."""
    from pygpukit.scheduler import MB, Scheduler

    with Scheduler(workers=2, memory=100 * MB) as made:
        yield made
