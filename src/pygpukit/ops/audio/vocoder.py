"""Time and pitch: the phase vocoder, and signals from magnitudes alone."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.audio._arguments import choice, number, rate_of, rows, signal, table
from pygpukit.ops.audio.resampling import resample
from pygpukit.ops.audio.spectrum import (
    Framing,
    as_complex,
    check_samples,
    framing,
    from_spectra,
    pad_last,
    spectra,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pygpukit._native import GPUArray
    from pygpukit.ops.audio._arguments import Signal
    from pygpukit.ops.audio.windows import Window

_TURN = 2 * math.pi


def _advance(bins: int, n_fft: int, hop: int) -> NDArray[np.float64]:
    """The phase that each bin's frequency gains from one frame to the next."""
    import numpy as np

    return hop * _TURN * np.arange(bins) / n_fft


def _positions(frames: int, rate: float) -> NDArray[np.int64]:
    """Frames that are read."""
    import numpy as np

    return np.arange(0, frames, rate, dtype=np.float64).astype(np.int64)


def _between(frames: int, rate: float) -> NDArray[np.float64]:
    """How far between them and the next, [frames, 1]."""
    import numpy as np

    return np.mod(np.arange(0, frames, rate, dtype=np.float64), 1.0)[:, None]


def phase_vocoder(
    s: GPUArray, rate: float, hop_length: int = 512, *, n_fft: int | None = None
) -> GPUArray:
    """Spectra [..., frames, bins] of the sound `rate` times as fast, as librosa.phase_vocoder.

    Magnitudes are interpolated between frames; phases advance as they do in the input.
    """
    op = "phase_vocoder"
    z = as_complex(op, s)
    speed = _speed(op, rate)
    size = 2 * (z.shape[-1] - 1) if n_fft is None else whole(op, "n_fft", n_fft, 1)
    return _stretched(z, speed, size, whole(op, "hop_length", hop_length, 1))


def _speed(op: str, rate: float) -> float:
    speed = amount(op, "rate", rate)
    if not 1e-3 <= speed <= 1e3:
        raise InvalidValueError(f"{op}: rate is {speed}, expected 0.001 to 1000")
    return speed


def _stretched(z: GPUArray, speed: float, n_fft: int, hop: int) -> GPUArray:
    frames, bins = z.shape[-2:]
    if frames == 0:
        return _native.copy(z)
    wide = _native.astype(z, "complex128", False)
    nothing = _native.zeros((*z.shape[:-2], 2, bins), "complex128", device=z.device)
    padded = _native.concat([wide, nothing], -2)
    magnitudes, phases = _native.abs(padded), _angle(padded)

    index = table(_positions, (frames, speed), magnitudes)
    part = table(_between, (frames, speed), magnitudes)

    def pick(x: GPUArray, offset: int) -> GPUArray:
        return _native.take(x, _native.add(index, offset), axis=-2)

    low, high = pick(magnitudes, 0), pick(magnitudes, 1)
    magnitude = _native.add(
        _native.multiply(low, _native.subtract(1.0, part)), _native.multiply(high, part)
    )
    advance = table(_advance, (bins, n_fft, hop), magnitude)
    change = _native.subtract(_native.subtract(pick(phases, 1), pick(phases, 0)), advance)
    turns = _native.rint(_native.multiply(change, 1 / _TURN))
    change = _native.subtract(change, _native.multiply(turns, _TURN))
    gained = _native.cumsum(_native.add(change, advance), -2)
    first = phases[..., :1, :]
    phase = _native.concat([first, _native.add(gained[..., :-1, :], first)], -2)
    result = _native.add(
        _native.multiply(magnitude, _native.cos(phase)),
        _native.multiply(_native.multiply(magnitude, _native.sin(phase)), 1j),
    )
    return _native.astype(result, z.dtype, False)


def _angle(z: GPUArray) -> GPUArray:
    return _native.atan2(_native.imag(z), _native.real(z))


def time_stretch(a: Signal, rate: float, n_fft: int = 2048, hop_length: int = 512) -> GPUArray:
    """The sound `rate` times as fast at the same pitch: round(samples / rate) samples."""
    op = "time_stretch"
    x = signal(op, a, "a")
    how = framing(op, n_fft, hop_length, -1, True, "constant")
    return _stretch_signal(op, x, _speed(op, rate), how)


def _stretch_signal(op: str, x: GPUArray, speed: float, how: Framing) -> GPUArray:
    length = round(x.shape[-1] / speed)
    if length == 0 or x.size == 0:
        return _native.zeros((*x.shape[:-1], length), x.dtype, device=x.device)
    check_samples(op, x, how)
    stretched = _stretched(spectra(op, x, how, "hann"), speed, how.n_fft, how.hop)
    return from_spectra(op, stretched, how, "hann", length)


def pitch_shift(
    a: Signal,
    sample_rate: int | None,
    n_steps: float,
    n_fft: int = 2048,
    hop_length: int = 512,
    *,
    bins_per_octave: int = 12,
) -> GPUArray:
    """The sound n_steps semitones higher, as long as before: stretched, then resampled."""
    op = "pitch_shift"
    x = signal(op, a, "a")
    rate_of(op, a, sample_rate, "a")
    how = framing(op, n_fft, hop_length, -1, True, "constant")
    per_octave = whole(op, "bins_per_octave", bins_per_octave, 1)
    steps = number(op, "n_steps", n_steps)
    if not abs(steps) <= 6 * per_octave:
        raise InvalidValueError(f"{op}: n_steps is {steps}, expected up to 6 octaves")
    if steps == 0.0 or x.size == 0:
        return _native.copy(x)
    speed = 2.0 ** (-steps / per_octave)
    # Close enough: 1 / 4096 of a ratio of 2 is far below a cent.
    ratio = Fraction(1 / speed).limit_denominator(4096)
    stretched = _stretch_signal(op, x, ratio.denominator / ratio.numerator, how)
    shifted = resample(stretched, ratio.numerator, ratio.denominator, lowpass_filter_width=16)
    n = x.shape[-1]
    return pad_last(shifted[..., :n], 0, max(0, n - shifted.shape[-1]))


def griffin_lim(
    mag: GPUArray,
    n_iter: int = 32,
    hop_length: int = 160,
    win_length: int = -1,
    *,
    n_fft: int | None = None,
    window: Window = "hann",
    center: bool = True,
    length: int | None = None,
    momentum: float = 0.99,
    init: str | None = "random",
    seed: int | None = None,
    pad_mode: str = "reflect",
) -> GPUArray:
    """A signal whose spectra have the magnitudes [..., frames, bins], as librosa.griffinlim.

    The fast variant (Perraudin et al., 2013); momentum 0 is Griffin and Lim's. Phases begin
    random, or with init None as 0.
    """
    op = "griffin_lim"
    magnitude = rows(op, "mag", mag)
    size = 2 * (magnitude.shape[-1] - 1) if n_fft is None else n_fft
    how = framing(op, size, hop_length, win_length, center, pad_mode)
    if magnitude.shape[-1] != how.bins:
        raise InvalidValueError(
            f"{op}: mag has {magnitude.shape[-1]} bins, expected {how.bins} for n_fft {size}"
        )
    iterations = whole(op, "n_iter", n_iter, 0, 100000)
    weight = amount(op, "momentum", momentum)
    choice(op, "init", init, ("random", None))
    kind = "complex128" if magnitude.dtype.name == "float64" else "complex64"
    if magnitude.shape[-2] == 0:
        return _native.zeros((*magnitude.shape[:-2], length or 0), magnitude.dtype)
    estimate = _native.astype(magnitude, kind)
    if init == "random":
        estimate = _native.multiply(estimate, _random_phases(magnitude, seed, kind))
    before: GPUArray | None = None
    tiny = 1.1754943508222875e-38
    for _ in range(iterations):
        rebuilt = spectra(op, from_spectra(op, estimate, how, window, length), how, window)
        step = rebuilt
        if before is not None:
            step = _native.subtract(rebuilt, _native.multiply(before, weight / (1 + weight)))
        scale = _native.divide(magnitude, _native.add(_native.abs(step), tiny))
        estimate = _native.multiply(step, scale)
        before = rebuilt
    return from_spectra(op, estimate, how, window, length)


def _random_phases(magnitude: GPUArray, seed: int | None, kind: str) -> GPUArray:
    from pygpukit.random import default_rng

    turns = default_rng(seed, device=str(magnitude.device)).random(magnitude.shape, "float32")
    angle = _native.multiply(turns, _TURN)
    pair = _native.add(_native.cos(angle), _native.multiply(_native.sin(angle), 1j))
    return _native.astype(pair, kind, False)


__all__ = ["griffin_lim", "phase_vocoder", "pitch_shift", "time_stretch"]
