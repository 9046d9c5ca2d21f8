"""Window functions, as float64."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit._naming import name_all

if TYPE_CHECKING:
    from pygpukit._native import GPUArray, _DeviceLike


def bartlett(M: int, *, device: _DeviceLike = None) -> GPUArray:
    """A triangle with zeros at both ends."""
    n = _positions(M, device)
    if M <= 1:
        return _native.add(n, 1.0)
    slope = _native.divide(n, M - 1.0)
    return _native.where(_native.less_equal(n, 0.0), 1.0 + slope, 1.0 - slope)


def blackman(M: int, *, device: _DeviceLike = None) -> GPUArray:
    """0.42 + 0.5 cos(x) + 0.08 cos(2 x) for x from -pi to pi."""
    return _cosines(M, (0.42, 0.5, 0.08), device)


def hamming(M: int, *, device: _DeviceLike = None) -> GPUArray:
    """0.54 + 0.46 cos(x) for x from -pi to pi."""
    return _cosines(M, (0.54, 0.46), device)


def hanning(M: int, *, device: _DeviceLike = None) -> GPUArray:
    """0.5 + 0.5 cos(x) for x from -pi to pi."""
    return _cosines(M, (0.5, 0.5), device)


def kaiser(M: int, beta: float, *, device: _DeviceLike = None) -> GPUArray:
    """i0(beta sqrt(1 - x**2)) / i0(beta) for x from -1 to 1."""
    n = _positions(M, device)
    if M <= 1:
        return _native.add(n, 1.0)
    x = _native.divide(n, M - 1.0)
    inside = _native.maximum(_native.subtract(1.0, _native.square(x)), 0.0)
    top = _native.full((), float(beta), "float64", device=n.device)
    return _native.divide(_native.i0(_native.multiply(_native.sqrt(inside), top)), _native.i0(top))


def _positions(count: int, device: _DeviceLike) -> GPUArray:
    """1 - count, 3 - count, ..., count - 1; nothing for counts below 1."""
    return _native.arange(max(int(count), 0), 1 - int(count), 2, "float64", device)


def _cosines(count: int, weights: tuple[float, ...], device: _DeviceLike) -> GPUArray:
    n = _positions(count, device)
    if count <= 1:
        return _native.add(n, 1.0)
    result = _native.full(n.shape, weights[0], "float64", device=n.device)
    for order, weight in enumerate(weights[1:], 1):
        wave = _native.cos(_native.multiply(n, order * math.pi / (count - 1)))
        result = _native.add(result, _native.multiply(wave, weight))
    return result


__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]

name_all(globals(), __all__)
