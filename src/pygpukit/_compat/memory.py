"""MemoryPool of 0.2: blocks by size class with a quota, in the memory pool of the device.

A block is a uint8 array that counts against an account of the pool's own. An evicted block is in
pinned host memory.
"""

from __future__ import annotations

import itertools
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from pygpukit import _native
from pygpukit._compat.common import Locked, figures, forward
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError, OutOfMemory
from pygpukit.memory import MB
from pygpukit.memory.pool_control import account as open_account
from pygpukit.transfer import TransferFuture, submit_d2h, submit_h2d

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_pool_numbers = itertools.count(1)
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
        known: dict[str, Any] = {"used": self._used, "cached": self._cached, "limit": self._limit}
        text = ", ".join(f"{name} {value}" for name, value in known.items())
        raise OutOfMemory(f"{self._name}: cannot get {size} bytes: {text}", asked=size, **known)

    def _give_back(self, memory: Memory, size: int) -> None:
        self._free.setdefault(size, []).append(memory)
        self._used -= size
        self._cached += size

    def clear_pool(self) -> int:
        """Drops all free memory; bytes."""
        self._free.clear()
        before, self._cached = self._cached, 0
        return before

    def clear(self) -> None:
        """Drops everything, live blocks too."""
        self.clear_pool()
        self._blocks.clear()
        self._used = 0


@dataclass(eq=False)
class MemoryBlock:
    """A block of a MemoryPool, which keeps the fields up to date."""

    id: int
    size: int
    device_ptr: int | None = None
    host_data: NDArray[Any] | None = None
    on_gpu: bool = True
    on_host: bool = False
    last_access: float = field(default_factory=time.time)
    _array: _native.GPUArray | None = field(default=None, repr=False)
    _written: int = field(default=0, repr=False)  # bytes, from the start
    _given: bytes | None = field(default=None, repr=False)  # to set_host_data

    def touch(self) -> None:
        """Notes a use now. MemoryPool.touch also changes the order of eviction."""
        self.last_access = time.time()

    def is_available(self) -> bool:
        return self.on_gpu

    def is_evicted(self) -> bool:
        return self.on_host and not self.on_gpu

    def _move(self, array: _native.GPUArray | None, host: NDArray[Any] | None = None) -> None:
        self._array, self.host_data = array, host
        self.on_gpu, self.on_host = array is not None, host is not None
        self.device_ptr = None if array is None else array.device_ptr


class PoolStats(NamedTuple):
    """Figures of a MemoryPool; sizes in bytes."""

    quota: int
    used: int  # live blocks on the device
    cached: int  # free blocks
    available: int  # quota - used
    allocation_count: int
    reuse_count: int
    eviction_count: int
    cudamalloc_count: int
    active_blocks: int
    free_blocks: int


class MemoryPool(SizeClasses[_native.GPUArray, MemoryBlock]):
    """Blocks with a quota; optionally the least recently used ones are evicted."""

    SIZE_CLASSES: ClassVar[list[int]] = [256 * 4**i for i in range(11)]  # 256 B to 256 MiB
    _name = "MemoryPool"

    def __init__(self, quota: int, enable_eviction: bool = False) -> None:
        quota = whole("MemoryPool", "quota", quota, 1)
        super().__init__(quota, MB)
        self._account = open_account(f"MemoryPool {next(_pool_numbers)}", quota)
        self._evicts = bool(enable_eviction)
        self._next_id = self.eviction_count = 0

    quota, used, cached = forward("_limit"), forward("_used"), forward("_cached")
    available = property(lambda self: self._limit - self._used)
    cudamalloc_count = forward("_made")

    def allocate(self, size: int) -> MemoryBlock:
        size, array, _ = self._allocate(size)
        block = MemoryBlock(self._next_id, size)
        block._move(array)
        self._blocks[block.id] = block  # in the order of use, the last one is the latest
        self._next_id += 1
        return block

    def _live(self, what: str, block: MemoryBlock | int) -> MemoryBlock:
        if isinstance(block, int):
            return self._block(what, block)
        if self._blocks.get(block.id) is not block:
            raise InvalidValueError(f"MemoryPool.{what}: block {block.id} is not a live block")
        return block

    def free(self, block: MemoryBlock | int) -> None:
        """Keeps the block's memory for the next allocation of its size."""
        block = self._live("free", block)
        del self._blocks[block.id]
        if block._array is not None:
            self._give_back(block._array, block.size)
        block._move(None)

    def touch(self, block: MemoryBlock | int) -> None:
        block = self._live("touch", block)
        self._blocks[block.id] = self._blocks.pop(block.id)
        block.touch()

    def evict(self, block: MemoryBlock | int) -> None:
        block = self._live("evict", block)
        if block._array is None:
            return
        host = _native.pinned_empty(block.size, "uint8", device=self._account.device)
        self._copy(submit_d2h, block, host)
        block._move(None, host)
        self._used -= block.size
        self.eviction_count += 1

    def restore(self, block: MemoryBlock | int) -> None:
        """Brings the block back; others may be evicted for it."""
        block = self._live("restore", block)
        self.touch(block)
        if block.host_data is not None:
            array = self._take(block.size)
            submit_h2d(array, block.host_data).wait()
            block._move(array)

    def write(self, block: MemoryBlock | int, data: NDArray[Any]) -> None:
        """Copies an array's bytes to the start of the block, wherever it is."""
        import numpy as np

        source = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        block, size = self._live("write", block), source.nbytes
        self.touch(block)
        if size > block.size:
            raise InvalidValueError(
                f"MemoryPool.write: {size} bytes for block {block.id} of {block.size}"
            )
        if block.host_data is not None:
            block.host_data[:size] = source
        self._copy(submit_h2d, block, source)
        block._written = max(block._written, size)

    def read(self, block: MemoryBlock | int, dtype: DTypeLike = "float32") -> NDArray[Any]:
        """A copy of the bytes written so far (all of them when none were), in one dimension."""
        import numpy as np

        kind: np.dtype[Any] = np.dtype(dtype)
        block = self._live("read", block)
        self.touch(block)
        out = np.empty((block._written or block.size) // kind.itemsize, kind)
        there = out.view(np.uint8)
        if block.host_data is not None:
            there[:] = block.host_data[: there.nbytes]
        self._copy(submit_d2h, block, there)
        return out

    def _copy(self, submit: Callable[..., TransferFuture], block: MemoryBlock, host: Any) -> None:
        if block._array is not None and host.nbytes:
            _native.synchronize()  # kernels that were given the address
            submit(block._array[: host.nbytes], host).wait()

    def clear(self) -> None:
        _native.synchronize()
        for block in self._blocks.values():
            block._move(None)
        super().clear()

    def stats(self) -> dict[str, int]:
        return figures(PoolStats, self)._asdict()

    def _make(self, size: int) -> _native.GPUArray:
        with self._account:
            return _native.empty(size, "uint8", device=self._account.device)

    def _make_room(self) -> bool:
        if super()._make_room():
            return True
        oldest = next((b for b in self._blocks.values() if self._evicts and b.on_gpu), None)
        if oldest is not None:
            self.evict(oldest)
        return oldest is not None


class RustMemoryPool(MemoryPool):
    """The same pool with blocks by id, as `_pygpukit_rust` has it."""

    def allocate(self, size: int) -> int:  # type: ignore[override]
        return super().allocate(size).id

    def stats(self) -> PoolStats:  # type: ignore[override]
        return figures(PoolStats, self)

    def get_block(self, block_id: int) -> MemoryBlock | None:
        return self._blocks.get(block_id)

    def set_device_ptr(self, block_id: int, ptr: int) -> None:
        """What get_block reports until the block moves. Its memory stays as it is."""
        ptr = whole("MemoryPool.set_device_ptr", "ptr", ptr)
        self._block("set_device_ptr", block_id).device_ptr = ptr

    def set_host_data(self, block_id: int, data: bytes) -> None:
        import numpy as np

        self.write(block_id, np.frombuffer(data, np.uint8))
        self._block("set_host_data", block_id)._given = bytes(data)

    def get_host_data(self, block_id: int) -> bytes | None:
        """What set_host_data was given, or all bytes of an evicted block, or None."""
        block = self._block("get_host_data", block_id)
        if block._given is None and block.host_data is not None:
            return block.host_data.tobytes()
        return block._given

    def clear_host_data(self, block_id: int) -> None:
        self._block("clear_host_data", block_id)._given = None

    def get_block_size(self, block_id: int) -> int:
        return self._block("get_block_size", block_id).size

    def is_block_on_gpu(self, block_id: int) -> bool:
        return self._block("is_block_on_gpu", block_id).on_gpu


RustMemoryBlock = MemoryBlock
RustPoolStats = PoolStats

_default_pool: MemoryPool | None = None


def get_default_pool() -> MemoryPool | None:
    return _default_pool


def set_default_pool(pool: MemoryPool | None) -> None:
    global _default_pool
    _default_pool = pool
