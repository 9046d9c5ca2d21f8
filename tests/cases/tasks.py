"""What tests of tasks share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pygpukit.scheduler import Scheduler

WAIT = 20.0  # seconds; no test needs them


class Gate:
    """A task that waits to be let through."""

    def __init__(self) -> None:
        self.entered, self._open = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.entered.set()
        assert self._open.wait(WAIT)
        return "through"

    def open(self) -> None:
        self._open.set()


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.001)


def nothing_is_left(sched: Scheduler) -> None:
    stats = sched.native.stats()
    assert stats.reserved_memory == 0
    assert stats.reserved_bandwidth == 0.0
    assert stats.pending_count + stats.running_count == 0
    assert sched.native.streams_in_use == 0
