"""The memory pool of a device: limits, accounts and eviction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import MemoryAccount, trim

if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def stats(device: str | int | None = None) -> dict[str, int]:
    """Statistics of the pool, in bytes: limit, used, cached, reserved, peak_used, evicted, ...

    used + cached = reserved, the physical memory held, in units of chunk. Counts: blocks,
    allocations, reuses, driver_calls, host_waits, evictions, restores. docs/memory.md has them all.
    """
    return _native.memory_stats(device)


def accounts(device: str | int | None = None) -> dict[str, dict[str, int]]:
    """Statistics of the open accounts by name: used, peak, limit (bytes), refused (a count)."""
    return _native.memory_accounts(device)


def snapshot(device: str | int | None = None) -> list[dict[str, Any]]:
    """The blocks of the pool in address order, each with kind, address and bytes."""
    return _native.memory_snapshot(device)


def set_limit(limit: int | str | None, device: str | int | None = None) -> None:
    """The most physical memory the pool may hold: bytes, "8GiB", "80%" of the device's, or None.

    Trims and evicts as the new limit requires; raises OutOfMemory, keeping the old limit, when
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
    """The account of that name, created where there is none: a byte count with a limit.

    ``with gp.memory.account("tenant", "2GiB"):`` charges allocations of the calling thread on the
    device to it. One above the limit raises OutOfMemory, which names the account, the
    requested bytes, its use and its limit; other accounts are not affected. `limit` is as in
    set_limit(); omitted, it is unchanged. `evict_class` ("guaranteed", "burstable",
    "best_effort") orders eviction: arrays of a lower class first, and never for a lower one. The
    account lives as long as you, a ``with`` block or one of its arrays holds it.
    """
    return _native.memory_account(name, limit, evict_class=evict_class, device=device)


def evictable(array: GPUArray, evictable: bool = True) -> bool:
    """Allows the eviction of an array when memory is short, least recently used first.

    It keeps its address, and is restored before any op uses it. Returns whether that can free
    memory: only whole chunks of the pool that an array has to itself can be evicted, and small
    arrays share theirs. Memory whose address was exported (`device_ptr`, DLPack, graphs) stays.
    """
    return _native.memory_evictable(array, evictable)


def set_evictable_default(min_bytes: int | str | None, device: str | int | None = None) -> None:
    """Makes new arrays of that size or larger evictable, in whole chunks; None: none of them."""
    _native.set_evictable_default(min_bytes, device)


def evict(array: GPUArray) -> int:
    """Evicts the array to pinned host memory now. Returns the bytes of device memory freed."""
    return _native.memory_evict(array)


def restore(array: GPUArray) -> None:
    """Restores an evicted array, in the order of the current stream."""
    _native.memory_restore(array)


def prefetch(array: GPUArray) -> bool:
    """Starts restoring an evicted array in the background. False: no room."""
    return _native.memory_prefetch(array)


def touch(array: GPUArray) -> None:
    """Marks the array as most recently used."""
    _native.memory_touch(array)


def pin(array: GPUArray) -> None:
    """Restores the array and keeps it resident until the matching unpin()."""
    _native.memory_pin(array)


def unpin(array: GPUArray) -> None:
    """Undoes one pin()."""
    _native.memory_unpin(array)


def freeze(array: GPUArray) -> None:
    """Declares that nothing will write the array's memory again: weights, once they are loaded.

    Waits for pending writes. From then on GEMV kernels (decoding) may prefetch such weights while
    the previous kernel still runs. Ops refuse to write it (ValueError);
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
