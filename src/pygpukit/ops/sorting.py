"""Sorts along an axis, in NumPy's order: NaN last, -0.0 equal to 0.0. All of them are stable."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

from pygpukit import _native

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NamedTuple

    from pygpukit._native import GPUArray

    class TopKResult(NamedTuple):
        values: GPUArray
        indices: GPUArray

else:  # importing typing costs more than this module
    TopKResult = namedtuple("TopKResult", ["values", "indices"])


def sort(
    x: GPUArray,
    /,
    *,
    axis: int | None = -1,
    descending: bool = False,
    stable: bool = True,
    out: GPUArray | None = None,
) -> GPUArray:
    """The elements along an axis in order (axis=None: of the flattened array).

    Descending puts NaN first; equal elements keep their order either way. The sort is always
    stable, so ``stable=False`` changes nothing.
    """
    return _native.sort(x, axis, descending, out)


def argsort(
    x: GPUArray,
    /,
    *,
    axis: int | None = -1,
    descending: bool = False,
    stable: bool = True,
    out: GPUArray | None = None,
) -> GPUArray:
    """The int64 indices that sort along an axis (axis=None: of the flattened array)."""
    return _native.argsort(x, axis, descending, out)


def topk(
    x: GPUArray, k: int, /, *, axis: int = -1, largest: bool = True, sorted: bool = True
) -> TopKResult:
    """The k largest (or smallest) elements along an axis, and their indices.

    They come in descending (ascending) order, ties by index, whatever `sorted` says; NaN counts
    as the largest value.
    """
    return TopKResult(*_native.topk(x, k, axis, largest))


def partition(x: GPUArray, kth: int | Sequence[int], /, *, axis: int | None = -1) -> GPUArray:
    """Element kth along an axis as in the sorted array, with none larger before it."""
    return _native.partition(x, kth, axis)


def argpartition(x: GPUArray, kth: int | Sequence[int], /, *, axis: int | None = -1) -> GPUArray:
    """The int64 indices of partition."""
    return _native.argpartition(x, kth, axis)


def lexsort(keys: GPUArray | Sequence[GPUArray], /, *, axis: int = -1) -> GPUArray:
    """The indices that sort by several keys of one shape: by the last, ties by the one before."""
    rows: Any = keys
    return _native.lexsort(list(rows), axis)


__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "topk"]
