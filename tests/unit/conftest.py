"""Unit tests run on CPU simulation, also on a machine with a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pygpukit.scheduler import Scheduler

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
