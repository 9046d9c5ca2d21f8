"""Exceptions of tasks that did not complete."""

from __future__ import annotations

from concurrent.futures import CancelledError

from pygpukit.core.errors import OperationError


class TaskError(OperationError):
    """A task that did not complete, for a reason other than its own exception."""


class TaskCancelled(TaskError, CancelledError):
    """The task was cancelled; the message gives the reason."""


class DeadlineMissed(TaskError):
    """The task had not started when its deadline passed."""


class DependencyFailed(TaskError):
    """A dependency did not complete; `__cause__` is its exception."""


class TaskDeadlock(TaskError):
    """A wait inside a task for one that cannot start before the waiting one ends."""


__all__ = ["DeadlineMissed", "DependencyFailed", "TaskCancelled", "TaskDeadlock", "TaskError"]
