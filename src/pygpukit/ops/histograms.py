"""Histograms and order statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import array_argument, host_numbers, require_arrays
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops._declared import histograms as _declared
from pygpukit.ops._declared.histograms import *  # noqa: F403
from pygpukit.ops.searching import as_array

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from pygpukit._native import GPUArray, _ArrayLike

    QuantileMethod = Literal[
        "linear",
        "lower",
        "higher",
        "midpoint",
        "nearest",
        "inverted_cdf",
        "averaged_inverted_cdf",
        "closest_observation",
        "interpolated_inverted_cdf",
        "hazen",
        "weibull",
        "median_unbiased",
        "normal_unbiased",
    ]


def histogram(
    x: _ArrayLike,
    /,
    bins: int | str | GPUArray | Sequence[Any] = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
    weights: _ArrayLike | None = None,
) -> tuple[GPUArray, GPUArray]:
    """(counts, edges): the count of elements (or the sum of weights) in each bin.

    `bins` is the number of equal bins over `range` (default: from the smallest to the largest
    element), a rule for it ('auto', 'fd', 'doane', 'scott', 'stone', 'rice', 'sturges', 'sqrt'),
    or their edges. An array of edges must be ascending, which is not checked; a sequence is
    checked. Weights of a bin are summed in float64 in a fixed order.
    """
    x = array_argument("histogram", "x", x)
    if weights is not None:
        weights = array_argument("histogram", "weights", weights, x)
    if isinstance(bins, str):
        from pygpukit.ops._bin_rules import number_of_bins

        bins = number_of_bins(x, bins, range, weights)
    if not isinstance(bins, _native.GPUArray) and hasattr(bins, "__len__"):
        import numpy as np

        edges = np.asarray(bins)
        if edges.ndim == 1 and (edges[:-1] > edges[1:]).any():
            raise ValueError("histogram: bins must increase monotonically")
        bins = as_array(edges, x)
    return _native.histogram(x, bins, range, bool(density), weights)


def quantile(
    x: _ArrayLike,
    /,
    q: float | Sequence[Any],
    axis: int | tuple[int, ...] | None = None,
    out: GPUArray | None = None,
    overwrite_input: bool = False,
    method: QuantileMethod = "linear",
    keepdims: bool = False,
    *,
    weights: _ArrayLike | None = None,
) -> GPUArray:
    """The quantiles q (0 to 1) of the elements; `method` as in NumPy.

    weights, of the shape of x or of its axis, are for method='inverted_cdf'. overwrite_input
    changes nothing: no input is overwritten.
    """
    return _quantile(x, q, 1.0, axis, out, method, keepdims, weights, "quantile")


def percentile(
    x: _ArrayLike,
    /,
    q: float | Sequence[Any],
    axis: int | tuple[int, ...] | None = None,
    out: GPUArray | None = None,
    overwrite_input: bool = False,
    method: QuantileMethod = "linear",
    keepdims: bool = False,
    *,
    weights: _ArrayLike | None = None,
) -> GPUArray:
    """quantile with percentages (0 to 100)."""
    return _quantile(x, q, 100.0, axis, out, method, keepdims, weights, "percentile")


def median(
    x: _ArrayLike,
    /,
    axis: int | tuple[int, ...] | None = None,
    out: GPUArray | None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> GPUArray:
    """The median along axes: the mean of the middle two for an even count.

    overwrite_input changes nothing: no input is overwritten.
    """
    return _delivered(_native.median(x, axis, keepdims=keepdims), out, "median")


def _quantile(
    x: _ArrayLike,
    q: Any,
    scale: float,
    axis: Any,
    out: Any,
    method: str,
    keepdims: bool,
    weights: Any,
    op: str,
) -> GPUArray:
    x = array_argument(op, "x", x)
    if isinstance(q, _native.GPUArray):
        raise TypeError(f"{op}: q is a GPUArray, expected numbers on the host")
    is_number = isinstance(q, (int, float))
    if is_number:
        shape, fractions = (), [q / scale]
    else:
        table = host_numbers(op, "q", q) / scale
        shape, fractions = table.shape, table.ravel().tolist()
    if method == "linear" and weights is None:
        wide = not is_number
        result = _native.quantile(x, fractions, shape, wide, axis, keepdims, op)
        return _delivered(result, out, op)
    from pygpukit.ops._quantile_methods import (
        METHODS,
        check_weighted,
        quantile_by,
        weighted_quantile,
    )

    if method not in (*METHODS, "linear"):
        known = ", ".join(sorted([*METHODS, "linear"]))
        raise InvalidValueError(
            f"{op}: method is {_native.safe_repr(method)}, expected one of {known}"
        )
    if weights is None:
        result = quantile_by(x, fractions, shape, axis, method, keepdims, op)
    else:
        check_weighted(method, op)
        result = weighted_quantile(x, fractions, shape, axis, weights, keepdims, op)
    return _delivered(result, out, op)


def _delivered(result: GPUArray, out: GPUArray | None, op: str) -> GPUArray:
    """The result, or `out` with it."""
    if out is None:
        return result
    require_arrays(op, out=out)
    if out.shape != result.shape:
        raise InvalidValueError(f"{op}: out has shape {out.shape}, the result {result.shape}")
    return _native.positive(result, out=out)


__all__ = ["histogram", "median", "percentile", "quantile"]
__all__ += _declared.__all__

name_all(globals(), __all__)
