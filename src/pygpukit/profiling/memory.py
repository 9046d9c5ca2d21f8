"""Memory over time, by named snapshots."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.errors import InvalidValueError

if TYPE_CHECKING:
    from pygpukit.memory import MemoryPool

_MIB = 1024 * 1024


@dataclass
class MemorySnapshot:
    """A snapshot of a pool; sizes in bytes."""

    name: str
    timestamp: float = field(default_factory=time.time)
    quota: int = 0
    used: int = 0
    cached: int = 0
    available: int = 0
    active_blocks: int = 0
    free_blocks: int = 0
    allocation_count: int = 0
    reuse_count: int = 0
    cudamalloc_count: int = 0

    @property
    def used_mb(self) -> float:
        """MiB."""
        return self.used / _MIB

    @property
    def cached_mb(self) -> float:
        """MiB."""
        return self.cached / _MIB

    @property
    def available_mb(self) -> float:
        """MiB."""
        return self.available / _MIB

    @property
    def utilization(self) -> float:
        """used / quota; 0.0 without a quota."""
        return self.used / self.quota if self.quota else 0.0

    @property
    def reuse_rate(self) -> float:
        """Fraction of allocations that needed no new memory; 0.0 without any."""
        total = self.reuse_count + self.cudamalloc_count
        return self.reuse_count / total if total else 0.0


class MemoryProfiler:
    """Named snapshots of a pool: the one given, the default one, or the memory of arrays."""

    def __init__(self, pool: MemoryPool | None = None) -> None:
        self._pool = pool
        self._snapshots: list[MemorySnapshot] = []

    def _figures(self) -> dict[str, int]:
        from pygpukit.memory import get_default_pool

        pool = get_default_pool() if self._pool is None else self._pool
        if pool is not None:
            figures = pool.stats()
            del figures["eviction_count"]
            return figures
        stats = _native.memory_stats()
        device = _native.default_device()[0]
        quota: int = stats["limit"] or _native.device_traits(device)["total_memory"]
        return {
            "quota": quota,
            "used": stats["used"],
            "cached": stats["cached"],
            "available": quota - stats["used"],
            "active_blocks": stats["blocks"],
            "allocation_count": stats["allocations"],
            "reuse_count": stats["reuses"],
            "cudamalloc_count": stats["allocations"] - stats["reuses"],
        }

    def snapshot(self, name: str) -> MemorySnapshot:
        """Takes a snapshot and keeps it."""
        taken = MemorySnapshot(name, **self._figures())
        self._snapshots.append(taken)
        return taken

    @property
    def snapshots(self) -> list[MemorySnapshot]:
        """In the order they were taken."""
        return list(self._snapshots)

    @property
    def peak_used_bytes(self) -> int:
        """The largest `used` of all snapshots."""
        return max((snapshot.used for snapshot in self._snapshots), default=0)

    @property
    def peak_used_mb(self) -> float:
        """Same in MiB."""
        return self.peak_used_bytes / _MIB

    def get_snapshot(self, name: str) -> MemorySnapshot | None:
        """The latest of that name, or None."""
        found = [snapshot for snapshot in self._snapshots if snapshot.name == name]
        return found[-1] if found else None

    def _resolve(self, which: str | MemorySnapshot) -> MemorySnapshot:
        if isinstance(which, MemorySnapshot):
            return which
        found = self.get_snapshot(which)
        if found is None:
            names = ", ".join(repr(snapshot.name) for snapshot in self._snapshots) or "none"
            raise InvalidValueError(
                f"diff: no snapshot is named {_native.safe_repr(which)}; known are {names}"
            )
        return found

    def diff(self, a: str | MemorySnapshot, b: str | MemorySnapshot) -> dict[str, float]:
        """What changed from `a` to `b`: bytes, counts and seconds."""
        first, second = self._resolve(a), self._resolve(b)
        return {
            "used_delta": second.used - first.used,
            "cached_delta": second.cached - first.cached,
            "active_blocks_delta": second.active_blocks - first.active_blocks,
            "free_blocks_delta": second.free_blocks - first.free_blocks,
            "allocation_delta": second.allocation_count - first.allocation_count,
            "time_delta": second.timestamp - first.timestamp,
        }

    def clear(self) -> None:
        """Drops all snapshots."""
        self._snapshots.clear()

    def print_report(self) -> None:
        """Prints all snapshots as a table."""
        print("Memory Profiler Report")
        print(f"{'name':<24} {'used MiB':>12} {'cached MiB':>12} {'use':>7} {'reuse':>7}")
        for snapshot in self._snapshots:
            print(
                f"{snapshot.name[:24]:<24} {snapshot.used_mb:>12.2f} {snapshot.cached_mb:>12.2f} "
                f"{snapshot.utilization:>7.1%} {snapshot.reuse_rate:>7.1%}"
            )
        print(f"peak {self.peak_used_mb:.2f} MiB")

    def print_diff(self, a: str | MemorySnapshot, b: str | MemorySnapshot) -> None:
        """Prints what changed between two snapshots."""
        first, second = self._resolve(a), self._resolve(b)
        print(f"Memory from {first.name!r} to {second.name!r}")
        for name, value in self.diff(first, second).items():
            shown = f"{value:+.6f} s" if name == "time_delta" else f"{value:+,.0f}"
            print(f"  {name:<22} {shown}")


__all__ = ["MemoryProfiler", "MemorySnapshot"]
