"""Tasks that wait for tasks, and times that no clock can hold."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import pytest
from cases.tasks import WAIT, Gate, nothing_is_left, until

from pygpukit.core.errors import InvalidValueError
from pygpukit.scheduler import (
    MB,
    DeadlineMissed,
    Scheduler,
    SimTask,
    TaskDeadlock,
    TaskFuture,
    simulate,
)


def test_a_child_that_does_not_fit_beside_its_parent(sched: Scheduler) -> None:
    children: list[TaskFuture[int]] = []

    def parent() -> int:
        children.append(sched.submit(lambda: 1, name="child", memory=60 * MB))
        return children[0].result()

    waiting = sched.submit(parent, memory=60 * MB)
    with pytest.raises(TaskDeadlock, match=r"'parent' waits for task 2 'child', which can never"):
        waiting.result(WAIT)
    assert children[0].result(WAIT) == 1  # the parent has failed and given its memory back
    nothing_is_left(sched)


def test_three_levels(sched: Scheduler) -> None:
    seen: list[str] = []

    def level(depth: int) -> int:
        if depth == 0:
            return 0
        try:
            return 1 + sched.submit(level, depth - 1, name=f"d{depth - 1}", memory=40 * MB).result()
        except TaskDeadlock as error:
            seen.append(str(error))
            return 1

    result = sched.submit(level, 2, name="d2", memory=40 * MB).result(WAIT)
    (text,) = seen
    # Whoever waits last closes the cycle: d1, or d2 where another worker was quicker with d1.
    assert result == (2 if "task 2 'd1' waits for" in text else 1)
    assert "for task 3 'd0', which can never start" in text
    assert "it needs 40.00 MiB, and of 100.00 MiB tasks that wait hold 80.00 MiB" in text
    assert "task 1 'd2' 40.00 MiB" in text
    assert "task 2 'd1' 40.00 MiB" in text
    until(lambda: sched.native.stats().completed_count == 3)
    nothing_is_left(sched)


def test_memory_of_a_third_task_is_waited_for(sched: Scheduler) -> None:
    gate = Gate()
    third = sched.submit(gate, memory=50 * MB)
    assert gate.entered.wait(WAIT)
    waiting = sched.submit(lambda: sched.submit(lambda: 7, memory=60 * MB).result(), memory=40 * MB)
    assert not waiting.wait(0.1)
    gate.open()
    assert waiting.result(WAIT) == 7
    assert third.wait(WAIT)
    nothing_is_left(sched)


def test_streams_of_tasks_that_wait_are_lent() -> None:
    with Scheduler(workers=2, max_streams=1) as sched:

        def level(depth: int) -> int:
            return 0 if depth == 0 else 1 + sched.submit(level, depth - 1).result(WAIT)

        assert sched.submit(level, 5).result(WAIT) == 5
        nothing_is_left(sched)


@pytest.mark.parametrize("deadline", [math.inf, 1e300, 1e18, 1e10])
def test_a_deadline_that_never_comes(sched: Scheduler, deadline: float) -> None:
    task = sched.submit(lambda: 1, deadline=deadline)
    assert task.result(WAIT) == 1
    assert not task.info().missed_deadline
    assert task.info().deadline is None or task.info().deadline > time.time() + 1e9


@pytest.mark.parametrize("deadline", [-math.inf, -1e300, -1.0])
def test_a_deadline_that_has_passed(sched: Scheduler, deadline: float) -> None:
    with pytest.raises(DeadlineMissed):
        sched.submit(lambda: 1, deadline=deadline).result(WAIT)


def test_times_that_are_no_number(sched: Scheduler) -> None:
    task = sched.submit(lambda: 1)
    nan = math.nan
    for call in (
        lambda: sched.submit(int, deadline=nan),
        lambda: sched.submit(int, estimate=nan),
        lambda: sched.native.wait(task.id, nan),
        lambda: Scheduler(aging_interval=nan),
        lambda: simulate([SimTask(arrival=nan)]),
        lambda: simulate([SimTask(deadline=nan)]),
    ):
        with pytest.raises(InvalidValueError, match="is nan, expected a time"):
            call()
    assert task.result(math.inf) == 1
    assert task.wait(-math.inf)


def test_times_that_are_too_large(sched: Scheduler) -> None:
    for value in (math.inf, 1e300, -math.inf, -1.0):
        with pytest.raises(InvalidValueError, match="estimated_ns"):
            sched.submit(int, estimate=value)
        with pytest.raises(InvalidValueError, match="duration_ns"):
            simulate([SimTask(duration=value)])
    result = simulate([SimTask(duration=1.0, deadline=math.inf)])
    assert result.tasks[0].state == "completed"
    gate = Gate()
    running = sched.submit(gate)
    assert gate.entered.wait(WAIT)
    for timeout in (-math.inf, -1.0, 0.0):
        assert not running.wait(timeout)
    threading.Timer(0.05, gate.open).start()
    assert running.wait(1e300)


def test_a_repr_does_not_wait() -> None:
    class Forgets:
        """A scheduler that drops the task before it notifies the future."""

        def info(self, number: int) -> Any:
            raise InvalidValueError(f"task {number} ended and is no longer kept")

    task: TaskFuture[int] = TaskFuture(Forgets(), lambda: 1)  # type: ignore[arg-type]
    start = time.perf_counter()
    assert repr(task) == "TaskFuture(0, ended)"
    assert time.perf_counter() - start < 0.5
