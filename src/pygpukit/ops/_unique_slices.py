"""unique along an axis: slices as rows, sorted by their elements one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native

if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def unique_slices(
    x: GPUArray, axis: int, return_index: bool, return_inverse: bool, return_counts: bool
) -> Any:
    """As numpy.unique(axis=): the distinct slices, and what was requested beside them.

    Rows compare element by element, so NaN makes a row distinct from every other.
    """
    front = _native.moveaxis(x, axis, 0)
    number = front.shape[0]
    rows = _native.reshape(front, (number, front.size // number if number else 0))
    order, is_first = _order(rows)
    starts = _native.flatnonzero(is_first)
    values = _native.take(front, _native.take(order, starts), 0)
    results = [_native.moveaxis(values, 0, axis)]
    if return_index:
        results.append(_native.take(order, starts))
    if return_inverse:
        inverse = _native.empty((number,), "int64", device=x.device)
        inverse[order] = _native.subtract(_native.cumsum(is_first), 1)
        results.append(inverse)
    if return_counts:
        end = _native.full((1,), number, "int64", device=x.device)
        ends = _native.concat([starts, end])
        results.append(_native.subtract(ends[1:], ends[:-1]))
    return tuple(results) if len(results) > 1 else results[0]


def _order(rows: GPUArray) -> tuple[GPUArray, GPUArray]:
    """The stable order of the rows, and which of them, so ordered, differ from the one before."""
    number, width = rows.shape
    device = rows.device
    if number == 0 or width == 0:  # rows without elements are all equal
        is_first = _native.equal(_native.arange(number, 0, 1, "int64", device), 0)
        return _native.arange(number, 0, 1, "int64", device), is_first
    columns = [rows[:, n] for n in reversed(range(width))]  # the last key is the primary one
    order = _native.lexsort(columns)
    ordered = _native.take(rows, order, 0)
    changes = _native.any(_native.not_equal(ordered[1:], ordered[:-1]), 1)
    first = _native.ones((1,), "bool", device=device)
    return order, _native.concat([first, changes])
