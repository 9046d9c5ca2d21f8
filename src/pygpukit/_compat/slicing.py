"""0.2's slices of kernels, as plain arithmetic: who runs which items next.

Ops cut their own long launches inside a partition; see docs/sharing.md.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from dataclasses import dataclass

from pygpukit.core.errors import InvalidValueError

_NEWEST = 0.25  # weight of the newest slice in the running mean of a kernel's cost


@dataclass(frozen=True)
class SliceConfig:
    """How kernels are cut."""

    max_items_per_slice: int = 65536
    max_duration_ms: float = 1.0
    min_slices: int = 1
    max_slices: int = 256
    adaptive: bool = True  # kernels whose slices took longer are cut finer when submitted again

    def __post_init__(self) -> None:
        if self.max_items_per_slice < 1 or not 1 <= self.min_slices <= self.max_slices:
            raise InvalidValueError(
                "SliceConfig: expected max_items_per_slice >= 1 and 1 <= min_slices <= max_slices, "
                f"got {self.max_items_per_slice}, {self.min_slices} and {self.max_slices}"
            )
        if not 0.0 < self.max_duration_ms < math.inf:
            raise InvalidValueError(
                f"SliceConfig: max_duration_ms is {self.max_duration_ms}, expected above 0"
            )


@dataclass(frozen=True)
class SliceInfo:
    """One slice of a kernel."""

    kernel_id: int  # of this submission, from 1
    kernel_handle: int
    slice_index: int  # from 0
    total_slices: int
    offset: int  # its first item
    count: int
    grid: tuple[int, int, int]  # blocks for its items
    block: tuple[int, int, int]
    shared_mem: int
    task_id: str | None
    priority: int

    @property
    def slice_id(self) -> int:
        """The same as slice_index."""
        return self.slice_index

    @property
    def is_last(self) -> bool:
        """The kernel's last slice."""
        return self.slice_index + 1 == self.total_slices


@dataclass
class SliceStats:
    """Figures of a SliceScheduler; times of completed slices."""

    total_kernels: int = 0
    completed_kernels: int = 0
    total_slices: int = 0
    completed_slices: int = 0
    pending_slices: int = 0
    pending_kernels: int = 0
    total_time_ms: float = 0.0
    max_slice_ms: float = 0.0

    @property
    def avg_slice_ms(self) -> float:
        """0 before the first."""
        return self.total_time_ms / self.completed_slices if self.completed_slices else 0.0


def _cut(first: SliceInfo, items: int, slices: int) -> deque[SliceInfo]:
    """Nearly equal runs of items; the first ones have one more."""
    threads = math.prod(first.block)
    cut: deque[SliceInfo] = deque()
    offset = 0
    for index in range(slices):
        count = items // slices + (index < items % slices)
        fields = {**vars(first), "slice_index": index, "offset": offset, "count": count}
        cut.append(SliceInfo(**{**fields, "grid": (-(-count // threads), 1, 1)}))
        offset += count
    return cut


class SliceScheduler:
    """Kernels of the highest priority take turns, one slice each. Thread safe."""

    def __init__(self, config: SliceConfig | None = None) -> None:
        self.config = SliceConfig() if config is None else config
        self._lock = threading.Lock()
        self._kernels = 0
        self._forget()

    def _forget(self) -> None:
        self._turns: list[deque[SliceInfo]] = []  # slices to hand out, by kernel, in turn
        self._out: deque[SliceInfo] = deque()
        self._left: dict[int, int] = {}  # slices not completed, by kernel
        self._ms_per_item: dict[int, float] = {}  # by handle
        self._stats = SliceStats()

    def submit(
        self,
        kernel_handle: int,
        total_items: int,
        block: tuple[int, int, int] = (256, 1, 1),
        shared_mem: int = 0,
    ) -> int:
        """Cuts a kernel; the number of slices: total_items // max_items_per_slice, bounded."""
        return self.submit_for_task(None, kernel_handle, total_items, block, shared_mem)

    def submit_for_task(
        self,
        task_id: str | None,
        kernel_handle: int,
        total_items: int,
        block: tuple[int, int, int] = (256, 1, 1),
        shared_mem: int = 0,
        priority: int = 0,
    ) -> int:
        """The same for a task, with a priority: higher is earlier."""
        items = total_items
        if items < 1 or min(block) < 1:
            raise InvalidValueError(
                f"SliceScheduler: total_items is {items}, block {tuple(block)}, expected at least "
                "1 item and 1 thread"
            )
        with self._lock:
            slices = self._count(kernel_handle, items)
            self._kernels += 1
            first = SliceInfo(
                self._kernels, kernel_handle, 0, slices, 0, 0, (1, 1, 1), block, shared_mem,
                task_id, priority,
            )  # fmt: skip
            self._turns.append(_cut(first, items, slices))
            self._turns.sort(key=lambda turn: -turn[0].priority)  # stable: order of arrival
            self._left[self._kernels] = slices
            self._stats.total_kernels += 1
            self._stats.total_slices += slices
            self._stats.pending_kernels += 1
            self._stats.pending_slices += slices
            return slices

    def _count(self, handle: int, items: int) -> int:
        wanted = items // self.config.max_items_per_slice
        if self.config.adaptive:
            ms = self._ms_per_item.get(handle, 0.0) * items
            wanted = max(wanted, math.ceil(ms / self.config.max_duration_ms))
        return min(max(wanted, self.config.min_slices), self.config.max_slices, items)

    def get_next_slice(self) -> SliceInfo | None:
        """The next slice to run, or None. It counts as pending until complete_slice()."""
        with self._lock:
            if not self._turns:
                return None
            piece = self._turns[0].popleft()
            if not self._turns[0]:
                del self._turns[0]
            self._out.append(piece)
            return piece

    def complete_slice(self, ms: float) -> bool:
        """The slice handed out first took so long; the next kernel has its turn.

        False when none is out.
        """
        if not 0.0 <= ms < math.inf:
            raise InvalidValueError(f"complete_slice: ms is {ms}, expected a time of 0 or more")
        with self._lock:
            if not self._out:
                return False
            piece = self._out.popleft()
            self._learn(piece, ms)
            self._left[piece.kernel_id] -= 1
            if self._left[piece.kernel_id] == 0:
                del self._left[piece.kernel_id]
                self._stats.completed_kernels += 1
                self._stats.pending_kernels -= 1
            # Behind the others of its priority.
            self._turns.sort(
                key=lambda turn: (-turn[0].priority, turn[0].kernel_id == piece.kernel_id)
            )
            return True

    def _learn(self, piece: SliceInfo, ms: float) -> None:
        self._stats.pending_slices -= 1
        self._stats.completed_slices += 1
        self._stats.total_time_ms += ms
        self._stats.max_slice_ms = max(self._stats.max_slice_ms, ms)
        cost = ms / piece.count
        mean = self._ms_per_item.setdefault(piece.kernel_handle, cost)
        self._ms_per_item[piece.kernel_handle] = mean + _NEWEST * (cost - mean)

    def pending_slices(self) -> int:
        """Not completed."""
        return self._stats.pending_slices

    def pending_kernels(self) -> int:
        """With slices that are not completed."""
        return self._stats.pending_kernels

    def stats(self) -> SliceStats:
        """The figures now."""
        with self._lock:
            return SliceStats(**vars(self._stats))

    def clear(self) -> None:
        """Forgets kernels, figures and what was learnt."""
        with self._lock:
            self._forget()


__all__ = ["SliceConfig", "SliceInfo", "SliceScheduler", "SliceStats"]
