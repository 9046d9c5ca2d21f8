"""Quantiles by the methods of NumPy other than 'linear': a place between two sorted elements.

A method gives each fraction q of n elements a virtual index; the result lies between the elements
around it. The formulas are those of Hyndman and Fan, and NumPy's four discrete ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

# (virtual index, weight of the element after it, between 0 and 1)
Place = tuple[float, float]


def _continuous(alpha: float, beta: float) -> Callable[[int, float], Place]:
    def place(n: int, q: float) -> Place:
        index = n * q + (alpha + q * (1 - alpha - beta)) - 1
        return index, index - math.floor(index)

    return place


def _averaged_inverted_cdf(n: int, q: float) -> Place:
    index = n * q - 1
    return index, 0.5 if index == math.floor(index) else 1.0


def _inverted_cdf(n: int, q: float) -> Place:
    index = n * q - 1
    return index, 0.0 if index == math.floor(index) else 1.0


def _closest_observation(n: int, q: float) -> Place:
    index = n * q - 1 - 0.5
    below = math.floor(index)
    return index, 0.0 if index == below and below % 2 == 1 else 1.0


def _midpoint(n: int, q: float) -> Place:
    index = (n - 1) * q
    return index, 0.0 if index == math.floor(index) else 0.5


def _nearest(n: int, q: float) -> Place:
    index = (n - 1) * q
    below = math.floor(index)
    part = index - below
    return index, 1.0 if part > 0.5 or (part == 0.5 and below % 2 == 1) else 0.0


METHODS: dict[str, Callable[[int, float], Place]] = {
    "averaged_inverted_cdf": _averaged_inverted_cdf,
    "closest_observation": _closest_observation,
    "hazen": _continuous(0.5, 0.5),
    "higher": lambda n, q: (math.ceil((n - 1) * q), 0.0),
    "interpolated_inverted_cdf": _continuous(0, 1),
    "inverted_cdf": _inverted_cdf,
    "lower": lambda n, q: (math.floor((n - 1) * q), 0.0),
    "median_unbiased": _continuous(1 / 3, 1 / 3),
    "midpoint": _midpoint,
    "nearest": _nearest,
    "normal_unbiased": _continuous(3 / 8, 3 / 8),
    "weibull": _continuous(0, 0),
}
# These give elements, in their own dtype.
_DISCRETE = ("closest_observation", "higher", "inverted_cdf", "lower", "nearest")


def quantile_by(
    x: GPUArray,
    fractions: list[float],
    shape: tuple[int, ...],
    axis: Any,
    method: str,
    keepdims: bool,
    op: str,
) -> GPUArray:
    """Quantiles along axes; `shape` is that of q, which leads the result's."""
    _check_fractions(fractions, op)
    axes = _axes(x, axis)
    rows = _rows(x, axes)
    if rows.shape[-1] == 0:
        raise InvalidValueError(f"{op}: x has shape {x.shape}, there is no quantile of no elements")
    ordered = _native.sort(rows)
    found = [_at(ordered, q, method) for q in fractions]
    return _assembled(x, axes, found, shape, keepdims)


def weighted_quantile(
    x: GPUArray,
    fractions: list[float],
    shape: tuple[int, ...],
    axis: Any,
    weights: Any,
    keepdims: bool,
    op: str,
    skip_nan: bool = False,
) -> GPUArray:
    """The inverted distribution function of elements that count as much as their weights: the
    first sorted element at which the weights reach the share q of their sum.

    With skip_nan, NaN has no weight. Weights in a GPUArray are not checked; where their sum is 0
    or not finite, a float result is NaN.
    """
    _check_fractions(fractions, op)
    axes = _axes(x, axis)
    rows = _rows(x, axes)
    weight = _rows(_weights(x, weights, axis, op), axes)
    if rows.shape[-1] == 0:
        raise InvalidValueError(f"{op}: x has shape {x.shape}, there is no quantile of no elements")
    if skip_nan:
        weight = _native.where(_native.isnan(rows), 0.0, weight)
    order = _native.argsort(rows, stable=True)
    ordered = _native.take_along_axis(rows, order, axis=-1)
    sums = _native.cumsum(_native.take_along_axis(weight, order, axis=-1), -1)
    share = _native.divide(sums, sums[..., -1:])
    # Elements without weight ahead of the first that has one are never the result.
    share = _native.where(_native.equal(share, 0.0), -1.0, share)
    last = rows.shape[-1] - 1
    undefined = _native.isnan(share[..., last])
    if _has_nan(rows) and not skip_nan:
        undefined = _native.logical_or(undefined, _native.isnan(ordered[..., last]))
    found = []
    for q in fractions:
        place = _native.sum(_native.less(share, q), -1, keepdims=True)
        place = _native.minimum(place, last)
        value = _native.squeeze(_native.take_along_axis(ordered, place, axis=-1), -1)
        found.append(_native.where(undefined, math.nan, value) if _has_nan(rows) else value)
    return _assembled(x, axes, found, shape, keepdims)


def check_weighted(method: str, op: str) -> None:
    """Weights have a meaning for one method only, as in NumPy."""
    if method != "inverted_cdf":
        raise InvalidValueError(
            f"{op}: method is {method!r}; only method 'inverted_cdf' supports weights"
        )


def _weights(x: GPUArray, weights: Any, axis: Any, op: str) -> GPUArray:
    """In float64 and in the shape of x."""
    from pygpukit.ops.conversion import asarray

    if not isinstance(weights, GPUArray):
        import numpy as np

        host = np.asarray(weights)
        if host.dtype.kind in "biuf" and (host < 0).any():
            raise InvalidValueError(f"{op}: weights must be non-negative")
        if host.dtype.kind in "biuf" and not (np.isfinite(host).all() and host.any()):
            raise InvalidValueError(f"{op}: weights included NaN, inf or were all zero")
        weights = asarray(host, device=x.device)
    if weights.dtype.name.startswith("complex"):
        raise InvalidTypeError(f"{op}: weights are {weights.dtype}, expected real numbers")
    wide = _native.astype(weights, "float64", False)
    if wide.shape == x.shape:
        return wide
    if axis is None:
        raise InvalidTypeError(
            f"{op}: weights has shape {wide.shape}, x {x.shape}; axis must be specified when they "
            "differ"
        )
    axes = _axes(x, axis)
    if wide.shape != tuple(x.shape[n] for n in axes):
        raise InvalidValueError(
            f"{op}: weights has shape {wide.shape}, expected that of x, {x.shape}, along axis "
            f"{axis}"
        )
    # In the order of the axes of x, with 1 for the others.
    ordered = _native.transpose(wide, tuple(sorted(range(len(axes)), key=lambda n: axes[n])))
    sizes = tuple(size if n in axes else 1 for n, size in enumerate(x.shape))
    return _native.broadcast_to(_native.reshape(ordered, sizes), x.shape)


def _check_fractions(fractions: list[float], op: str) -> None:
    if any(not 0 <= q <= 1 for q in fractions):
        top = 100 if "percentile" in op else 1
        raise InvalidValueError(f"{op}: q is out of range, expected 0 to {top}")


def _rows(x: GPUArray, axes: tuple[int, ...]) -> GPUArray:
    """The axes as one last axis."""
    kept = [n for n in range(x.ndim) if n not in axes]
    rows = _native.transpose(x, (*kept, *axes))
    outer = tuple(x.shape[n] for n in kept)
    return _native.reshape(rows, (*outer, math.prod(x.shape[n] for n in axes)))


def _assembled(
    x: GPUArray, axes: tuple[int, ...], found: list[GPUArray], shape: tuple[int, ...], keep: bool
) -> GPUArray:
    outer = tuple(size for n, size in enumerate(x.shape) if n not in axes)
    result = _native.stack(found) if found else _native.empty((0, *outer), x.dtype, device=x.device)
    if keep:
        outer = tuple(1 if n in axes else size for n, size in enumerate(x.shape))
    return _native.reshape(result, (*shape, *outer))


def _axes(x: GPUArray, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    _native.flip(x, tuple(given))  # raises for axes out of bounds and repeated ones
    return tuple(n % x.ndim for n in given)


def _at(ordered: GPUArray, q: float, method: str) -> GPUArray:
    """The quantile of each sorted row; NaN where there is one, which is last."""
    last = ordered.shape[-1] - 1
    index, weight = METHODS[method](last + 1, q)
    below = min(max(math.floor(index), 0), last)
    above = min(max(math.floor(index) + 1, 0), last)
    low, high = ordered[..., below], ordered[..., above]
    if method in _DISCRETE:
        value = high if weight else low
    else:
        value = _between(low, high, weight)
    largest = ordered[..., last]
    return _native.where(_native.isnan(largest), largest, value) if _has_nan(ordered) else value


def _has_nan(x: GPUArray) -> bool:
    return not ("int" in x.dtype.name or x.dtype.name == "bool")


def _between(low: GPUArray, high: GPUArray, weight: float) -> GPUArray:
    """NumPy's interpolation, from the nearer end."""
    if not _has_nan(low):
        low, high = _native.astype(low, "float64"), _native.astype(high, "float64")
    step = _native.subtract(high, low)
    if weight >= 0.5:
        return _native.subtract(high, _native.multiply(step, 1 - weight))
    return _native.add(low, _native.multiply(step, weight))
