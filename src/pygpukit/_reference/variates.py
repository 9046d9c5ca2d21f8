"""Gamma, Poisson and binomial numbers: how elements are computed from the words of a stream.

Element i takes the words of block i of the stream, attempts 0, 1, 2, ... of it: two numbers of 53
bits each. Everything is computed in float64; results are rounded once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pygpukit._reference.random import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Blocks = NDArray[np.uint64]
    Parameter = float | NDArray[Any]

_CHUNK = 1 << 17  # elements at a time


class Words:
    """The two 53-bit numbers of each element's block, by attempt."""

    def __init__(self, stream: Stream, elements: Blocks) -> None:
        self.stream, self.elements = stream, elements

    def at(self, which: Any, attempt: int) -> tuple[Any, Any]:
        words = self.stream.blocks(self.elements[which], attempt)
        pairs = words[:, 1::2] << np.uint64(32) | words[:, 0::2]
        return pairs[:, 0] >> np.uint64(11), pairs[:, 1] >> np.uint64(11)


def _unit(word: Any) -> Any:
    """In [0, 1)."""
    return word.astype(np.float64) * 2.0**-53


def _positive(word: Any) -> Any:
    """In (0, 1]."""
    return (word + np.uint64(1)).astype(np.float64) * 2.0**-53


_SMALL_RESTS = np.array(
    [0.0]
    + [
        math.lgamma(k + 1) - ((k + 0.5) * math.log(k) - k + 0.5 * math.log(2 * math.pi))
        for k in range(1, 16)
    ]
)


def _stirling_rest(k: Any) -> Any:
    """log(k!) without (k + 1/2) log(k) - k + log(2 pi) / 2, for k >= 1"""
    z = 1 / np.square(k)
    series = (1 / 12 - z * (1 / 360 - z * (1 / 1260 - z / 1680))) / k
    return np.where(k < 16, _SMALL_RESTS[np.clip(k, 0, 15).astype(np.intp)], series)


def _deviance(k: Any, mean: Any) -> Any:
    """k log(k / mean) + mean - k (Loader, 2000)"""
    t = (mean - k) / k
    return np.where(k == 0, mean, k * (t - np.log1p(t)))


def _log_poisson(k: Any, mean: Any) -> Any:
    value = -_stirling_rest(k) - _deviance(k, mean) - 0.5 * np.log(2 * np.pi * k)
    return np.where(k == 0, -mean, value)


def _log_binomial(k: Any, n: Any, p: Any) -> Any:
    value = (
        _stirling_rest(n)
        - _stirling_rest(k)
        - _stirling_rest(n - k)
        - _deviance(k, n * p)
        - _deviance(n - k, n * (1 - p))
        + 0.5 * np.log(n / (2 * np.pi * k * (n - k)))
    )
    return np.where(k == 0, n * np.log1p(-p), np.where(k == n, n * np.log(p), value))


def _gamma(words: Words, shape: Values, scale: Values) -> Values:
    """Marsaglia and Tsang; shapes below 1 draw with shape + 1 and multiply with u**(1 / shape)"""
    d = np.where(shape < 1, shape + 1, shape) - 1 / 3
    c = 1 / np.sqrt(9 * d)
    result = np.where(shape == 0, 0.0, np.where(shape == np.inf, shape * scale, np.nan))
    left = np.flatnonzero((shape > 0) & (shape < np.inf) & (scale >= 0))
    attempt = 0
    while left.size > 0:
        radius, angle = words.at(left, attempt)
        z = np.sqrt(-2 * np.log(_positive(radius))) * np.cos(2 * np.pi * _unit(angle))
        root = 1 + c[left] * z
        v = root**3
        first, second = (_positive(word) for word in words.at(left, attempt + 1))
        here = d[left]
        taken = root > 0
        taken &= ~(np.log(first) >= 0.5 * z * z + here - here * v + here * np.log(v))
        small = shape[left] < 1
        power = np.where(small, np.exp(np.log(second) / shape[left]), 1.0)
        value = here * v * power * scale[left]
        result[left[taken]] = value[taken]
        left = left[~taken]
        attempt += 2
    return np.where((shape >= 0) & (scale >= 0), result, np.nan)


def _inverted(u: Values, mass: Values, odds: Callable[[int], Values]) -> Values:
    """The k at which the sum of masses exceeds u; odds(k) is mass(k) / mass(k - 1)"""
    result = np.zeros_like(u)
    k = 0
    going = (u >= mass) & (mass > 0)
    while going.any():
        u = np.where(going, u - mass, u)
        k += 1
        mass = np.where(going, mass * odds(k), mass)
        result = np.where(going, k, result)
        going = going & (u >= mass) & (mass > 0)
    return result


def _poisson(words: Words, mean: Values, _: Values) -> Values:
    """Inversion below 10, else PTRS (Hoermann, 1993)"""
    result = np.full(mean.shape, -1.0)
    low = np.flatnonzero((mean >= 0) & (mean < 10))
    if low.size > 0:
        u = _unit(words.at(low, 0)[0])
        result[low] = _inverted(u, np.exp(-mean[low]), lambda k: mean[low] / k)
    left = np.flatnonzero((mean >= 10) & (mean < np.inf))
    attempt = 0
    while left.size > 0:
        at = mean[left]
        b = 0.931 + 2.53 * np.sqrt(at)
        a = -0.059 + 0.02483 * b
        first, second = words.at(left, attempt)
        u, v = _unit(first) - 0.5, _positive(second)
        us = 0.5 - np.abs(u)
        k = np.floor((2 * a / us + b) * u + at + 0.43)
        sure = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        possible = (k >= 0) & ~((us < 0.013) & (v > us))
        height = np.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / np.square(us) + b))
        taken = sure | (possible & (height <= _log_poisson(np.maximum(k, 0), at)))
        result[left[taken]] = k[taken]
        left = left[~taken]
        attempt += 1
    return result


def _binomial(words: Words, n: Values, probability: Values) -> Values:
    """Inversion below a mean of 10, else BTRS (Hoermann, 1993); above 1/2 failures are counted"""
    valid = (n >= 0) & (n < np.inf) & (probability >= 0) & (probability <= 1)
    flipped = probability > 0.5
    p = np.where(flipped, 1 - probability, probability)
    k = np.zeros_like(n)
    low = np.flatnonzero(valid & (n * p < 10))
    if low.size > 0:
        many, chance = n[low], p[low]
        k[low] = _inverted(
            _unit(words.at(low, 0)[0]),
            np.exp(many * np.log1p(-chance)),
            lambda k: chance / (1 - chance) * np.maximum(many - k + 1, 0) / k,
        )
        k[low] = np.minimum(k[low], many)
    left = np.flatnonzero(valid & (n * p >= 10))
    attempt = 0
    while left.size > 0:
        many, chance = n[left], p[left]
        spread = np.sqrt(many * chance * (1 - chance))
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * chance
        first, second = words.at(left, attempt)
        u, v = _unit(first) - 0.5, _positive(second)
        us = 0.5 - np.abs(u)
        guess = np.floor((2 * a / us + b) * u + many * chance + 0.5)
        inside = (guess >= 0) & (guess <= many)
        sure = (us >= 0.07) & (v <= 0.92 - 4.2 / b)
        height = np.log(v * (2.83 + 5.1 / b) * spread / (a / np.square(us) + b))
        mode = _log_binomial(np.floor((many + 1) * chance), many, chance)
        limit = _log_binomial(np.where(inside, guess, 0), many, chance) - mode
        taken = inside & (sure | (height <= limit))
        k[left[taken]] = guess[taken]
        left = left[~taken]
        attempt += 1
    return np.where(valid, np.where(flipped, n - k, k), -1.0)


def _fill(
    draw: Callable[[Words, Values, Values], Values],
    stream: Stream,
    first: Parameter,
    second: Parameter,
    out: NDArray[Any],
) -> None:
    parameters = [
        np.broadcast_to(np.asarray(x, np.float64), out.shape).reshape(-1) for x in (first, second)
    ]
    for start in range(0, out.size, _CHUNK):
        stop = min(start + _CHUNK, out.size)
        words = Words(stream, np.arange(start, stop, dtype=np.uint64))
        with np.errstate(all="ignore"):
            values = draw(words, *(x[start:stop] for x in parameters))
            out.flat[start:stop] = values.astype(out.dtype)


def random_gamma(
    key: int,
    position_low: int,
    position_high: int,
    shape: Parameter,
    scale: Parameter,
    *,
    out: NDArray[Any],
) -> None:
    """out = gamma numbers; NaN where a parameter is negative"""
    _fill(_gamma, Stream(key, position_low, position_high), shape, scale, out)


def random_poisson(
    key: int, position_low: int, position_high: int, mean: Parameter, *, out: NDArray[Any]
) -> None:
    """out = Poisson numbers; -1 where the mean is not valid"""
    _fill(_poisson, Stream(key, position_low, position_high), mean, 0.0, out)


def random_binomial(
    key: int,
    position_low: int,
    position_high: int,
    n: Parameter,
    probability: Parameter,
    *,
    out: NDArray[Any],
) -> None:
    """out = successes in n trials; -1 where a parameter is not valid"""
    _fill(_binomial, Stream(key, position_low, position_high), n, probability, out)


__all__ = ["random_binomial", "random_gamma", "random_poisson"]
