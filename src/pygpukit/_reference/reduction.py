"""Reductions along axes and scans along one.

``axis`` is a tuple of non-negative axes; ``out`` has only the other axes. float16,
bfloat16 and float32 accumulate in float64 and round once, like the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pygpukit._reference.blocks import scan_into, sum_of_squares, sum_wide

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Axis = tuple[int, ...]


def _real(x: NDArray[Any]) -> NDArray[Any]:
    """bfloat16 as float32, which NumPy can compare."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


def _put(out: NDArray[Any], result: Any) -> None:
    """Stores the result, cast to out's dtype."""
    if out.dtype.kind == "V":
        values = np.asarray(result)
        result = values.astype(np.float64) if values.dtype.kind in "biu" else values
    np.copyto(out, result, casting="unsafe")


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biu"


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.char in "efd"


def _elements(x: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The operands of a sum to `dtype`: integers in 64 bits, the rest in the widest type."""
    if dtype.kind == "b":
        return _nonzero(x)
    if dtype.kind == "c":
        return x.astype(np.complex128)
    if x.dtype.kind == "c":
        x = x.real
    if _is_integer(dtype):
        cast = x if _is_integer(x.dtype) else x.astype(dtype)
        return cast.astype(np.uint64 if dtype.kind == "u" else np.int64)
    return x.astype(np.float64)


def _fold(
    ufunc: np.ufunc, x: NDArray[Any], axis: Axis, dtype: np.dtype[Any], nan: float | None
) -> Any:
    values = _elements(x, dtype)
    if nan is not None and values.dtype.kind in "fc":
        values = np.where(np.isnan(values), values.dtype.type(nan), values)
    return ufunc.reduce(values, axis=axis)


def _fold_integers(
    ufunc: np.ufunc, x: NDArray[Any], axis: Axis, dtype: np.dtype[Any], out: NDArray[Any]
) -> bool:
    """Integers to 64 bits, straight into `out`. Returns whether it was this case."""
    if dtype.char not in "lLqQ" or out.dtype is not dtype or not _is_integer(x.dtype):
        return False
    ufunc.reduce(x, axis=axis, dtype=dtype, out=out)
    return True


def sum(x: NDArray[Any], *, axis: Axis, dtype: np.dtype[Any], out: NDArray[Any]) -> None:
    """Sum of elements along axes."""
    if _is_float(x.dtype) and _is_float(dtype):
        if x.dtype is out.dtype and x.dtype.char == "d":
            np.add.reduce(x, axis=axis, out=out)
        else:
            out[...] = sum_wide(x, axis)
    elif not _fold_integers(np.add, x, axis, dtype, out):
        _put(out, _fold(np.add, x, axis, dtype, None))


def prod(x: NDArray[Any], *, axis: Axis, dtype: np.dtype[Any], out: NDArray[Any]) -> None:
    """Product of elements along axes."""
    if _is_float(x.dtype) and _is_float(dtype):
        out[...] = np.multiply.reduce(x, axis=axis, dtype=np.float64)
    elif not _fold_integers(np.multiply, x, axis, dtype, out):
        _put(out, _fold(np.multiply, x, axis, dtype, None))


def nansum(x: NDArray[Any], *, axis: Axis, dtype: np.dtype[Any], out: NDArray[Any]) -> None:
    """Sum of elements along axes that are not NaN."""
    _put(out, _fold(np.add, x, axis, dtype, 0.0))


def nanprod(x: NDArray[Any], *, axis: Axis, dtype: np.dtype[Any], out: NDArray[Any]) -> None:
    """Product of elements along axes that are not NaN."""
    _put(out, _fold(np.multiply, x, axis, dtype, 1.0))


def _mean(x: NDArray[Any], axis: Axis, dtype: np.dtype[Any], skip_nan: bool) -> Any:
    values = _elements(x, dtype)
    if skip_nan:
        count: Any = np.sum(~np.isnan(values), axis=axis)
        values = np.where(np.isnan(values), values.dtype.type(0), values)
    else:
        count = np.prod([x.shape[i] for i in axis], dtype=np.int64)
    return np.true_divide(np.add.reduce(values, axis=axis), count)


def mean(x: NDArray[Any], *, axis: Axis, dtype: np.dtype[Any], out: NDArray[Any]) -> None:
    """Mean of elements along axes."""
    if _is_float(x.dtype) and _is_float(dtype) and x.size:
        out[...] = sum_wide(x, axis) / (x.size // (out.size or 1))
        return
    _put(out, _mean(x, axis, dtype, False))


def nanmean(x: NDArray[Any], *, axis: Axis, dtype: np.dtype[Any], out: NDArray[Any]) -> None:
    """Mean of elements along axes that are not NaN."""
    _put(out, _mean(x, axis, dtype, True))


def _variance(x: NDArray[Any], axis: Axis, correction: float) -> Any:
    count = 1
    for i in axis:
        count *= x.shape[i]
    if count == 0:
        return np.nan
    free = count - correction if count > correction else 0.0
    return np.true_divide(sum_of_squares(_real(x), axis, count), free)


def _variance_of_numbers(x: NDArray[Any], axis: Axis, correction: float) -> Any:
    """Without NaN."""
    if x.dtype.kind in "iub":
        return _variance(x, axis, correction)
    values = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    counts = ~np.isnan(values)
    n = np.sum(counts, axis=axis, keepdims=True)
    mean = np.sum(values, axis=axis, keepdims=True, where=counts) / n
    total = np.sum(np.abs(values - mean) ** 2, axis=axis, where=counts)
    n = n.reshape(total.shape)
    result = np.true_divide(total, np.maximum(n - correction, 0.0))
    return np.where((n == 0) | (n - correction <= 0), np.nan, result)


def var(x: NDArray[Any], *, axis: Axis, correction: float, out: NDArray[Any]) -> None:
    """Variance of elements along axes."""
    _put(out, _variance(x, axis, correction))


def std(x: NDArray[Any], *, axis: Axis, correction: float, out: NDArray[Any]) -> None:
    """Standard deviation of elements along axes."""
    _put(out, np.sqrt(_variance(x, axis, correction)))


def nanvar(x: NDArray[Any], *, axis: Axis, correction: float, out: NDArray[Any]) -> None:
    """Variance of elements along axes that are not NaN."""
    _put(out, _variance_of_numbers(x, axis, correction))


def nanstd(x: NDArray[Any], *, axis: Axis, correction: float, out: NDArray[Any]) -> None:
    """Standard deviation of elements along axes that are not NaN."""
    _put(out, np.sqrt(_variance_of_numbers(x, axis, correction)))


def _extreme(ufunc: np.ufunc, x: NDArray[Any], axis: Axis, out: NDArray[Any]) -> None:
    if x.dtype is out.dtype and x.dtype.kind != "V":
        ufunc.reduce(x, axis=axis, out=out)
        return
    _put(out, ufunc.reduce(_real(x), axis=axis))


def max(x: NDArray[Any], *, axis: Axis, out: NDArray[Any]) -> None:
    """Largest element along axes; NaN propagates."""
    _extreme(np.maximum, x, axis, out)


def min(x: NDArray[Any], *, axis: Axis, out: NDArray[Any]) -> None:
    """Smallest element along axes; NaN propagates."""
    _extreme(np.minimum, x, axis, out)


def nanmax(x: NDArray[Any], *, axis: Axis, out: NDArray[Any]) -> None:
    """Largest element along axes that is not NaN."""
    _extreme(np.fmax, x, axis, out)


def nanmin(x: NDArray[Any], *, axis: Axis, out: NDArray[Any]) -> None:
    """Smallest element along axes that is not NaN."""
    _extreme(np.fmin, x, axis, out)


def _nonzero(x: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(_real(x) != 0)


def _test(ufunc: np.ufunc, x: NDArray[Any], axis: Axis, out: NDArray[Any]) -> None:
    if x.dtype.kind != "V" and out.dtype.kind == "b":
        ufunc.reduce(x, axis=axis, out=out)
        return
    _put(out, ufunc.reduce(_nonzero(x), axis=axis))


def any(x: NDArray[Any], *, axis: Axis, out: NDArray[Any]) -> None:
    """Whether any element along axes is nonzero."""
    _test(np.logical_or, x, axis, out)


def all(x: NDArray[Any], *, axis: Axis, out: NDArray[Any]) -> None:
    """Whether all elements along axes are nonzero."""
    _test(np.logical_and, x, axis, out)


def count_nonzero(x: NDArray[Any], *, axis: Axis, out: NDArray[Any]) -> None:
    """Number of nonzero elements along axes."""
    values = _real(x)
    _put(out, np.count_nonzero(values, None if len(axis) == x.ndim else axis))


def _argument(function: Callable[..., Any], x: NDArray[Any], axis: Axis, out: NDArray[Any]) -> None:
    """`function` over the given axes in C order: all of them, or one."""
    values = _real(x)
    along = axis[0] if len(axis) == 1 else None
    if out.dtype == np.intp:
        function(values, axis=along, out=out)
    else:
        _put(out, function(values, axis=along))


def argmax(x: NDArray[Any], *, axis: Axis, out: NDArray[Any]) -> None:
    """Index of the first largest element along an axis."""
    _argument(np.argmax, x, axis, out)


def argmin(x: NDArray[Any], *, axis: Axis, out: NDArray[Any]) -> None:
    """Index of the first smallest element along an axis."""
    _argument(np.argmin, x, axis, out)


def nanargmax(x: NDArray[Any], *, axis: Axis, out: NDArray[Any]) -> None:
    """Index of the first largest element along an axis that is not NaN."""
    _argument(np.nanargmax, x, axis, out)


def nanargmin(x: NDArray[Any], *, axis: Axis, out: NDArray[Any]) -> None:
    """Index of the first smallest element along an axis that is not NaN."""
    _argument(np.nanargmin, x, axis, out)


def _scan(
    ufunc: np.ufunc,
    x: NDArray[Any],
    axis: int,
    dtype: np.dtype[Any],
    include_initial: bool,
    nan: float | None,
    out: NDArray[Any],
) -> None:
    if nan is None and x.dtype is dtype is out.dtype and dtype.char in "fdlqLQD":
        inner = out
        if include_initial:
            first, rest = [slice(None)] * x.ndim, [slice(None)] * x.ndim
            first[axis], rest[axis] = slice(1), slice(1, None)
            out[tuple(first)] = ufunc.identity
            inner = out[tuple(rest)]
        scan_into(ufunc, x, axis, inner)
        return
    values = _elements(x, dtype)
    if nan is not None and values.dtype.kind in "fc":
        values = np.where(np.isnan(values), values.dtype.type(nan), values)
    if values.dtype.kind == "b":
        values = values.astype(np.int64)
        result = (ufunc.accumulate(values, axis=axis) != 0).astype(np.int64)
    else:
        result = ufunc.accumulate(values, axis=axis)
    if include_initial:
        shape = list(x.shape)
        shape[axis] = 1
        neutral = np.full(shape, ufunc.identity, result.dtype)
        result = np.concatenate([neutral, result], axis=axis)
    _put(out, result)


def cumsum(
    x: NDArray[Any],
    *,
    axis: int,
    dtype: np.dtype[Any],
    include_initial: bool,
    out: NDArray[Any],
) -> None:
    """Running sum along an axis."""
    _scan(np.add, x, axis, dtype, include_initial, None, out)


def cumprod(
    x: NDArray[Any],
    *,
    axis: int,
    dtype: np.dtype[Any],
    include_initial: bool,
    out: NDArray[Any],
) -> None:
    """Running product along an axis."""
    _scan(np.multiply, x, axis, dtype, include_initial, None, out)


def nancumsum(
    x: NDArray[Any],
    *,
    axis: int,
    dtype: np.dtype[Any],
    include_initial: bool,
    out: NDArray[Any],
) -> None:
    """Running sum along an axis; NaN counts as 0."""
    _scan(np.add, x, axis, dtype, include_initial, 0.0, out)


def nancumprod(
    x: NDArray[Any],
    *,
    axis: int,
    dtype: np.dtype[Any],
    include_initial: bool,
    out: NDArray[Any],
) -> None:
    """Running product along an axis; NaN counts as 1."""
    _scan(np.multiply, x, axis, dtype, include_initial, 1.0, out)


__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "max",
    "mean",
    "min",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "prod",
    "std",
    "sum",
    "var",
]
