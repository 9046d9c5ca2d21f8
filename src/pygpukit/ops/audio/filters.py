"""Filters along the last axis: recursive ones as parallel scans, FIR ones by FFT convolution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.arguments import amount, require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.fft import irfft, rfft
from pygpukit.ops.audio._arguments import choice, flag, number, numbers, rate_of, real, signal
from pygpukit.ops.audio.spectrum import pad_last

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygpukit.ops.audio._arguments import Signal

Section = tuple[float, float, float, float, float, float]


def biquad(
    audio: Signal,
    b0: float,
    b1: float,
    b2: float,
    a0: float,
    a1: float,
    a2: float,
    *,
    state: GPUArray | None = None,
    return_state: bool = False,
) -> Any:
    """a0 y[i] = b0 x[i] + b1 x[i - 1] + b2 x[i - 2] - a1 y[i - 1] - a2 y[i - 2], in float64.

    state [..., 2] is what return_state gave for the samples before.
    """
    x = signal("biquad", audio)
    wants_state = flag("biquad", "return_state", return_state)
    y, last = _section("biquad", x, (b0, b1, b2, a0, a1, a2), state)
    return (y, last) if wants_state else y


def sosfilt(
    audio: Signal,
    sos: Any,
    *,
    state: GPUArray | None = None,
    return_state: bool = False,
) -> Any:
    """A cascade of biquads, rows (b0, b1, b2, a0, a1, a2), as scipy.signal.sosfilt.

    state [sections, ..., 2] is what return_state gave for the samples before.
    """
    y = signal("sosfilt", audio)
    sections = _sections("sosfilt", sos)
    wants_state = flag("sosfilt", "return_state", return_state)
    if state is not None:
        require_arrays("sosfilt", state=state)
    if state is not None and (state.ndim < 1 or state.shape[0] != len(sections)):
        raise InvalidValueError(
            f"sosfilt: state has shape {state.shape}, expected ({len(sections)}, ..., 2)"
        )
    states = []
    for i, section in enumerate(sections):
        y, last = _section("sosfilt", y, section, None if state is None else state[i])
        states.append(last)
    return (y, _native.stack(states)) if wants_state else y


def _sections(op: str, sos: Any) -> list[Section]:
    rows = numbers(op, "sos", sos)
    if rows.ndim != 2 or rows.shape[1] != 6 or rows.shape[0] < 1:
        raise InvalidValueError(f"{op}: sos has shape {rows.shape}, expected (sections, 6)")
    return [tuple(row) for row in rows.tolist()]


def _section(
    op: str, x: GPUArray, section: Section, state: GPUArray | None
) -> tuple[GPUArray, GPUArray]:
    names = ("b0", "b1", "b2", "a0", "a1", "a2")
    values = [number(op, name, v) for name, v in zip(names, section, strict=True)]
    if values[3] == 0.0:
        raise InvalidValueError(f"{op}: a0 is 0, expected another number")
    if state is not None:
        require_arrays(op, state=state)
    b0, b1, b2, _, a1, a2 = (v / values[3] for v in values)
    result: tuple[GPUArray, GPUArray] = _native.audio_biquad(op, x, b0, b1, b2, a1, a2, state)
    return result


# --- designs: Robert Bristow-Johnson's formulas ---------------------------------------------------

DESIGNS = (
    "lowpass",
    "highpass",
    "bandpass",
    "notch",
    "allpass",
    "peaking",
    "lowshelf",
    "highshelf",
)


def design_biquad(
    kind: str, frequency: float, sample_rate: int, q: float = math.sqrt(0.5), gain_db: float = 0.0
) -> Section:
    """(b0, b1, b2, a0, a1, a2) of a filter: lowpass, highpass, bandpass (peak gain 1), notch,
    allpass, peaking, lowshelf or highshelf.
    """
    op = "design_biquad"
    choice(op, "kind", kind, DESIGNS)
    rate = whole(op, "sample_rate", sample_rate, 1)
    center = amount(op, "frequency", frequency, 0.0, rate / 2)
    quality = amount(op, "q", q)
    if quality == 0.0:
        raise InvalidValueError(f"{op}: q is 0.0, expected more")
    w = 2 * math.pi * center / rate
    c, alpha = math.cos(w), math.sin(w) / (2 * quality)
    a = 10.0 ** (number(op, "gain_db", gain_db) / 40.0)
    plain = (1 + alpha, -2 * c, 1 - alpha)
    if kind == "lowpass":
        return ((1 - c) / 2, 1 - c, (1 - c) / 2, *plain)
    if kind == "highpass":
        return ((1 + c) / 2, -1 - c, (1 + c) / 2, *plain)
    if kind == "bandpass":
        return (alpha, 0.0, -alpha, *plain)
    if kind == "notch":
        return (1.0, -2 * c, 1.0, *plain)
    if kind == "allpass":
        return (1 - alpha, -2 * c, 1 + alpha, *plain)
    if kind == "peaking":
        return (1 + alpha * a, -2 * c, 1 - alpha * a, 1 + alpha / a, -2 * c, 1 - alpha / a)
    sign = 1.0 if kind == "lowshelf" else -1.0
    slope = 2 * math.sqrt(a) * alpha
    up, down = (a + 1) - sign * (a - 1) * c, (a + 1) + sign * (a - 1) * c
    return (
        a * (up + slope),
        sign * 2 * a * ((a - 1) - sign * (a + 1) * c),
        a * (up - slope),
        down + slope,
        -sign * 2 * ((a - 1) + sign * (a + 1) * c),
        down - slope,
    )


# --- FIR ------------------------------------------------------------------------------------------


def fftconvolve(audio: Signal, taps: GPUArray | Sequence[float], mode: str = "full") -> GPUArray:
    """The convolution with taps along the last axis, by FFT: "full", "same" or "valid"."""
    op = "fftconvolve"
    x = signal(op, audio)
    choice(op, "mode", mode, ("full", "same", "valid"))
    h = _taps(op, taps, x)
    n, m = x.shape[-1], h.size
    if n == 0:
        raise InvalidValueError(f"{op}: audio has 0 samples, expected at least 1")
    if mode == "valid" and n < m:
        raise InvalidValueError(f"{op}: audio has {n} samples, expected at least {m} taps")
    size = _smooth(n + m - 1)
    product = _native.multiply(rfft(x, size), rfft(h, size))
    y = irfft(product, size)
    start, count = {"full": (0, n + m - 1), "same": ((m - 1) // 2, n), "valid": (m - 1, n - m + 1)}[
        mode
    ]
    return y[..., start : start + count]


def fir_filter(audio: Signal, taps: GPUArray | Sequence[float]) -> GPUArray:
    """y[i] = sum over k of taps[k] x[i - k], as many samples as x; as scipy.signal.lfilter."""
    x = signal("fir_filter", audio)
    if x.shape[-1] == 0:
        return _native.copy(x)
    return fftconvolve(x, _taps("fir_filter", taps, x))[..., : x.shape[-1]]


def _taps(op: str, taps: Any, x: GPUArray) -> GPUArray:
    if not isinstance(taps, GPUArray):
        values = numbers(op, "taps", taps).astype(x.dtype.name)
        taps = _native.from_numpy(values, device=str(x.device))
    if taps.ndim != 1 or taps.size == 0:
        raise InvalidValueError(
            f"{op}: taps has shape {taps.shape}, expected one axis with elements"
        )
    return _native.astype(real(op, "taps", taps), x.dtype, False)


def _smooth(n: int) -> int:
    """The least even number of at least n without prime factors above 5."""
    best = 1 << max(1, (n - 1).bit_length())
    five = 1
    while five < best:
        three = five
        while three < best:
            size = three * 2
            while size < n:
                size *= 2
            best = min(best, size)
            three *= 3
        five *= 5
    return best


# --- in place -------------------------------------------------------------------------------------


def _target(op: str, a: Signal) -> GPUArray:
    """The array that is written: float32 or float64."""
    x = signal(op, a, "a")
    given = a if isinstance(a, GPUArray) else a.data
    if x is not given:  # converted
        raise InvalidTypeError(f"{op}: a has dtype {given.dtype}, expected float32 or float64")
    return x


def preemphasis(a: Signal, alpha: float = 0.97) -> Any:
    """y[i] = x[i] - alpha x[i - 1], y[0] = x[0], in place. Returns `a`."""
    x = _target("preemphasis", a)
    factor = number("preemphasis", "alpha", alpha)
    if x.shape[-1] > 1:
        scaled = _native.multiply(x[..., :-1], factor)
        x[..., 1:] = _native.subtract(x[..., 1:], scaled)
    return a


def deemphasis(a: Signal, alpha: float = 0.97) -> Any:
    """y[i] = x[i] + alpha y[i - 1], in place. Returns `a`."""
    x = _target("deemphasis", a)
    factor = number("deemphasis", "alpha", alpha)
    _native.audio_biquad("deemphasis", x, 1.0, 0.0, 0.0, -factor, 0.0, out=x)
    return a


def remove_dc(a: Signal) -> Any:
    """Subtracts the mean of the last axis, in place. Returns `a`."""
    x = _target("remove_dc", a)
    if x.size:
        _native.subtract(x, _native.mean(x, -1, keepdims=True), out=x)
    return a


def highpass_filter(a: Signal, cutoff_hz: float = 20.0, sample_rate: int | None = None) -> Any:
    """A single pole, y[i] = c (y[i - 1] + x[i] - x[i - 1]), in place. Returns `a`.

    c = RC / (RC + dt). The sample rate is the buffer's, or 16000.
    """
    op = "highpass_filter"
    x = _target(op, a)
    rate = rate_of(op, a, sample_rate, "a")
    cutoff = amount(op, "cutoff_hz", cutoff_hz)
    # RC / (RC + dt) with RC = 1 / (2 pi cutoff)
    c = 1.0 / (1.0 + 2 * math.pi * cutoff / rate)
    _native.audio_biquad(op, x, c, -c, 0.0, -c, 0.0, out=x)
    return a


def noise_gate(a: Signal, threshold: float = 0.01) -> Any:
    """Samples of a magnitude below the threshold become 0, in place. Returns `a`."""
    x = _target("noise_gate", a)
    quiet = _native.less(_native.abs(x), amount("noise_gate", "threshold", threshold))
    x[...] = _native.where(quiet, 0.0, x)
    return a


def spectral_gate(
    a: Signal, threshold: float = 0.01, attack_samples: int = 64, release_samples: int = 256
) -> Any:
    """Frames of attack_samples whose mean square e is below the threshold are scaled by
    (e / threshold)**2, in place. Returns `a`. release_samples is not used.
    """
    op = "spectral_gate"
    x = _target(op, a)
    size = whole(op, "attack_samples", attack_samples, 1)
    whole(op, "release_samples", release_samples)
    level = amount(op, "threshold", threshold)
    if x.size == 0 or level == 0.0:
        return a
    n = x.shape[-1]
    energy = _frame_energy(x, size)
    ratio = _native.multiply(energy, 1.0 / level)
    gain = _native.where(_native.less(energy, level), _native.square(ratio), 1.0)
    gains = _native.repeat(gain, size, -1)[..., :n]
    _native.multiply(x, _native.astype(gains, x.dtype, False), out=x)
    return a


def _frame_energy(x: GPUArray, size: int) -> GPUArray:
    """Mean squares of frames side by side; the last one may be shorter."""
    n = x.shape[-1]
    count = -(-n // size)
    padded = pad_last(x, 0, count * size - n)
    frames = _native.reshape(padded, (*x.shape[:-1], count, size))
    sums = _native.sum(_native.square(frames), -1)
    energy = _native.multiply(sums, 1.0 / size)
    if n % size:
        last = _native.multiply(energy[..., -1:], size / (n % size))
        energy = _native.concat([energy[..., :-1], last], -1)
    return energy


def compute_short_term_energy(a: Signal, frame_size: int = 256) -> GPUArray:
    """Mean squares of frames side by side, [..., samples // frame_size]."""
    op = "compute_short_term_energy"
    x = signal(op, a, "a")
    size = whole(op, "frame_size", frame_size, 1)
    return _native.audio_frame_stats(op, x, size, size)[0]


__all__ = [
    "biquad",
    "compute_short_term_energy",
    "deemphasis",
    "design_biquad",
    "fftconvolve",
    "fir_filter",
    "highpass_filter",
    "noise_gate",
    "preemphasis",
    "remove_dc",
    "sosfilt",
    "spectral_gate",
]
