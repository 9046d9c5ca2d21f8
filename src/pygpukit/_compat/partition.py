"""Partitions as version 0.2 had them: a manager that keeps accounts of promises.

`PartitionManager.open()` makes the partition that the device enforces.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pygpukit._compat.common import Locked, check_fields, sum_shares
from pygpukit._native import safe_repr
from pygpukit.core.arguments import amount
from pygpukit.core.errors import InvalidValueError, OperationError
from pygpukit.scheduler.partition import DevicePartition, partition

_SHARES = ("compute_share", "bandwidth_share")


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
        check_fields(self, memory_quota=0)
        for name in _SHARES:
            share = min(max(getattr(self, name), 0.0), 1.0)
            object.__setattr__(self, name, amount("PartitionLimits", name, share))

    @staticmethod
    def with_memory(quota: int) -> PartitionLimits:
        return PartitionLimits(memory_quota=quota)

    @staticmethod
    def with_compute(share: float) -> PartitionLimits:
        return PartitionLimits(compute_share=share)

    def memory(self, quota: int) -> PartitionLimits:
        return replace(self, memory_quota=quota)

    def compute(self, share: float) -> PartitionLimits:
        return replace(self, compute_share=share)

    def bandwidth(self, share: float) -> PartitionLimits:
        return replace(self, bandwidth_share=share)


class PartitionUsage(NamedTuple):
    """What a partition uses: measured once it is open, zeros before. Memory in bytes."""

    memory_used: int = 0
    active_streams: int = 0
    pending_kernels: int = 0
    pending_transfers: int = 0
    total_kernels: int = 0
    total_transfers: int = 0
    compute_time_ms: float = 0.0


@dataclass(eq=False)
class Partition:
    """A partition of a PartitionManager, which keeps the fields up to date."""

    id: str
    name: str
    limits: PartitionLimits
    tasks: list[str] = field(default_factory=list)
    enabled: bool = True
    _opened: DevicePartition | None = field(default=None, repr=False)

    @property
    def usage(self) -> PartitionUsage:
        if self._opened is None or self._opened.closed:
            return PartitionUsage()
        facts = self._opened.facts()
        return PartitionUsage(
            memory_used=facts["memory_used"],
            active_streams=facts["open_streams"],
            total_kernels=facts["launches"],
            compute_time_ms=1e3 * facts["paced_s"],
        )

    def memory_utilization(self) -> float:
        """Used over quota; 0 without a quota."""
        quota = self.limits.memory_quota
        return self.usage.memory_used / quota if quota else 0.0


class PartitionConfig(NamedTuple):
    """The device that is shared. With overcommit and a ratio of 1.0 sums have no bound."""

    total_memory: int = 8 * 2**30
    allow_overcommit: bool = False
    overcommit_ratio: float = 1.0


class PartitionStats(NamedTuple):
    """What was promised and what is left; memory in bytes."""

    partition_count: int
    active_partitions: int
    total_memory_allocated: int
    total_compute_allocated: float
    total_bandwidth_allocated: float
    available_memory: int
    available_compute: float
    available_bandwidth: float


class PartitionManager(Locked):
    """Promises of parts of one device, and which task belongs to which. Thread safe."""

    def __init__(self, config: PartitionConfig | None = None) -> None:
        self.config = PartitionConfig() if config is None else config
        check_fields(self.config, overcommit_ratio=1.0)
        self._partitions: dict[str, Partition] = {}
        self._default: str | None = None

    def create_partition(self, id: str, name: str, limits: PartitionLimits) -> None:
        """A new partition; the first becomes the default."""
        if not id or id in self._partitions:
            what = "exists already" if id else "is empty"
            raise InvalidValueError(f"create_partition: id {safe_repr(id)} {what}")
        self._check_fits(limits)
        self._partitions[id] = Partition(id, name, limits)
        self._default = self._default or id

    def _promised(self) -> tuple[int, float, float]:
        limits = [partition.limits for partition in self._partitions.values()]
        compute, bandwidth = (sum_shares(getattr(one, name) for one in limits) for name in _SHARES)
        return sum(one.memory_quota for one in limits), compute, bandwidth

    def _check_fits(self, limits: PartitionLimits) -> None:
        overcommit, ratio = self.config.allow_overcommit, self.config.overcommit_ratio
        if overcommit and ratio == 1.0:
            return
        bound = ratio if overcommit else 1.0
        memory, *shares = self._promised()
        left = int(self.config.total_memory * bound) - memory
        if limits.memory_quota > left:
            asked = f"memory_quota is {limits.memory_quota} bytes"
            raise OperationError(f"create_partition: {asked}, {left} are left")
        for name, promised in zip(_SHARES, shares, strict=True):
            asked, rest = getattr(limits, name), sum_shares((bound, -promised))
            if sum_shares((asked,)) > rest:
                raise OperationError(f"create_partition: {name} is {asked}, {rest} is left")

    def _at(self, id: str, op: str) -> Partition:
        if id not in self._partitions:
            text = f"does not exist, there is {', '.join(self._partitions) or 'none'}"
            raise InvalidValueError(f"{op}: partition {safe_repr(id)} {text}")
        return self._partitions[id]

    def open(
        self, id: str, *, qos: str = "burstable", device: str | int | None = None
    ) -> DevicePartition:
        """The partition that the device enforces; delete_partition() and clear() close it."""
        known = self._at(id, "open")
        if known._opened is None or known._opened.closed:
            known._opened = partition(
                id,
                compute=known.limits.compute_share or None,
                memory=known.limits.memory_quota or None,
                bandwidth=known.limits.bandwidth_share or None,
                max_streams=known.limits.max_streams,
                qos=qos,
                device=device,
            )
        return known._opened

    def delete_partition(self, id: str) -> Partition:
        """Removes and returns it; the default moves on. RuntimeError while it is in use."""
        removed = self._at(id, "delete_partition")
        if removed._opened is not None:
            removed._opened.close()
        del self._partitions[id]
        if self._default == id:
            self._default = next(iter(self._partitions), None)
        return removed

    def get(self, id: str) -> Partition | None:
        return self._partitions.get(id)

    def assign_task(self, task_id: str, partition_id: str) -> None:
        home = self._at(partition_id, "assign_task")
        self.unassign_task(task_id)
        home.tasks.append(task_id)

    def _home(self, task_id: str) -> Partition | None:
        return next((p for p in self._partitions.values() if task_id in p.tasks), None)

    def unassign_task(self, task_id: str) -> bool:
        """Back to the default; False when it was there."""
        if (home := self._home(task_id)) is not None:
            home.tasks.remove(task_id)
        return home is not None

    def get_task_partition(self, task_id: str) -> str | None:
        home = self._home(task_id)
        return self._default if home is None else home.id

    def set_default(self, id: str) -> None:
        self._default = self._at(id, "set_default").id

    def default_partition(self) -> str | None:
        return self._default

    def partition_ids(self) -> list[str]:
        return list(self._partitions)

    def stats(self) -> PartitionStats:
        count, (memory, compute, bandwidth) = len(self._partitions), self._promised()
        left = max(0, self.config.total_memory - memory)
        rest = [max(0.0, sum_shares((1.0, -promised))) for promised in (compute, bandwidth)]
        return PartitionStats(count, count, memory, compute, bandwidth, left, *rest)

    def clear(self) -> None:
        """Removes all. RuntimeError while one is in use."""
        for id in list(self._partitions):
            self.delete_partition(id)
