"""The constant-Q transform, and pitch classes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.fft import rfft
from pygpukit.ops.audio._arguments import flag, rate_of, rows, signal, table
from pygpukit.ops.audio.spectrum import as_pairs, frames_of, pad_last
from pygpukit.ops.audio.windows import window_values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pygpukit._native import GPUArray
    from pygpukit.ops.audio._arguments import Signal

_C1 = 32.703195662574829
_MAX_FRAME = 2**20
_MAX_KERNELS = 2**27  # elements: 1 GiB in complex64


def cqt_lengths(
    rate: int, f_min: float, n_bins: int, per_octave: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(frequencies, lengths of the filters in samples)"""
    import numpy as np

    frequencies = f_min * 2.0 ** (np.arange(n_bins) / per_octave)
    r = 2.0 ** (2.0 / per_octave)
    q = (r + 1) / (r - 1)  # of a filter as wide as the distance of its neighbours
    return frequencies, q * rate / frequencies


def cqt_kernels(
    rate: int, f_min: float, n_bins: int, per_octave: int, n_fft: int
) -> NDArray[np.complex128]:
    """[n_fft // 2 + 1, n_bins]: conjugate spectra of the filters, scaled for frames' spectra."""
    import numpy as np

    frequencies, lengths = cqt_lengths(rate, f_min, n_bins, per_octave)
    kernels = np.zeros((n_fft // 2 + 1, n_bins), np.complex128)
    for i, (frequency, length) in enumerate(zip(frequencies, lengths, strict=True)):
        at = np.arange(-length // 2, length // 2)
        wave = np.exp(2j * math.pi * at * frequency / rate)
        wave *= window_values("hann", 0.0, len(at), True)
        wave /= np.abs(wave).sum()
        frame = np.zeros(n_fft, np.complex128)
        left = (n_fft - len(at)) // 2
        frame[left : left + len(at)] = wave * math.sqrt(length)
        # The real frame's spectrum holds both halves; filters have no negative frequencies.
        kernels[:, i] = np.fft.fft(frame)[: n_fft // 2 + 1].conj() / n_fft
    return kernels


def cqt(
    a: Signal,
    sample_rate: int | None = None,
    hop_length: int = 160,
    f_min: float = 32.7,
    n_bins: int = 84,
    bins_per_octave: int = 12,
    *,
    return_complex: bool = True,
) -> GPUArray:
    """The constant-Q transform: complex [..., samples // hop_length + 1, n_bins].

    Each bin is the product of the signal with a wave under a Hann window of Q periods, divided
    by the square root of its length; librosa's cqt with norm=1 and scale=True, without the
    resampling between octaves. Computed as the spectra of frames times the filters' spectra.
    return_complex=False gives reals [..., 2].
    """
    op = "cqt"
    x = signal(op, a, "a")
    rate = rate_of(op, a, sample_rate, "a")
    hop = whole(op, "hop_length", hop_length, 1)
    bins = whole(op, "n_bins", n_bins, 1, 4096)
    octave = whole(op, "bins_per_octave", bins_per_octave, 1, 4096)
    low = amount(op, "f_min", f_min)
    as_complex = flag(op, "return_complex", return_complex)
    if low <= 0 or low * 2.0 ** ((bins - 1) / octave) > rate / 2:
        raise InvalidValueError(
            f"{op}: f_min is {low} with {bins} bins, expected more than 0 and all bins up to "
            f"{rate / 2} Hz"
        )
    n_fft = 1 << math.ceil(math.log2(cqt_lengths(rate, low, 1, octave)[1][0] + 2))
    if n_fft > _MAX_FRAME or n_fft * bins > _MAX_KERNELS:
        raise InvalidValueError(
            f"{op}: {bins} filters of {n_fft} samples are needed at {low} Hz, expected up to "
            f"{_MAX_FRAME} samples each and {_MAX_KERNELS} in all"
        )
    if x.shape[-1] == 0:
        raise InvalidValueError(f"{op}: a has 0 samples, expected at least 1")
    frames = frames_of(pad_last(x, n_fft // 2, n_fft // 2), n_fft, hop)
    kernels = table(cqt_kernels, (rate, low, bins, octave, n_fft), x)
    result = _native.matmul(rfft(frames), kernels)
    return result if as_complex else as_pairs(result)


def cqt_magnitude(
    a: Signal,
    sample_rate: int | None = None,
    hop_length: int = 160,
    f_min: float = 32.7,
    n_bins: int = 84,
    bins_per_octave: int = 12,
) -> GPUArray:
    """Magnitudes of cqt(): [..., frames, n_bins]."""
    return _native.abs(cqt(a, sample_rate, hop_length, f_min, n_bins, bins_per_octave))


def chroma_filterbank(bins: int, rate: int, n_chroma: int, tuning: float) -> NDArray[np.float64]:
    """[bins, n_chroma]: Gaussian bumps around pitch classes, octaves near 440 Hz weighted up."""
    import numpy as np

    n_fft = 2 * (bins - 1)
    frequencies = np.arange(1, n_fft) * (rate / n_fft)
    a440 = 440.0 * 2.0 ** (tuning / n_chroma)
    places = n_chroma * np.log2(frequencies / (a440 / 16))
    places = np.concatenate([[places[0] - 1.5 * n_chroma], places])
    widths = np.concatenate([np.maximum(np.diff(places), 1.0), [1.0]])
    half = np.round(n_chroma / 2)
    distance = places - np.arange(n_chroma)[:, None]
    distance = np.remainder(distance + half + 10 * n_chroma, n_chroma) - half
    weights = np.exp(-0.5 * (2 * distance / widths) ** 2)
    weights /= np.sqrt((weights**2).sum(0))
    weights *= np.exp(-0.5 * ((places / n_chroma - 5.0) / 2.0) ** 2)
    weights = np.roll(weights, -3 * (n_chroma // 12), axis=0)  # from A to C
    return np.ascontiguousarray(weights[:, :bins].T)


def _by_maximum(x: GPUArray) -> GPUArray:
    """Scaled to a maximum of 1 in each frame; zeros stay zeros."""
    top = _native.max(_native.abs(x), -1, keepdims=True)
    return _native.divide(x, _native.where(_native.less(top, 1.1754943508222875e-38), 1.0, top))


def chroma_stft(
    spec: GPUArray, sample_rate: int = 16000, n_chroma: int = 12, tuning: float = 0.0
) -> GPUArray:
    """Pitch classes of spectra [..., frames, bins]: [..., frames, n_chroma], class 0 is C.

    As librosa.feature.chroma_stft(S=...): scaled to a maximum of 1 in each frame.
    """
    op = "chroma_stft"
    s = rows(op, "spec", spec)
    if s.shape[-1] < 2:
        raise InvalidValueError(f"{op}: spec has {s.shape[-1]} bins, expected at least 2")
    rate = whole(op, "sample_rate", sample_rate, 1)
    classes = whole(op, "n_chroma", n_chroma, 1, 1200)
    key = (s.shape[-1], rate, classes, amount(op, "tuning", tuning, -1e3, 1e3))
    return _by_maximum(_native.matmul(s, table(chroma_filterbank, key, s)))


def _cqt_to_chroma(bins: int, per_octave: int, n_chroma: int, f_min: float) -> NDArray[np.float64]:
    """[bins, n_chroma]: bins of all octaves to their pitch classes, class 0 is C."""
    import numpy as np

    merge = per_octave // n_chroma
    one = np.roll(np.repeat(np.eye(n_chroma), merge, axis=1), -(merge // 2), axis=1)
    every = np.tile(one, math.ceil(bins / per_octave))[:, :bins]
    note = (12 * np.log2(f_min / 440.0) + 69) % 12
    every = np.roll(every, round(note * n_chroma / 12), axis=0)
    return np.ascontiguousarray(every.T)


def chroma_cqt(
    mag: GPUArray, bins_per_octave: int = 12, *, n_chroma: int = 12, f_min: float = _C1
) -> GPUArray:
    """Pitch classes of cqt_magnitude() [..., frames, bins]: [..., frames, n_chroma].

    As librosa.feature.chroma_cqt(C=..., threshold=0): scaled to a maximum of 1 in each frame.
    """
    op = "chroma_cqt"
    s = rows(op, "mag", mag)
    classes = whole(op, "n_chroma", n_chroma, 1)
    octave = whole(op, "bins_per_octave", bins_per_octave, 1)
    if octave % classes:
        raise InvalidValueError(
            f"{op}: bins_per_octave is {octave}, expected a multiple of n_chroma, {classes}"
        )
    low = amount(op, "f_min", f_min, 1e-3)
    bank = table(_cqt_to_chroma, (s.shape[-1], octave, classes, low), s)
    return _by_maximum(_native.matmul(s, bank))


__all__ = ["chroma_cqt", "chroma_stft", "cqt", "cqt_magnitude"]
