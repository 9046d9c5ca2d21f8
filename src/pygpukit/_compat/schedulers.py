"""The two classes named Scheduler in 0.2: pygpukit.scheduler's and _pygpukit_rust's.

The first runs its functions in step(); its methods work on the real scheduler too. The second has
tasks without a function, which the caller starts and completes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, NamedTuple

from pygpukit._compat.admission import COUNTS, AdmissionStats
from pygpukit._compat.common import Locked, figures, old_state
from pygpukit._native import safe_repr
from pygpukit._runtime import AdmissionDecision, LimitLedger, SchedulerStats, TaskInfo
from pygpukit._runtime import Scheduler as NativeScheduler
from pygpukit.core.errors import InvalidValueError
from pygpukit.scheduler.scheduler import Scheduler
from pygpukit.scheduler.tasks import TaskPolicy, TaskState, qos_class

_ALL_KEPT = 2**63 - 1  # 0.2 forgot no task
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

    def get_task(self, task_id: Any) -> Task | None:
        """The task with its present state, or None."""
        if (found := self._find(task_id)) is None:
            return None
        task, info = found
        task.state = TaskState(old_state(info.state))
        return task

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
        if (found := self._find(task_id)) is None:
            return {}
        task, info = found
        stats = {**vars(task), "id": task_id, "state": old_state(info.state)}
        del stats["fn"]
        times = {"wait_time": info.wait_time, "exec_time": info.exec_time}
        return stats | {"policy": task.policy.value} | times

    def global_stats(self) -> dict[str, Any]:
        """The figures of all tasks; memory in bytes, times in seconds."""
        stats = self._native.stats()
        counts = ("pending_count", "running_count", "completed_count", "failed_count")
        others = ("reserved_memory", "available_memory", "avg_wait_time", "avg_exec_time")
        own = ("task_count", "total_memory", "sched_tick_ms", "window_ms")
        figures = {name: getattr(stats, name) for name in (*counts, *others)}
        return figures | {name: getattr(self, name) for name in own}


class SteppedScheduler(Steps, Scheduler):
    """Scheduler(sched_tick_ms=, window_ms=, total_memory=): first come, first served in step()."""

    def __init__(
        self, sched_tick_ms: float = 1.0, window_ms: float = 10.0, total_memory: int | None = None
    ) -> None:
        Scheduler.__init__(self, ledger=LimitLedger(total_memory), max_ended_kept=_ALL_KEPT)
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


RustTaskState = IntEnum("RustTaskState", "Pending Running Completed Failed Cancelled", start=0)
RustTaskPolicy = IntEnum("RustTaskPolicy", "Fifo Sjf Priority", start=0)


def _state(info: TaskInfo) -> RustTaskState:
    return RustTaskState[old_state(info.state).title()]


@dataclass(frozen=True)
class RustTaskMeta:
    """A task: what it asks for and how far it got. Times in seconds since 1970."""

    id: str
    name: str
    memory_estimate: int = 0
    priority: int = 0
    dependencies: list[str] | None = None
    state: RustTaskState = field(default=RustTaskState.Pending, kw_only=True)
    submitted_at: float = field(default_factory=time.time, kw_only=True)
    started_at: float | None = field(default=None, kw_only=True)
    completed_at: float | None = field(default=None, kw_only=True)
    error: str | None = field(default=None, kw_only=True)

    policy = property(lambda self: RustTaskPolicy.Fifo)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dependencies", list(self.dependencies or ()))

    def is_terminal(self) -> bool:
        return self.state >= RustTaskState.Completed

    def elapsed(self) -> float:
        """Seconds since it started, until its end; 0 before."""
        if self.started_at is None:
            return 0.0
        return (self.completed_at or time.time()) - self.started_at

    def duration(self) -> float | None:
        """Seconds from start to end, or None."""
        ran = self.started_at is not None and self.completed_at is not None
        return self.elapsed() if ran else None


class RustTaskStats(NamedTuple):
    """Figures of a task; times in seconds."""

    id: str
    name: str
    state: RustTaskState
    wait_time: float
    exec_time: float
    memory_used: int  # 0 when it has ended


def _on_task(name: str) -> Callable[..., bool]:
    """The native scheduler's method of that name for a task by id; False when it is unknown."""

    def call(self: RustScheduler, task_id: str, *args: str) -> bool:
        known = self._tasks.get(task_id)
        return known is not None and getattr(self._native, name)(known[1], *args)

    return call


class RustScheduler(Locked):
    """Tasks that the caller runs: submit, start, complete. First come, first served."""

    def __init__(
        self, total_memory: int | None = None, sched_tick_ms: float = 10.0, window_ms: float = 100.0
    ) -> None:
        self.total_memory = total_memory
        self.sched_tick_ms, self.window_ms = sched_tick_ms, window_ms
        self._native = NativeScheduler(LimitLedger(total_memory), max_ended_kept=_ALL_KEPT)
        self.clear()

    def clear(self) -> None:
        self._native.clear()
        self._tasks: dict[str, tuple[RustTaskMeta, int]] = {}
        self._counts = dict.fromkeys(COUNTS.values(), 0)

    def _after(self, task: RustTaskMeta) -> list[int]:
        """The dependencies that are known; others count as met."""
        return [self._tasks[d][1] for d in task.dependencies or () if d in self._tasks]

    def _options(self, task: RustTaskMeta) -> dict[str, Any]:
        if task.id in self._tasks:
            raise InvalidValueError(f"Scheduler: task id {safe_repr(task.id)} is in use")
        return {"name": task.id, "priority": task.priority, "after": self._after(task)}

    def submit(self, task: RustTaskMeta) -> str:
        """Queues a task, without admission control; its id."""
        options = self._options(task)
        number = self._native.submit(None, memory=task.memory_estimate, **options)
        self._tasks[task.id] = (task, number)
        return task.id

    def evaluate_admission(self, task: RustTaskMeta) -> AdmissionDecision:
        return self._native.evaluate_admission(task.memory_estimate, after=self._after(task))

    def admit(self, task: RustTaskMeta) -> AdmissionDecision:
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

    should_run, start_task = _on_task("should_run"), _on_task("start")
    complete_task, fail_task = _on_task("complete"), _on_task("fail")
    cancel_task = _on_task("cancel")

    def _find(self, task_id: str) -> tuple[RustTaskMeta, TaskInfo] | None:
        found = self._tasks.get(task_id)
        return None if found is None else (found[0], self._native.info(found[1]))

    def get_task(self, task_id: str) -> RustTaskMeta | None:
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

    def get_task_state(self, task_id: str) -> RustTaskState | None:
        found = self._find(task_id)
        return None if found is None else _state(found[1])

    def stats(self) -> SchedulerStats:
        return self._native.stats()

    def task_stats(self, task_id: str) -> RustTaskStats | None:
        if (found := self._find(task_id)) is None:
            return None
        task, info = found
        held = 0 if info.is_terminal else info.memory
        return figures(
            RustTaskStats, info, id=task_id, name=task.name, state=_state(info), memory_used=held
        )
