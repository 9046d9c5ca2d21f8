"""Creation of arrays."""

from pygpukit._native import empty, from_numpy, full, ones, zeros

__all__ = ["empty", "from_numpy", "full", "ones", "zeros"]
