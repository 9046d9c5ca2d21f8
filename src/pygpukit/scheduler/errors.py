"""How a task can end other than well."""

from __future__ import annotations

from concurrent.futures import CancelledError

from pygpukit.core.errors import OperationError


class TaskError(OperationError):
    """A task that did not complete, without an exception of its own."""


class TaskCancelled(TaskError, CancelledError):
    """The task was cancelled; the text says why."""


class DeadlineMissed(TaskError):
    """The task had not started when its deadline passed."""


class DependencyFailed(TaskError):
    """A task that this one waits for did not complete; `__cause__` is its exception."""


class TaskDeadlock(TaskError):
    """Waiting inside a task for one that cannot start before the waiting one has ended."""


__all__ = ["DeadlineMissed", "DependencyFailed", "TaskCancelled", "TaskDeadlock", "TaskError"]
