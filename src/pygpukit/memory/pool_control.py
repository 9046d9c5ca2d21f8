"""The memory pool of a device, and which arrays may leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import trim

if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def stats(device: str | int | None = None) -> dict[str, int]:
    """Figures of the pool, in bytes: limit, used, cached, reserved, peak_used, evicted, ..."""
    return _native.memory_stats(device)


def snapshot(device: str | int | None = None) -> list[dict[str, Any]]:
    """The pieces of the pool in address order, each with kind, address and bytes."""
    return _native.memory_snapshot(device)


def set_limit(limit: int | str, device: str | int | None = None) -> None:
    """The most physical memory the pool may hold: bytes, "80%" of the device's, or 0 for no limit.

    Trims and evicts where the new limit asks for it; OutOfMemory, and the old limit stays, when that
    is not enough.
    """
    _native.set_memory_limit(_limit_bytes(limit, device), device)


def _limit_bytes(limit: int | str, device: str | int | None) -> int:
    if isinstance(limit, str):
        share = limit.removesuffix("%")
        if share == limit:
            raise ValueError(f"memory.set_limit: limit is {limit!r}, expected bytes or a percentage")
        percent = float(share)
        if not 0 < percent <= 100:
            raise ValueError(f"memory.set_limit: limit is {limit!r}, expected more than 0 and at most 100 %")
        return int(_native.memory_info(device)[1] * percent / 100)
    if limit < 0:
        raise ValueError(f"memory.set_limit: limit is {limit}, expected 0 or more")
    return limit


def evictable(array: GPUArray, evictable: bool = True) -> bool:
    """Lets an array leave the device when memory is short, least recently used first.

    It keeps its address, and comes back before any op uses it. Returns whether that can free memory:
    arrays smaller than a chunk of the pool (2 MiB) share theirs with others. Memory whose address
    others know (`device_ptr`, DLPack, graphs) stays.
    """
    return _native.memory_evictable(array, evictable)


def evict(array: GPUArray) -> int:
    """Moves the array to pinned host memory now. Returns the bytes of device memory freed."""
    return _native.memory_evict(array)


def restore(array: GPUArray) -> None:
    """Brings an evicted array back, in the order of the current stream."""
    _native.memory_restore(array)


def prefetch(array: GPUArray) -> bool:
    """Starts to bring an evicted array back, beside the work of all streams. False: no room."""
    return _native.memory_prefetch(array)


def touch(array: GPUArray) -> None:
    """Makes the array the most recently used one."""
    _native.memory_touch(array)


def pin(array: GPUArray) -> None:
    """Keeps the array on the device until unpin() was called as often."""
    _native.memory_pin(array)


def unpin(array: GPUArray) -> None:
    """Takes one pin() back."""
    _native.memory_unpin(array)


def is_evicted(array: GPUArray) -> bool:
    """True while the array's bytes are in host memory."""
    return _native.memory_is_evicted(array)


__all__ = [
    "evict",
    "evictable",
    "is_evicted",
    "pin",
    "prefetch",
    "restore",
    "set_limit",
    "snapshot",
    "stats",
    "touch",
    "trim",
    "unpin",
]
