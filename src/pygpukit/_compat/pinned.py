"""PinnedMemoryManager of 0.2: pinned memory by size class, pooled and tied to tasks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pygpukit import _native
from pygpukit._compat.common import check_fields, figures, forward
from pygpukit._compat.memory import SizeClasses
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.memory import GB, KB, MB

_MAX_ALIGNMENT = 4096  # of gp.pinned_empty


@dataclass(frozen=True)
class PinnedPoolConfig:
    """Limits of a PinnedMemoryManager."""

    max_size: int = GB
    enable_pooling: bool = True
    alignment: int = 256

    def __post_init__(self) -> None:
        check_fields(self, max_size=0)
        bits = whole("PinnedPoolConfig", "alignment", self.alignment, 1, _MAX_ALIGNMENT)
        if bits & (bits - 1):
            raise InvalidValueError(
                f"PinnedPoolConfig: alignment is {bits}, expected a power of two"
            )


@dataclass
class PinnedBlock:
    """A block of a PinnedMemoryManager, which keeps the fields up to date."""

    id: int
    host_ptr: int
    size: int
    array: Any = field(default=None, repr=False)  # None: memory of others
    task_id: str | None = None
    last_access: float = field(default_factory=time.time)

    is_registered = property(lambda self: self.array is None)


class PinnedStats(NamedTuple):
    """Figures of a PinnedMemoryManager; sizes in bytes."""

    max_size: int
    current_used: int
    pooled_size: int
    active_blocks: int
    pooled_blocks: int
    allocation_count: int
    reuse_count: int


class PinnedMemoryManager(SizeClasses[Any, PinnedBlock]):
    """Blocks of gp.pinned_empty by id."""

    SIZE_CLASSES = (4 * KB, 64 * KB, 256 * KB, MB, 4 * MB, 16 * MB, 64 * MB, 256 * MB)
    _name = "PinnedMemoryManager"

    def __init__(self, config: PinnedPoolConfig | None = None) -> None:
        self.config = config or PinnedPoolConfig()
        super().__init__(self.config.max_size, self.config.alignment)
        self._next_id = 1

    max_size, current_used, pooled_size = forward("_limit"), forward("_used"), forward("_cached")
    active_count, pooled_blocks = forward("active_blocks"), forward("free_blocks")

    def can_allocate(self, size: int) -> bool:
        return size > 0 and self._used + self._size_class(size) <= self._limit

    def allocate(self, size: int) -> tuple[int, int, bool]:
        """(id, size of the class, came from the pool)."""
        size, array, reused = self._allocate(size)
        block = PinnedBlock(self._next_id, array.ctypes.data, size, array)
        return self._add(block), size, reused

    def register(self, block_id: int, host_ptr: int, size: int) -> None:
        """Memory of others under an id, or in place of a block's own."""
        op = "PinnedMemoryManager.register"
        whole(op, "host_ptr", host_ptr, 1)
        whole(op, "size", size, 1)
        own = self._blocks.get(block_id)
        if own is not None and own.is_registered:
            raise InvalidValueError(f"{op}: block {block_id} is registered already")
        if own is not None:
            self._give_back(own.array, own.size)
        self._add(PinnedBlock(block_id, host_ptr, size, task_id=own.task_id if own else None))

    def free(self, block_id: int) -> tuple[bool, int]:
        """(its owner may free the memory now, host_ptr)."""
        block = self._block("free", block_id)
        del self._blocks[block_id]
        if not block.is_registered:
            self._give_back(block.array, block.size)
        return block.is_registered, block.host_ptr

    def associate_task(self, block_id: int, task_id: str) -> None:
        """Ties the block to a task; "" unties it."""
        self._block("associate_task", block_id).task_id = task_id or None

    def get(self, block_id: int) -> PinnedBlock | None:
        return self._blocks.get(block_id)

    def touch(self, block_id: int) -> None:
        self._block("touch", block_id).last_access = time.time()

    def get_blocks_for_task(self, task_id: str) -> list[int]:
        return sorted(b.id for b in self._blocks.values() if b.task_id == task_id)

    def free_task_blocks(self, task_id: str) -> list[tuple[bool, int]]:
        return [self.free(number) for number in self.get_blocks_for_task(task_id)]

    def stats(self) -> PinnedStats:
        return figures(PinnedStats, self)

    def _add(self, block: PinnedBlock) -> int:
        self._blocks[block.id] = block
        self._next_id = max(self._next_id, block.id + 1)
        return block.id

    def _make(self, size: int) -> Any:
        return _native.pinned_empty(size, "uint8")

    def _give_back(self, memory: Any, size: int) -> None:
        super()._give_back(memory, size)
        if not self.config.enable_pooling:
            self.clear_pool()
