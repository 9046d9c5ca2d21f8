"""Histograms and order statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import require_arrays
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops._declared import histograms as _declared
from pygpukit.ops._declared.histograms import *  # noqa: F403
from pygpukit.ops.searching import as_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygpukit._native import GPUArray


def histogram(
    x: GPUArray,
    bins: int | GPUArray | Sequence[Any] = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
    weights: GPUArray | None = None,
) -> tuple[GPUArray, GPUArray]:
    """(counts, edges): the count of elements (or the sum of weights) in each bin.

    `bins` is the number of equal bins over `range` (default: from the smallest to the largest
    element), or their edges. An array of edges must be ascending, which is not checked; a
    sequence is checked. Weights of a bin are summed in float64 in a fixed order.
    """
    require_arrays("histogram", x=x)
    if not isinstance(bins, _native.GPUArray) and hasattr(bins, "__len__"):
        import numpy as np

        edges = np.asarray(bins)
        if edges.ndim == 1 and (edges[:-1] > edges[1:]).any():
            raise ValueError("histogram: bins must increase monotonically")
        bins = as_array(edges, x)
    return _native.histogram(x, bins, range, bool(density), weights)


def quantile(
    x: GPUArray,
    q: float | Sequence[Any],
    axis: int | tuple[int, ...] | None = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> GPUArray:
    """The quantiles q (0 to 1) of the elements, linearly interpolated."""
    return _quantile(x, q, 1.0, axis, method, keepdims, "quantile")


def percentile(
    x: GPUArray,
    q: float | Sequence[Any],
    axis: int | tuple[int, ...] | None = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> GPUArray:
    """quantile with percentages (0 to 100)."""
    return _quantile(x, q, 100.0, axis, method, keepdims, "percentile")


def _quantile(
    x: GPUArray, q: Any, scale: float, axis: Any, method: str, keepdims: bool, op: str
) -> GPUArray:
    if method != "linear":
        raise InvalidValueError(
            f"{op}: method is {_native.safe_repr(method)}, only 'linear' is supported"
        )
    if isinstance(q, (int, float)):
        return _native.quantile(x, [q / scale], (), False, axis, keepdims, op)
    import numpy as np

    if isinstance(q, _native.GPUArray):
        raise TypeError(f"{op}: q is a GPUArray, expected numbers on the host")
    fractions = np.asarray(q, dtype=np.float64) / scale
    return _native.quantile(
        x, fractions.ravel().tolist(), fractions.shape, True, axis, keepdims, op
    )


__all__ = ["histogram", "percentile", "quantile"]
__all__ += _declared.__all__
