"""The options of a task, for type checkers: what `**options` of submit() may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from pygpukit._runtime import QosClass
    from pygpukit.scheduler.future import TaskFuture
    from pygpukit.scheduler.partition import DevicePartition
    from pygpukit.scheduler.tasks import TaskPolicy

QosName = Literal["guaranteed", "burstable", "best_effort"]


class TaskOptions(TypedDict, total=False):
    """The keyword arguments of Scheduler.submit, which describes them."""

    name: str | None
    priority: int
    deadline: float | None
    after: Iterable[TaskFuture[Any]]
    memory: int
    bandwidth: float
    estimate: float
    qos: QosClass | TaskPolicy | QosName | None
    policy: TaskPolicy | QosName | None
    partition: str | DevicePartition | None
    kwargs: dict[str, Any] | None
