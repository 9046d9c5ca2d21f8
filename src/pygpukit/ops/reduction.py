"""Reductions along axes. Deterministic: the same bits every time on one kind of GPU.

Without ``axis`` the result is a 0-d array. ``axis`` is an int or a tuple of ints, ``keepdims``
leaves the reduced axes in place with size 1, ``out`` takes a dtype the result can be cast to.
float16, bfloat16 and float32 add up in float64 on both backends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import require_arrays

if TYPE_CHECKING:
    from pygpukit._native import GPUArray

    Axis = int | tuple[int, ...] | None


def sum(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Sum of elements along axes; of bool and integers int64 or uint64, which wrap.

    ``dtype`` asks for another result dtype. Of nothing: 0.
    """
    return _native.sum(x, axis, dtype, keepdims, out)


def prod(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Product of elements along axes; of bool and integers int64 or uint64, which wrap.

    ``dtype`` asks for another result dtype. Of nothing: 1.
    """
    return _native.prod(x, axis, dtype, keepdims, out)


def mean(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Mean of elements along axes; of bool and integers float64. Of nothing: NaN."""
    return _native.mean(x, axis, dtype, keepdims, out)


def max(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Largest element along axes; NaN if there is one. Complex by real part, then imaginary."""
    return _native.max(x, axis, keepdims, out)


def min(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Smallest element along axes; NaN if there is one. Complex by real part, then imaginary."""
    return _native.min(x, axis, keepdims, out)


def any(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Whether any element along axes is not zero."""
    return _native.any(x, axis, keepdims, out)


def all(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Whether no element along axes is zero."""
    return _native.all(x, axis, keepdims, out)


def count_nonzero(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Number of elements along axes that are not zero, as int64."""
    return _native.count_nonzero(x, axis, keepdims, out)


def argmax(
    x: GPUArray,
    /,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Index (int64) of the first largest element along an axis, or in C order; NaN wins."""
    return _native.argmax(x, axis, keepdims, out)


def argmin(
    x: GPUArray,
    /,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Index (int64) of the first smallest element along an axis, or in C order; NaN wins."""
    return _native.argmin(x, axis, keepdims, out)


def var(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dtype: Any = None,
    out: GPUArray | None = None,
) -> GPUArray:
    """Variance of elements along axes: squares about the mean over n - correction.

    Of bool and integers float64, of complex arrays the real dtype.
    """
    return _native.var(x, axis, correction, keepdims, dtype, out)


def std(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dtype: Any = None,
    out: GPUArray | None = None,
) -> GPUArray:
    """Standard deviation of elements along axes: the square root of var."""
    return _native.std(x, axis, correction, keepdims, dtype, out)


def nansum(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """sum without NaN, which counts as 0."""
    return _native.nansum(x, axis, dtype, keepdims, out)


def nanprod(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """prod without NaN, which counts as 1."""
    return _native.nanprod(x, axis, dtype, keepdims, out)


def nanmean(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """mean of the elements that are not NaN; NaN where there are none."""
    return _native.nanmean(x, axis, dtype, keepdims, out)


def nanmax(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """max of the elements that are not NaN; NaN where there are none."""
    return _native.nanmax(x, axis, keepdims, out)


def nanmin(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """min of the elements that are not NaN; NaN where there are none."""
    return _native.nanmin(x, axis, keepdims, out)


def nanargmax(
    x: GPUArray,
    /,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Index of the first largest element that is not NaN, along an axis or in C order.

    Where there is none: ValueError on the CPU, as in NumPy. A GPU cannot tell without waiting for
    its result and gives -1.
    """
    return _native.nanargmax(x, axis, keepdims, out)


def nanargmin(
    x: GPUArray,
    /,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Index of the first smallest element that is not NaN, along an axis or in C order.

    Where there is none: ValueError on the CPU, as in NumPy. A GPU cannot tell without waiting for
    its result and gives -1.
    """
    return _native.nanargmin(x, axis, keepdims, out)


def nanvar(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dtype: Any = None,
    out: GPUArray | None = None,
) -> GPUArray:
    """var of the elements that are not NaN; NaN where n - correction is not positive."""
    return _native.nanvar(x, axis, correction, keepdims, dtype, out)


def nanstd(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dtype: Any = None,
    out: GPUArray | None = None,
) -> GPUArray:
    """std of the elements that are not NaN; NaN where n - correction is not positive."""
    return _native.nanstd(x, axis, correction, keepdims, dtype, out)


def ptp(x: GPUArray, /, axis: Axis = None, *, keepdims: bool = False) -> GPUArray:
    """Largest minus smallest element along axes."""
    return _native.subtract(
        _native.max(x, axis, keepdims, None), _native.min(x, axis, keepdims, None)
    )


def average(
    x: GPUArray,
    /,
    axis: Axis = None,
    *,
    weights: GPUArray | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> GPUArray | tuple[GPUArray, GPUArray]:
    """Mean along axes, weighted: sum(x * weights) / sum(weights).

    ``weights`` has the shape of x, or is 1-d with the length of the one axis given.
    ``returned=True`` also gives the sums of the weights.
    """
    if weights is None:
        mean = _native.mean(x, axis, None, keepdims, None)
        if not returned:
            return mean
        count = x.size // mean.size if mean.size else 0
        return mean, _native.full(mean.shape, count, mean.dtype, device=mean.device)
    require_arrays("average", x=x, weights=weights)
    if weights.shape != x.shape:
        if not isinstance(axis, int) or weights.ndim != 1:
            raise TypeError(
                f"average: weights has shape {weights.shape}, x {x.shape}: other shapes than x's "
                "are for one axis and 1-d weights"
            )
        if not -x.ndim <= axis < x.ndim or weights.shape[0] != x.shape[axis]:
            raise ValueError(
                f"average: weights has shape {weights.shape}, axis {axis} of x has shape {x.shape}"
            )
        shape = [1] * x.ndim
        shape[axis] = weights.shape[0]
        weights = _native.broadcast_to(_native.reshape(weights, tuple(shape)), x.shape)
    dtype = None if _is_inexact(x) or _is_inexact(weights) else "float64"
    total = _native.sum(weights, axis, dtype, keepdims, None)
    weighted = _native.sum(_native.multiply(x, weights), axis, dtype, keepdims, None)
    mean = _native.divide(weighted, total)
    return (mean, total) if returned else mean


def _is_inexact(x: GPUArray) -> bool:
    return x.dtype.name.startswith(("float", "bfloat", "complex"))


def sum_axis(a: GPUArray, axis: int) -> GPUArray:
    """Sum of a 2-d array along axis 0 or 1."""
    require_arrays("sum_axis", a=a)
    if a.ndim != 2:
        raise ValueError(f"sum_axis: a has shape {a.shape}, expected 2 dimensions")
    if axis not in (0, 1):
        raise ValueError(f"sum_axis: axis is {axis}, expected 0 or 1")
    return _native.sum(a, axis, None, False, None)


def logsumexp(x: GPUArray, /, axis: Axis = None, *, keepdims: bool = False) -> GPUArray:
    """log(sum(exp(x))) along axes, without overflow: the largest element is taken out first."""
    top = _native.max(x, axis, True, None)
    # Infinities would give inf - inf; exp(x) is right for them as it is.
    top = _native.where(_native.isfinite(top), top, 0.0)
    total = _native.sum(_native.exp(_native.subtract(x, top)), axis, None, keepdims, None)
    if not keepdims:
        top = _native.reshape(top, total.shape)
    return _native.add(_native.log(total), top)


__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "average",
    "count_nonzero",
    "logsumexp",
    "max",
    "mean",
    "min",
    "nanargmax",
    "nanargmin",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "prod",
    "ptp",
    "std",
    "sum",
    "sum_axis",
    "var",
]
