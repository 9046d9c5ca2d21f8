"""Device memory: the pool of all arrays, accounts, and eviction."""

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

# Names of 0.2 and the modules that define them.
_COMPAT = {
    "pygpukit._compat.memory": (
        *("MemoryBlock", "MemoryPool", "PoolStats", "RustMemoryBlock", "RustMemoryPool"),
        *("RustPoolStats", "get_default_pool", "set_default_pool"),
    ),
    "pygpukit._compat.pinned": ("PinnedMemoryManager", "PinnedPoolConfig"),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._compat.memory import *  # noqa: F403
    from pygpukit._compat.pinned import *  # noqa: F403

__all__ = [
    "GB",
    "HAS_RUST_BACKEND",
    "KB",
    "MB",
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
if not TYPE_CHECKING:
    __getattr__ = lazy_names("pygpukit.memory", _COMPAT)
    __all__ = sorted({*__all__, *(name for names in _COMPAT.values() for name in names)})
