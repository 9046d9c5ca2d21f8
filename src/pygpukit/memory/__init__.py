"""Device memory: the pool all arrays live in, who pays, and arrays that may leave the device."""

from pygpukit._lazy import lazy_names
from pygpukit.memory.pool_control import (
    MemoryAccount,
    account,
    accounts,
    evict,
    evictable,
    freeze,
    is_evicted,
    is_frozen,
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

KB = 1024
MB = 1024 * KB
GB = 1024 * MB

HAS_RUST_BACKEND = True  # the name is 0.2's

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._compat.memory import (
        MemoryBlock,
        MemoryPool,
        PoolStats,
        RustMemoryBlock,
        RustMemoryPool,
        RustPoolStats,
        get_default_pool,
        set_default_pool,
    )
    from pygpukit._compat.pinned import PinnedMemoryManager, PinnedPoolConfig
else:
    __getattr__ = lazy_names(
        "pygpukit.memory",
        {
            "pygpukit._compat.memory": (
                "MemoryBlock",
                "MemoryPool",
                "PoolStats",
                "RustMemoryBlock",
                "RustMemoryPool",
                "RustPoolStats",
                "get_default_pool",
                "set_default_pool",
            ),
            "pygpukit._compat.pinned": ("PinnedMemoryManager", "PinnedPoolConfig"),
        },
    )

__all__ = [
    "GB",
    "HAS_RUST_BACKEND",
    "KB",
    "MB",
    "MemoryAccount",
    "MemoryBlock",
    "MemoryPool",
    "PinnedMemoryManager",
    "PinnedPoolConfig",
    "PoolStats",
    "RustMemoryBlock",
    "RustMemoryPool",
    "RustPoolStats",
    "account",
    "accounts",
    "evict",
    "evictable",
    "freeze",
    "get_default_pool",
    "is_evicted",
    "is_frozen",
    "pin",
    "prefetch",
    "restore",
    "set_default_pool",
    "set_evictable_default",
    "set_limit",
    "snapshot",
    "stats",
    "touch",
    "trim",
    "unpin",
]
