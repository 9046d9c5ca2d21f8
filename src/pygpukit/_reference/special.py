"""Special functions that NumPy and Python's math module lack, in float64."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Values = NDArray[np.float64]


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """Computes in float64 and rounds once."""

    def run(*operands: NDArray[Any]) -> Any:
        wide = [x.astype(np.float64) for x in operands]
        return np.asarray(function(*wide)).astype(operands[0].dtype)

    return run


def by_element(function: Callable[[float], float]) -> Callable[..., Any]:
    """A function of Python's math module for arrays."""
    vectorized = np.vectorize(function, otypes=[np.float64])
    return lambda x: vectorized(x) if x.size else x


def _gamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:  # near 0 with the sign of x
        return math.copysign(math.inf, x)
    except ValueError:  # a pole, or -inf
        return math.nan


def digamma(x: Values) -> Values:
    """The recurrence up to 10, then the asymptotic series; negative numbers are reflected."""
    fraction = x - np.rint(x)
    reflected = np.where(x < 0, np.pi * np.cos(np.pi * fraction) / np.sin(np.pi * fraction), 0.0)
    y = np.where(x < 0, 1.0 - x, x)
    total = np.zeros_like(y)
    for _ in range(10):
        below = y < 10
        total = np.where(below, total + 1 / y, total)
        y = np.where(below, y + 1, y)
    z = 1 / np.square(y)
    tail = np.zeros_like(y)
    for bernoulli in (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):
        tail = tail * z + bernoulli
    value = np.log(y) - 0.5 / y - z * tail - total - reflected
    value = np.where((x < 0) & (fraction == 0), np.nan, value)
    return np.where(x == 0, -1 / x, np.where(y == np.inf, y - reflected, value))


_erfc = by_element(math.erfc)
_erf = by_element(math.erf)


def _log_erfc(x: Values) -> Values:
    """For x >= 2: -x**2 and the logarithm of a continued fraction."""
    fraction = np.zeros_like(x)
    for term in range(80, 0, -1):
        fraction = 0.5 * term / (x + fraction)
    return -np.square(x) - np.log(math.sqrt(math.pi) * (x + fraction))


def _inverse(y: Values, rest: Values) -> Values:
    """x >= 0 with erf(x) = y and erfc(x) = rest; 0 <= y, rest = 1 - y."""
    slope = 2 / math.sqrt(math.pi)
    w = -np.log(rest * (1 + y))
    x = np.where(w < 5, 0.886 * np.sqrt(np.pi) / 1.5708 * y, np.sqrt(np.maximum(w, 1)))
    near = rest > 0.004  # where erfc is accurate and erf is not yet 1
    for _ in range(7):  # Halley's method on erf or erfc, whichever is small
        step = np.where(y < 0.5, _erf(x) - y, rest - _erfc(x)) / (slope * np.exp(-np.square(x)))
        x = np.where(near, x - step / (1 + x * step), x)
    target = np.log(rest)
    for _ in range(7):  # Newton's on log(erfc)
        tail = np.maximum(x, 1.9)
        value = _log_erfc(tail)
        x = np.where(near, x, tail + (value - target) * np.exp(value + np.square(tail)) / slope)
    return np.where(rest == 0, np.inf, x)


def erfinv(y: Values) -> Values:
    """The inverse of erf; NaN outside of [-1, 1]."""
    size = np.abs(y)
    inside = np.where(size <= 1, size, np.nan)
    return np.copysign(_inverse(inside, 1 - inside), y)


def erfcinv(c: Values) -> Values:
    """The inverse of erfc; NaN outside of [0, 2]."""
    inside = np.where((c >= 0) & (c <= 2), c, np.nan)
    small = np.where(inside > 1, 2 - inside, inside)
    return np.where(inside > 1, -1.0, 1.0) * _inverse(1 - small, small)


def ndtr(x: Values) -> Values:
    """erfc(-x / sqrt(2)) / 2, where the rounding of the argument is made good: erfc decays so fast
    that it would be thousands of ulp at -37."""
    root = math.sqrt(0.5)
    high = float(np.float32(root))  # x * high is exact in two parts
    low = -4.833646656726458e-17 + (root - high)
    z = -root * x
    upper = np.float64(2**27 + 1) * x
    upper = upper - (upper - x)
    error = -((x - upper) * high + (upper * high + z)) - x * low
    value = _erfc(z) - 2 / math.sqrt(math.pi) * np.exp(-np.square(z)) * error
    result: Values = np.where(np.isfinite(error), 0.5 * value, 0.5 * _erfc(z))
    return result


def i0(x: Values) -> Values:
    """NumPy's; beyond its range two factors of exp(x / 2), since exp(x) overflows first."""
    size = np.abs(x)
    far = np.maximum(size, 500.0)
    half = np.exp(0.5 * far)
    series = np.ones_like(far)
    for k in range(8, 0, -1):
        series = 1 + series * (2 * k - 1) ** 2 / (8 * k * far)
    large = half / np.sqrt(far) / math.sqrt(2 * math.pi) * series * half
    inside = np.i0(np.minimum(size, 500.0)) if x.size else x
    value = np.where(size < 500, inside, np.where(size == np.inf, np.inf, large))
    return np.where(np.isnan(x), x, value)


def logit(x: Values) -> Values:
    """log(x / (1 - x)); around 1/2 through atanh, where the logarithms would cancel."""
    return np.where(np.abs(x - 0.5) < 0.25, 2 * np.arctanh(2 * x - 1), np.log(x) - np.log1p(-x))


def sinc(x: Values) -> Values:
    """sin(pi x) / (pi x): the sine of the distance from the nearest integer of that parity."""
    sine = np.sin(np.pi * (x - 2 * np.rint(0.5 * x)))
    sine = np.where(x == np.rint(x), 0 * x, sine)
    return np.where(x == 0, 1.0, sine / (np.pi * np.where(x == 0, 1.0, x)))


def entr(x: Values) -> Values:
    """-x log(x), 0 at 0, -inf below"""
    return np.where(x > 0, -x * np.log(x), np.where(x == 0, 0.0, np.where(x < 0, -np.inf, x)))


def xlogy(x: Values, y: Values) -> Values:
    """x log(y), 0 where x is 0 unless y is NaN"""
    return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log(y))


def xlog1py(x: Values, y: Values) -> Values:
    """x log(1 + y), 0 where x is 0 unless y is NaN"""
    return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log1p(y))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "gamma": by_element(_gamma),
    "digamma": digamma,
    "erfinv": erfinv,
    "erfcinv": erfcinv,
    "ndtr": ndtr,
    "ndtri": lambda p: 0.0 - math.sqrt(2) * erfcinv(2 * p),
    "logit": logit,
    "i0": i0,
    "sinc": sinc,
    "entr": entr,
    "xlogy": xlogy,
    "xlog1py": xlog1py,
}
SPECIAL = {name: in_float64(function) for name, function in _FUNCTIONS.items()}
