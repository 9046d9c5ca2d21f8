"""Every op under one name."""

from pygpukit.ops.elementwise import add, mul

__all__ = ["add", "mul"]
