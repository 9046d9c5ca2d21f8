"""Views with strides of one's own, under NumPy's name."""

from pygpukit.ops.manipulation import broadcast_arrays, broadcast_shapes, broadcast_to
from pygpukit.ops.stride_tricks import as_strided, sliding_window_view

__all__ = [
    "as_strided",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "sliding_window_view",
]
