"""0.2's Scheduler(sched_tick_ms=, window_ms=, total_memory=): step() runs its tasks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pygpukit._compat.stepping import TASKS_PER_STEP
from pygpukit._runtime import LimitLedger, TaskInfo
from pygpukit.scheduler.future import TaskFuture
from pygpukit.scheduler.service import Scheduler, qos_class
from pygpukit.scheduler.tasks import TaskPolicy, TaskState

_ALL_KEPT = 2**63 - 1  # 0.2 forgot no task
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


def task_of(future: TaskFuture[Any]) -> tuple[Task, TaskInfo]:
    """A task of the real scheduler as 0.2 saw one."""
    info = future.info()
    started = info.started_at
    task = Task(
        future.wait,
        info.memory,
        info.bandwidth,
        _POLICIES[int(info.qos)],
        id=str(info.id),
        last_launch=started or 0.0,
        execution_count=int(started is not None),
    )
    return task, info


def _policy(policy: str | TaskPolicy) -> TaskPolicy:
    try:
        return TaskPolicy(policy)
    except ValueError:
        return TaskPolicy.BEST_EFFORT  # 0.2's rule for any other text


class SteppedScheduler(Scheduler):
    """Tasks in the order they came; nothing runs but in step()."""

    def __init__(
        self,
        sched_tick_ms: float = 1.0,
        window_ms: float = 10.0,
        total_memory: int | None = None,
    ) -> None:
        super().__init__(ledger=LimitLedger(total_memory), max_ended_kept=_ALL_KEPT)
        self.sched_tick_ms = sched_tick_ms
        self.window_ms = window_ms
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
        task = Task(fn, memory, bandwidth, _policy(policy))

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
        self._native.run_ready(TASKS_PER_STEP)


__all__ = ["SteppedScheduler", "Task", "task_of"]
