"""Task states and policies."""

from __future__ import annotations

from enum import Enum


class TaskState(Enum):
    """The state of a task. QUEUED waits for memory or its turn, ADMITTED may start."""

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
    """The guarantees a task gets."""

    GUARANTEED = "guaranteed"
    BURSTABLE = "burstable"
    BEST_EFFORT = "best_effort"


__all__ = ["TaskPolicy", "TaskState"]
