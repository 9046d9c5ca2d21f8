"""The memory pool of a device, who pays for memory, and which arrays may leave the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import MemoryAccount, trim

if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def stats(device: str | int | None = None) -> dict[str, int]:
    """Figures of the pool, in bytes: limit, used, cached, reserved, peak_used, evicted, ...

    used + cached = reserved, the physical memory held, in units of chunk. Counts: blocks,
    allocations, reuses, driver_calls, host_waits, evictions, restores. docs/memory.md has them all.
    """
    return _native.memory_stats(device)


def accounts(device: str | int | None = None) -> dict[str, dict[str, int]]:
    """Figures of the open accounts by name: used, peak, limit (bytes), refused (a count)."""
    return _native.memory_accounts(device)


def snapshot(device: str | int | None = None) -> list[dict[str, Any]]:
    """The pieces of the pool in address order, each with kind, address and bytes."""
    return _native.memory_snapshot(device)


def set_limit(limit: int | str | None, device: str | int | None = None) -> None:
    """The most physical memory the pool may hold: bytes, "8GiB", "80%" of the device's, or None.

    Trims and evicts where the new limit asks for it; OutOfMemory, and the old limit stays, when
    that is not enough.
    """
    _native.set_memory_limit(limit, device)


def account(
    name: str,
    limit: int | str | None = None,
    *,
    evict_class: str = "burstable",
    device: str | int | None = None,
) -> MemoryAccount:
    """The account of that name, made where there is none: who pays for memory, up to a limit.

    ``with gp.memory.account("tenant", "2GiB"):`` makes allocations of the calling thread on the
    device count against it. One that would pass the limit raises OutOfMemory, which names the
    account, the bytes asked for, its use and its limit; others go on. `limit` is as in set_limit();
    left out, it stays as it is. `evict_class` ("guaranteed", "burstable", "best_effort") says whose
    evictable arrays leave first: those of a lower class, and only for its own or a higher one. The
    account lives as long as you, a ``with`` block or one of its arrays holds it.
    """
    return _native.memory_account(name, limit, evict_class=evict_class, device=device)


def evictable(array: GPUArray, evictable: bool = True) -> bool:
    """Lets an array leave the device when memory is short, least recently used first.

    It keeps its address, and comes back before any op uses it. Returns whether that can free
    memory: only the whole chunks of the pool that an array has to itself can leave, and small
    arrays share theirs. Memory whose address others know (`device_ptr`, DLPack, graphs) stays.
    """
    return _native.memory_evictable(array, evictable)


def set_evictable_default(min_bytes: int | str | None, device: str | int | None = None) -> None:
    """Makes new arrays of that size or larger evictable, in whole chunks; None: none of them."""
    _native.set_evictable_default(min_bytes, device)


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
    """Brings the array back and keeps it on the device until unpin() was called as often."""
    _native.memory_pin(array)


def unpin(array: GPUArray) -> None:
    """Takes one pin() back."""
    _native.memory_unpin(array)


def freeze(array: GPUArray) -> None:
    """Promises that nobody writes the array's memory any more: weights, once they are loaded.

    Waits for the device, so that all of it is there. From then on kernels of few rows (decoding)
    fetch such weights while the kernel before them still runs. Ops refuse to write it (ValueError);
    what custom kernels and other libraries do with its address is up to you.
    """
    _native.memory_freeze(array)


def is_frozen(array: GPUArray) -> bool:
    """True after freeze(), for all arrays that share the memory."""
    return _native.memory_is_frozen(array)


def is_evicted(array: GPUArray) -> bool:
    """True while the array's bytes are in host memory."""
    return _native.memory_is_evicted(array)


__all__ = [
    "MemoryAccount",
    "account",
    "accounts",
    "evict",
    "evictable",
    "freeze",
    "is_evicted",
    "is_frozen",
    "pin",
    "prefetch",
    "restore",
    "set_evictable_default",
    "set_limit",
    "snapshot",
    "stats",
    "touch",
    "trim",
    "unpin",
]
