"""The array."""

from pygpukit._native import GPUArray

__all__ = ["GPUArray"]
