"""Weights in 4 and 8 bits. See docs/quantization.md."""

from __future__ import annotations

from pygpukit._native import PackedWeight
from pygpukit.ops._declared import quantization as _declared
from pygpukit.ops._declared.quantization import *  # noqa: F403
from pygpukit.ops.scale_search import *  # noqa: F403

__all__ = ["PackedWeight"]
__all__ += _declared.__all__
