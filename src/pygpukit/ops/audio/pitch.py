"""Pitch by YIN (de Cheveigne and Kawahara, 2002)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.audio._arguments import rate_of, signal
from pygpukit.ops.audio.features import autocorrelate
from pygpukit.ops.audio.spectrum import frames_of

if TYPE_CHECKING:
    from pygpukit._native import GPUArray
    from pygpukit.ops.audio._arguments import Signal


def _periods(op: str, rate: int, f_min: float, f_max: float, frame: int) -> tuple[int, int]:
    """The shortest and the longest period looked at, in samples."""
    low, high = amount(op, "f_min", f_min), amount(op, "f_max", f_max)
    if not 0 < low < high <= rate / 2:
        raise InvalidValueError(
            f"{op}: f_min is {low} and f_max {high}, expected 0 < f_min < f_max <= {rate / 2}"
        )
    shortest = math.floor(rate / high)
    longest = min(math.ceil(rate / low), frame - 1)
    if longest - shortest < 2:
        raise InvalidValueError(
            f"{op}: frames of {frame} samples hold periods up to {longest}, expected at least "
            f"{shortest + 2}"
        )
    return shortest, longest


def _normalized_difference(frames: GPUArray, shortest: int, longest: int) -> GPUArray:
    """YIN's d'(period) for the periods looked at, in float64: [..., frames, periods]."""
    x = _native.astype(frames, "float64", False)
    correlation = autocorrelate(x, longest + 1)
    energy = _native.cumsum(_native.square(x[..., :longest]), -1)  # of the samples left out
    twice = _native.multiply(_native.subtract(correlation[..., :1], correlation[..., 1:]), 2.0)
    difference = _native.subtract(twice, energy)
    periods = _native.arange(longest, 1, 1, "float64", x.device)
    mean = _native.divide(_native.cumsum(difference, -1), periods)
    least = 2.2250738585072014e-308
    normalized = _native.divide(difference, _native.add(mean, least))
    return normalized[..., shortest - 1 :]


def _choose(d: GPUArray, threshold: float) -> tuple[GPUArray, GPUArray]:
    """(the period's index with its parabolic shift, whether a trough is below the threshold)"""
    inner, before, after = d[..., 1:-1], d[..., :-2], d[..., 2:]
    trough = _native.logical_and(_native.less(inner, before), _native.less_equal(inner, after))
    first = _native.less(d[..., :1], d[..., 1:2])
    last = _native.less(d[..., -1:], d[..., -2:-1])
    troughs = _native.concat([first, trough, last], -1)
    good = _native.logical_and(troughs, _native.less(d, threshold))
    voiced = _native.any(good, -1)
    at = _native.where(
        voiced, _native.argmax(_native.astype(good, "int8"), -1), _native.argmin(d, -1)
    )
    curve = _native.subtract(_native.add(after, before), _native.multiply(inner, 2.0))
    slope = _native.multiply(_native.subtract(after, before), 0.5)
    flat = _native.greater_equal(_native.abs(slope), _native.abs(curve))
    safe = _native.where(flat, 1.0, curve)
    shift = _native.where(flat, 0.0, _native.divide(_native.multiply(slope, -1.0), safe))
    edge = _native.zeros((*d.shape[:-1], 1), "float64", device=d.device)
    shifts = _native.concat([edge, shift, edge], -1)
    chosen = _native.take_along_axis(shifts, _native.expand_dims(at, -1), -1)
    return _native.add(_native.astype(at, "float64"), chosen[..., 0]), voiced


def yin(
    a: Signal,
    sample_rate: int | None = None,
    frame_size: int = 2048,
    hop_size: int = 512,
    f_min: float = 50.0,
    f_max: float = 500.0,
    threshold: float = 0.1,
) -> tuple[GPUArray, GPUArray]:
    """(pitch in Hz, whether voiced) of each frame that fits, both [..., frames].

    The pitch is librosa.yin's with center=False: that of the first trough of the normalised
    difference below the threshold, else of its minimum, where the frame counts as unvoiced. A frame
    with NaN has the pitch NaN. The sample rate is the buffer's, or 16000.
    """
    return _pitches("yin", a, sample_rate, frame_size, hop_size, f_min, f_max, threshold)


def _pitches(
    op: str,
    a: Signal,
    sample_rate: int | None,
    frame_size: int,
    hop_size: int,
    f_min: float,
    f_max: float,
    threshold: float,
) -> tuple[GPUArray, GPUArray]:
    x = signal(op, a, "a")
    rate = rate_of(op, a, sample_rate, "a")
    frame = whole(op, "frame_size", frame_size, 1)
    hop = whole(op, "hop_size", hop_size, 1)
    level = amount(op, "threshold", threshold)
    shortest, longest = _periods(op, rate, f_min, f_max, frame)
    frames = frames_of(x, frame, hop)
    if frames.size == 0:
        none = _native.zeros(frames.shape[:-1], x.dtype, device=x.device)
        return none, _native.astype(none, "bool")
    difference = _normalized_difference(frames, shortest, longest)
    place, voiced = _choose(difference, level)
    pitch = _native.divide(float(rate), _native.add(place, float(shortest)))
    unknown = _native.any(_native.isnan(difference), -1)
    return _native.astype(_native.where(unknown, math.nan, pitch), x.dtype), voiced


def _or_zero(pitch: GPUArray, voiced: GPUArray) -> GPUArray:
    """0 where it is unvoiced; NaN stays."""
    return _native.where(_native.logical_or(voiced, _native.isnan(pitch)), pitch, 0.0)


def detect_pitch_yin_frames(
    a: Signal,
    sample_rate: int | None = None,
    frame_size: int = 1024,
    hop_size: int = 256,
    f_min: float = 50.0,
    f_max: float = 500.0,
    threshold: float = 0.1,
) -> GPUArray:
    """The pitch of each frame in Hz, 0 where it is unvoiced: [..., frames]."""
    op = "detect_pitch_yin_frames"
    pitch, voiced = _pitches(op, a, sample_rate, frame_size, hop_size, f_min, f_max, threshold)
    return _or_zero(pitch, voiced)


def detect_pitch_yin(
    a: Signal,
    sample_rate: int | None = None,
    f_min: float = 50.0,
    f_max: float = 500.0,
    threshold: float = 0.1,
) -> float:
    """The pitch of a whole signal in Hz, 0.0 where it is unvoiced."""
    op = "detect_pitch_yin"
    x = signal(op, a, "a")
    if x.ndim != 1 or x.size == 0:
        raise InvalidValueError(f"{op}: a has shape {x.shape}, expected one axis with samples")
    pitch, voiced = _pitches(op, a, sample_rate, x.size, 1, f_min, f_max, threshold)
    return float(_or_zero(pitch, voiced)[0])


__all__ = ["detect_pitch_yin", "detect_pitch_yin_frames", "yin"]
