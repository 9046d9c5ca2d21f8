"""_pygpukit_rust.Scheduler: tasks without a function that the caller starts and completes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, NamedTuple

from pygpukit._compat.admission import COUNTS, AdmissionStats
from pygpukit._compat.common import Locked, figures, old_state
from pygpukit._compat.stepped import ALL_KEPT
from pygpukit._native import safe_repr
from pygpukit._runtime import AdmissionDecision, LimitLedger, SchedulerStats, TaskInfo
from pygpukit._runtime import Scheduler as NativeScheduler
from pygpukit.core.errors import InvalidValueError

TaskState = IntEnum("TaskState", "Pending Running Completed Failed Cancelled", start=0)
TaskPolicy = IntEnum("TaskPolicy", "Fifo Sjf Priority", start=0)


def _state(info: TaskInfo) -> TaskState:
    return TaskState[old_state(info.state).title()]


@dataclass(frozen=True)
class TaskMeta:
    """A task: what it asks for and how far it got. Times in seconds since 1970."""

    id: str
    name: str
    memory_estimate: int = 0
    priority: int = 0
    dependencies: list[str] | None = None
    state: TaskState = field(default=TaskState.Pending, kw_only=True)
    submitted_at: float = field(default_factory=time.time, kw_only=True)
    started_at: float | None = field(default=None, kw_only=True)
    completed_at: float | None = field(default=None, kw_only=True)
    error: str | None = field(default=None, kw_only=True)

    policy = property(lambda self: TaskPolicy.Fifo)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dependencies", list(self.dependencies or ()))

    def is_terminal(self) -> bool:
        return self.state >= TaskState.Completed

    def elapsed(self) -> float:
        """Seconds since it started, until its end; 0 before."""
        if self.started_at is None:
            return 0.0
        return (self.completed_at or time.time()) - self.started_at

    def duration(self) -> float | None:
        """Seconds from start to end, or None."""
        ran = self.started_at is not None and self.completed_at is not None
        return self.elapsed() if ran else None


class TaskStats(NamedTuple):
    """Figures of a task; times in seconds."""

    id: str
    name: str
    state: TaskState
    wait_time: float
    exec_time: float
    memory_used: int  # 0 when it has ended


class Scheduler(Locked):
    """Tasks that the caller runs: submit, start, complete. First come, first served."""

    def __init__(
        self,
        total_memory: int | None = None,
        sched_tick_ms: float = 10.0,
        window_ms: float = 100.0,
    ) -> None:
        self.total_memory = total_memory
        self.sched_tick_ms, self.window_ms = sched_tick_ms, window_ms
        self._native = NativeScheduler(LimitLedger(total_memory), max_ended_kept=ALL_KEPT)
        self._forget()

    def _forget(self) -> None:
        self._tasks: dict[str, tuple[TaskMeta, int]] = {}
        self._counts = dict.fromkeys(COUNTS.values(), 0)

    def _after(self, task: TaskMeta) -> list[int]:
        """The dependencies that are known; others count as met."""
        return [self._tasks[d][1] for d in task.dependencies or () if d in self._tasks]

    def _options(self, task: TaskMeta) -> dict[str, Any]:
        if task.id in self._tasks:
            raise InvalidValueError(f"Scheduler: task id {safe_repr(task.id)} is in use")
        return {"name": task.id, "priority": task.priority, "after": self._after(task)}

    def submit(self, task: TaskMeta) -> str:
        """Queues a task, without admission control; its id."""
        options = self._options(task)
        number = self._native.submit(None, memory=task.memory_estimate, **options)
        self._tasks[task.id] = (task, number)
        return task.id

    def evaluate_admission(self, task: TaskMeta) -> AdmissionDecision:
        """What admit() would say."""
        return self._native.evaluate_admission(task.memory_estimate, after=self._after(task))

    def admit(self, task: TaskMeta) -> AdmissionDecision:
        """Decides; takes the task in unless it rejects it."""
        decision, number = self._native.admit(task.memory_estimate, **self._options(task))
        self._counts[COUNTS[decision.decision_type]] += 1
        if number is not None:
            self._tasks[task.id] = (task, number)
        return decision

    def admission_stats(self) -> AdmissionStats:
        """Decisions of admit(); the figures are of all tasks."""
        now = self._native.stats()
        pending = now.pending_count + now.running_count
        return figures(AdmissionStats, now, **self._counts, pending_count=pending)

    def get_runnable_tasks(self, max_tasks: int = 1) -> list[str]:
        """Starts up to so many tasks that may run; their ids."""
        return [self._native.info(n).name for n in self._native.start_runnable(max_tasks)]

    def _change(self, change: Callable[..., bool], task_id: str, *args: str) -> bool:
        return task_id in self._tasks and change(self._tasks[task_id][1], *args)

    def should_run(self, task_id: str) -> bool:
        """It waits, its dependencies are met and its memory is there."""
        return self._change(self._native.should_run, task_id)

    def start_task(self, task_id: str) -> bool:
        return self._change(self._native.start, task_id)

    def complete_task(self, task_id: str) -> bool:
        return self._change(self._native.complete, task_id)

    def fail_task(self, task_id: str, error: str) -> bool:
        """Pending or running to failed."""
        return self._change(self._native.fail, task_id, error)

    def cancel_task(self, task_id: str) -> bool:
        return self._change(self._native.cancel, task_id)

    def _find(self, task_id: str) -> tuple[TaskMeta, TaskInfo] | None:
        found = self._tasks.get(task_id)
        return None if found is None else (found[0], self._native.info(found[1]))

    def get_task(self, task_id: str) -> TaskMeta | None:
        """The task as it is now, or None."""
        if (found := self._find(task_id)) is None:
            return None
        task, info = found
        return replace(
            task,
            state=_state(info),
            submitted_at=info.submitted_at or task.submitted_at,
            started_at=info.started_at,
            completed_at=info.ended_at,
            error=info.reason or None,
        )

    def get_task_state(self, task_id: str) -> TaskState | None:
        found = self._find(task_id)
        return None if found is None else _state(found[1])

    def stats(self) -> SchedulerStats:
        return self._native.stats()

    def task_stats(self, task_id: str) -> TaskStats | None:
        if (found := self._find(task_id)) is None:
            return None
        task, info = found
        held = 0 if info.is_terminal else info.memory
        return figures(
            TaskStats, info, id=task_id, name=task.name, state=_state(info), memory_used=held
        )

    def clear(self) -> None:
        """Cancels and forgets everything."""
        self._native.clear()
        self._forget()


RustScheduler = Scheduler
RustSchedulerStats = SchedulerStats
RustTaskMeta = TaskMeta
RustTaskPolicy = TaskPolicy
RustTaskState = TaskState
RustTaskStats = TaskStats
