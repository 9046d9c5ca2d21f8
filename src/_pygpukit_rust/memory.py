"""Memory pools."""

from pygpukit.memory import RustMemoryBlock as MemoryBlock
from pygpukit.memory import RustMemoryPool as MemoryPool
from pygpukit.memory import RustPoolStats as PoolStats

__all__ = [
    "MemoryBlock",
    "MemoryPool",
    "PoolStats",
]
