"""Elements by position: take, put, nonzero and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pygpukit import _native
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import require_arrays

__all__ = [
    "argwhere",
    "compress",
    "diag_indices",
    "extract",
    "flatnonzero",
    "ix_",
    "nonzero",
    "place",
    "put",
    "put_along_axis",
    "ravel_multi_index",
    "take",
    "take_along_axis",
    "tril_indices",
    "triu_indices",
    "unravel_index",
]


def take(
    x: GPUArray,
    indices: GPUArray | Any,
    /,
    *,
    axis: int | None = None,
    mode: str = "raise",
    out: GPUArray | None = None,
) -> GPUArray:
    """Elements at positions along an axis (without one: of the array in C order).

    mode: 'raise' (negative positions count from the end), 'wrap' or 'clip'.
    """
    return _native.take(x, indices, axis, mode, out)


def take_along_axis(x: GPUArray, indices: GPUArray | Any, /, *, axis: int | None = -1) -> GPUArray:
    """Elements at positions that differ from line to line, as argsort gives them."""
    return _native.take_along_axis(x, indices, axis)


def put_along_axis(x: GPUArray, indices: GPUArray | Any, values: Any, /, axis: int | None) -> None:
    """Sets elements at positions that differ from line to line.

    Of several values for one element the last one is kept.
    """
    _native.put_along_axis(x, indices, values, axis)


def put(x: GPUArray, indices: GPUArray | Any, values: Any, /, *, mode: str = "raise") -> None:
    """Sets elements at positions of the array in C order; values are repeated as needed.

    Of several values for one element the last one is kept.
    """
    _native.put(x, indices, values, mode)


def compress(
    condition: GPUArray | Any,
    x: GPUArray,
    /,
    *,
    axis: int | None = None,
    out: GPUArray | None = None,
) -> GPUArray:
    """Slices along an axis where a list of bools is true."""
    return _native.compress(condition, x, axis, out)


def extract(condition: GPUArray | Any, x: GPUArray, /) -> GPUArray:
    """Elements where the condition is true, in C order."""
    return _native.extract(condition, x)


def place(x: GPUArray, mask: GPUArray | Any, values: Any, /) -> None:
    """Sets the elements where the mask is true, from values repeated as often as needed."""
    _native.place(x, mask, values)


def nonzero(x: GPUArray, /) -> tuple[GPUArray, ...]:
    """Coordinates of elements that are not zero: one int64 array per axis.

    Reads the count back, because it is the shape of the result.
    """
    return _native.nonzero(x)


def argwhere(x: GPUArray, /) -> GPUArray:
    """Coordinates of elements that are not zero: one row each."""
    return _native.argwhere(x)


def flatnonzero(x: GPUArray, /) -> GPUArray:
    """Positions in the array in C order of elements that are not zero."""
    return _native.flatnonzero(x)


def unravel_index(
    indices: GPUArray, shape: int | Sequence[int], *, order: str = "C"
) -> tuple[GPUArray, ...]:
    """Flat positions to coordinates: one int64 array per axis."""
    dims = _dims(shape)
    if _is_c_order(order, "unravel_index"):
        return _native.unravel_index(indices, dims)
    return _native.unravel_index(indices, dims[::-1])[::-1]


def ravel_multi_index(
    multi_index: Sequence[GPUArray],
    dims: int | Sequence[int],
    *,
    mode: str = "raise",
    order: str = "C",
) -> GPUArray:
    """Coordinates, one array per axis, to flat positions."""
    shape = _dims(dims)
    arrays = tuple(multi_index)
    if _is_c_order(order, "ravel_multi_index"):
        return _native.ravel_multi_index(arrays, shape, mode)
    return _native.ravel_multi_index(arrays[::-1], shape[::-1], mode)


def ix_(*lists: GPUArray) -> tuple[GPUArray, ...]:
    """Index arrays that select the grid of all combinations of the lists."""
    found = []
    for place, given in enumerate(lists):
        require_arrays("ix_", lists=given)
        if given.ndim != 1:
            raise ValueError(f"ix_: argument {place} has {given.ndim} dimensions, expected 1")
        line = flatnonzero(given) if given.dtype.name == "bool" else given
        key = tuple(slice(None) if axis == place else None for axis in range(len(lists)))
        found.append(line[key])
    return tuple(found)


def diag_indices(n: int, ndim: int = 2, *, device: str | None = None) -> tuple[GPUArray, ...]:
    """Coordinates of the main diagonal of an array with `ndim` axes of length n."""
    from pygpukit.ops.creation import arange

    return (arange(n, device=device),) * ndim


def tril_indices(
    n: int, k: int = 0, m: int | None = None, *, device: str | None = None
) -> tuple[GPUArray, GPUArray]:
    """Coordinates of an (n, m) array on and below its k-th diagonal."""
    from pygpukit.ops.creation import tri

    rows, columns = nonzero(tri(n, m, k, "bool", device=device))
    return rows, columns


def triu_indices(
    n: int, k: int = 0, m: int | None = None, *, device: str | None = None
) -> tuple[GPUArray, GPUArray]:
    """Coordinates of an (n, m) array on and above its k-th diagonal."""
    from pygpukit.ops.creation import tri
    from pygpukit.ops.elementwise import logical_not

    rows, columns = nonzero(logical_not(tri(n, m, k - 1, "bool", device=device)))
    return rows, columns


def _dims(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _is_c_order(order: str, op: str) -> bool:
    if order not in ("C", "F"):
        raise ValueError(f"{op}: order is {safe_repr(order)}, expected 'C' or 'F'")
    return order == "C"
