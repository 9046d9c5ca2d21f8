"""Llama 4, where 0.2 had it."""

from pygpukit._compat.llama4 import Llama4Config, Llama4Model

__all__ = ["Llama4Config", "Llama4Model"]
