"""Task states, policies and classes of service."""

from __future__ import annotations

from enum import Enum

from pygpukit._native import safe_repr
from pygpukit._runtime import QosClass
from pygpukit.core.errors import InvalidValueError


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


_CLASSES = {
    "guaranteed": QosClass.Guaranteed,
    "burstable": QosClass.Burstable,
    "best_effort": QosClass.BestEffort,
}
_ORDERS = ("fifo", "sjf", "priority")


def qos_class(qos: QosClass | TaskPolicy | str) -> QosClass:
    """From a class, a TaskPolicy or one of "guaranteed", "burstable", "best_effort"."""
    if isinstance(qos, QosClass):
        return qos
    name = qos.value if isinstance(qos, TaskPolicy) else str(qos).lower()
    if name in _CLASSES:
        return _CLASSES[name]
    if name in _ORDERS:
        raise InvalidValueError(
            f"submit: {name!r} is an order, which belongs to the scheduler: "
            f"Scheduler(policy={name!r}) or configure(policy={name!r})"
        )
    raise InvalidValueError(
        f"submit: qos is {safe_repr(qos)}, expected one of {', '.join(_CLASSES)}"
    )


__all__ = ["TaskPolicy", "TaskState", "qos_class"]
