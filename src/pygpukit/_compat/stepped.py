"""0.2's Scheduler: its methods over the real one, and its own tasks, which run in step()."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pygpukit._compat.common import old_state
from pygpukit._runtime import LimitLedger, TaskInfo
from pygpukit.scheduler.service import Scheduler, qos_class
from pygpukit.scheduler.tasks import TaskPolicy, TaskState

ALL_KEPT = 2**63 - 1  # 0.2 forgot no task
_TASKS_PER_STEP = 10
_POLICIES = (TaskPolicy.GUARANTEED, TaskPolicy.BURSTABLE, TaskPolicy.BEST_EFFORT)


@dataclass
class Task:
    """A function, what it asks for, and how far it got."""

    fn: Callable[[], Any]
    memory: int | None = None
    bandwidth: float | None = None
    policy: TaskPolicy = TaskPolicy.BEST_EFFORT
    state: TaskState = TaskState.PENDING
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    last_launch: float = 0.0
    execution_count: int = 0
    pacing_delay_count: int = 0

    def touch(self) -> None:
        """Notes a launch now."""
        self.last_launch = time.time()


class Steps:
    """0.2's methods over a scheduler whose workers run the tasks: a TaskFuture is the id."""

    sched_tick_ms, window_ms = 1.0, 10.0

    def __init__(self, scheduler: Scheduler) -> None:
        self._native, self.total_memory = scheduler.native, scheduler.total_memory

    task_count = property(lambda self: self._native.stats().total_submitted)
    completed_count = property(lambda self: self._native.stats().completed_count)
    reserved_memory = property(lambda self: self._native.stats().reserved_memory)
    available_memory = property(lambda self: self._native.stats().available_memory)

    def _find(self, task_id: Any) -> tuple[Task, TaskInfo] | None:
        if getattr(task_id, "_native", None) is not self._native:
            return None
        info = task_id.info()
        task = Task(task_id.wait, info.memory, info.bandwidth, _POLICIES[int(info.qos)])
        task.id, task.last_launch = str(info.id), info.started_at or 0.0
        task.execution_count = int(info.started_at is not None)
        return task, info

    def _found(self, task_id: Any) -> tuple[Task, TaskInfo] | None:
        """The task with its present state."""
        found = self._find(task_id)
        if found is not None:
            found[0].state = TaskState(old_state(found[1].state))
        return found

    def get_task(self, task_id: Any) -> Task | None:
        found = self._found(task_id)
        return None if found is None else found[0]

    def step(self) -> None:
        """Waits for the ten oldest tasks to end."""
        live = [info.id for info in self._native.snapshot().tasks if not info.is_terminal]
        for number in live[:_TASKS_PER_STEP]:
            self._native.wait(number)

    def should_run(self, task: Task, now: float) -> bool:
        """Whether a running task may launch at time `now`, by its share of the window."""
        if task.state is not TaskState.RUNNING:
            return False
        if task.bandwidth is None:
            return True
        if now - task.last_launch >= self.window_ms / 1000.0 * (1.0 - task.bandwidth):
            return True
        task.pacing_delay_count += 1
        return False

    def task_stats(self, task_id: Any) -> dict[str, Any]:
        """What stats(task_id) gives; empty when it is unknown."""
        found = self._found(task_id)
        if found is None:
            return {}
        task, info = found
        stats = {**vars(task), "id": task_id, "state": task.state.value}
        del stats["fn"]
        times = {"wait_time": info.wait_time, "exec_time": info.exec_time}
        return stats | {"policy": task.policy.value} | times

    def global_stats(self) -> dict[str, Any]:
        """The figures of all tasks; memory in bytes, times in seconds."""
        stats = self._native.stats()
        counts = ("pending_count", "running_count", "completed_count", "failed_count")
        others = ("reserved_memory", "available_memory", "avg_wait_time", "avg_exec_time")
        own = ("task_count", "total_memory", "sched_tick_ms", "window_ms")
        return {name: getattr(stats, name) for name in (*counts, *others)} | {
            name: getattr(self, name) for name in own
        }


class SteppedScheduler(Steps, Scheduler):
    """Scheduler(sched_tick_ms=, window_ms=, total_memory=): first come, first served in step()."""

    def __init__(
        self,
        sched_tick_ms: float = 1.0,
        window_ms: float = 10.0,
        total_memory: int | None = None,
    ) -> None:
        Scheduler.__init__(self, ledger=LimitLedger(total_memory), max_ended_kept=ALL_KEPT)
        self.sched_tick_ms, self.window_ms = sched_tick_ms, window_ms
        self.total_memory = total_memory
        self._tasks: dict[str, tuple[Task, int]] = {}

    def submit(  # type: ignore[override]
        self,
        fn: Callable[[], Any],
        memory: int | None = None,
        bandwidth: float | None = None,
        policy: str | TaskPolicy = "best_effort",
    ) -> str:
        """Takes a function in; its id. MemoryError when it asks for more than there is."""
        task = Task(fn, memory, bandwidth)
        with suppress(ValueError):  # any other text is best effort
            task.policy = TaskPolicy(policy)

        def body() -> None:
            task.touch()
            task.execution_count += 1
            task.fn()

        number = self._native.submit(
            body,
            name=task.id,
            memory=memory or 0,
            bandwidth=bandwidth or 0.0,
            qos=qos_class(task.policy),
            on_stream=False,
        )
        self._tasks[task.id] = (task, number)
        return task.id

    def _find(self, task_id: Any) -> tuple[Task, TaskInfo] | None:
        found = self._tasks.get(task_id)
        return None if found is None else (found[0], self._native.info(found[1]))

    def step(self) -> None:
        """Runs tasks that fit, once each, at most ten. An exception ends its task as FAILED."""
        self._native.run_ready(_TASKS_PER_STEP)
