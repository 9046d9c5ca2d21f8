"""Sequences: convolution, interpolation, differences and integrals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.conversion import as_operands, asarray
from pygpukit.ops.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from pygpukit._native import GPUArray

_MODES = ("full", "same", "valid")
_NUMPYS = "?bhilqBHILQfdFD"  # dtypes that NumPy computes in as the kernels do


def convolve(a: Any, v: Any, mode: str = "full") -> GPUArray:
    """The discrete convolution of two vectors: sum over k of a[k] * v[n - k].

    Computed directly, in a * v operations.
    """
    first, second = _vectors("convolve", a, v, mode)
    if first.size < second.size:
        first, second = second, first
    full = _full_convolution(first, second)
    start, count = _part(mode, first.size, second.size)
    return _native.slice_axis(full, 0, start, count)


def correlate(a: Any, v: Any, mode: str = "valid") -> GPUArray:
    """The cross-correlation of two vectors: sum over n of a[n + k] * conj(v[n])."""
    first, second = _vectors("correlate", a, v, mode)
    full = _full_convolution(first, _native.flip(_native.conj(second), 0))
    start, count = _part(mode, max(first.size, second.size), min(first.size, second.size))
    if first.size < second.size:  # NumPy swaps the two and reverses the result
        start = full.size - start - count
    return _native.slice_axis(full, 0, start, count)


def _vectors(op: str, a: Any, v: Any, mode: str) -> tuple[GPUArray, GPUArray]:
    first, second = as_operands(a, v)
    if mode not in _MODES:
        raise InvalidValueError(f"{op}: mode is {safe_repr(mode)}, expected one of {_MODES}")
    for name, x in (("a", first), ("v", second)):
        if x.ndim > 1:
            raise InvalidValueError(f"{op}: {name} has shape {x.shape}, expected one dimension")
        if x.size == 0:
            raise InvalidValueError(f"{op}: {name} cannot be empty")
    dtype = _native.result_type(first, second)
    return tuple(  # type: ignore[return-value]
        _native.astype(_native.reshape(x, (-1,)), dtype, False) for x in (first, second)
    )


def _full_convolution(a: GPUArray, v: GPUArray) -> GPUArray:
    """Products of the shorter vector with every window of the longer one."""
    if a.size < v.size:
        a, v = v, a
    if not a.on_gpu and a.dtype.char in _NUMPYS:
        full = _native.empty((a.size + v.size - 1,), a.dtype, device=a.device)
        _native.run_reference("convolution", (a, v), full)
        return full
    edge = _native.zeros((v.size - 1,), a.dtype, device=a.device)
    padded = _native.concat([edge, a, edge])
    windows = sliding_window_view(padded, v.size)
    if a.dtype.name == "bool":
        both = _native.logical_and(windows, _native.flip(v, 0))
        return _native.any(both, -1)
    return _native.matmul(windows, _native.flip(v, 0))


def _part(mode: str, longer: int, shorter: int) -> tuple[int, int]:
    """Start and length of the part of a full convolution."""
    if mode == "full":
        return 0, longer + shorter - 1
    if mode == "same":
        return (shorter - 1) // 2, longer
    return shorter - 1, longer - shorter + 1


def interp(
    x: Any,
    xp: Any,
    fp: Any,
    left: complex | None = None,
    right: complex | None = None,
    period: float | None = None,
) -> GPUArray:
    """Linear interpolation between the points (xp, fp), in float64 (or complex128).

    xp must be ascending, which is not checked. Outside of it the result is left and right, by
    default the first and the last of fp. With a period, xp is taken modulo it and sorted.
    """
    at, points, values = as_operands(x, xp, fp)
    if points.ndim != 1 or values.ndim != 1:
        raise InvalidValueError(
            f"interp: xp has shape {points.shape}, fp {values.shape}; expected one dimension each"
        )
    if points.size != values.size:
        raise InvalidValueError(
            f"interp: xp has {points.size} elements, fp {values.size}; expected as many"
        )
    if points.size == 0:
        raise InvalidValueError("interp: array of sample points is empty")
    if any(v.dtype.name.startswith("complex") for v in (at, points)):
        raise InvalidTypeError("interp: x and xp must be real")
    kind = "complex128" if values.dtype.name.startswith("complex") else "float64"
    at, points = (_native.astype(v, "float64", False) for v in (at, points))
    values = _native.astype(values, kind, False)
    if period is not None:
        at, points, values = _periodic(at, points, values, period)
        left = right = None
    if not at.on_gpu and not any(isinstance(v, _native.GPUArray) for v in (left, right)):
        result = _native.empty(at.shape, kind, device=at.device)
        _native.run_reference("interpolation", (at, points, values, left, right), result)
        return result
    if points.size == 1:
        inside = _native.add(_native.multiply(at, 0.0), values[0])
    else:
        last = points.size - 2
        place = _native.searchsorted(points, at, side="right")
        place = _native.clip(_native.subtract(place, 1), 0, last)
        x0, y0 = _take(points, place), _take(values, place)
        x1, y1 = (_take(v[1:], place) for v in (points, values))
        slope = _native.divide(_native.subtract(y1, y0), _native.subtract(x1, x0))
        inside = _native.add(_native.multiply(slope, _native.subtract(at, x0)), y0)
        inside = _native.where(_native.equal(at, x1), y1, inside)
    low = values[0] if left is None else left
    high = values[-1] if right is None else right
    result = _native.where(_native.less(at, points[0]), low, inside)
    result = _native.where(_native.greater(at, points[-1]), high, result)
    return _native.astype(result, kind, False)


def _take(x: GPUArray, place: GPUArray) -> GPUArray:
    return _native.take(x, place, axis=0)


def _periodic(
    at: GPUArray, points: GPUArray, values: GPUArray, period: float
) -> tuple[GPUArray, GPUArray, GPUArray]:
    if period == 0:
        raise InvalidValueError("interp: period must be a non-zero value")
    period = abs(float(period))
    at, points = _native.remainder(at, period), _native.remainder(points, period)
    order = _native.argsort(points)
    points, values = _take(points, order), _take(values, order)
    before, after = points[-1:], points[:1]
    points = _native.concat([_native.subtract(before, period), points, _native.add(after, period)])
    return at, points, _native.concat([values[-1:], values, values[:1]])


# --- differences and integrals -------------------------------------------------------------------


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> GPUArray:
    """Differences of consecutive elements of the flattened array, with values around them."""
    flat = _native.reshape(asarray(ary), (-1,))
    parts = [_native.subtract(flat[1:], flat[:-1])]
    for name, given, at in (("to_begin", to_begin, 0), ("to_end", to_end, len(parts) + 1)):
        if given is None:
            continue
        value = _native.reshape(as_operands(given, flat)[0], (-1,))
        if not _native.can_cast(value.dtype, flat.dtype, "same_kind"):
            raise InvalidTypeError(
                f"ediff1d: {name} has dtype {value.dtype}, which does not fit {flat.dtype}"
            )
        parts.insert(at, _native.astype(value, flat.dtype, False))
    return _native.concat(parts)


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> GPUArray:
    """The integral along an axis by the trapezoidal rule, at the points x or dx apart."""
    values, *given = as_operands(y) if x is None else as_operands(y, x)
    low, high = _neighbours("trapezoid", values, axis)
    mean = _native.divide(_native.add(low, high), 2.0)
    if x is None:
        return _native.sum(_native.multiply(mean, dx), axis)
    (points,) = given
    before, after = _neighbours("trapezoid", points, axis if points.ndim > 1 else -1)
    steps = _native.subtract(after, before)
    if points.ndim == 1:
        steps = _native.reshape(steps, _along(axis, values.ndim))
    return _native.sum(_native.multiply(mean, steps), axis)


def _along(axis: int, ndim: int) -> tuple[int, ...]:
    """The shape of a vector along one axis of an array."""
    return tuple(-1 if n == axis % ndim else 1 for n in range(ndim))


def _neighbours(op: str, x: GPUArray, axis: int) -> tuple[GPUArray, GPUArray]:
    """All elements but the last and all but the first along an axis."""
    size = _native.moveaxis(x, axis, 0).shape[0]  # raises for an axis out of bounds
    if size == 0:
        raise InvalidValueError(f"{op}: axis {axis} of shape {x.shape} is empty")
    return (
        _native.slice_axis(x, axis, 0, size - 1),
        _native.slice_axis(x, axis, 1, size - 1),
    )


def unwrap(
    p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi
) -> GPUArray:
    """Jumps of more than half a period along an axis, replaced by their complement."""
    x = asarray(p)
    low, high = _neighbours("unwrap", x, axis)
    steps = _native.subtract(high, low)
    limit = period / 2 if discont is None else max(discont, period / 2)
    whole = "int" in x.dtype.name and isinstance(period, int)
    edge: float = period // 2 if whole else period / 2
    kind = _native.result_type(steps, period)
    boundary = not whole or period % 2 == 0
    if not whole and "float" not in kind.name:
        kind = _native.result_type("float64")
    steps = _native.astype(steps, kind, False)
    wrapped = _native.add(_native.remainder(_native.add(steps, edge), period), -edge)
    if boundary:
        at_edge = _native.logical_and(_native.equal(wrapped, -edge), _native.greater(steps, 0))
        wrapped = _native.where(at_edge, edge, wrapped)
    fix = _native.subtract(wrapped, steps)
    fix = _native.where(_native.less(_native.abs(steps), limit), 0, fix)
    rest = _native.add(high, _native.cumsum(fix, axis))
    first = _native.slice_axis(x, axis, 0, 1)
    return _native.concat([_native.astype(first, rest.dtype, False), rest], axis % x.ndim)


__all__ = ["convolve", "correlate", "ediff1d", "interp", "trapezoid", "unwrap"]

name_all(globals(), __all__)
