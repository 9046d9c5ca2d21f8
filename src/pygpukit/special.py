"""Special functions, under the names of scipy.special: elementwise kernels, and a few reductions.

All take arrays of real numbers and give float16 to float64; integers become floats as NumPy has
it. The docs say how accurate they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import (
    digamma,
    entr,
    erf,
    erfc,
    erfcinv,
    erfinv,
    gamma,
    i0,
    logit,
    ndtr,
    ndtri,
    xlog1py,
    xlogy,
)
from pygpukit._native import lgamma as gammaln
from pygpukit._native import sigmoid as expit

if TYPE_CHECKING:
    from pygpukit._native import GPUArray

    Axis = int | tuple[int, ...] | None

psi = digamma

# The dtypes of the kernels that do softmax in one pass.
_FUSED = ("float16", "bfloat16", "float32")


def log_expit(x: GPUArray, /) -> GPUArray:
    """log(expit(x)), without overflow."""
    return _native.negative(_native.softplus(_native.negative(x)))


def rel_entr(x: Any, y: Any, /) -> GPUArray:
    """x log(x / y); 0 where x is 0, inf where one of the two is negative or only y is 0."""
    value = _native.multiply(x, _log_ratio(x, y))
    valid = _native.logical_and(_native.greater_equal(x, 0), _native.greater(y, 0))
    nothing = _native.logical_and(_native.equal(x, 0), _native.greater_equal(y, 0))
    known = _native.logical_not(_native.logical_or(_native.isnan(x), _native.isnan(y)))
    wrong = _native.logical_and(known, _native.logical_not(_native.logical_or(valid, nothing)))
    return _native.where(wrong, float("inf"), _native.where(nothing, 0.0, value))


def _log_ratio(x: Any, y: Any) -> GPUArray:
    """log(x / y), exact to a few ulp where x is close to y and where x / y overflows, too."""
    large, small = _native.maximum(x, y), _native.minimum(x, y)
    near = _native.log1p(_native.divide(_native.subtract(large, small), small))
    far = _native.subtract(_native.log(large), _native.log(small))
    size = _native.where(_native.isinf(near), far, near)
    return _native.where(_native.less(x, y), _native.negative(size), size)


def logsumexp(a: GPUArray, axis: Axis = None, b: Any = None, keepdims: bool = False) -> GPUArray:
    """log(sum(b * exp(a))) along axes, without overflow."""
    from pygpukit.ops.conversion import asarray
    from pygpukit.ops.reduction import logsumexp as plain

    if b is None:
        return plain(a, axis, keepdims=keepdims)
    # Elements that a zero weight removes must not decide the scale.
    b = b if isinstance(b, _native.GPUArray) else asarray(b, dtype=a.dtype, device=a.device)
    a = _native.where(_native.equal(b, 0), float("-inf"), a)
    top = _native.max(a, axis, keepdims=True)
    top = _native.where(_native.isfinite(top), top, 0.0)
    terms = _native.multiply(_native.exp(_native.subtract(a, top)), b)
    total = _native.sum(terms, axis, keepdims=keepdims)
    return _native.add(_native.log(total), _native.reshape(top, total.shape))


def softmax(x: GPUArray, axis: Axis = None) -> GPUArray:
    """exp(x) / sum(exp(x)) along axes, by default over all elements."""
    if isinstance(axis, int) and x.dtype.name in _FUSED:
        return _native.softmax(x, axis)
    return _native.exp(log_softmax(x, axis))


def log_softmax(x: GPUArray, axis: Axis = None) -> GPUArray:
    """The logarithm of softmax, without overflow."""
    if isinstance(axis, int) and x.dtype.name in _FUSED:
        return _native.log_softmax(x, axis)
    top = _native.max(x, axis, keepdims=True)
    shifted = _native.subtract(x, _native.where(_native.isfinite(top), top, 0.0))
    total = _native.sum(_native.exp(shifted), axis, keepdims=True)
    return _native.subtract(shifted, _native.log(total))


__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "expit",
    "gamma",
    "gammaln",
    "i0",
    "log_expit",
    "log_softmax",
    "logit",
    "logsumexp",
    "ndtr",
    "ndtri",
    "psi",
    "rel_entr",
    "softmax",
    "xlog1py",
    "xlogy",
]

name_all(globals(), __all__)
