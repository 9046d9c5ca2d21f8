"""The memory pool of version 0.2, on real memory: blocks with a quota and LRU eviction."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from pygpukit._runtime import MemoryBlock as RustMemoryBlock
from pygpukit._runtime import MemoryPool as RustMemoryPool
from pygpukit._runtime import PinnedMemoryManager, PinnedPoolConfig
from pygpukit._runtime import PoolStats as RustPoolStats
from pygpukit.core.errors import InvalidValueError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

KB = 1024
MB = 1024 * KB
GB = 1024 * MB

HAS_RUST_BACKEND = True  # the native one; the name is 0.2's
PoolStats = RustPoolStats


@dataclass(eq=False)
class MemoryBlock:
    """A block of a MemoryPool. Its pool keeps the fields up to date."""

    id: int
    size: int
    device_ptr: int | None = None
    host_data: bytes | None = None
    on_gpu: bool = True
    on_host: bool = False
    last_access: float = field(default_factory=time.time)

    def touch(self) -> None:
        """Notes a use now. MemoryPool.touch also changes the order of eviction."""
        self.last_access = time.time()


class MemoryPool:
    """Blocks by size class. What is used and cached together never exceeds the quota.

    Blocks are real memory of the device (of the host on CPU simulation). Under pressure and with
    `enable_eviction` the least recently used ones move to page-locked host memory.
    """

    SIZE_CLASSES: ClassVar[list[int]] = [
        *(256, 1 * KB, 4 * KB, 16 * KB, 64 * KB, 256 * KB),
        *(1 * MB, 4 * MB, 16 * MB, 64 * MB, 256 * MB),
    ]

    def __init__(self, quota: int, enable_eviction: bool = False) -> None:
        self._pool = RustMemoryPool(quota, enable_eviction)
        self._lock = threading.RLock()
        self._blocks: dict[int, MemoryBlock] = {}
        self._written: dict[int, int] = {}  # bytes written, from the start of the block
        self._moves = 0

    @property
    def quota(self) -> int:
        """The limit in bytes."""
        return self._pool.quota

    @property
    def used(self) -> int:
        """Bytes of live blocks on the device."""
        return self._pool.used

    @property
    def cached(self) -> int:
        """Bytes of free blocks kept for reuse."""
        return self._pool.cached

    @property
    def available(self) -> int:
        """quota - used."""
        return self._pool.available

    def allocate(self, size: int) -> MemoryBlock:
        """A block of at least `size` bytes. MemoryError when the quota has no room."""
        with self._lock:
            number = self._pool.allocate(size)
            block = MemoryBlock(number, self._pool.get_block_size(number))
            self._blocks[number] = block
            self._refresh(block)
            self._refresh_moved()
            return block

    def free(self, block: MemoryBlock) -> None:
        """Keeps the block's memory for the next allocation of its size."""
        with self._lock:
            self._check(block, "free")
            self._pool.free(block.id)
            del self._blocks[block.id]
            self._written.pop(block.id, None)
            block.on_gpu = block.on_host = False
            block.device_ptr = None

    def touch(self, block: MemoryBlock) -> None:
        """Makes the block the most recently used one."""
        with self._lock:
            self._check(block, "touch")
            self._pool.touch(block.id)
            block.touch()

    def evict(self, block: MemoryBlock) -> None:
        """Moves the block's bytes to host memory."""
        with self._lock:
            self._check(block, "evict")
            self._pool.evict(block.id)
            self._refresh_moved()

    def restore(self, block: MemoryBlock) -> None:
        """Moves the block's bytes back to the device; others may be evicted for it."""
        with self._lock:
            self._check(block, "restore")
            self._pool.restore(block.id)
            self._refresh_moved()

    def write(self, block: MemoryBlock, data: NDArray[Any]) -> None:
        """Copies an array's bytes into the block, wherever it is."""
        import numpy as np

        array = np.ascontiguousarray(data)
        with self._lock:
            self._check(block, "write")
            self._pool.write(block.id, array.reshape(-1).view(np.uint8).data)
            self._written[block.id] = max(self._written.get(block.id, 0), array.nbytes)
            self._refresh(block)

    def read(self, block: MemoryBlock, dtype: DTypeLike = "float32") -> NDArray[Any]:
        """A copy of the bytes written so far (all of them when none were), in one dimension."""
        import numpy as np

        kind: np.dtype[Any] = np.dtype(dtype)
        with self._lock:
            self._check(block, "read")
            size = self._written.get(block.id, block.size)
            out = np.empty(size // kind.itemsize, kind)
            if out.size:
                self._pool.read_into(block.id, out.view(np.uint8).data)
            self._refresh(block)
            return out

    def stats(self) -> dict[str, int]:
        """The figures now; sizes in bytes."""
        stats = self._pool.stats()
        return {
            "quota": stats.quota,
            "used": stats.used,
            "cached": stats.cached,
            "available": stats.available,
            "allocation_count": stats.allocation_count,
            "reuse_count": stats.reuse_count,
            "eviction_count": stats.eviction_count,
            "cudamalloc_count": stats.cudamalloc_count,
            "active_blocks": stats.active_blocks,
            "free_blocks": stats.free_blocks,
        }

    def trim(self) -> int:
        """Gives free blocks back to the device; bytes."""
        return self._pool.trim()

    def clear(self) -> None:
        """Frees everything, live blocks too."""
        with self._lock:
            self._pool.clear()
            for block in self._blocks.values():
                block.on_gpu = block.on_host = False
                block.device_ptr = None
            self._blocks.clear()
            self._written.clear()

    def _check(self, block: MemoryBlock, what: str) -> None:
        if self._blocks.get(block.id) is not block:
            raise InvalidValueError(
                f"MemoryPool.{what}: block {block.id} is not a live block of this pool"
            )

    def _refresh(self, block: MemoryBlock) -> None:
        now = self._pool.get_block(block.id)
        if now is not None:
            block.device_ptr, block.last_access = now.device_ptr, now.last_access
            block.on_gpu, block.on_host = now.on_gpu, now.on_host

    def _refresh_moved(self) -> None:
        stats = self._pool.stats()
        moves = stats.eviction_count + stats.restore_count
        if moves != self._moves:
            self._moves = moves
            for block in self._blocks.values():
                self._refresh(block)


_default_pool: MemoryPool | None = None


def get_default_pool() -> MemoryPool | None:
    """The pool given to set_default_pool, or None."""
    return _default_pool


def set_default_pool(pool: MemoryPool | None) -> None:
    """Sets what get_default_pool gives. Arrays live in a pool of their own."""
    global _default_pool
    _default_pool = pool


__all__ = [
    "GB",
    "HAS_RUST_BACKEND",
    "KB",
    "MB",
    "MemoryBlock",
    "MemoryPool",
    "PinnedMemoryManager",
    "PinnedPoolConfig",
    "PoolStats",
    "RustMemoryBlock",
    "RustMemoryPool",
    "RustPoolStats",
    "get_default_pool",
    "set_default_pool",
]
