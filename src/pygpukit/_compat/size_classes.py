"""Memory by size class with a limit: what MemoryPool and PinnedMemoryManager have in common."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from pygpukit.core.errors import OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

Memory = TypeVar("Memory")


class SizeClasses(ABC, Generic[Memory]):
    """What is used and cached together never exceeds the limit. Under its lock."""

    def __init__(self, name: str, limit: int, classes: Sequence[int], granule: int) -> None:
        self._name, self._limit, self._classes, self._granule = name, limit, classes, granule
        self._lock = threading.RLock()
        self._free: dict[int, list[Memory]] = {}  # by size class
        self._used = self._cached = self._allocations = self._reuses = self._made = 0

    @abstractmethod
    def _make(self, size: int) -> Memory:
        """A new piece of that size. OutOfMemory where the device has no more."""

    def _make_room(self) -> bool:
        """Drops the largest free piece. False: there is none."""
        largest = max((size for size, free in self._free.items() if free), default=0)
        if largest:
            self._free[largest].pop()
            self._cached -= largest
        return largest > 0

    def _size_class(self, size: int) -> int:
        step = self._granule
        return next((c for c in self._classes if size <= c), -(-size // step) * step)

    def _take(self, size: int) -> Memory:
        """A free piece of the class, or a new one for which others leave."""
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
        raise self._no_room(size)

    def _give_back(self, memory: Memory, size: int) -> None:
        self._free.setdefault(size, []).append(memory)
        self._used -= size
        self._cached += size

    def _no_room(self, size: int) -> OutOfMemory:
        return OutOfMemory(
            f"{self._name}: cannot get {size} bytes: used {self._used}, cached {self._cached}, "
            f"quota {self._limit}",
            asked=size,
            used=self._used,
            cached=self._cached,
            limit=self._limit,
        )
