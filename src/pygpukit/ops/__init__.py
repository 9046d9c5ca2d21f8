"""The ops as functions."""

from pygpukit.ops import basic, elementwise
from pygpukit.ops.basic import add, mul

__all__ = ["add", "basic", "elementwise", "mul"]
