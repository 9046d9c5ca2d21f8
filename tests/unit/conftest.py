"""Unit tests run on CPU simulation, also on a machine with a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pygpukit.scheduler import Scheduler

os.environ["PYGPUKIT_DEVICE"] = "cpu"
# As on a machine of any size: the default grows with the memory there is.
os.environ["PYGPUKIT_MEMORY_CHUNK"] = "2MiB"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "error")


@pytest.fixture
def sched() -> Iterator[Scheduler]:
    """Two workers and 100 MB."""
    from pygpukit.scheduler import MB, Scheduler

    with Scheduler(workers=2, memory=100 * MB) as made:
        yield made
