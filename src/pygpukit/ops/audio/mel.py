"""Mel spectrograms: filter banks, and the logarithms of what passes them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.arguments import amount, require_arrays, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.audio._arguments import (
    choice,
    number,
    numbers,
    rate_of,
    real,
    rows,
    signal,
    table,
)
from pygpukit.ops.audio.spectrum import Framing, check_samples, framing, fused, spectra
from pygpukit.ops.audio.windows import frame_window

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from pygpukit._native import _DeviceLike, _DTypeLike
    from pygpukit.ops.audio._arguments import Signal
    from pygpukit.ops.audio.windows import Window

SCALES = ("slaney", "htk")
NORMS = ("slaney", None)


def hz_to_mel(hz: Any, scale: str = "slaney") -> NDArray[np.float64]:
    """Frequencies in mel: linear up to 1 kHz and then logarithmic (slaney), or htk's formula."""
    import numpy as np

    choice("hz_to_mel", "scale", scale, SCALES)
    f = numbers("hz_to_mel", "hz", hz)
    if scale == "htk":
        return 2595.0 * np.log10(1.0 + f / 700.0)
    knee = 15.0  # of 1 kHz, 200 / 3 Hz each
    above = knee + np.log(np.maximum(f, 1e-300) / 1000.0) * (27.0 / np.log(6.4))
    return np.where(f >= 1000.0, above, f * 3.0 / 200.0)


def mel_to_hz(mel: Any, scale: str = "slaney") -> NDArray[np.float64]:
    """The inverse of hz_to_mel."""
    import numpy as np

    choice("mel_to_hz", "scale", scale, SCALES)
    m = numbers("mel_to_hz", "mel", mel)
    if scale == "htk":
        return 700.0 * (10.0 ** (m / 2595.0) - 1.0)
    above = 1000.0 * np.exp((m - 15.0) * (np.log(6.4) / 27.0))
    return np.where(m >= 15.0, above, m * 200.0 / 3.0)


def filterbank_values(
    n_mels: int,
    n_fft: int,
    sample_rate: float,
    f_min: float,
    f_max: float,
    scale: str,
    norm: str | None,
) -> NDArray[np.float64]:
    """[n_mels, n_fft // 2 + 1] triangles; each has its corners at its neighbours' peaks."""
    import numpy as np

    bins = np.arange(n_fft // 2 + 1) * (sample_rate / n_fft)
    mels = np.linspace(hz_to_mel(f_min, scale), hz_to_mel(f_max, scale), n_mels + 2)
    edges = mel_to_hz(mels, scale)
    widths = np.diff(edges)[:, None]
    slopes = edges[:, None] - bins
    rising = -slopes[:-2] / widths[:-1]
    falling = slopes[2:] / widths[1:]
    weights: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling))
    if norm == "slaney":
        weights *= (2.0 / (edges[2:] - edges[:-2]))[:, None]
    return weights


def filterbank_ranges(*key: Any) -> NDArray[np.int32]:
    """[n_mels, 2]: the first bin of a filter that is not 0, and the one past its last."""
    import numpy as np

    used = filterbank_values(*key) != 0
    first = np.where(used.any(1), used.argmax(1), 0)
    past = np.where(used.any(1), used.shape[1] - used[:, ::-1].argmax(1), 0)
    return np.stack([first, past], 1).astype(np.int32)


def _filterbank_key(
    op: str,
    n_mels: int,
    n_fft: int,
    sample_rate: int,
    f_min: float,
    f_max: float | None,
    scale: str,
    norm: str | None,
) -> tuple[Any, ...]:
    """The arguments of filterbank_values, checked."""
    n_mels = whole(op, "n_mels", n_mels, 1, 2**20)
    rate = whole(op, "sample_rate", sample_rate, 1)
    low = amount(op, "f_min", f_min)
    high = rate / 2 if f_max is None else number(op, "f_max", f_max)
    high = rate / 2 if high < 0 else high
    if high <= low:
        raise InvalidValueError(f"{op}: f_max is {high}, expected more than f_min, {low}")
    choice(op, "scale", scale, SCALES)
    choice(op, "norm", norm, NORMS)
    return n_mels, n_fft, rate, low, high, scale, norm


def mel_filterbank(
    n_mels: int = 80,
    n_fft: int = 512,
    sample_rate: int = 16000,
    f_min: float = 0.0,
    f_max: float | None = None,
    *,
    scale: str = "slaney",
    norm: str | None = "slaney",
    dtype: _DTypeLike = "float32",
    device: _DeviceLike = None,
) -> GPUArray:
    """Triangular filters [n_mels, n_fft // 2 + 1], as librosa.filters.mel.

    scale is "slaney" or "htk"; norm "slaney" divides a filter by half its width in Hz, None
    leaves its peak at 1. f_max None (or below 0) is half the sample rate.
    """
    n_fft = whole("mel_filterbank", "n_fft", n_fft, 1, 2**24)
    key = _filterbank_key("mel_filterbank", n_mels, n_fft, sample_rate, f_min, f_max, scale, norm)
    like = _native.empty((0,), dtype, device=device)
    real("mel_filterbank", "dtype", like)
    return _native.copy(table(filterbank_values, key, like))


def create_mel_filterbank(
    n_mels: int = 80,
    n_fft: int = 512,
    sample_rate: int = 16000,
    f_min: float = 0.0,
    f_max: float = -1.0,
    *,
    scale: str = "slaney",
    norm: str | None = "slaney",
) -> GPUArray:
    """mel_filterbank() under its name of 0.2, whose filters had scale="htk" and norm=None."""
    return mel_filterbank(n_mels, n_fft, sample_rate, f_min, f_max, scale=scale, norm=norm)


def apply_mel_filterbank(spec: GPUArray, fb: GPUArray) -> GPUArray:
    """spec [..., frames, bins] times the transpose of fb [n_mels, bins]."""
    op = "apply_mel_filterbank"
    spec = rows(op, "spec", spec)
    require_arrays(op, fb=fb)
    if fb.ndim != 2 or fb.shape[1] != spec.shape[-1]:
        raise InvalidValueError(
            f"{op}: fb has shape {fb.shape}, expected (n_mels, {spec.shape[-1]})"
        )
    return _native.matmul(spec, _native.transpose(_native.astype(fb, spec.dtype, False)))


def mel_spectrogram(
    a: Signal,
    n_fft: int = 512,
    hop_length: int = 160,
    n_mels: int = 80,
    sample_rate: int | None = None,
    f_min: float = 0.0,
    f_max: float | None = None,
    *,
    win_length: int = -1,
    window: Window = "hann",
    center: bool = True,
    pad_mode: str = "reflect",
    power: float = 2.0,
    scale: str = "slaney",
    norm: str | None = "slaney",
) -> GPUArray:
    """Power spectra through a mel filter bank: [..., frames, n_mels].

    The sample rate is the buffer's, or 16000. power 1 takes magnitudes instead.
    """
    op = "mel_spectrogram"
    x = signal(op, a)
    how = framing(op, n_fft, hop_length, win_length, center, pad_mode)
    rate = rate_of(op, a, sample_rate)
    key = _filterbank_key(op, n_mels, how.n_fft, rate, f_min, f_max, scale, norm)
    exponent = amount(op, "power", power)
    check_samples(op, x, how)
    if exponent == 2.0:
        return mel_of(op, x, how, window, key)
    spec = spectra(op, x, how, window, "magnitude")
    if exponent != 1.0:
        spec = _native.pow(spec, exponent)
    return _native.matmul(spec, _native.transpose(table(filterbank_values, key, x)))


def log_mel_spectrogram(
    a: Signal,
    n_fft: int = 512,
    hop_length: int = 160,
    n_mels: int = 80,
    sample_rate: int | None = None,
    f_min: float = 0.0,
    f_max: float | None = None,
    eps: float = 1e-10,
    *,
    win_length: int = -1,
    window: Window = "hann",
    center: bool = True,
    pad_mode: str = "reflect",
    scale: str = "slaney",
    norm: str | None = "slaney",
) -> GPUArray:
    """ln(mel_spectrogram(...) + eps)"""
    op = "log_mel_spectrogram"
    x = signal(op, a)
    how = framing(op, n_fft, hop_length, win_length, center, pad_mode)
    rate = rate_of(op, a, sample_rate)
    key = _filterbank_key(op, n_mels, how.n_fft, rate, f_min, f_max, scale, norm)
    check_samples(op, x, how)
    return mel_of(op, x, how, window, key, "ln", amount(op, "eps", eps))


def mel_of(
    op: str,
    x: GPUArray,
    how: Framing,
    window: Window,
    key: tuple[Any, ...],
    log: str = "",
    floor: float = 0.0,
) -> GPUArray:
    """Powers through the filter bank of `key`: [..., frames, n_mels]; log as audio_spectrogram."""
    bank = table(filterbank_values, key, x)
    if _native.audio_is_fused(how.n_fft, x):
        taper = frame_window(op, window, how.win_length, how.n_fft, x)
        ranges = table(filterbank_ranges, key, x)
        return fused(op, x, how, taper, "mel", (bank, ranges), log, floor)
    mel = _native.matmul(spectra(op, x, how, window, "power"), _native.transpose(bank))
    if log == "ln":
        return _native.log(_native.add(mel, floor))
    return _native.log10(_native.maximum(mel, floor)) if log else mel


def log_mel(mel: GPUArray, eps: float = 1e-10) -> GPUArray:
    """ln(mel + eps)"""
    return _native.log(_native.add(rows("log_mel", "mel", mel, 0), number("log_mel", "eps", eps)))


def to_decibels(x: GPUArray, eps: float = 1e-10) -> GPUArray:
    """10 log10(x + eps)"""
    shifted = _native.add(rows("to_decibels", "x", x, 0), number("to_decibels", "eps", eps))
    return _native.multiply(_native.log10(shifted), 10.0)


def power_to_db(
    x: GPUArray,
    ref: float | Callable[[GPUArray], GPUArray] = 1.0,
    amin: float = 1e-10,
    top_db: float | None = 80.0,
) -> GPUArray:
    """10 log10(max(x, amin) / ref), at most top_db below its maximum, as librosa.power_to_db.

    ref may be a function of x, such as gp.max.
    """
    x = rows("power_to_db", "x", x, 0)
    floor = amount("power_to_db", "amin", amin)
    level: GPUArray | float
    if callable(ref):
        level = _native.log10(_native.maximum(_native.abs(ref(x)), floor))
    else:
        level = math.log10(max(abs(number("power_to_db", "ref", ref)), floor, 1e-300))
    db = _native.log10(_native.maximum(x, floor))
    db = _native.multiply(_native.subtract(db, level), 10.0)
    if top_db is None or x.size == 0:
        return db
    lowest = _native.subtract(_native.max(db), amount("power_to_db", "top_db", top_db))
    return _native.maximum(db, lowest)


def amplitude_to_db(
    x: GPUArray, ref: float = 1.0, amin: float = 1e-5, top_db: float | None = 80.0
) -> GPUArray:
    """power_to_db() of squared amplitudes."""
    squared = _native.square(rows("amplitude_to_db", "x", x, 0))
    level, floor = number("amplitude_to_db", "ref", ref), number("amplitude_to_db", "amin", amin)
    return power_to_db(squared, level * level, floor * floor, top_db)


def db_to_power(db: GPUArray, ref: float = 1.0) -> GPUArray:
    """ref * 10 ** (db / 10)"""
    x = rows("db_to_power", "db", db, 0)
    return _native.multiply(
        _native.pow(10.0, _native.multiply(x, 0.1)), number("db_to_power", "ref", ref)
    )


__all__ = [
    "amplitude_to_db",
    "apply_mel_filterbank",
    "create_mel_filterbank",
    "db_to_power",
    "hz_to_mel",
    "log_mel",
    "log_mel_spectrogram",
    "mel_filterbank",
    "mel_spectrogram",
    "mel_to_hz",
    "power_to_db",
    "to_decibels",
]
