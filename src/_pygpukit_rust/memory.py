"""Memory pools."""

from pygpukit._runtime import (
    MemoryBlock,
    MemoryPool,
    PoolStats,
)

__all__ = [
    "MemoryBlock",
    "MemoryPool",
    "PoolStats",
]
