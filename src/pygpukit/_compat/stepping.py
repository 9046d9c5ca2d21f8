"""0.2's methods of Scheduler, over the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the real scheduler imports this module, so nothing here imports the scheduler
    from pygpukit._compat.stepped import Task
    from pygpukit._runtime import Scheduler as NativeScheduler
    from pygpukit._runtime import TaskInfo

TASKS_PER_STEP = 10


def _state(info: TaskInfo) -> str:
    """0.2 knew no state between pending and running."""
    return "pending" if info.state in ("queued", "admitted") else info.state


class Stepping:
    """What 0.2's Scheduler had. Tasks are named by what submit() returned."""

    _native: NativeScheduler
    sched_tick_ms: float = 1.0
    window_ms: float = 10.0
    total_memory: int | None = None

    @property
    def task_count(self) -> int:
        """Tasks submitted."""
        return self._native.stats().total_submitted

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

    def _find(self, task_id: Any) -> tuple[Task, TaskInfo] | None:
        from pygpukit._compat.stepped import task_of

        return task_of(task_id) if getattr(task_id, "_native", None) is self._native else None

    def get_task(self, task_id: Any) -> Task | None:
        """The task with its present state, or None."""
        found = self._find(task_id)
        if found is None:
            return None
        task, info = found
        task.state = type(task.state)(_state(info))
        return task

    def step(self) -> None:
        """Waits for the ten oldest tasks to end. Made with 0.2's arguments: runs them here."""
        live = [info.id for info in self._native.snapshot().tasks if not info.is_terminal]
        for number in live[:TASKS_PER_STEP]:
            self._native.wait(number)

    def should_run(self, task: Task, now: float) -> bool:
        """Whether a running task may launch at time `now`, by its share of the window."""
        if task.state.value != "running":
            return False
        if task.bandwidth is None:
            return True
        if now - task.last_launch >= self.window_ms / 1000.0 * (1.0 - task.bandwidth):
            return True
        task.pacing_delay_count += 1
        return False

    def _task_stats(self, task_id: Any) -> dict[str, Any]:
        found = self._find(task_id)
        if found is None:
            return {}
        task, info = found
        return {
            "id": task_id,
            "state": _state(info),
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
            "task_count": stats.total_submitted,
            "pending_count": stats.pending_count,
            "running_count": stats.running_count,
            "completed_count": stats.completed_count,
            "failed_count": stats.failed_count,
            "reserved_memory": stats.reserved_memory,
            "available_memory": stats.available_memory,
            "total_memory": self.total_memory,
            "sched_tick_ms": self.sched_tick_ms,
            "window_ms": self.window_ms,
            "avg_wait_time": stats.avg_wait_time,
            "avg_exec_time": stats.avg_exec_time,
        }


__all__ = ["TASKS_PER_STEP", "Stepping"]
