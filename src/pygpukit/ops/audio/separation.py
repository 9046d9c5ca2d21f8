"""Harmonic and percussive parts of spectra, by median filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.audio._arguments import rows

if TYPE_CHECKING:
    from pygpukit._native import GPUArray

_TINY = 1.1754943508222875e-38


def median_filter(x: GPUArray, size: int, axis: int = -1) -> GPUArray:
    """The median of `size` elements around each along an axis, the ends mirrored.

    As scipy.ndimage.median_filter with mode="reflect".
    """
    x = rows("median_filter", "x", x, 1)
    return _native.audio_median("median_filter", x, whole("median_filter", "size", size, 1), axis)


def _soft_mask(x: GPUArray, other: GPUArray, power: float, split_zeros: bool) -> GPUArray:
    """x**power / (x**power + other**power)"""
    top = _native.maximum(x, other)
    silent = _native.less(top, _TINY)
    top = _native.where(silent, 1.0, top)
    own = _native.pow(_native.divide(x, top), power)
    rest = _native.pow(_native.divide(other, top), power)
    total = _native.add(own, rest)
    mask = _native.divide(own, _native.where(silent, 1.0, total))
    return _native.where(silent, 0.5 if split_zeros else 0.0, mask)


def hpss(
    mag: GPUArray,
    kernel_size: int | tuple[int, int] = 31,
    power: float = 2.0,
    margin: float | tuple[float, float] = 1.0,
) -> tuple[GPUArray, GPUArray]:
    """(harmonic, percussive) parts of magnitudes [..., frames, bins], as librosa.decompose.hpss.

    Medians along time and along frequency, soft masks between them. Pairs of kernel_size and
    margin are (harmonic, percussive); with a margin above 1 some of the sound is in neither.
    """
    op = "hpss"
    s = rows(op, "mag", mag)
    sizes, margins = _pair("kernel_size", kernel_size), _pair("margin", margin)
    of_time, of_frequency = (whole(op, "kernel_size", n, 1) for n in sizes)
    margin_h, margin_p = (amount(op, "margin", m) for m in margins)
    if min(margin_h, margin_p) < 1.0:
        raise InvalidValueError(f"{op}: margin is {margin}, expected at least 1")
    exponent = amount(op, "power", power)
    if exponent == 0.0:
        raise InvalidValueError(f"{op}: power is 0.0, expected more")
    steady = _native.audio_median(op, s, of_time, -2)
    sharp = _native.audio_median(op, s, of_frequency, -1)
    split = margin_h == 1.0 and margin_p == 1.0
    harmonic_mask = _soft_mask(steady, _native.multiply(sharp, margin_h), exponent, split)
    percussive_mask = _soft_mask(sharp, _native.multiply(steady, margin_p), exponent, split)
    return _native.multiply(s, harmonic_mask), _native.multiply(s, percussive_mask)


def _pair(name: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, (tuple, list)):
        return value, value
    if len(value) != 2:
        raise InvalidValueError(f"hpss: {name} has {len(value)} values, expected 1 or 2")
    return value[0], value[1]


def harmonic(
    mag: GPUArray, kernel_size: int = 31, power: float = 2.0, margin: float = 1.0
) -> GPUArray:
    """The first part of hpss()."""
    return hpss(mag, kernel_size, power, margin)[0]


def percussive(
    mag: GPUArray, kernel_size: int = 31, power: float = 2.0, margin: float = 1.0
) -> GPUArray:
    """The second part of hpss()."""
    return hpss(mag, kernel_size, power, margin)[1]


__all__ = ["harmonic", "hpss", "median_filter", "percussive"]
