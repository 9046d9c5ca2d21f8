"""Sorts, searches in sorted data, sets, histograms and quantiles.

bfloat16 is sorted and searched as float32, which orders it the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pygpukit._reference.blocks import LARGE

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _plain(x: NDArray[Any]) -> NDArray[Any]:
    """Converts to a dtype that NumPy can sort."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


def _stable_order(x: NDArray[Any], axis: int, descending: bool) -> NDArray[Any]:
    rows = np.moveaxis(x, axis, -1)
    if (keys := _order_keys(rows)) is not None:
        return np.moveaxis(_order_by_keys(keys, descending), -1, axis)
    if descending:
        last = x.shape[axis] - 1
        backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order: NDArray[Any] = last - np.flip(backwards, axis)
        return order
    if x.dtype.char == "d" and x.size >= LARGE:
        return np.moveaxis(_order_of_floats(rows), -1, axis)
    return np.argsort(x, axis=axis, kind="stable")


def _order_keys(x: NDArray[Any]) -> NDArray[Any] | None:
    """New int32 numbers in the order of the elements; None for dtypes that have more."""
    if x.dtype.char in "ef":
        bits: NDArray[Any] = np.add(x, np.float32(0), order="C").view(np.int32)  # -0.0 is 0.0
        bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)  # negative numbers the other way round
        nan = np.not_equal(x, x)
        if nan.any():
            bits[nan] = 0x7FFFFFFF
        return bits
    if x.dtype.kind not in "biu" or x.dtype.itemsize > 4:
        return None
    if x.dtype.char in "IL":  # uint32
        x = np.bitwise_xor(x, np.uint32(0x80000000), order="C").view(np.int32)
    return x.astype(np.int32, order="C")


def _order_by_keys(keys: NDArray[Any], descending: bool) -> NDArray[Any]:
    """A sort of numbers that begin with the key and end with the index is stable, and takes less
    time than NumPy's argsort of either kind."""
    if descending:
        np.invert(keys, out=keys)
    wide: NDArray[Any] = np.left_shift(keys, 32, dtype=np.int64)
    wide |= np.arange(keys.shape[-1])
    wide.sort(axis=-1)
    wide &= 0xFFFFFFFF
    return wide


def _order_of_floats(rows: NDArray[Any]) -> NDArray[Any]:
    """NumPy's unstable sort takes a fraction of the time; then equal elements are put in order."""
    order = np.argsort(rows, axis=-1)
    values = np.take_along_axis(rows, order, -1)
    first = np.ones(values.shape, bool)  # of equal elements; NaN are equal
    np.not_equal(values[..., 1:], values[..., :-1], out=first[..., 1:])
    first[..., 1:] &= ~(np.isnan(values[..., 1:]) & np.isnan(values[..., :-1]))
    rest = ~first
    if not rest.any():
        return order
    equal = rest.copy()
    equal[..., :-1] |= rest[..., 1:]
    if np.count_nonzero(equal) * 4 > equal.size:
        return np.argsort(rows, axis=-1, kind="stable")
    chosen = order[equal]
    order[equal] = chosen[np.lexsort((chosen, np.cumsum(first[equal])))]
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


def _are_equal(edges: NDArray[Any]) -> bool:
    """Whether bins are equal up to a rounding that is small beside their width."""
    width = (edges[-1] - edges[0]) / (edges.size - 1)
    if edges.dtype.char not in "fd" or not np.isfinite(width):
        return False
    return bool(width > 64 * np.finfo(edges.dtype).eps * np.abs(edges[[0, -1]]).max())


def _bins_of(x: NDArray[Any], edges: NDArray[Any], equal: bool) -> NDArray[Any]:
    """The bins of elements that are in one"""
    last = edges.size - 2
    if not equal:
        found: NDArray[Any] = np.minimum(np.searchsorted(edges, x, "right") - 1, last)
        return found
    scale = (last + 1) / (edges[-1] - edges[0])
    bins: NDArray[Any] = ((x - edges[0]) * scale).astype(np.intp)  # or a neighbour
    np.minimum(bins, last, out=bins)
    bins -= x < edges[bins]
    bins += (x >= edges[bins + 1]) & (bins != last)
    return bins


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
    flat = np.ravel(_plain(x))
    equal = edges is None
    with np.errstate(all="ignore"):
        if edges is None:
            dtype = edges_out.dtype
            if low is None:
                low, high = flat.min().astype(np.float64), flat.max().astype(np.float64)
                edges = _equal_edges(low, high, dtype, dtype, counts.size)
            else:
                edges = _equal_edges(low, high, np.float64, dtype, counts.size)
            edges_out[...] = edges
        else:
            edges_out[...] = edges
        if counts.size == 0:
            return
        equal = equal and _are_equal(edges)
        wide = edges.astype(np.float64)
        total: Any = 0
        for start in range(0, flat.size, LARGE):  # parts that stay in the cache
            part = flat[start : start + LARGE].astype(np.float64)
            inside = (part >= wide[0]) & (part <= wide[-1])
            chosen = None
            if weights is not None:
                chosen = np.ravel(weights)[start : start + LARGE][inside].astype(np.float64)
            bins = _bins_of(part if inside.all() else part[inside], wide, equal)
            total = total + np.bincount(bins, chosen, counts.size)
        counts[...] = np.asarray(total).astype(counts.dtype)


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
