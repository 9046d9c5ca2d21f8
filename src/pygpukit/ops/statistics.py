"""Covariance, quantiles without NaN, histograms in several dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import host_numbers
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.conversion import as_operands, asarray

if TYPE_CHECKING:
    from collections.abc import Sequence

    Axis = int | tuple[int, ...] | None


# --- covariance ----------------------------------------------------------------------------------


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> GPUArray:
    """The covariance matrix of variables: rows are variables, columns observations.

    rowvar=False: the other way round. Divided by the number of observations minus one; bias=True:
    by their number; ddof: by their number minus it. fweights says how often an observation
    counts, aweights how much. At least float64, as NumPy's.
    """
    x, *others = as_operands(m) if y is None else as_operands(m, y)
    if x.ndim > 2:
        raise InvalidValueError(f"cov: m has shape {x.shape}, expected at most two dimensions")
    other = others[0] if others else None
    if other is not None and other.ndim > 2:
        raise InvalidValueError(f"cov: y has shape {other.shape}, expected at most two dimensions")
    kinds = [v for v in (x, other) if v is not None]
    kind = _native.result_type(*kinds, "float64") if dtype is None else _native.result_type(dtype)
    rows = _rows(x, kind, rowvar)
    if other is not None:
        rows = _native.concat([rows, _rows(other, kind, rowvar)], 0)
    count = rows.shape[1]
    if ddof is None:
        ddof = 0 if bias else 1
    times = _observation_weights("fweights", fweights, rows)
    shares = _observation_weights("aweights", aweights, rows)
    if times is None and shares is None:
        centred = _native.subtract(rows, _native.mean(rows, 1, keepdims=True))
        scale: Any = (
            1.0 / (count - ddof) if count > ddof else float("inf" if count == ddof else "nan")
        )
        return _native.squeeze(_native.multiply(_products(centred, centred), scale))
    one = _native.ones((count,), "float64", device=x.device)
    weight = _native.multiply(one if times is None else times, one if shares is None else shares)
    total = _native.sum(weight)
    mean = _native.divide(_native.sum(_native.multiply(rows, weight), 1, keepdims=True), total)
    centred = _native.subtract(rows, mean)
    lost: Any = float(ddof)
    if shares is not None:
        lost = _native.multiply(_native.divide(_native.vecdot(weight, shares), total), lost)
    divisor = _native.maximum(_native.subtract(total, lost), 0.0)
    product = _products(centred, _native.multiply(centred, weight))
    return _native.squeeze(_native.divide(product, divisor))


def _products(left: GPUArray, right: GPUArray) -> GPUArray:
    """The scalar products of all pairs of rows."""
    transposed = _native.conj(_native.transpose(right))
    return _native.matmul(left, _native.ascontiguousarray(transposed))


def _observation_weights(name: str, given: Any, rows: GPUArray) -> GPUArray | None:
    if given is None:
        return None
    count = rows.shape[1]
    weights = as_operands(given, rows)[0]
    if weights.shape != (count,):
        raise InvalidValueError(
            f"cov: {name} has shape {weights.shape}, expected ({count},), one for each observation"
        )
    if name == "fweights" and "int" not in weights.dtype.name:
        raise InvalidTypeError(f"cov: fweights are {weights.dtype}, expected integers")
    return _native.astype(weights, "float64", False)


def _rows(x: GPUArray, dtype: Any, rowvar: bool) -> GPUArray:
    matrix = _native.astype(x, dtype, False)
    if x.ndim < 2:
        return _native.reshape(matrix, (1, -1))
    return matrix if rowvar else _native.transpose(matrix)


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> GPUArray:
    """The correlation coefficients of variables: the covariance over the deviations."""
    matrix = cov(x, y, rowvar, dtype=dtype)
    if matrix.ndim == 0:
        return _native.divide(matrix, matrix)
    deviation = _native.sqrt(_native.real(_native.diagonal(matrix)))
    ratio = _native.divide(matrix, _native.expand_dims(deviation, 1))
    ratio = _native.divide(ratio, _native.expand_dims(deviation, 0))
    if ratio.dtype.name.startswith("complex"):
        return ratio
    return _native.clip(ratio, -1.0, 1.0)


# --- order statistics without NaN ----------------------------------------------------------------


def nanquantile(
    a: Any,
    q: Any,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
) -> GPUArray:
    """The quantiles q (0 to 1) of the elements that are not NaN.

    method is 'linear' or 'inverted_cdf', which takes weights.
    """
    return _nan_quantile("nanquantile", a, q, 1.0, axis, method, keepdims, weights)


def nanpercentile(
    a: Any,
    q: Any,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: Any = None,
) -> GPUArray:
    """nanquantile with percentages (0 to 100)."""
    return _nan_quantile("nanpercentile", a, q, 100.0, axis, method, keepdims, weights)


def nanmedian(a: Any, axis: Axis = None, *, keepdims: bool = False) -> GPUArray:
    """The median of the elements that are not NaN."""
    return _nan_quantile("nanmedian", a, 0.5, 1.0, axis, "linear", keepdims)


def _nan_quantile(
    op: str,
    a: Any,
    q: Any,
    scale: float,
    axis: Axis,
    method: str,
    keepdims: bool,
    weights: Any = None,
) -> GPUArray:
    from pygpukit.ops._quantile_methods import check_weighted, weighted_quantile

    if method not in ("linear", "inverted_cdf"):
        raise InvalidValueError(
            f"{op}: method is {safe_repr(method)}, expected 'linear' or 'inverted_cdf'"
        )
    if weights is not None:
        check_weighted(method, op)
    if isinstance(q, GPUArray):
        raise InvalidTypeError(f"{op}: q is a GPUArray, expected numbers on the host")
    fractions = host_numbers(op, "q", q) / scale
    if not ((fractions >= 0) & (fractions <= 1)).all():
        raise InvalidValueError(f"{op}: q is {safe_repr(q)}, expected numbers from 0 to {scale:g}")
    x = asarray(a)
    if method == "inverted_cdf":
        ones = _native.ones(x.shape, "float64", device=x.device)
        given = ones if weights is None else weights
        values, shape = fractions.reshape(-1).tolist(), fractions.shape
        return weighted_quantile(x, values, shape, axis, given, keepdims, op, skip_nan=True)
    if "float" not in x.dtype.name:
        x = _native.astype(x, "float64")
    kept = _native.max(x, axis, keepdims=True).shape if x.size else _kept_shape(op, x, axis)
    rows, shape = _last_axis(x, axis)
    ordered = _native.sort(rows, axis=-1)  # NaN last
    number = _native.sum(~_native.isnan(ordered), -1, keepdims=True, dtype="int64")
    final = kept if keepdims else shape
    stacked = [
        _native.reshape(_interpolated(ordered, number, fraction), final)
        for fraction in fractions.reshape(-1).tolist()
    ]
    if fractions.ndim == 0:
        return stacked[0]
    return _native.reshape(_native.stack(stacked, 0), (*fractions.shape, *final))


def _kept_shape(op: str, x: GPUArray, axis: Axis) -> tuple[int, ...]:
    return _native.sum(x, axis, keepdims=True).shape


def _last_axis(x: GPUArray, axis: Axis) -> tuple[GPUArray, tuple[int, ...]]:
    """The reduced axes as one last axis, and the shape of the others."""
    if axis is None:
        return _native.reshape(x, (-1,)), ()
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    moved = _native.moveaxis(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
    shape = moved.shape[: x.ndim - len(axes)]
    size = 1
    for n in moved.shape[x.ndim - len(axes) :]:
        size *= n
    return _native.reshape(moved, (*shape, size)), shape


def _interpolated(ordered: GPUArray, number: GPUArray, fraction: float) -> GPUArray:
    if ordered.shape[-1] == 0:
        return _native.full(number.shape, float("nan"), ordered.dtype, device=ordered.device)
    place = _native.multiply(_native.astype(_native.subtract(number, 1), "float64"), fraction)
    below = _native.floor(place)
    last = ordered.shape[-1] - 1
    low = _native.clip(_native.astype(below, "int64"), 0, last)
    high = _native.clip(_native.add(low, 1), 0, last)
    # Beyond the last number that is not NaN there is nothing to interpolate with.
    high = _native.minimum(high, _native.maximum(_native.subtract(number, 1), 0))
    first = _native.take_along_axis(ordered, low, axis=-1)
    second = _native.take_along_axis(ordered, high, axis=-1)
    weight = _native.astype(_native.subtract(place, below), ordered.dtype)
    step = _native.subtract(second, first)
    # From the nearer end, so that both ends are exact.
    value = _native.where(
        _native.less(weight, 0.5),
        _native.add(first, _native.multiply(step, weight)),
        _native.subtract(second, _native.multiply(step, _native.subtract(1.0, weight))),
    )
    # An infinity would give inf - inf or inf * 0.
    value = _native.where(_native.equal(weight, 0.5), _halfway(first, second), value)
    same = _native.logical_or(_native.equal(first, second), _native.equal(weight, 0.0))
    return _native.where(same, first, value)


def _halfway(first: GPUArray, second: GPUArray) -> GPUArray:
    return _native.add(_native.multiply(first, 0.5), _native.multiply(second, 0.5))


# --- histograms ----------------------------------------------------------------------------------


def histogram_bin_edges(
    a: Any, bins: Any = 10, range: tuple[float, float] | None = None, weights: Any = None
) -> GPUArray:
    """The edges of the bins of histogram."""
    from pygpukit.ops.histograms import histogram

    return histogram(asarray(a), bins, range, weights=weights)[1]


def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Sequence[tuple[float, float] | None] | None = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[GPUArray, GPUArray, GPUArray]:
    """(counts, edges of x, edges of y): counts of points in the cells of a grid, as float64.

    bins: one number or edges for both axes, or a pair of them.
    """
    first, second = as_operands(x, y)
    if first.shape != second.shape or first.ndim != 1:
        raise InvalidValueError(
            f"histogram2d: x has shape {first.shape}, y {second.shape}; expected vectors of one "
            "length"
        )
    if (hasattr(bins, "__len__") and not isinstance(bins, GPUArray) and len(bins) != 2) or (
        isinstance(bins, GPUArray) and bins.size != 2
    ):
        bins = [bins, bins]
    counts, edges = histogramdd([first, second], bins, range, density, weights)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Sequence[tuple[float, float] | None] | None = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[GPUArray, tuple[GPUArray, ...]]:
    """(counts, edges of each axis): counts of points in the cells of a grid, as float64.

    `sample` is a matrix with a point in each row, or a sequence of coordinate vectors. Points
    outside of the grid are not counted.
    """
    columns = _columns(sample)
    device = columns[0].device
    per_axis = bins
    if isinstance(bins, GPUArray) or not hasattr(bins, "__len__"):
        per_axis = [bins] * len(columns)
    if len(per_axis) != len(columns):
        raise InvalidValueError(
            f"histogramdd: {len(per_axis)} bins for {len(columns)} coordinates, expected as many"
        )
    ranges = [None] * len(columns) if range is None else list(range)
    if len(ranges) != len(columns):
        raise InvalidValueError(
            f"histogramdd: {len(ranges)} ranges for {len(columns)} coordinates, expected as many"
        )
    edges = tuple(
        _edges(x, bins, limits, device)
        for x, bins, limits in zip(columns, per_axis, ranges, strict=True)
    )
    shape = tuple(e.size - 1 for e in edges)
    cell, inside = _cells(columns, edges, shape)
    total = 1
    for n in shape:
        total *= n
    # Points outside go into one more cell, which is dropped.
    cell = _native.where(inside, cell, total)
    if weights is not None:
        weights = _native.astype(asarray(weights, device=device), "float64", False)
    counts = _native.histogram(cell, total + 1, (0, total + 1), False, weights)[0]
    counts = _native.astype(counts, "float64", False)[:total]
    counts = _native.reshape(counts, shape)
    if density:
        counts = _native.divide(counts, _native.sum(counts))
        for axis, edge in enumerate(edges):
            width = _native.subtract(edge[1:], edge[:-1])
            place = [1] * len(shape)
            place[axis] = -1
            counts = _native.divide(counts, _native.reshape(width, tuple(place)))
    return counts, edges


def _columns(sample: Any) -> list[GPUArray]:
    if isinstance(sample, (list, tuple)) and all(isinstance(x, GPUArray) for x in sample):
        return list(sample)
    points = asarray(sample)
    if not isinstance(sample, GPUArray) and points.ndim == 2:  # a sequence of coordinates
        return [points[n] for n in range(points.shape[0])]
    if points.ndim == 1:
        points = _native.reshape(points, (-1, 1))
    return [points[:, n] for n in range(points.shape[1])]


def _edges(x: GPUArray, bins: Any, limits: Any, device: str) -> GPUArray:
    if hasattr(bins, "__index__") and not isinstance(bins, GPUArray):
        return _native.histogram(_native.astype(x, "float64", False), bins, limits, False, None)[1]
    edges = _native.astype(asarray(bins, device=device), "float64", False)
    if edges.ndim != 1:
        raise InvalidValueError(f"histogramdd: bins has shape {edges.shape}, expected a vector")
    return edges


def _cells(
    columns: list[GPUArray], edges: tuple[GPUArray, ...], shape: tuple[int, ...]
) -> tuple[GPUArray, GPUArray]:
    """The flat index of each point's cell, and whether it is inside the grid."""
    cell: Any = 0
    inside: Any = True
    for x, edge, count in zip(columns, edges, shape, strict=True):
        value = _native.astype(x, "float64", False)
        place = _native.searchsorted(edge, value, side="right")
        # The last bin includes its upper edge.
        place = _native.where(_native.equal(value, edge[-1]), count, place)
        valid = _native.logical_and(
            _native.greater_equal(place, 1), _native.less_equal(place, count)
        )
        inside = valid if inside is True else _native.logical_and(inside, valid)
        step = _native.subtract(place, 1)
        cell = step if isinstance(cell, int) else _native.add(_native.multiply(cell, count), step)
    return cell, inside


__all__ = [
    "corrcoef",
    "cov",
    "histogram2d",
    "histogram_bin_edges",
    "histogramdd",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
]

name_all(globals(), __all__)
