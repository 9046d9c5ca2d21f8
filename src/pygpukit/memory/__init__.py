"""Device memory: pools with a quota, eviction and page-locked memory."""

from pygpukit.memory.block_pool import (
    GB,
    HAS_RUST_BACKEND,
    KB,
    MB,
    MemoryBlock,
    MemoryPool,
    PinnedMemoryManager,
    PinnedPoolConfig,
    PoolStats,
    RustMemoryBlock,
    RustMemoryPool,
    RustPoolStats,
    get_default_pool,
    set_default_pool,
)

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
