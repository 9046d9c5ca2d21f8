"""Convolutions of sequences [batch, channels, length] and images [batch, channels, h, w]."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import require_arrays
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops._declared import conv as _declared
from pygpukit.ops._declared.conv import *  # noqa: F403

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def fold_weight_norm(g: GPUArray, v: GPUArray, *, eps: float = 1e-12) -> GPUArray:
    """The weight of a weight-normalised layer: g * v / sqrt(sum(v**2) + eps), per first axis.

    g has an element for each entry of v's first axis. The result has v's dtype.
    """
    op = "fold_weight_norm"
    require_arrays(op, g=g, v=v)
    if v.ndim < 2 or not v.size or g.size != v.shape[0]:
        raise InvalidValueError(
            f"{op}: g has shape {g.shape}, v {v.shape}; expected one g for each entry of v's first "
            "axis"
        )
    rows = _native.astype(v, "float32").reshape((v.shape[0], v.size // v.shape[0]))
    # sum(v**2) is the mean times their number, which comes out of the square root.
    count = rows.shape[1]
    scale = _native.divide(_native.astype(g, "float32").reshape((v.shape[0], 1)), count**0.5)
    folded = _native.multiply(_native.l2norm(rows, eps / count), scale)
    return _native.astype(folded.reshape(v.shape), v.dtype)


__all__ = ["fold_weight_norm"]
__all__ += _declared.__all__

name_all(globals(), __all__)
