"""Other sample rates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.audio._arguments import check_rate, choice, signal, table
from pygpukit.ops.audio.windows import MAX_BETA

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pygpukit._native import GPUArray
    from pygpukit.ops.audio._arguments import Signal

METHODS = ("sinc", "linear")
WINDOWS = ("hann", "kaiser")
_MAX_TAPS = 2**28


def sinc_taps(
    up: int, down: int, width: int, zeros: int, rolloff: float, window: str, beta: float
) -> NDArray[np.float64]:
    """[2 width + 2, up]: the windowed sinc around output p / up, in samples of the input."""
    import numpy as np

    phase = np.arange(up)
    offset = np.arange(2 * width + 2)[:, None] - width + phase * down // up
    cutoff = min(up, down) * rolloff  # both in units of the common divisor
    t = (offset / down - phase / up) * cutoff
    inside = np.abs(t) < zeros
    t = np.clip(t, -zeros, zeros)
    if window == "hann":
        taper = np.cos(t * math.pi / zeros / 2) ** 2
    else:
        taper = np.i0(beta * np.sqrt(np.maximum(1 - (t / zeros) ** 2, 0))) / np.i0(beta)
    result: NDArray[np.float64] = np.where(inside, np.sinc(t) * taper * (cutoff / down), 0.0)
    return result


def linear_taps(up: int, down: int) -> NDArray[np.float64]:
    """[2, up]"""
    import numpy as np

    part = np.arange(up) * down % up / up
    return np.stack([1 - part, part])


def resample(
    audio: Signal,
    orig_freq: int,
    new_freq: int,
    *,
    method: str = "sinc",
    lowpass_filter_width: int = 6,
    rolloff: float = 0.99,
    window: str = "hann",
    beta: float = 14.769656459379492,
) -> GPUArray:
    """The signal at another rate, along the last axis: ceil(samples * new_freq / orig_freq).

    A polyphase FIR filter for any pair of rates: a sinc of lowpass_filter_width zero crossings on
    each side, cut off at rolloff of the lower half rate, under a Hann or Kaiser window (beta): the
    filter of torchaudio.functional.resample. (64, 0.9475937167399596, "kaiser") costs ten times
    the taps for a sharper edge. method "linear" interpolates between two samples, and aliases.
    """
    op = "resample"
    x = signal(op, audio)
    orig = whole(op, "orig_freq", orig_freq, 1, 2**30)
    new = whole(op, "new_freq", new_freq, 1, 2**30)
    check_rate(op, "audio", audio, orig)
    choice(op, "method", method, METHODS)
    choice(op, "window", window, WINDOWS)
    zeros = whole(op, "lowpass_filter_width", lowpass_filter_width, 1, 4096)
    edge = amount(op, "rolloff", rolloff, 0.01, 1.0)
    shape = amount(op, "beta", beta, 0.0, MAX_BETA)
    divisor = math.gcd(orig, new)
    up, down = new // divisor, orig // divisor
    if up == down:
        return _native.copy(x)
    length = -(-x.shape[-1] * up // down)
    if method == "linear":
        taps = table(linear_taps, (up, down), x)
        return _native.audio_resample(op, x, taps, up, down, 0, length, True)
    width = math.ceil(zeros * down / (min(up, down) * edge))
    if (2 * width + 2) * up > _MAX_TAPS:
        raise InvalidValueError(
            f"{op}: {orig} to {new} Hz needs {up} filters of {2 * width + 2} taps, expected up to "
            f"{_MAX_TAPS} taps in all"
        )
    taps = table(sinc_taps, (up, down, width, zeros, edge, window, shape), x)
    return _native.audio_resample(op, x, taps, up, down, width, length, False)


__all__ = ["resample"]
