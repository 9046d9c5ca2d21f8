"""Numerical derivatives along axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.conversion import as_operands, asarray

if TYPE_CHECKING:
    from collections.abc import Sequence


def gradient(
    f: Any, *varargs: Any, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> GPUArray | tuple[GPUArray, ...]:
    """The derivative along each axis: central differences inside, one-sided ones at the edges.

    `varargs` is the spacing: nothing (1), one number for all axes, or for each axis a number or
    the coordinates of its points.
    """
    x = asarray(f)
    if "float" not in x.dtype.name and "complex" not in x.dtype.name:
        x = _native.astype(x, "float64")
    axes = _axes(axis, x.ndim)
    steps = _steps(x, varargs, axes)
    if edge_order not in (1, 2):
        raise InvalidValueError(f"gradient: edge_order is {edge_order}, expected 1 or 2")
    results = []
    for at, step in zip(axes, steps, strict=True):
        if x.shape[at] < edge_order + 1:
            raise InvalidValueError(
                f"gradient: axis {at} of shape {x.shape} is too small, at least "
                f"{edge_order + 1} elements are required"
            )
        results.append(_derivative(x, at, step, edge_order))
    if len(axes) == 1:
        return results[0]
    return tuple(results)


def _axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    from pygpukit.core.errors import AxisError

    if axis is None:
        return tuple(range(ndim))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    for n in given:
        if not -ndim <= n < ndim:
            raise AxisError(f"gradient: axis {n} is out of bounds for array of dimension {ndim}")
    axes = tuple(n % ndim for n in given)
    if len(set(axes)) < len(axes):
        raise InvalidValueError(f"gradient: axis {axis} repeats an axis")
    return axes


def _steps(x: GPUArray, given: tuple[Any, ...], axes: tuple[int, ...]) -> list[Any]:
    """For each axis a number, or the distances between its points."""
    if len(given) == 0:
        return [1.0] * len(axes)
    if len(given) == 1 and _is_number(given[0]):
        return [given[0]] * len(axes)
    if len(given) != len(axes):
        raise InvalidTypeError(
            f"gradient: {len(given)} spacings for {len(axes)} axes, expected one or as many"
        )
    steps: list[Any] = []
    for at, step in zip(axes, given, strict=True):
        if _is_number(step):
            steps.append(step)
            continue
        points = as_operands(step, x)[0]
        if points.ndim != 1 or points.size != x.shape[at]:
            raise InvalidValueError(
                f"gradient: coordinates of shape {points.shape} for axis {at} of shape {x.shape}"
            )
        if "int" in points.dtype.name:
            points = _native.astype(points, "float64")
        gaps = _native.subtract(points[1:], points[:-1])
        shape = [-1 if n == at else 1 for n in range(x.ndim)]
        steps.append(_native.reshape(gaps, tuple(shape)))
    return steps


def _is_number(value: Any) -> bool:
    return value.ndim == 0 if isinstance(value, GPUArray) else not hasattr(value, "__len__")


def _derivative(x: GPUArray, axis: int, step: Any, edge_order: int) -> GPUArray:
    count = x.shape[axis]

    def part(first: int, size: int, of: GPUArray = x) -> GPUArray:
        start = first if first >= 0 else of.shape[axis] + first
        return _native.slice_axis(of, axis, start, size)

    sub, add, mul, div = _native.subtract, _native.add, _native.multiply, _native.divide
    uneven = isinstance(step, GPUArray) and step.ndim == x.ndim and step.size == count - 1
    uneven = uneven and count > 1 and step.ndim > 0
    if uneven:
        before, after = part(0, count - 2, step), part(1, count - 2, step)
        both = add(before, after)
        inner = add(
            add(
                mul(div(mul(after, -1.0), mul(before, both)), part(0, count - 2)),
                mul(div(sub(after, before), mul(before, after)), part(1, count - 2)),
            ),
            mul(div(before, mul(after, both)), part(2, count - 2)),
        )
        first, last = part(0, 1, step), part(-1, 1, step)
    else:
        inner = div(div(sub(part(2, count - 2), part(0, count - 2)), 2.0), step)
        first = last = step
    if edge_order == 1:
        low = div(sub(part(1, 1), part(0, 1)), first)
        high = div(sub(part(-1, 1), part(-2, 1)), last)
    else:
        second = part(1, 1, step) if uneven else step
        previous = part(-2, 1, step) if uneven else step
        low = _edge(part(0, 1), part(1, 1), part(2, 1), first, second)
        high = mul(_edge(part(-1, 1), part(-2, 1), part(-3, 1), last, previous), -1.0)
    parts = [low, inner, high]
    dtype = _native.result_type(*parts) if uneven else x.dtype
    return _native.concat([_native.astype(p, dtype, False) for p in parts], axis)


def _edge(f0: GPUArray, f1: GPUArray, f2: GPUArray, h1: Any, h2: Any) -> GPUArray:
    """The second-order derivative at the first of three points, h1 and h2 apart."""
    sub, add, mul, div = _native.subtract, _native.add, _native.multiply, _native.divide
    near, far = div(sub(f1, f0), h1), div(sub(f2, f1), h2)
    share = div(h1, add(h1, h2)) if isinstance(h1, GPUArray) else h1 / (h1 + h2)
    return sub(near, mul(sub(far, near), share))


__all__ = ["gradient"]

name_all(globals(), __all__)
