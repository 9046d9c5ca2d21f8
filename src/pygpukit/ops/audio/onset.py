"""Onsets, peaks and tempo."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.audio._arguments import rate_of, real, signal, table
from pygpukit.ops.audio.features import autocorrelate
from pygpukit.ops.audio.mel import mel_spectrogram, power_to_db
from pygpukit.ops.audio.spectrum import frames_of, pad_last
from pygpukit.ops.audio.windows import window_values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pygpukit._native import GPUArray
    from pygpukit.ops.audio._arguments import Signal

_TINY = 1.1754943508222875e-38


def onset_strength(
    a: Signal,
    sample_rate: int | None = None,
    n_fft: int = 2048,
    hop_length: int = 512,
    n_mels: int = 128,
    lag: int = 1,
) -> GPUArray:
    """The mean rise of the mel spectrum in dB over `lag` frames, as librosa: [..., frames]."""
    op = "onset_strength"
    rate = rate_of(op, a, sample_rate, "a")
    lag = whole(op, "lag", lag, 1)
    mel = mel_spectrogram(a, n_fft, hop_length, n_mels, rate, pad_mode="constant")
    s = power_to_db(mel)
    frames = s.shape[-2]
    if frames <= lag:
        return _native.zeros(s.shape[:-1], s.dtype, device=s.device)
    rise = _native.maximum(_native.subtract(s[..., lag:, :], s[..., :-lag, :]), 0.0)
    mean = _native.mean(rise, -1)
    return pad_last(mean, lag + n_fft // (2 * hop_length), 0)[..., :frames]


def _moving_windows(x: GPUArray, before: int, after: int, fill: float) -> GPUArray:
    """A view of x[i - before .. i + after - 1] for each i, `fill` outside."""
    edges = [_native.full((n,), fill, x.dtype, device=x.device) for n in (before, after - 1)]
    return frames_of(_native.concat([edges[0], x, edges[1]]), before + after, 1)


def peak_pick(
    x: GPUArray,
    pre_max: int,
    post_max: int,
    pre_avg: int,
    post_avg: int,
    delta: float,
    wait: int,
) -> GPUArray:
    """Indices of peaks, as librosa.util.peak_pick.

    A peak is the largest of x[i - pre_max .. i + post_max - 1], at least delta above the mean of
    x[i - pre_avg .. i + post_avg - 1], and more than `wait` after the last peak. Their number
    depends on the data, so this synchronises.
    """
    import numpy as np

    op = "peak_pick"
    x = signal(op, x, "x")
    if x.ndim != 1:
        raise InvalidValueError(f"{op}: x has shape {x.shape}, expected one axis")
    pre_max, pre_avg, wait = (
        whole(op, name, n)
        for name, n in (("pre_max", pre_max), ("pre_avg", pre_avg), ("wait", wait))
    )
    post_max, post_avg = whole(op, "post_max", post_max, 1), whole(op, "post_avg", post_avg, 1)
    rise = amount(op, "delta", delta)
    if x.size == 0:
        return _native.zeros((0,), "int64", device=x.device)
    top = _native.max(_moving_windows(x, pre_max, post_max, -math.inf), -1)
    sums = _native.sum(_moving_windows(x, pre_avg, post_avg, 0.0), -1)
    ones = _native.ones(x.shape, x.dtype, device=x.device)
    counts = _native.sum(_moving_windows(ones, pre_avg, post_avg, 0.0), -1)
    mean = _native.divide(sums, counts)
    candidates = _native.logical_and(
        _native.equal(x, top), _native.greater_equal(x, _native.add(mean, rise))
    )
    chosen: list[int] = []
    for i in np.flatnonzero(candidates.to_numpy()).tolist():
        if not chosen or i - chosen[-1] > wait:
            chosen.append(i)
    return _native.from_numpy(np.asarray(chosen, np.int64), device=str(x.device))


def onset_detect(
    a: Signal, sample_rate: int | None = None, hop_length: int = 512, delta: float = 0.07
) -> GPUArray:
    """Frames at which onsets are, as librosa.onset.onset_detect."""
    op = "onset_detect"
    rate = rate_of(op, a, sample_rate, "a")
    envelope = onset_strength(a, rate, hop_length=hop_length)
    if envelope.ndim != 1:
        raise InvalidValueError(f"{op}: a has shape {envelope.shape[:-1]} signals, expected one")
    low = _native.subtract(envelope, _native.min(envelope))
    scaled = _native.divide(low, _native.add(_native.max(low), _TINY))
    top = float(_native.max(scaled).to_numpy())
    if math.isnan(top):
        raise InvalidValueError(f"{op}: a has samples that are not finite")
    if top <= 0.0:
        return _native.zeros((0,), "int64", device=envelope.device)
    return peak_pick(
        scaled,
        math.ceil(0.03 * rate // hop_length),
        1,
        math.ceil(0.10 * rate // hop_length),
        math.ceil(0.10 * rate // hop_length + 1),
        delta,
        math.ceil(0.03 * rate // hop_length),
    )


def tempogram(envelope: GPUArray, win_length: int = 384) -> GPUArray:
    """The autocorrelation of an onset envelope around each frame: [..., frames, win_length].

    As librosa.feature.tempogram: under a Hann window, scaled to a maximum of 1.
    """
    op = "tempogram"
    x = real(op, "envelope", signal(op, envelope, "envelope"))
    size = whole(op, "win_length", win_length, 1, 2**16)
    n = x.shape[-1]
    if n == 0:
        raise InvalidValueError(f"{op}: envelope has 0 frames, expected at least 1")
    ramp = table(_ramp, (size // 2,), x)
    head = _native.multiply(x[..., :1], ramp)
    tail = _native.multiply(x[..., -1:], _native.flip(ramp, 0))
    frames = frames_of(_native.concat([head, x, tail], -1), size, 1)[..., :n, :]
    window = table(window_values, ("hann", 0.0, size, True), x)
    correlation = autocorrelate(_native.multiply(frames, window), size)
    top = _native.max(_native.abs(correlation), -1, keepdims=True)
    return _native.divide(correlation, _native.where(_native.less(top, _TINY), 1.0, top))


def _ramp(count: int) -> NDArray[np.float64]:
    """From 0 towards 1, which the next element is."""
    import numpy as np

    return np.arange(count) / max(1, count)


def tempo(
    a: Signal,
    sample_rate: int | None = None,
    hop_length: int = 512,
    start_bpm: float = 120.0,
    std_bpm: float = 1.0,
    ac_size: float = 8.0,
    max_tempo: float | None = 320.0,
) -> GPUArray:
    """Beats per minute, [...], as librosa.feature.tempo: the strongest period of the onsets,
    weighted by a log-normal prior around start_bpm. NaN for signals with NaN.
    """
    op = "tempo"
    rate = rate_of(op, a, sample_rate, "a")
    start, spread = amount(op, "start_bpm", start_bpm, 1e-3), amount(op, "std_bpm", std_bpm, 1e-3)
    hop = whole(op, "hop_length", hop_length, 1, 2**30)
    top = None if max_tempo is None else amount(op, "max_tempo", max_tempo)
    size = max(2, math.floor(amount(op, "ac_size", ac_size, 0.0, 3600.0) * rate / hop))
    envelope = onset_strength(a, rate, hop_length=hop)
    mean = _native.mean(tempogram(envelope, size), -2)
    key = (size, rate, hop, start, spread, top)
    prior = table(_log_prior, key, mean)
    score = _native.add(_native.log1p(_native.multiply(mean, 1e6)), prior)
    bpm = _native.take(table(_tempos, (size, rate, hop), mean), _native.argmax(score, -1))
    return _native.where(_native.isnan(_native.max(score, -1)), math.nan, bpm)


def _tempos(size: int, rate: int, hop: int) -> NDArray[np.float64]:
    """Of each lag, in beats per minute; lag 0 is never chosen."""
    import numpy as np

    return np.concatenate([[0.0], 60.0 * rate / (hop * np.arange(1.0, size))])


def _log_prior(
    size: int, rate: int, hop: int, start: float, spread: float, top: Any
) -> NDArray[np.float64]:
    import numpy as np

    bpm = _tempos(size, rate, hop)
    prior = np.full(size, -np.inf)
    prior[1:] = -0.5 * ((np.log2(bpm[1:]) - math.log2(start)) / spread) ** 2
    if top is not None:
        prior[1:][bpm[1:] >= top] = -np.inf
    return prior


__all__ = ["onset_detect", "onset_strength", "peak_pick", "tempo", "tempogram"]
