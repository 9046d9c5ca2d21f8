"""Sums, variances and scans without arrays of temporary values as large as their operands.

float32 accumulates in float64. NumPy would convert every element first, which takes twice the time,
so loops of the C++ core do it: they add eight elements in float32, as the kernels do, and the sums
in float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pygpukit import _native

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Axis = tuple[int, ...]

_BLOCK = 1 << 16  # elements that stay in the cache
_ROW = 1 << 12  # elements of a row that NumPy adds in float32, pairwise
_LONG = 1024  # elements of a line that are worth a call of NumPy
LARGE = 1 << 15  # elements from which on it matters
_DOUBLE, _COMPLEX = np.dtype(np.float64), np.dtype(np.complex128)


def sum_wide(x: NDArray[Any], axis: Axis) -> Any:
    """The sums along axes in float64, or complex128."""
    if x.size >= LARGE and x.dtype.char == "f":
        total = _sum_large(x, axis)
        if total is not None and np.isfinite(total).all():  # else float32 may have overflowed
            return total
    along = axis[0] if len(axis) == 1 else axis  # a number takes NumPy less time
    return np.add.reduce(x, axis=along, dtype=_COMPLEX if x.dtype.kind == "c" else _DOUBLE)


def _sum_large(x: NDArray[Any], axis: Axis) -> Any:
    if x.flags.f_contiguous and not x.flags.c_contiguous:
        last = x.ndim - 1
        total = _sum_large(x.T, tuple(last - i for i in reversed(axis)))
        return None if total is None else total.T
    merged = _merged(x, axis)
    if merged is None:
        return None
    outer, reduced, inner = merged.shape
    if inner == 1 and outer > 1 and reduced <= _ROW:
        total = np.add.reduce(merged[:, :, 0], axis=1).astype(np.float64)
    else:
        total = np.empty((outer, inner))
        _native.host_sum(merged, None, total)
    return total.reshape([size for i, size in enumerate(x.shape) if i not in axis])


def _merged(x: NDArray[Any], axis: Axis) -> NDArray[Any] | None:
    """As [outer, reduced, inner]; None where reduced axes are apart, or not contiguous."""
    if not axis or axis[-1] - axis[0] != len(axis) - 1 or not x.flags.c_contiguous:
        return None
    sizes = (x.shape[: axis[0]], x.shape[axis[0] : axis[-1] + 1], x.shape[axis[-1] + 1 :])
    return x.reshape([int(np.prod(part, dtype=np.int64)) for part in sizes])


def sum_of_squares(x: NDArray[Any], axis: Axis, count: int) -> Any:
    """The sums along axes of |x - mean|**2 in float64; `count` elements have one mean."""
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    if x.size < LARGE or not x.flags.c_contiguous:
        mean = np.add.reduce(x, axis=axis, dtype=wide, keepdims=True) / count
        return np.add.reduce(_squared(x - mean), axis=axis)
    mean = np.asarray(sum_wide(x, axis) / count)
    if x.dtype.char == "f" and (merged := _merged(x, axis)) is not None:
        total = np.empty(mean.shape)
        _native.host_sum(merged, np.ascontiguousarray(mean), total)
        return total
    total = np.zeros([1 if i in axis else size for i, size in enumerate(x.shape)], np.float64)
    mean, kept = mean.reshape(total.shape), mean.shape
    buffer = np.empty(_BLOCK, wide)
    for key in blocks_of(x.shape):
        block = x[key]
        here = tuple(slice(None) if i in axis else part for i, part in enumerate(key))
        distance = buffer[: block.size].reshape(block.shape)
        np.subtract(block, mean[here], out=distance)
        total[here] += np.add.reduce(_squared(distance), axis=axis, keepdims=True)
    return total.reshape(kept)


def _squared(x: Any) -> Any:
    """|x|**2; overwrites arrays."""
    if x.dtype.kind == "c":
        return np.square(x.real) + np.square(x.imag)
    return np.multiply(x, x, out=x) if x.ndim else x * x


def blocks_of(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Keys that cover an array in C order, with at most _BLOCK elements each."""
    if not shape:
        yield ()
        return
    inner = int(np.prod(shape[1:], dtype=np.int64))
    if inner > _BLOCK:
        for i in range(shape[0]):
            for key in blocks_of(shape[1:]):
                yield (slice(i, i + 1), *key)
        return
    step = max(_BLOCK // max(inner, 1), 1)
    for start in range(0, shape[0], step):
        yield (slice(start, min(start + step, shape[0])), *[slice(None)] * (len(shape) - 1))


def scan_into(ufunc: np.ufunc, x: NDArray[Any], axis: int, out: NDArray[Any]) -> None:
    """out = ufunc.accumulate(x), of the same dtype; float32 is computed in float64."""
    narrow = x.dtype.char == "f"
    if narrow and x.flags.c_contiguous and x.size:
        apart = out.flags.c_contiguous and not np.may_share_memory(x, out)
        result = out if apart else np.empty(out.shape, out.dtype)
        lines = (math.prod(x.shape[:axis]), x.shape[axis], -1)
        _native.host_scan(x.reshape(lines), ufunc is np.multiply, result)
        if result is not out:
            out[...] = result
    elif axis == 0 and x.size >= LARGE and x.flags.c_contiguous and x[0].size >= _LONG:
        _scan_lines(ufunc, x.copy() if np.may_share_memory(x, out) else x, out)
    elif narrow:  # converted at once, which takes less time than in NumPy's buffers
        np.copyto(out, ufunc.accumulate(x.astype(np.float64), axis=axis), casting="same_kind")
    else:
        ufunc.accumulate(x, axis=axis, out=out)


def _scan_lines(ufunc: np.ufunc, x: NDArray[Any], out: NDArray[Any]) -> None:
    """Along the first axis, line by line; NumPy would read one element of each in turn."""
    total = np.full(x.shape[1:], ufunc.identity, x.dtype)
    for line, result in zip(x, out, strict=True):
        ufunc(total, line, out=total)
        result[...] = total
