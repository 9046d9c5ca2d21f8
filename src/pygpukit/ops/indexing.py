"""Elements by position: take, put, nonzero and related functions."""

from __future__ import annotations

from collections.abc import Sequence

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import array_argument, is_whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops._declared import indexing as _declared
from pygpukit.ops._declared.indexing import *  # noqa: F403

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this module
if TYPE_CHECKING:
    from typing import Literal

__all__ = [
    "diag_indices",
    "ix_",
    "ravel_multi_index",
    "tril_indices",
    "triu_indices",
    "unravel_index",
]
__all__ += _declared.__all__


def unravel_index(
    indices: GPUArray | int, shape: int | Sequence[int], order: Literal["C", "F"] = "C"
) -> tuple[GPUArray, ...]:
    """Flat positions to coordinates: one int64 array per axis."""
    dims = _dims(shape)
    if not isinstance(indices, GPUArray) and is_whole(indices):
        from math import prod

        from pygpukit.ops.conversion import asarray

        size = prod(dims)
        if not 0 <= indices < size:
            raise InvalidValueError(
                f"unravel_index: index {indices} is out of bounds for an array of size {size}"
            )
        indices = asarray(int(indices))
    if _is_c_order(order, "unravel_index"):
        return _native.unravel_index(indices, dims)
    return _native.unravel_index(indices, dims[::-1])[::-1]


def ravel_multi_index(
    multi_index: Sequence[GPUArray],
    dims: int | Sequence[int],
    mode: Literal["raise", "wrap", "clip"] = "raise",
    order: Literal["C", "F"] = "C",
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
    beside = next((given for given in lists if isinstance(given, GPUArray)), None)
    for place, given in enumerate(lists):
        given = array_argument("ix_", "lists", given, beside)
        if given.ndim != 1:
            raise ValueError(f"ix_: argument {place} has {given.ndim} dimensions, expected 1")
        line = _native.flatnonzero(given) if given.dtype.name == "bool" else given
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

    rows, columns = _native.nonzero(tri(n, m, k, "bool", device=device))
    return rows, columns


def triu_indices(
    n: int, k: int = 0, m: int | None = None, *, device: str | None = None
) -> tuple[GPUArray, GPUArray]:
    """Coordinates of an (n, m) array on and above its k-th diagonal."""
    from pygpukit.ops.creation import tri
    from pygpukit.ops.elementwise import logical_not

    rows, columns = _native.nonzero(logical_not(tri(n, m, k - 1, "bool", device=device)))
    return rows, columns


def _dims(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _is_c_order(order: str, op: str) -> bool:
    if order not in ("C", "F"):
        raise ValueError(f"{op}: order is {safe_repr(order)}, expected 'C' or 'F'")
    return order == "C"


name_all(globals(), __all__)
