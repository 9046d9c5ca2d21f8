"""Cepstral coefficients and their slopes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.audio._arguments import rows, table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pygpukit._native import GPUArray


def dct_values(n: int, count: int) -> NDArray[np.float64]:
    """The first `count` columns [n, count] of the orthonormal DCT-II."""
    import numpy as np

    k = np.arange(count)
    basis: NDArray[np.float64]
    basis = np.cos(math.pi / n * (np.arange(n)[:, None] + 0.5) * k) * math.sqrt(2.0 / n)
    basis[:, 0] *= math.sqrt(0.5)
    return basis


def mfcc(log_mel: GPUArray, n_mfcc: int = 13) -> GPUArray:
    """The orthonormal DCT-II of log_mel [..., frames, n_mels]: [..., frames, n_mfcc]."""
    x = rows("mfcc", "log_mel", log_mel, 1)
    count = whole("mfcc", "n_mfcc", n_mfcc, 1)
    if count > x.shape[-1]:
        raise InvalidValueError(f"mfcc: n_mfcc is {count}, expected up to {x.shape[-1]} mels")
    return _native.matmul(x, table(dct_values, (x.shape[-1], count), x))


def delta(features: GPUArray, order: int = 1, width: int = 2) -> GPUArray:
    """The slope along the frames of [..., frames, n], by regression over 2 width + 1 of them.

    The first and the last frame are repeated at the ends. order 2 is the slope of the slope.
    """
    x = rows("delta", "features", features)
    order = whole("delta", "order", order, 1, 16)
    width = whole("delta", "width", width, 1, 4096)
    if x.size == 0:
        return _native.copy(x)
    scale = 1.0 / (2 * sum(k * k for k in range(1, width + 1)))
    count = x.shape[-2]
    for _ in range(order):
        widths = [(0, 0)] * (x.ndim - 2) + [(width, width), (0, 0)]
        padded = _native.pad(x, widths, "edge", [])
        total: GPUArray | None = None
        for k in range(1, width + 1):
            ahead = padded[..., width + k : width + k + count, :]
            behind = padded[..., width - k : width - k + count, :]
            term = _native.multiply(_native.subtract(ahead, behind), k * scale)
            total = term if total is None else _native.add(total, term)
        assert total is not None
        x = total
    return x


__all__ = ["delta", "mfcc"]
