"""Sorts, searches in sorted data, sets, histograms and quantiles.

bfloat16 is sorted and searched as float32, which orders it the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _plain(x: NDArray[Any]) -> NDArray[Any]:
    """Converts to a dtype that NumPy can sort."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


def _stable_order(x: NDArray[Any], axis: int, descending: bool) -> NDArray[Any]:
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    last = x.shape[axis] - 1
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    order: NDArray[Any] = last - np.flip(backwards, axis)
    return order


# The bits of -0.0, read as integers, are the least of all.
_NEGATIVE_ZERO = {size: (np.dtype(f"i{size}"), -(2 ** (8 * size - 1))) for size in (2, 4, 8)}


def _has_negative_zero(x: NDArray[Any]) -> bool:
    bits, least = _NEGATIVE_ZERO[x.dtype.itemsize]
    integers = x.view(bits)
    return bool(integers.item(integers.argmin()) == least)  # faster than min() for small arrays


def _order_shows(x: NDArray[Any]) -> bool:
    """Whether elements that compare equal may differ: both zeros, and all of bfloat16, complex."""
    if x.dtype.kind in "biu":
        return False
    return x.dtype.char not in "efd" or (x.size > 0 and _has_negative_zero(x))


def sort(x: NDArray[Any], *, axis: int, descending: bool, out: NDArray[Any]) -> None:
    """The sorted elements; stable, NaN last (descending: first)"""
    if x.dtype.kind == "V":
        out[...] = np.take_along_axis(x, _stable_order(_plain(x), axis, descending), axis)
        return
    # Descending is ascending from the end, of elements that come in from the end.
    given, result = (np.flip(x, axis), np.flip(out, axis)) if descending else (x, out)
    kind: Any = "stable" if _order_shows(x) else None
    if x.dtype is not out.dtype:
        result[...] = np.sort(given, axis=axis, kind=kind)
        return
    np.copyto(result, given)
    result.sort(axis=axis, kind=kind)


def argsort(x: NDArray[Any], *, axis: int, descending: bool, out: NDArray[Any]) -> None:
    """The indices that sort"""
    out[...] = _stable_order(_plain(x), axis, descending)


def partition(x: NDArray[Any], *, axis: int, descending: bool, out: NDArray[Any]) -> None:
    """Implemented as a full sort"""
    sort(x, axis=axis, descending=descending, out=out)


def argpartition(x: NDArray[Any], *, axis: int, descending: bool, out: NDArray[Any]) -> None:
    """The indices of partition"""
    argsort(x, axis=axis, descending=descending, out=out)


def topk(
    x: NDArray[Any], *, axis: int, largest: bool, out: tuple[NDArray[Any], NDArray[Any]]
) -> None:
    """The first elements of the sorted rows, and their indices"""
    values, indices = out
    order = _stable_order(_plain(x), axis, largest)
    order = np.take(order, np.arange(indices.shape[axis]), axis)
    indices[...] = order
    values[...] = np.take_along_axis(x, order, axis)


def lexsort(*keys: NDArray[Any], axis: int, out: NDArray[Any]) -> None:
    """The indices that sort by the last key, ties by the one before it, ..."""
    out[...] = np.lexsort([_plain(key) for key in keys], axis)


def unique(
    x: NDArray[Any],
    *,
    equal_nan: bool,
    index: bool,
    inverse: bool,
    counts: bool,
    out: tuple[NDArray[Any], ...],
) -> None:
    """out = (number, values) and what is asked for; only the first `number` are set"""
    number, values, *others = out
    plain = _plain(x)
    # The first of equal elements stands for them, and NaN stay in order.
    first = index or inverse or _order_shows(plain)
    function: Any = np.unique
    found = function(plain, first, inverse, counts, equal_nan=equal_nan)
    parts = list(found) if first or others else [found]
    size = number[0] = parts[0].size
    values[:size] = parts.pop(0)
    if first and not index:
        parts.pop(0)
    for result, part in zip(others, parts, strict=True):
        if inverse and result is others[index]:
            result[...] = part.reshape(x.shape)
        else:
            result[:size] = part


unique_all = unique_counts = unique_inverse = unique_values = unique


def select_flagged(x: NDArray[Any], flags: NDArray[Any], *, out: tuple[NDArray[Any], ...]) -> None:
    """out = (selected elements, number); only the first `number` are set"""
    values, number = out
    selected = x[flags]
    number[0] = selected.size
    values[: selected.size] = selected


def searchsorted(
    x1: NDArray[Any], x2: NDArray[Any], *, side: Any, sorter: Any, out: NDArray[Any]
) -> None:
    """Insertion indices of the elements of x2 in x1"""
    if sorter is not None:
        sorter = np.clip(sorter.astype(np.int64), 0, max(x1.size - 1, 0))
    np.copyto(out, _plain(x1).searchsorted(_plain(x2), side, sorter))


def gather_1d(x: NDArray[Any], index: NDArray[Any], *, out: NDArray[Any]) -> None:
    """x[index]"""
    out[...] = x[index]


def digitize(x: NDArray[Any], bins: NDArray[Any], *, right: bool, out: NDArray[Any]) -> None:
    """The bin of each element; bins ascending or descending"""
    x, bins = _plain(x), _plain(bins)
    side: Any = "left" if right else "right"
    if bins.size > 1 and bins[-1] < bins[0]:
        out[...] = bins.size - np.searchsorted(bins[::-1], x, side)
    else:
        out[...] = np.searchsorted(bins, x, side)


def isin(x: NDArray[Any], test: NDArray[Any], *, invert: bool, out: NDArray[Any]) -> None:
    """Whether each element is among the test elements"""
    out[...] = np.isin(_plain(x), _plain(test), invert=invert)


def _set_function(function: Any) -> Any:
    def reference(x1: NDArray[Any], x2: NDArray[Any]) -> NDArray[Any]:
        result: NDArray[Any] = function(_plain(x1), _plain(x2))
        return result

    return reference


union1d = _set_function(np.union1d)
intersect1d = _set_function(np.intersect1d)
setdiff1d = _set_function(np.setdiff1d)
setxor1d = _set_function(np.setxor1d)


def _equal_edges(low: Any, high: Any, steps: Any, dtype: Any, number: int) -> NDArray[Any]:
    """numpy.linspace with every step rounded to the dtype `steps`"""
    wide = np.float64

    def rounded(value: Any) -> Any:
        return np.asarray(value, wide).astype(steps).astype(wide)

    low, high = wide(low), wide(high)
    if low == high:
        low, high = rounded(low - 0.5), rounded(high + 0.5)
    step = rounded(rounded(high - low) / number)
    edges = rounded(rounded(np.arange(number + 1) * step) + low)
    edges[-1] = high
    result: NDArray[Any] = edges.astype(dtype)
    return result


def _bins_of(x: NDArray[Any], edges: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Which elements are in a bin, and in which"""
    inside = (x >= edges[0]) & (x <= edges[-1])
    bins = np.searchsorted(edges, x[inside], "right") - 1
    return inside, np.minimum(bins, edges.size - 2)


def histogram(
    x: NDArray[Any],
    *,
    edges: Any,
    weights: Any,
    low: Any = None,
    high: Any = None,
    out: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    """out = (counts, edges): given edges, or equal bins from low to high (None: data range)"""
    counts, edges_out = out
    flat = np.ravel(x).astype(np.float64)
    with np.errstate(all="ignore"):
        if edges is None:
            dtype = edges_out.dtype
            if low is None:
                edges = _equal_edges(flat.min(), flat.max(), dtype, dtype, counts.size)
            else:
                edges = _equal_edges(low, high, np.float64, dtype, counts.size)
            edges_out[...] = edges
        else:
            edges_out[...] = edges
        if counts.size == 0:
            return
        inside, bins = _bins_of(flat, edges.astype(np.float64))
        chosen = None if weights is None else np.ravel(weights)[inside].astype(np.float64)
        counts[...] = np.bincount(bins, chosen, counts.size).astype(counts.dtype)


def histogram_density(counts: NDArray[Any], edges: NDArray[Any], *, out: NDArray[Any]) -> None:
    """Counts divided by bin widths and by their sum"""
    wide = counts.astype(np.float64)
    with np.errstate(all="ignore"):
        out[...] = wide / np.diff(edges.astype(np.float64)) / wide.sum()


def integer_range(x: NDArray[Any], *, out: NDArray[Any]) -> None:
    """Smallest and largest element"""
    out[0], out[1] = x.min().astype(np.int64), x.max().astype(np.int64)


def bincount(x: NDArray[Any], *, weights: Any, out: NDArray[Any]) -> None:
    """The count of each number, or the sum of its weights"""
    chosen = None if weights is None else weights.astype(np.float64)
    out[...] = np.bincount(x.astype(np.int64), chosen, out.size)


def median(rows: NDArray[Any], *, out: NDArray[Any]) -> None:
    """The median of each row: the mean of the middle two for an even length"""
    with np.errstate(all="ignore"):
        wide = np.sort(rows.astype(np.float64), axis=1)
        length = wide.shape[1]
        low, high = wide[:, (length - 1) // 2], wide[:, length // 2]
        middle = low if length % 2 else (low + high) / 2
        out[...] = np.where(np.isnan(wide[:, -1]), np.nan, middle).astype(out.dtype)


def quantile(rows: NDArray[Any], q: NDArray[Any], *, out: NDArray[Any]) -> None:
    """out[k, r]: the value at fraction q[k] of row r, linearly interpolated"""
    with np.errstate(all="ignore"):
        wide = np.sort(rows.astype(np.float64), axis=1)
        last = wide.shape[1] - 1
        for k, fraction in enumerate(q):
            place = fraction * last
            below = min(int(np.floor(place)), last)
            t = place - below
            low, high = wide[:, below], wide[:, min(below + 1, last)]
            step = high - low
            between = high - step * (1 - t) if t >= 0.5 else low + step * t
            value = np.where((low == high) | (t == 0), low, between)
            out[k] = np.where(np.isnan(wide[:, -1]), np.nan, value).astype(out.dtype)


def percentile(rows: NDArray[Any], q: NDArray[Any], *, out: NDArray[Any]) -> None:
    """Same with percentages"""
    quantile(rows, q / 100.0, out=out)


__all__ = [
    "argpartition",
    "argsort",
    "bincount",
    "digitize",
    "gather_1d",
    "histogram",
    "histogram_density",
    "integer_range",
    "intersect1d",
    "isin",
    "lexsort",
    "median",
    "partition",
    "percentile",
    "quantile",
    "searchsorted",
    "select_flagged",
    "setdiff1d",
    "setxor1d",
    "sort",
    "topk",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]
