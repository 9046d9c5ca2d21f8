"""The scheduler of version 0.2: functions that step() runs on the caller's thread."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pygpukit._runtime import LimitLedger, QosClass
from pygpukit._runtime import TaskScheduler as NativeTaskScheduler

_TASKS_PER_STEP = 10


class TaskState(Enum):
    """Where a task is. QUEUED waits for memory or its turn, ADMITTED may start."""

    PENDING = "pending"
    QUEUED = "queued"
    ADMITTED = "admitted"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """COMPLETED, FAILED or CANCELLED."""
        return self in (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELLED)


class TaskPolicy(Enum):
    """What a task is promised."""

    GUARANTEED = "guaranteed"
    BURSTABLE = "burstable"
    BEST_EFFORT = "best_effort"


_QOS = {
    TaskPolicy.GUARANTEED: QosClass.Guaranteed,
    TaskPolicy.BURSTABLE: QosClass.Burstable,
    TaskPolicy.BEST_EFFORT: QosClass.BestEffort,
}


def _policy(policy: str | TaskPolicy) -> TaskPolicy:
    try:
        return TaskPolicy(policy)
    except ValueError:
        return TaskPolicy.BEST_EFFORT  # 0.2's rule for any other text


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


class Scheduler:
    """Tasks in the order they came; step() runs those that fit, on the caller's thread."""

    def __init__(
        self,
        sched_tick_ms: float = 1.0,
        window_ms: float = 10.0,
        total_memory: int | None = None,
    ) -> None:
        self._tick_ms = sched_tick_ms
        self._window_ms = window_ms
        self._total_memory = total_memory
        self._native = NativeTaskScheduler(LimitLedger(total_memory), max_ended_kept=1 << 20)
        self._tasks: dict[str, Task] = {}
        self._numbers: dict[str, int] = {}

    @property
    def sched_tick_ms(self) -> float:
        """As given."""
        return self._tick_ms

    @property
    def window_ms(self) -> float:
        """The window of should_run()."""
        return self._window_ms

    @property
    def total_memory(self) -> int | None:
        """Bytes that all tasks share; None: no limit."""
        return self._total_memory

    @property
    def task_count(self) -> int:
        """Tasks submitted."""
        return len(self._tasks)

    @property
    def completed_count(self) -> int:
        """Tasks that ended well."""
        return self._native.stats().completed_count

    @property
    def reserved_memory(self) -> int:
        """Bytes that tasks hold."""
        return self._native.stats().reserved_memory

    @property
    def available_memory(self) -> int:
        """Bytes that are left."""
        return self._native.stats().available_memory

    def submit(
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
            key=task.id,
            memory=memory or 0,
            bandwidth=bandwidth or 0.0,
            qos=_QOS[task.policy],
            on_stream=False,
        )
        self._tasks[task.id] = task
        self._numbers[task.id] = number
        return task.id

    def get_task(self, task_id: str) -> Task | None:
        """The task with its present state, or None."""
        task = self._tasks.get(task_id)
        if task is not None:
            state = TaskState(self._native.state(self._numbers[task_id]))
            waits = (TaskState.QUEUED, TaskState.ADMITTED)
            task.state = TaskState.PENDING if state in waits else state
        return task

    def step(self) -> None:
        """Runs tasks that fit, once each, at most ten. An exception ends its task as FAILED."""
        self._native.run_ready(_TASKS_PER_STEP)

    def should_run(self, task: Task, now: float) -> bool:
        """Whether a running task may launch at time `now`, by its share of the window."""
        if task.state is not TaskState.RUNNING:
            return False
        if task.bandwidth is None:
            return True
        if now - task.last_launch >= self._window_ms / 1000.0 * (1.0 - task.bandwidth):
            return True
        task.pacing_delay_count += 1
        return False

    def stats(self, task_id: str) -> dict[str, Any]:
        """What is known of a task; {} for an unknown id. Times in seconds."""
        task = self.get_task(task_id)
        if task is None:
            return {}
        info = self._native.info(self._numbers[task_id])
        return {
            "id": task.id,
            "state": task.state.value,
            "memory": task.memory,
            "bandwidth": task.bandwidth,
            "policy": task.policy.value,
            "execution_count": task.execution_count,
            "pacing_delay_count": task.pacing_delay_count,
            "last_launch": task.last_launch,
            "wait_time": info.wait_time,
            "exec_time": info.exec_time,
        }

    def global_stats(self) -> dict[str, Any]:
        """The figures of all tasks; memory in bytes, times in seconds."""
        stats = self._native.stats()
        return {
            "task_count": self.task_count,
            "pending_count": stats.pending_count,
            "running_count": stats.running_count,
            "completed_count": stats.completed_count,
            "failed_count": stats.failed_count,
            "reserved_memory": stats.reserved_memory,
            "available_memory": stats.available_memory,
            "total_memory": self._total_memory,
            "sched_tick_ms": self._tick_ms,
            "window_ms": self._window_ms,
            "avg_wait_time": stats.avg_wait_time,
            "avg_exec_time": stats.avg_exec_time,
        }


__all__ = ["Scheduler", "Task", "TaskPolicy", "TaskState"]
