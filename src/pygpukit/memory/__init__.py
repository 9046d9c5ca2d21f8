"""Device memory: the pool all arrays live in, its limits, and arrays that may leave the device."""

from __future__ import annotations

from pygpukit.memory.pool_control import (
    MemoryAccount,
    account,
    accounts,
    evict,
    evictable,
    is_evicted,
    pin,
    prefetch,
    restore,
    set_evictable_default,
    set_limit,
    snapshot,
    stats,
    touch,
    trim,
    unpin,
)

__all__ = [
    "MemoryAccount",
    "account",
    "accounts",
    "evict",
    "evictable",
    "is_evicted",
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
