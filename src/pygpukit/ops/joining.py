"""Joining and splitting arrays."""

from __future__ import annotations

from itertools import pairwise
from operator import index
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import array_argument, is_number, is_whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops._declared import joining as _declared
from pygpukit.ops._declared.joining import *  # noqa: F403
from pygpukit.ops.manipulation import _axis_size, atleast_1d, atleast_2d, atleast_3d

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygpukit._native import _ArrayLike, _DTypeLike


# --- joining -------------------------------------------------------------------------------------


def vstack(arrays: Sequence[GPUArray], /, *, dtype: _DTypeLike | None = None) -> GPUArray:
    """Stacks arrays along the first axis, vectors as rows."""
    rows = [atleast_2d(x) for x in _all_arrays(arrays, "vstack")]
    return _native.concat_as("vstack", rows, 0, dtype)


def hstack(arrays: Sequence[GPUArray], /, *, dtype: _DTypeLike | None = None) -> GPUArray:
    """Joins arrays along the second axis, vectors along their only one."""
    parts = [atleast_1d(x) for x in _all_arrays(arrays, "hstack")]
    axis = 0 if parts and parts[0].ndim == 1 else 1
    return _native.concat_as("hstack", parts, axis, dtype)


def dstack(arrays: Sequence[GPUArray], /) -> GPUArray:
    """Stacks arrays along the third axis."""
    layers = [atleast_3d(x) for x in _all_arrays(arrays, "dstack")]
    return _native.concat_as("dstack", layers, 2)


def column_stack(arrays: Sequence[GPUArray], /) -> GPUArray:
    """Joins vectors as the columns of a matrix; matrices along the second axis."""
    columns = [
        _native.reshape(x, (-1, 1)) if x.ndim < 2 else x
        for x in _all_arrays(arrays, "column_stack")
    ]
    return _native.concat_as("column_stack", columns, 1)


def _all_arrays(arrays: Sequence[Any], op: str) -> Sequence[GPUArray]:
    beside = next((x for x in arrays if isinstance(x, GPUArray)), None)
    found = []
    for n, x in enumerate(arrays):
        if beside is not None and is_number(x):
            x = [x]  # as in NumPy, a number is an array of one element
        found.append(array_argument(op, f"arrays[{n}]", x, beside))
    return found


def append(x: _ArrayLike, /, values: Any, axis: int | None = None) -> GPUArray:
    """A new array with values after x; without an axis both are flattened."""
    for name, part in (("x", x), ("values", values)):
        if axis is not None and is_number(part):
            raise InvalidValueError(
                f"append: {name} is {safe_repr(part)}, expected an array, as axis is given"
            )
    arrays = [[part] if is_number(part) else part for part in (x, values)]
    return _native.concat_as("append", arrays, axis)


# --- splitting: views ----------------------------------------------------------------------------


def unstack(x: GPUArray, /, axis: int = 0) -> tuple[GPUArray, ...]:
    """Views of the parts along an axis, without that axis."""
    front = _native.moveaxis(x, axis, 0)
    return tuple(
        _native.squeeze(_native.slice_axis(front, 0, n, 1), 0) for n in range(front.shape[0])
    )


def split(
    x: _ArrayLike, /, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[GPUArray]:
    """Views of equal parts, or of the parts between the given indices, along an axis."""
    x = array_argument("split", "x", x)
    _check_sections("split", indices_or_sections)
    if is_whole(indices_or_sections):
        size = _axis_size(x, axis)
        sections = index(indices_or_sections)  # type: ignore[arg-type]
        if sections <= 0 or size % sections != 0:
            raise InvalidValueError(
                f"split: axis {axis} of shape {x.shape} does not divide into {sections} equal parts"
            )
    return array_split(x, indices_or_sections, axis)


def _check_sections(op: str, given: Any) -> None:
    if isinstance(given, str) or not (is_whole(given) or hasattr(given, "__iter__")):
        raise InvalidTypeError(
            f"{op}: indices_or_sections is {safe_repr(given)}, expected an int or several"
        )


def array_split(
    x: _ArrayLike, /, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[GPUArray]:
    """Like split, but the first parts may be one longer than the others."""
    x = array_argument("array_split", "x", x)
    _check_sections("array_split", indices_or_sections)
    size = _axis_size(x, axis)
    if is_whole(indices_or_sections):
        sections = index(indices_or_sections)  # type: ignore[arg-type]
        if sections <= 0:
            from pygpukit.core.errors import InvalidValueError

            raise InvalidValueError(f"array_split: {sections} is not a valid number of parts")
        part, longer = divmod(size, sections)
        stops = [part * (n + 1) + min(n + 1, longer) for n in range(sections - 1)]
    else:
        stops = [index(n) for n in indices_or_sections]  # type: ignore[union-attr]
    bounds = [0, *stops, size]
    pieces = []
    for start, stop in pairwise(bounds):
        first, last, _ = slice(start, stop).indices(size)
        pieces.append(_native.slice_axis(x, axis, first, max(last - first, 0)))
    return pieces


def hsplit(x: _ArrayLike, /, indices_or_sections: int | Sequence[int]) -> list[GPUArray]:
    """Views of parts along the second axis (for a vector: its only one)."""
    x = array_argument("hsplit", "x", x)
    _check_rank(x, 1, "hsplit")
    return split(x, indices_or_sections, 0 if x.ndim == 1 else 1)


def vsplit(x: _ArrayLike, /, indices_or_sections: int | Sequence[int]) -> list[GPUArray]:
    """Views of parts along the first axis."""
    x = array_argument("vsplit", "x", x)
    _check_rank(x, 2, "vsplit")
    return split(x, indices_or_sections, 0)


def dsplit(x: _ArrayLike, /, indices_or_sections: int | Sequence[int]) -> list[GPUArray]:
    """Views of parts along the third axis."""
    x = array_argument("dsplit", "x", x)
    _check_rank(x, 3, "dsplit")
    return split(x, indices_or_sections, 2)


def _check_rank(x: GPUArray, rank: int, op: str) -> None:
    if x.ndim < rank:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(f"{op}: x has shape {x.shape}, expected at least {rank} dimensions")


__all__ = [
    "append",
    "array_split",
    "column_stack",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "split",
    "unstack",
    "vsplit",
    "vstack",
]
__all__ += _declared.__all__

name_all(globals(), __all__)
