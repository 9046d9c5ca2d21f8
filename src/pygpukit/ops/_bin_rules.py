"""How many equal bins a histogram should have: the rules that NumPy knows by name.

A rule gives the width of a bin. It reads a few numbers back from the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pygpukit import _native
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

Limits = tuple[float, float]


def _extent(x: GPUArray) -> float:
    return float(_native.subtract(_native.max(x), _native.min(x)))


def _deviation(x: GPUArray) -> float:
    return float(_native.std(_native.astype(x, "float64", False)))


def _sqrt(x: GPUArray, limits: Limits) -> float:
    return _extent(x) / math.sqrt(x.size)


def _sturges(x: GPUArray, limits: Limits) -> float:
    return _extent(x) / (math.log2(x.size) + 1.0)


def _rice(x: GPUArray, limits: Limits) -> float:
    return _extent(x) / (2.0 * math.pow(x.size, 1.0 / 3))


def _scott(x: GPUArray, limits: Limits) -> float:
    return math.pow(24.0 * math.sqrt(math.pi) / x.size, 1.0 / 3) * _deviation(x)


def _freedman_diaconis(x: GPUArray, limits: Limits) -> float:
    quartiles = _native.quantile(x, [0.25, 0.75], (2,), True, None, False, "histogram")
    low, high = quartiles.to_numpy().tolist()
    return float(2.0 * (high - low) / x.size ** (1.0 / 3))


def _doane(x: GPUArray, limits: Limits) -> float:
    """Sturges' rule with more bins for skewed data."""
    n = x.size
    deviation = _deviation(x)
    if n <= 2 or deviation == 0:
        return 0.0
    wide = _native.astype(x, "float64", False)
    scaled = _native.divide(_native.subtract(wide, _native.mean(wide)), deviation)
    skew = float(_native.mean(_native.pow(scaled, 3)))
    spread = math.sqrt(6.0 * (n - 2) / ((n + 1.0) * (n + 3)))
    return _extent(x) / (1.0 + math.log2(n) + math.log2(1.0 + abs(skew) / spread))


def _stone(x: GPUArray, limits: Limits) -> float:
    """The least estimated squared error, by leaving one element out: tries up to 100 counts, or
    the root of the number of elements."""
    n, extent = x.size, _extent(x)
    if n <= 1 or extent == 0:
        return 0.0
    best, least = 1, math.inf
    for bins in range(1, max(100, int(math.sqrt(n))) + 1):
        counts = _native.histogram(x, bins, limits, False, None)[0]
        shares = _native.divide(_native.astype(counts, "float64"), n)
        square = float(_native.vecdot(shares, shares))
        error = (2 - (n + 1) * square) * bins / extent
        if error < least:
            best, least = bins, error
    return extent / best


def _auto(x: GPUArray, limits: Limits) -> float:
    """Freedman and Diaconis, but no more bins than twice the root of the count, or Sturges."""
    robust = max(_freedman_diaconis(x, limits), _sqrt(x, limits) / 2)
    return min(robust, _sturges(x, limits))


RULES: dict[str, Callable[[GPUArray, Limits], float]] = {
    "auto": _auto,
    "doane": _doane,
    "fd": _freedman_diaconis,
    "rice": _rice,
    "scott": _scott,
    "sqrt": _sqrt,
    "stone": _stone,
    "sturges": _sturges,
}


def number_of_bins(
    x: GPUArray, rule: str, limits: tuple[float, float] | None, weights: object
) -> int:
    """The number of equal bins that a rule gives."""
    if rule not in RULES:
        raise InvalidValueError(
            f"histogram: bins is {safe_repr(rule)}, expected a number, edges or one of "
            f"{', '.join(RULES)}"
        )
    if weights is not None:
        raise InvalidTypeError(f"histogram: bins is {rule!r}, which does not take weights")
    if limits is not None:
        low, high = (float(n) for n in limits)
        x = x[_native.logical_and(_native.greater_equal(x, low), _native.less_equal(x, high))]
    x = _native.reshape(x, (-1,))
    if x.size == 0:
        return 1
    if limits is None:
        low, high = float(_native.min(x)), float(_native.max(x))
    if low == high:
        low, high = low - 0.5, high + 0.5
    width = RULES[rule](x, (low, high))
    if not width > 0:
        return 1
    if "int" in x.dtype.name:
        width = max(width, 1.0)
    return math.ceil((high - low) / width)
