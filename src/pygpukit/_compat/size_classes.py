"""Memory by size class with a limit: what MemoryPool and PinnedMemoryManager have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from pygpukit._compat.common import Locked
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError, OutOfMemory

Memory = TypeVar("Memory")
Block = TypeVar("Block")


class SizeClasses(Locked, Generic[Memory, Block]):
    """What is used and cached together never exceeds the limit. Under its lock."""

    SIZE_CLASSES: ClassVar[Sequence[int]]
    _name: ClassVar[str]  # in messages

    def __init__(self, limit: int, granule: int) -> None:
        self._limit, self._granule = limit, granule  # above the largest class
        self._free: dict[int, list[Memory]] = {}  # by size class
        self._blocks: dict[int, Block] = {}
        self._used = self._cached = self._made = 0
        self.allocation_count = self.reuse_count = 0

    @abstractmethod
    def _make(self, size: int) -> Memory:
        """New memory of that size. OutOfMemory where the device has no more."""

    active_blocks = property(lambda self: len(self._blocks))
    free_blocks = property(lambda self: sum(map(len, self._free.values())))

    def _block(self, what: str, id: int) -> Block:
        block = self._blocks.get(id)
        if block is None:
            raise InvalidValueError(f"{self._name}.{what}: no block {id}")
        return block

    def _make_room(self) -> bool:
        """Drops the largest free memory. False: there is none."""
        largest = max((size for size, free in self._free.items() if free), default=0)
        if largest:
            self._free[largest].pop()
            self._cached -= largest
        return largest > 0

    def _size_class(self, size: int) -> int:
        step = self._granule
        return next((c for c in self.SIZE_CLASSES if size <= c), -(-size // step) * step)

    def _allocate(self, size: int) -> tuple[int, Memory, bool]:
        """(size of the class, the memory, whether it was free before)."""
        size = self._size_class(whole(f"{self._name}.allocate", "size", size, 1))
        reused = bool(self._free.get(size))
        memory = self._take(size)
        self.allocation_count += 1
        self.reuse_count += reused
        return size, memory, reused

    def _take(self, size: int) -> Memory:
        """Free memory of the class, or new memory for which other memory leaves."""
        if free := self._free.get(size):
            memory = free.pop()
            self._cached -= size
        else:
            memory = self._take_new(size)
            self._made += 1
        self._used += size
        return memory

    def _take_new(self, size: int) -> Memory:
        while size <= self._limit:
            if self._used + self._cached + size <= self._limit:
                try:
                    return self._make(size)
                except OutOfMemory:  # the device has no more, whatever the limit says
                    if not self._make_room():
                        raise
            elif not self._make_room():
                break
        raise OutOfMemory(
            f"{self._name}: cannot get {size} bytes: used {self._used}, cached {self._cached}, "
            f"quota {self._limit}",
            asked=size,
            used=self._used,
            cached=self._cached,
            limit=self._limit,
        )

    def _give_back(self, memory: Memory, size: int) -> None:
        self._free.setdefault(size, []).append(memory)
        self._used -= size
        self._cached += size

    def _clear_free(self) -> int:
        """Drops all free memory; bytes."""
        self._free.clear()
        before, self._cached = self._cached, 0
        return before
