"""Features of spectra [..., frames, bins] and of frames of signals."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import amount, require_arrays, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.fft import irfft, rfft
from pygpukit.ops.audio._arguments import choice, rows, signal, table
from pygpukit.ops.audio.mel import power_to_db

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pygpukit._native import GPUArray
    from pygpukit.ops.audio._arguments import Signal

_TINY = 1.1754943508222875e-38


def bin_frequencies(bins: int, sample_rate: float) -> NDArray[np.float64]:
    """Of the bins of a spectrum, in Hz."""
    import numpy as np

    return np.arange(bins) * (sample_rate / max(1, 2 * (bins - 1)))


def _spectrum(op: str, spec: GPUArray, sample_rate: int) -> tuple[GPUArray, GPUArray]:
    """The spectrum and the frequencies of its bins."""
    s = rows(op, "spec", spec)
    if s.shape[-1] < 2:
        raise InvalidValueError(f"{op}: spec has {s.shape[-1]} bins, expected at least 2")
    rate = whole(op, "sample_rate", sample_rate, 1)
    return s, table(bin_frequencies, (s.shape[-1], rate), s)


def _shares(s: GPUArray) -> GPUArray:
    """Divided by the sum over the bins; zeros stay zeros."""
    total = _native.sum(s, -1, keepdims=True)
    return _native.divide(s, _native.where(_native.less(total, _TINY), 1.0, total))


def spectral_centroid(spec: GPUArray, sample_rate: int = 16000) -> GPUArray:
    """The mean frequency of each frame, in Hz."""
    s, frequencies = _spectrum("spectral_centroid", spec, sample_rate)
    return _native.matmul(_shares(s), frequencies)


def spectral_bandwidth(
    spec: GPUArray, centroids: GPUArray, sample_rate: int = 16000, p: float = 2
) -> GPUArray:
    """The p-th root of the mean |frequency - centroid|**p of each frame, in Hz."""
    op = "spectral_bandwidth"
    s, frequencies = _spectrum(op, spec, sample_rate)
    require_arrays(op, centroids=centroids)
    if centroids.shape != s.shape[:-1]:
        raise InvalidValueError(
            f"{op}: centroids has shape {centroids.shape}, expected {s.shape[:-1]}"
        )
    power = amount(op, "p", p)
    if power == 0.0:
        raise InvalidValueError(f"{op}: p is 0.0, expected more")
    distance = _native.abs(_native.subtract(frequencies, _native.expand_dims(centroids, -1)))
    mean = _native.sum(_native.multiply(_shares(s), _native.pow(distance, power)), -1)
    return _native.pow(mean, 1.0 / power)


def spectral_rolloff(
    spec: GPUArray, sample_rate: int = 16000, roll_percent: float = 0.85
) -> GPUArray:
    """The lowest frequency with at least roll_percent of the frame's sum at or below it, in Hz."""
    op = "spectral_rolloff"
    s, frequencies = _spectrum(op, spec, sample_rate)
    share = amount(op, "roll_percent", roll_percent, 0.0, 1.0)
    total = _native.cumsum(s, -1)
    enough = _native.greater_equal(total, _native.multiply(total[..., -1:], share))
    first = _native.argmax(_native.astype(enough, "int8"), -1)
    return _native.take(frequencies, first, axis=0)


def spectral_flatness(spec: GPUArray, amin: float = 1e-10, power: float = 2.0) -> GPUArray:
    """The geometric mean over the arithmetic mean of max(spec**power, amin) of each frame."""
    op = "spectral_flatness"
    s = rows(op, "spec", spec)
    exponent = amount(op, "power", power)
    floor = amount(op, "amin", amin)
    values = _native.square(s) if exponent == 2.0 else _native.pow(s, exponent)
    values = _native.maximum(values, floor)
    geometric = _native.exp(_native.mean(_native.log(values), -1))
    return _native.divide(geometric, _native.mean(values, -1))


def spectral_contrast(
    spec: GPUArray,
    n_bands: int = 6,
    alpha: float = 0.2,
    *,
    bands: str = "linear",
    sample_rate: int = 16000,
    f_min: float = 200.0,
) -> GPUArray:
    """Peak against valley in bands of each frame, each the mean of a part `alpha` of the band.

    bands "linear": n_bands of equal width, ln(peak) - ln(valley), [..., frames, n_bands].
    "octave": as librosa.feature.spectral_contrast (whose alpha is 0.02): up to f_min, then an
    octave each, in dB, [..., frames, n_bands + 1].
    """
    op = "spectral_contrast"
    s = rows(op, "spec", spec)
    choice(op, "bands", bands, ("linear", "octave"))
    n_bands = whole(op, "n_bands", n_bands, 1, s.shape[-1])
    part = amount(op, "alpha", alpha, 0.0, 1.0)
    rate = whole(op, "sample_rate", sample_rate, 1)
    edges = (
        _linear_bands(s.shape[-1], n_bands)
        if bands == "linear"
        else _octave_bands(op, s.shape[-1], n_bands, rate, amount(op, "f_min", f_min))
    )
    peaks, valleys = [], []
    for first, past, size in edges:
        count = max(1, round(part * size))
        ordered = _native.sort(s[..., first:past], axis=-1)
        valleys.append(_native.mean(ordered[..., :count], -1))
        peaks.append(_native.mean(ordered[..., -count:], -1))
    peak, valley = _native.stack(peaks, -1), _native.stack(valleys, -1)
    if bands == "octave":
        return _native.subtract(power_to_db(peak), power_to_db(valley))
    return _native.subtract(
        _native.log(_native.maximum(peak, 1e-10)), _native.log(_native.maximum(valley, 1e-10))
    )


def _linear_bands(bins: int, n_bands: int) -> list[tuple[int, int, int]]:
    """(first bin, past the last, bins)"""
    edges = [bins * band // n_bands for band in range(n_bands + 1)]
    return [(a, b, b - a) for a, b in pairwise(edges)]


def _octave_bands(
    op: str, bins: int, n_bands: int, rate: int, f_min: float
) -> list[tuple[int, int, int]]:
    import numpy as np

    frequencies = bin_frequencies(bins, rate)
    edges = np.concatenate([[0.0], f_min * 2.0 ** np.arange(n_bands + 1)])
    if f_min <= 0 or (edges[:-1] >= rate / 2).any():
        raise InvalidValueError(
            f"{op}: f_min is {f_min} with {n_bands} bands, expected more than 0 and all bands "
            f"below {rate / 2} Hz"
        )
    result = []
    for band, (low, high) in enumerate(pairwise(edges)):
        inside = np.flatnonzero((frequencies >= low) & (frequencies <= high))
        if inside.size == 0:
            raise InvalidValueError(f"{op}: band {band} has no bins, expected fewer bands")
        first = int(inside[0]) - (1 if band > 0 else 0)
        past = bins if band == n_bands else int(inside[-1]) + 1
        # The top bin of a band belongs to the next one.
        result.append((first, past if band == n_bands else max(first + 1, past - 1), past - first))
    return result


def zero_crossing_rate(a: Signal, frame_size: int = 512, hop_size: int = 256) -> GPUArray:
    """Of each frame, the neighbours with different signs / (frame_size - 1): [..., frames]."""
    op = "zero_crossing_rate"
    x = signal(op, a, "a")
    frame = whole(op, "frame_size", frame_size, 1)
    crossings = _native.audio_frame_stats(op, x, frame, whole(op, "hop_size", hop_size, 1))[1]
    return _native.multiply(crossings, 1.0 / max(1, frame - 1))


def rms(a: Signal, frame_size: int = 2048, hop_size: int = 512) -> GPUArray:
    """The root of the mean square of each frame: [..., frames]."""
    x = signal("rms", a, "a")
    frame = whole("rms", "frame_size", frame_size, 1)
    hop = whole("rms", "hop_size", hop_size, 1)
    return _native.sqrt(_native.audio_frame_stats("rms", x, frame, hop)[0])


def autocorrelation(a: Signal, max_lag: int) -> GPUArray:
    """sum over i of x[i] x[i + lag] for lags below max_lag: [..., max_lag]. By FFT."""
    x = signal("autocorrelation", a, "a")
    lags = whole("autocorrelation", "max_lag", max_lag, 1)
    return autocorrelate(x, lags)


def autocorrelate(x: GPUArray, lags: int) -> GPUArray:
    """Along the last axis; 0 for lags past its end."""
    n = x.shape[-1]
    if n == 0:
        return _native.zeros((*x.shape[:-1], lags), x.dtype, device=x.device)
    kept = min(lags, n)
    size = 1 << (n + kept - 1).bit_length()
    z = rfft(x, size)
    power = _native.add(_native.square(_native.real(z)), _native.square(_native.imag(z)))
    kind = "complex128" if x.dtype.name == "float64" else "complex64"
    y = irfft(_native.astype(power, kind), size)[..., :kept]
    if kept == lags:
        return y
    rest = _native.zeros((*x.shape[:-1], lags - kept), x.dtype, device=x.device)
    return _native.concat([y, rest], -1)


__all__ = [
    "autocorrelation",
    "rms",
    "spectral_bandwidth",
    "spectral_centroid",
    "spectral_contrast",
    "spectral_flatness",
    "spectral_rolloff",
    "zero_crossing_rate",
]
