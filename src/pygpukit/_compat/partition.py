"""Partitions as version 0.2 had them: a manager that keeps accounts of promises.

`PartitionManager.open()` makes the partition that the device enforces.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pygpukit._native import safe_repr
from pygpukit.core.errors import InvalidValueError, OperationError

if TYPE_CHECKING:
    from pygpukit.scheduler.partition import DevicePartition

_WHOLE = 10**9  # shares are summed in parts per billion, so that tenths add up to one


def _ppb(share: float) -> int:
    return round(share * _WHOLE)


def _clamped(share: float, what: str) -> float:
    if math.isnan(share):
        raise InvalidValueError(f"PartitionLimits: {what} is not a number, expected 0 .. 1")
    return min(max(float(share), 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class PartitionLimits:
    """What a partition may use. A memory quota of 0 is none of its own; shares are 0 .. 1."""

    memory_quota: int = 0
    compute_share: float = 1.0
    bandwidth_share: float = 1.0
    max_streams: int = 16
    max_pending_kernels: int = 1024
    max_pending_transfers: int = 256

    def __post_init__(self) -> None:
        if self.memory_quota < 0:
            raise InvalidValueError(
                f"PartitionLimits: memory_quota is {self.memory_quota}, expected at least 0"
            )
        for what in ("compute_share", "bandwidth_share"):
            object.__setattr__(self, what, _clamped(getattr(self, what), what))

    @staticmethod
    def with_memory(quota: int) -> PartitionLimits:
        """Only a memory quota, in bytes."""
        return PartitionLimits(memory_quota=quota)

    @staticmethod
    def with_compute(share: float) -> PartitionLimits:
        """Only a compute share."""
        return PartitionLimits(compute_share=share)

    def memory(self, quota: int) -> PartitionLimits:
        """A copy with another quota in bytes."""
        return replace(self, memory_quota=quota)

    def compute(self, share: float) -> PartitionLimits:
        """A copy with another share, clamped to 0 .. 1."""
        return replace(self, compute_share=share)

    def bandwidth(self, share: float) -> PartitionLimits:
        """A copy with another share, clamped to 0 .. 1."""
        return replace(self, bandwidth_share=share)


@dataclass(frozen=True, slots=True)
class PartitionUsage:
    """What a partition uses: measured once it is open, zeros before. Memory in bytes."""

    memory_used: int = 0
    active_streams: int = 0
    pending_kernels: int = 0
    pending_transfers: int = 0
    total_kernels: int = 0
    total_transfers: int = 0
    compute_time_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as it was when asked for."""

    id: str
    name: str
    limits: PartitionLimits
    usage: PartitionUsage = PartitionUsage()
    tasks: list[str] = field(default_factory=list)
    enabled: bool = True

    def memory_utilization(self) -> float:
        """Used over quota; 0 without a quota."""
        quota = self.limits.memory_quota
        return self.usage.memory_used / quota if quota else 0.0


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """The device that is shared. With overcommit and a ratio of 1.0 sums have no bound."""

    total_memory: int = 8 * 2**30
    allow_overcommit: bool = False
    overcommit_ratio: float = 1.0


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """What was promised and what is left; memory in bytes."""

    partition_count: int
    active_partitions: int
    total_memory_allocated: int
    total_compute_allocated: float
    total_bandwidth_allocated: float
    available_memory: int
    available_compute: float
    available_bandwidth: float


def _usage(opened: DevicePartition | None) -> PartitionUsage:
    if opened is None or opened.closed:
        return PartitionUsage()
    facts = opened.facts()
    return PartitionUsage(
        memory_used=facts["memory_used"],
        active_streams=facts["open_streams"],
        total_kernels=facts["launches"],
        compute_time_ms=1e3 * facts["paced_s"],
    )


class PartitionManager:
    """Promises of parts of one device, and which task belongs to which. Thread safe."""

    def __init__(self, config: PartitionConfig | None = None) -> None:
        self.config = PartitionConfig() if config is None else config
        if not self.config.overcommit_ratio >= 1.0:
            raise InvalidValueError(
                f"PartitionConfig: overcommit_ratio is {self.config.overcommit_ratio}, "
                "expected at least 1"
            )
        self._lock = threading.RLock()
        self._partitions: dict[str, Partition] = {}
        self._opened: dict[str, DevicePartition] = {}
        self._tasks: dict[str, str] = {}
        self._default: str | None = None

    def create_partition(self, id: str, name: str, limits: PartitionLimits) -> None:
        """A new partition; the first becomes the default."""
        with self._lock:
            if not id:
                raise InvalidValueError("create_partition: id is empty")
            if id in self._partitions:
                raise InvalidValueError(f"create_partition: {safe_repr(id)} exists already")
            self._check_fits(limits)
            self._partitions[id] = Partition(id, name, limits)
            if self._default is None:
                self._default = id

    def _check_fits(self, limits: PartitionLimits) -> None:
        if self.config.allow_overcommit and self.config.overcommit_ratio == 1.0:
            return
        ratio = self.config.overcommit_ratio if self.config.allow_overcommit else 1.0
        others = [p.limits for p in self._partitions.values()]
        memory_left = int(self.config.total_memory * ratio) - sum(o.memory_quota for o in others)
        if limits.memory_quota > memory_left:
            raise OperationError(
                f"create_partition: memory_quota is {limits.memory_quota} bytes, "
                f"{memory_left} are left"
            )
        for what in ("compute_share", "bandwidth_share"):
            left = int(ratio * _WHOLE) - sum(_ppb(getattr(o, what)) for o in others)
            if _ppb(getattr(limits, what)) > left:
                raise OperationError(
                    f"create_partition: {what} is {getattr(limits, what)}, {left / _WHOLE} is left"
                )

    def _at(self, id: str, op: str) -> Partition:
        if id not in self._partitions:
            raise InvalidValueError(
                f"{op}: partition {safe_repr(id)} does not exist, there is "
                f"{', '.join(self._partitions) or 'none'}"
            )
        return self._partitions[id]

    def _now(self, known: Partition) -> Partition:
        tasks = sorted(task for task, of in self._tasks.items() if of == known.id)
        return replace(known, usage=_usage(self._opened.get(known.id)), tasks=tasks)

    def open(
        self, id: str, *, qos: str = "burstable", device: str | int | None = None
    ) -> DevicePartition:
        """The partition that the device enforces, with these limits and `id` as its name.

        Made by the first call; delete_partition() and clear() close it.
        """
        from pygpukit.scheduler.partition import partition  # which offers the names of this module

        with self._lock:
            limits = self._at(id, "open").limits
            opened = self._opened.get(id)
            if opened is None or opened.closed:
                opened = self._opened[id] = partition(
                    id,
                    compute=limits.compute_share or None,
                    memory=limits.memory_quota or None,
                    bandwidth=limits.bandwidth_share or None,
                    max_streams=limits.max_streams,
                    qos=qos,
                    device=device,
                )
            return opened

    def _close(self, id: str) -> None:
        if id in self._opened:
            self._opened[id].close()
            del self._opened[id]

    def delete_partition(self, id: str) -> Partition:
        """Removes and returns it; the default moves on. RuntimeError while it is in use."""
        with self._lock:
            removed = self._now(self._at(id, "delete_partition"))
            self._close(id)
            del self._partitions[id]
            for task in removed.tasks:
                del self._tasks[task]
            if self._default == id:
                self._default = next(iter(self._partitions), None)
            return removed

    def get(self, id: str) -> Partition | None:
        """The partition as it is now, or None."""
        with self._lock:
            known = self._partitions.get(id)
            return None if known is None else self._now(known)

    def assign_task(self, task_id: str, partition_id: str) -> None:
        """Moves a task to a partition."""
        with self._lock:
            self._tasks[task_id] = self._at(partition_id, "assign_task").id

    def unassign_task(self, task_id: str) -> bool:
        """Back to the default; False when it was there."""
        with self._lock:
            return self._tasks.pop(task_id, None) is not None

    def get_task_partition(self, task_id: str) -> str | None:
        """The task's partition, or the default."""
        with self._lock:
            return self._tasks.get(task_id, self._default)

    def set_default(self, id: str) -> None:
        """Where tasks without one belong."""
        with self._lock:
            self._default = self._at(id, "set_default").id

    def default_partition(self) -> str | None:
        """Its id, or None."""
        return self._default

    def partition_ids(self) -> list[str]:
        """Oldest first."""
        with self._lock:
            return list(self._partitions)

    def stats(self) -> PartitionStats:
        """The figures now."""
        with self._lock:
            limits = [p.limits for p in self._partitions.values()]
        memory = sum(one.memory_quota for one in limits)
        compute = sum(_ppb(one.compute_share) for one in limits)
        bandwidth = sum(_ppb(one.bandwidth_share) for one in limits)
        return PartitionStats(
            partition_count=len(limits),
            active_partitions=len(limits),
            total_memory_allocated=memory,
            total_compute_allocated=compute / _WHOLE,
            total_bandwidth_allocated=bandwidth / _WHOLE,
            available_memory=max(0, self.config.total_memory - memory),
            available_compute=max(0, _WHOLE - compute) / _WHOLE,
            available_bandwidth=max(0, _WHOLE - bandwidth) / _WHOLE,
        )

    def clear(self) -> None:
        """Removes all. RuntimeError while one is in use."""
        with self._lock:
            for id in list(self._partitions):
                self.delete_partition(id)


__all__ = [
    "Partition",
    "PartitionConfig",
    "PartitionLimits",
    "PartitionManager",
    "PartitionStats",
    "PartitionUsage",
]
