"""Simulation: the same scheduler on a simulated device and clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pygpukit import _runtime
from pygpukit._native import safe_repr
from pygpukit._runtime import QosClass, SimDevice, SimResult
from pygpukit.core.arguments import items
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.scheduler.tasks import qos_class


@dataclass
class SimTask:
    """A task of a trace; times in seconds, memory in bytes, shares of the device 0..1.

    `duration` is its run time alone on the device. `after` are indices of earlier tasks, or
    their names.
    """

    name: str = ""
    arrival: float = 0.0
    duration: float = 0.0
    estimate: float = 0.0
    memory: int = 0
    compute: float = 1.0
    bandwidth: float = 0.0
    qos: QosClass | str = "best_effort"
    priority: int = 0
    deadline: float | None = None
    partition: str = ""
    after: list[int | str] = field(default_factory=list)


def _native_task(task: SimTask, index: int, names: dict[str, int]) -> _runtime.SimTask:
    dependencies = []
    for other in task.after:
        if isinstance(other, str) and other not in names:
            raise InvalidValueError(
                f"simulate: task {index} comes after {safe_repr(other)}, not an earlier task"
            )
        dependencies.append(names[other] if isinstance(other, str) else other)
    return _runtime.SimTask(
        task.name,
        arrival=task.arrival,
        duration=task.duration,
        estimate=task.estimate,
        memory=task.memory,
        compute=task.compute,
        bandwidth=task.bandwidth,
        qos=qos_class(task.qos),
        priority=task.priority,
        deadline=task.deadline,
        partition=task.partition,
        dependencies=dependencies,
    )


def _task_of(row: Any, index: int) -> SimTask:
    try:
        return SimTask(**row)
    except TypeError:
        known = ", ".join(one.name for one in fields(SimTask))
        raise InvalidTypeError(
            f"simulate: task {index} is {safe_repr(row)}, expected a SimTask or a dict of {known}"
        ) from None


def simulate(
    trace: Iterable[SimTask | Mapping[str, Any]],
    device: SimDevice | None = None,
    *,
    policy: str = "fifo",
    max_pending_tasks: int = 1_000_000,
    enable_best_effort: bool = True,
) -> SimResult:
    """Predicts waiting times and utilisation of a trace of tasks. Deterministic.

    Tasks are SimTask objects or mappings with their fields (as read from JSON).
    """
    names: dict[str, int] = {}
    tasks = []
    for index, row in enumerate(items("simulate", "trace", trace, "several tasks")):
        task = row if isinstance(row, SimTask) else _task_of(row, index)
        tasks.append(_native_task(task, index, names))
        if task.name:
            names.setdefault(task.name, index)
    return _runtime.simulate(
        tasks,
        SimDevice() if device is None else device,
        policy=policy,
        max_pending_tasks=max_pending_tasks,
        enable_best_effort=enable_best_effort,
    )


__all__ = ["SimDevice", "SimResult", "SimTask", "simulate"]
