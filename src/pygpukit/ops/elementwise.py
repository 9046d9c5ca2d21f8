"""Ops element by element."""

from pygpukit._native import add, mul

__all__ = ["add", "mul"]
