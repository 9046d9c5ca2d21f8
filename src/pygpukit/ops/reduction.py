"""Reductions along axes. Bitwise reproducible on a given GPU model.

Without ``axis`` the result is a 0-d array. ``axis`` is an int or a tuple of ints, ``keepdims``
keeps the reduced axes with size 1, ``out`` may have any dtype the result can be cast to.
float16, bfloat16 and float32 accumulate in float64 on both backends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray
from pygpukit.core.arguments import array_argument, require_arrays
from pygpukit.ops._declared import reduction as _declared
from pygpukit.ops._declared.reduction import *  # noqa: F403

if TYPE_CHECKING:
    from pygpukit._native import _ArrayLike

    Axis = int | tuple[int, ...] | None


def ptp(
    x: GPUArray, /, axis: Axis = None, out: GPUArray | None = None, keepdims: bool = False
) -> GPUArray:
    """Largest minus smallest element along axes."""
    largest = _native.max(x, axis, keepdims=keepdims)
    return _native.subtract(largest, _native.min(x, axis, keepdims=keepdims), out=out)


def average(
    x: _ArrayLike,
    /,
    axis: Axis = None,
    weights: _ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> GPUArray | tuple[GPUArray, GPUArray]:
    """Weighted mean along axes: sum(x * weights) / sum(weights).

    ``weights`` has the shape of x, or is 1-d with the length of the one axis given.
    ``returned=True`` also returns the sums of the weights.
    """
    x = array_argument("average", "x", x, weights if isinstance(weights, GPUArray) else None)
    if weights is None:
        mean = _native.mean(x, axis, keepdims=keepdims)
        if not returned:
            return mean
        count = x.size // mean.size if mean.size else 0
        return mean, _native.full(mean.shape, count, mean.dtype, device=mean.device)
    weights = array_argument("average", "weights", weights, x)
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
    operands = (x, weights) if _is_inexact(x) else (x, weights, "float64")
    dtype = _native.result_type(*operands)
    total = _native.sum(weights, axis, dtype=dtype, keepdims=keepdims)
    products = _native.multiply(x, weights, dtype=dtype)
    mean = _native.divide(_native.sum(products, axis, keepdims=keepdims), total)
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
    return _native.sum(a, axis)


def logsumexp(x: GPUArray, /, axis: Axis = None, *, keepdims: bool = False) -> GPUArray:
    """log(sum(exp(x))) along axes, without overflow: the maximum is subtracted first."""
    top = _native.max(x, axis, keepdims=True)
    # Infinities would give inf - inf; exp(x) is already right for them.
    top = _native.where(_native.isfinite(top), top, 0.0)
    total = _native.sum(_native.exp(_native.subtract(x, top)), axis, keepdims=keepdims)
    if not keepdims:
        top = _native.reshape(top, total.shape)
    return _native.add(_native.log(total), top)


__all__ = ["average", "logsumexp", "ptp", "sum_axis"]
__all__ += _declared.__all__

name_all(globals(), __all__)
