"""0.2's slices of kernels, as plain arithmetic: who runs which items next.

Ops cut their own long launches inside a partition; see docs/sharing.md.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from itertools import pairwise

from pygpukit._compat.common import Locked, check_fields, forward
from pygpukit.core.arguments import amount, whole

Dims = tuple[int, int, int]


@dataclass(frozen=True)
class SliceConfig:
    """How kernels are cut: by items. Durations are part of the signature and change nothing."""

    max_items_per_slice: int = 65536
    max_duration_ms: float = 1.0
    min_slices: int = 1
    max_slices: int = 256
    adaptive: bool = True

    def __post_init__(self) -> None:
        check_fields(self, max_items_per_slice=1, max_duration_ms=0.0, min_slices=1)
        check_fields(self, max_slices=self.min_slices)


@dataclass(frozen=True)
class SliceInfo:
    """One slice of a kernel."""

    kernel_id: int  # of this submission, from 1
    kernel_handle: int
    slice_index: int  # from 0
    total_slices: int
    offset: int  # its first item
    count: int
    block: Dims
    shared_mem: int
    task_id: str | None
    priority: int

    slice_id = forward("slice_index")
    is_last = property(lambda self: self.slice_index + 1 == self.total_slices)

    @property
    def grid(self) -> Dims:
        return -(-self.count // math.prod(self.block)), 1, 1


@dataclass
class SliceStats:
    """Figures of a SliceScheduler; times of completed slices."""

    total_kernels: int = 0
    completed_kernels: int = 0
    total_slices: int = 0
    completed_slices: int = 0
    total_time_ms: float = 0.0

    pending_slices = property(lambda self: self.total_slices - self.completed_slices)
    pending_kernels = property(lambda self: self.total_kernels - self.completed_kernels)
    avg_slice_ms = property(lambda self: self.total_time_ms / max(1, self.completed_slices))


class SliceScheduler(Locked):
    """Kernels of the highest priority take turns, one slice each. Thread safe."""

    def __init__(self, config: SliceConfig | None = None) -> None:
        self.config = config or SliceConfig()
        self._kernels = 0
        self.clear()

    def clear(self) -> None:
        self._turns: list[deque[SliceInfo]] = []  # slices to hand out, by kernel, in turn
        self._out: deque[SliceInfo] = deque()
        self._stats = SliceStats()

    def submit(
        self, kernel_handle: int, total_items: int, block: Dims = (256, 1, 1), shared_mem: int = 0
    ) -> int:
        """Cuts a kernel; the number of slices: total_items // max_items_per_slice, bounded."""
        return self.submit_for_task(None, kernel_handle, total_items, block, shared_mem)

    def submit_for_task(
        self,
        task_id: str | None,
        kernel_handle: int,
        total_items: int,
        block: Dims = (256, 1, 1),
        shared_mem: int = 0,
        priority: int = 0,
    ) -> int:
        """The same for a task, with a priority: higher is earlier."""
        for name, number in (("total_items", total_items), ("block", min(block))):
            whole("SliceScheduler", name, number, 1)
        config = self.config
        slices = max(total_items // config.max_items_per_slice, config.min_slices)
        slices = min(slices, config.max_slices, total_items)
        # Nearly equal runs of items.
        bounds = [-(-total_items * i // slices) for i in range(slices + 1)]
        launch = block, shared_mem, task_id, priority
        self._kernels += 1
        self._turns.append(
            deque(
                SliceInfo(self._kernels, kernel_handle, i, slices, start, end - start, *launch)
                for i, (start, end) in enumerate(pairwise(bounds))
            )
        )
        self._turns.sort(key=lambda turn: -turn[0].priority)  # stable: order of arrival
        self._stats.total_kernels += 1
        self._stats.total_slices += slices
        return slices

    def get_next_slice(self) -> SliceInfo | None:
        """The next slice to run, or None. It counts as pending until complete_slice()."""
        if not self._turns:
            return None
        self._out.append(self._turns[0].popleft())
        if not self._turns[0]:
            del self._turns[0]
        return self._out[-1]

    def complete_slice(self, ms: float) -> bool:
        """The slice handed out first took so long; False when none is out."""
        ms = amount("complete_slice", "ms", ms)
        if not self._out:
            return False
        done, now = self._out.popleft(), self._stats
        now.completed_slices += 1
        now.completed_kernels += done.is_last
        now.total_time_ms += ms
        # Behind the others of its priority.
        number = done.kernel_id
        self._turns.sort(key=lambda turn: (-turn[0].priority, turn[0].kernel_id == number))
        return True

    def pending_slices(self) -> int:
        return self._stats.total_slices - self._stats.completed_slices

    def pending_kernels(self) -> int:
        return self._stats.total_kernels - self._stats.completed_kernels

    def stats(self) -> SliceStats:
        return replace(self._stats)
