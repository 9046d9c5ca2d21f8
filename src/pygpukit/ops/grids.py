"""Arrays written as slices and blocks: mgrid, ogrid, r_, c_, block."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import safe_repr
from pygpukit.core.arguments import is_whole, items, require_callable
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.conversion import asarray
from pygpukit.ops.creation import arange, indices, linspace, meshgrid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pygpukit._native import GPUArray, _DeviceLike, _DTypeLike


def _line(key: slice, dtype: Any = None) -> GPUArray:
    """arange, or linspace with both ends where the step is imaginary."""
    start = 0 if key.start is None else key.start
    step = 1 if key.step is None else key.step
    if key.stop is None:
        raise InvalidValueError(f"{safe_repr(key)} has no end")
    if isinstance(step, complex):
        return linspace(start, key.stop, int(abs(step)), dtype=dtype)
    return arange(start, key.stop, step, dtype=dtype)


class _Grid:
    """mgrid and ogrid."""

    def __init__(self, sparse: bool) -> None:
        self._sparse = sparse

    def __repr__(self) -> str:
        return f"<pygpukit.{'ogrid' if self._sparse else 'mgrid'}>"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _line(key)
        lines = [_line(part) for part in key]
        kind = _native.result_type(*lines) if lines else "int64"
        lines = [_native.astype(line, kind, False) for line in lines]
        if self._sparse:
            return tuple(meshgrid(*lines, indexing="ij", sparse=True))
        return _native.stack(meshgrid(*lines, indexing="ij", copy=False), 0)


class _Joiner:
    """r_ and c_: arrays, numbers and slices joined along an axis."""

    def __init__(self, name: str, axis: int, ndim: int, trans1d: int) -> None:
        self._name, self._axis, self._ndim, self._trans1d = name, axis, ndim, trans1d

    def __repr__(self) -> str:
        return f"<pygpukit.{self._name}>"

    def __getitem__(self, key: Any) -> GPUArray:
        items = key if isinstance(key, tuple) else (key,)
        axis, ndim, trans1d = self._axis, self._ndim, self._trans1d
        if items and isinstance(items[0], str):
            axis, ndim, trans1d = self._directive(items[0])
            items = items[1:]
        parts, numbers = [], []
        for item in items:
            if isinstance(item, str):
                raise InvalidValueError(f"{self._name}: special directives must be the first entry")
            if type(item) in (bool, int, float, complex):
                numbers.append(item)
                parts.append(item)
                continue
            parts.append(_line(item) if isinstance(item, slice) else asarray(item))
        arrays = [p for p in parts if hasattr(p, "dtype")]
        if arrays:
            dtype = _native.result_type(*arrays, *numbers)  # numbers are weak
            shaped = [_shaped(asarray(p, device=arrays[0].device), ndim, trans1d) for p in parts]
            return _native.concat([_native.astype(p, dtype, False) for p in shaped], axis)
        return _native.concat([_shaped(asarray(p), ndim, trans1d) for p in parts], axis)

    def _directive(self, text: str) -> tuple[int, int, int]:
        try:
            numbers = [int(part) for part in text.split(",")]
        except ValueError:
            raise InvalidValueError(
                f"{self._name}: {safe_repr(text)} is not a directive, expected up to three integers"
            ) from None
        defaults = [self._axis, self._ndim, self._trans1d]
        merged = [*numbers, *defaults[len(numbers) :]]
        return merged[0], merged[1], merged[2]


def _shaped(x: GPUArray, ndim: int, trans1d: int) -> GPUArray:
    """At least `ndim` axes: new ones first, or as trans1d says."""
    missing = ndim - x.ndim
    if x.ndim == 0:
        return _native.reshape(x, (1,) * max(ndim, 1))
    if missing <= 0:
        return x
    front = missing if trans1d == -1 else trans1d % ndim
    front = min(front, missing)
    return _native.reshape(x, (1,) * front + x.shape + (1,) * (missing - front))


class _IndexExpression:
    """s_ and index_exp: the index itself."""

    def __init__(self, always_tuple: bool) -> None:
        self._always_tuple = always_tuple

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self._always_tuple and not isinstance(key, tuple) else key


mgrid = _Grid(False)
ogrid = _Grid(True)
r_ = _Joiner("r_", 0, 1, -1)
c_ = _Joiner("c_", -1, 2, 0)
s_ = _IndexExpression(False)
index_exp = _IndexExpression(True)


def block(arrays: Any) -> GPUArray:
    """An array from nested lists of blocks: the innermost lists are joined along the last axis,
    those around them along the one before it, and so on."""
    depth = _depth(arrays)
    leaves: list[Any] = []
    _collect(arrays, leaves)
    parts = [asarray(leaf) for leaf in leaves]
    ndim = max([depth, *(p.ndim for p in parts)])
    dtype = _native.result_type(*parts)
    return _join(arrays, depth, ndim, dtype)


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        if isinstance(arrays, tuple):
            raise InvalidTypeError("block: arrays is a tuple, only lists can be used")
        return 0
    if not arrays:
        raise InvalidValueError("block: a list is empty")
    depths = {_depth(item) for item in arrays}
    if len(depths) > 1:
        raise InvalidValueError("block: list depths are mismatched")
    return depths.pop() + 1


def _collect(arrays: Any, leaves: list[Any]) -> None:
    for item in arrays if isinstance(arrays, list) else [arrays]:
        if isinstance(item, list):
            _collect(item, leaves)
        else:
            leaves.append(item)


def _join(arrays: Any, depth: int, ndim: int, dtype: Any) -> GPUArray:
    if depth == 0:
        part = _native.astype(asarray(arrays), dtype, not isinstance(arrays, list))
        return _native.reshape(part, (1,) * (ndim - part.ndim) + part.shape)
    return _native.concat([_join(item, depth - 1, ndim, dtype) for item in arrays], -depth)


def fromfunction(
    function: Callable[..., Any],
    shape: Sequence[int],
    *,
    dtype: _DTypeLike = "float64",
    device: _DeviceLike = None,
    **kwargs: Any,
) -> Any:
    """function(i, j, ...) of the coordinates of an array, one array per axis."""
    require_callable("fromfunction", "function", function)
    return function(*indices(shape, dtype, device=device), **kwargs)


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> GPUArray:
    """func1d(vector, *args, **kwargs) for each vector along an axis.

    A loop in Python: one call, and its launches, for each vector. Prefer functions that take an
    axis.
    """
    require_callable("apply_along_axis", "func1d", func1d)
    x = asarray(arr)
    rows = _native.moveaxis(x, axis, -1)
    outer = rows.shape[:-1]
    count = math.prod(outer)
    if count == 0:
        raise InvalidValueError("apply_along_axis: cannot apply to an array without vectors")
    lines = _native.reshape(rows, (count, rows.shape[-1]))
    results = [asarray(func1d(lines[n], *args, **kwargs), device=x.device) for n in range(count)]
    inner = results[0].shape
    stacked = _native.reshape(_native.stack(results, 0), (*outer, *inner))
    at = axis % x.ndim
    last = tuple(range(len(outer), len(outer) + len(inner)))
    return _native.moveaxis(stacked, last, tuple(at + n for n in range(len(inner))))


def apply_over_axes(func: Callable[..., Any], a: Any, axes: int | Sequence[int]) -> GPUArray:
    """func(x, axis) for each axis in turn; axes that it removes are kept with size 1."""
    require_callable("apply_over_axes", "func", func)
    x = asarray(a)
    ndim = x.ndim
    each: list[Any] = (
        [axes] if is_whole(axes) else items("apply_over_axes", "axes", axes, "an int or ints")
    )
    for axis in each:
        result = func(x, axis + ndim if axis < 0 else axis)
        if result.ndim != ndim:
            result = _native.expand_dims(result, axis)
        if result.ndim != ndim:
            raise InvalidValueError(
                f"apply_over_axes: function gives {result.ndim} axes for {ndim}, expected as "
                "many or one less"
            )
        x = result
    return x


__all__ = [
    "apply_along_axis",
    "apply_over_axes",
    "block",
    "c_",
    "fromfunction",
    "index_exp",
    "mgrid",
    "ogrid",
    "r_",
    "s_",
]

name_all(globals(), __all__)
