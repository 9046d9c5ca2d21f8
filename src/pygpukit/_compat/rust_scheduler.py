"""_pygpukit_rust.Scheduler: tasks without a function that the caller starts and completes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum

from pygpukit._compat.admission import AdmissionStats
from pygpukit._native import safe_repr
from pygpukit._runtime import AdmissionDecision, LimitLedger, SchedulerStats, TaskInfo
from pygpukit._runtime import Scheduler as NativeScheduler
from pygpukit.core.errors import InvalidValueError

_ALL_KEPT = 2**63 - 1  # 0.2 forgot no task


class TaskState(IntEnum):
    """Where a task is."""

    Pending = 0
    Running = 1
    Completed = 2
    Failed = 3
    Cancelled = 4


class TaskPolicy(IntEnum):
    """In which order tasks are served."""

    Fifo = 0
    Sjf = 1
    Priority = 2


_ENDS = {
    "running": TaskState.Running,
    "completed": TaskState.Completed,
    "failed": TaskState.Failed,
    "cancelled": TaskState.Cancelled,
}


def _state(info: TaskInfo) -> TaskState:
    return _ENDS.get(info.state, TaskState.Pending)


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "dependencies", list(self.dependencies or ()))

    @property
    def policy(self) -> TaskPolicy:
        """Always Fifo."""
        return TaskPolicy.Fifo

    def is_terminal(self) -> bool:
        """It has ended."""
        return self.state >= TaskState.Completed

    def elapsed(self) -> float:
        """Seconds since it started, until its end; 0 before."""
        if self.started_at is None:
            return 0.0
        return (self.completed_at or time.time()) - self.started_at

    def duration(self) -> float | None:
        """Seconds from start to end, or None."""
        if self.started_at is None or self.completed_at is None:
            return None
        return self.completed_at - self.started_at


@dataclass(frozen=True)
class TaskStats:
    """Figures of a task; times in seconds."""

    id: str
    name: str
    state: TaskState
    wait_time: float
    exec_time: float
    memory_used: int  # 0 when it has ended


class Scheduler:
    """Tasks that the caller runs: submit, start, complete. First come, first served."""

    def __init__(
        self,
        total_memory: int | None = None,
        sched_tick_ms: float = 10.0,
        window_ms: float = 100.0,
    ) -> None:
        self.total_memory = total_memory
        self.sched_tick_ms = sched_tick_ms
        self.window_ms = window_ms
        self._native = NativeScheduler(LimitLedger(total_memory), max_ended_kept=_ALL_KEPT)
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskMeta] = {}
        self._numbers: dict[str, int] = {}
        self._verdicts: Counter[str] = Counter()

    def _after(self, task: TaskMeta) -> list[int]:
        """The dependencies that are known; others count as met."""
        return [self._numbers[d] for d in task.dependencies or () if d in self._numbers]

    def _check_new(self, task: TaskMeta) -> None:
        if task.id in self._numbers:
            raise InvalidValueError(f"Scheduler: task id {safe_repr(task.id)} is in use")

    def submit(self, task: TaskMeta) -> str:
        """Queues a task, without admission control; its id."""
        with self._lock:
            self._check_new(task)
            self._tasks[task.id] = task
            self._numbers[task.id] = self._native.submit(
                None,
                name=task.id,
                memory=task.memory_estimate,
                priority=task.priority,
                after=self._after(task),
            )
        return task.id

    def evaluate_admission(self, task: TaskMeta) -> AdmissionDecision:
        """What admit() would say."""
        return self._native.evaluate_admission(task.memory_estimate, after=self._after(task))

    def admit(self, task: TaskMeta) -> AdmissionDecision:
        """Decides; takes the task in unless it rejects it."""
        with self._lock:
            self._check_new(task)
            decision, number = self._native.admit(
                task.memory_estimate,
                name=task.id,
                priority=task.priority,
                after=self._after(task),
            )
            self._verdicts[decision.decision_type] += 1
            if number is not None:
                self._tasks[task.id] = task
                self._numbers[task.id] = number
        return decision

    def admission_stats(self) -> AdmissionStats:
        """Decisions of admit(); the figures are of all tasks."""
        now = self._native.stats()
        return AdmissionStats(
            admitted_count=self._verdicts["Admit"],
            rejected_count=self._verdicts["Reject"],
            queued_count=self._verdicts["Queue"],
            pending_count=now.pending_count + now.running_count,
            reserved_memory=now.reserved_memory,
            reserved_bandwidth=now.reserved_bandwidth,
            available_memory=now.available_memory,
            available_bandwidth=now.available_bandwidth,
        )

    def get_runnable_tasks(self, max_tasks: int = 1) -> list[str]:
        """Starts up to so many tasks that may run; their ids."""
        return [self._native.info(n).name for n in self._native.start_runnable(max_tasks)]

    def _change(self, call: Callable[..., bool], task_id: str, *args: str) -> bool:
        number = self._numbers.get(task_id)
        return number is not None and call(number, *args)

    def should_run(self, task_id: str) -> bool:
        """It waits, its dependencies are met and its memory is there."""
        return self._change(self._native.should_run, task_id)

    def start_task(self, task_id: str) -> bool:
        """Pending to running."""
        return self._change(self._native.start, task_id)

    def complete_task(self, task_id: str) -> bool:
        """Running to completed."""
        return self._change(self._native.complete, task_id)

    def fail_task(self, task_id: str, error: str) -> bool:
        """Pending or running to failed."""
        return self._change(self._native.fail, task_id, error)

    def cancel_task(self, task_id: str) -> bool:
        """Any state that is not an end to cancelled."""
        return self._change(self._native.cancel, task_id)

    def _info(self, task_id: str) -> TaskInfo | None:
        number = self._numbers.get(task_id)
        return None if number is None else self._native.info(number)

    def get_task(self, task_id: str) -> TaskMeta | None:
        """The task as it is now, or None."""
        info = self._info(task_id)
        if info is None or info.submitted_at is None:
            return None
        return replace(
            self._tasks[task_id],
            state=_state(info),
            submitted_at=info.submitted_at,
            started_at=info.started_at,
            completed_at=info.ended_at,
            error=info.reason or None,
        )

    def get_task_state(self, task_id: str) -> TaskState | None:
        """Where it is, or None."""
        info = self._info(task_id)
        return None if info is None else _state(info)

    def stats(self) -> SchedulerStats:
        """The figures now."""
        return self._native.stats()

    def task_stats(self, task_id: str) -> TaskStats | None:
        """Figures of a task, or None."""
        info = self._info(task_id)
        if info is None:
            return None
        name, held = self._tasks[task_id].name, 0 if info.is_terminal else info.memory
        return TaskStats(task_id, name, _state(info), info.wait_time, info.exec_time, held)

    def clear(self) -> None:
        """Cancels and forgets everything."""
        with self._lock:
            self._native.clear()
            self._tasks.clear()
            self._numbers.clear()
            self._verdicts.clear()


__all__ = ["Scheduler", "SchedulerStats", "TaskMeta", "TaskPolicy", "TaskState", "TaskStats"]
