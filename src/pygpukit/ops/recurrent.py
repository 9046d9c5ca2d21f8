"""Recurrent layers (PyTorch's order of gates) and Mamba's selective scan."""

from __future__ import annotations

from pygpukit.ops._declared import recurrent as _declared
from pygpukit.ops._declared.recurrent import *  # noqa: F403

__all__: list[str] = []
__all__ += _declared.__all__
