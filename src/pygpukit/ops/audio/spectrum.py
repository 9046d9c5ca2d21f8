"""Short-time Fourier transforms: frames of a signal, their spectra, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.arguments import require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.fft import irfft, rfft
from pygpukit.ops.audio._arguments import choice, flag, rows, signal
from pygpukit.ops.audio.windows import frame_window

if TYPE_CHECKING:
    from pygpukit.ops.audio._arguments import Signal
    from pygpukit.ops.audio.windows import Window

PAD_MODES = ("reflect", "constant", "edge", "symmetric", "wrap")
_MAX_FFT = 2**24


@dataclass(frozen=True)
class Framing:
    """How a signal is cut into frames."""

    n_fft: int
    hop: int
    win_length: int
    center: bool
    pad_mode: str

    @property
    def bins(self) -> int:
        """Frequencies of a spectrum."""
        return self.n_fft // 2 + 1

    def count(self, samples: int) -> int:
        """Frames of a signal."""
        padded = samples + 2 * (self.n_fft // 2) if self.center else samples
        return max(0, (padded - self.n_fft) // self.hop + 1)


def framing(
    op: str, n_fft: int, hop_length: int, win_length: int, center: bool, pad_mode: str = "reflect"
) -> Framing:
    """The arguments, checked. win_length -1 (or None) is n_fft."""
    n_fft = whole(op, "n_fft", n_fft, 1, _MAX_FFT)
    hop = whole(op, "hop_length", hop_length, 1, 2**30)
    given = -1 if win_length is None else whole(op, "win_length", win_length, -1)
    win = n_fft if given == -1 else whole(op, "win_length", given, 1, n_fft)
    choice(op, "pad_mode", pad_mode, PAD_MODES)
    return Framing(n_fft, hop, win, flag(op, "center", center), pad_mode)


def padded(op: str, x: GPUArray, how: Framing) -> GPUArray:
    """The signal with half a frame on both sides where frames are centered."""
    check_samples(op, x, how)
    half = how.n_fft // 2 if how.center else 0
    return pad_last(x, half, half, how.pad_mode)


def check_samples(op: str, x: GPUArray, how: Framing) -> None:
    """Raises for signals too short for one frame."""
    samples = x.shape[-1]
    if not how.center and samples < how.n_fft:
        raise InvalidValueError(
            f"{op}: audio has {samples} samples, expected at least n_fft, {how.n_fft}, "
            "without center"
        )
    if how.center and samples == 0 and how.pad_mode != "constant":
        raise InvalidValueError(
            f"{op}: audio has 0 samples, expected at least 1 with pad_mode '{how.pad_mode}'"
        )


def pad_last(x: GPUArray, before: int, after: int, mode: str = "constant") -> GPUArray:
    """The array, padded along its last axis."""
    if before == 0 and after == 0:
        return x
    widths = [(0, 0)] * (x.ndim - 1) + [(before, after)]
    return _native.pad(x, widths, mode, [(0.0, 0.0)] * x.ndim if mode == "constant" else [])


def frame(audio: Signal, frame_length: int, hop_length: int) -> GPUArray:
    """A view [..., frames, frame_length] of the signal; frames that do not fit are left out."""
    x = signal("frame", audio)
    return frames_of(
        x,
        whole("frame", "frame_length", frame_length, 1),
        whole("frame", "hop_length", hop_length, 1),
    )


def frames_of(x: GPUArray, length: int, hop: int) -> GPUArray:
    """A view of frames along the last axis."""
    count = max(0, (x.shape[-1] - length) // hop + 1)
    if count == 0:
        return _native.zeros((*x.shape[:-1], 0, length), x.dtype, device=x.device)
    step = x.strides[-1]
    return _native.strided_view(
        x, (*x.shape[:-1], count, length), (*x.strides[:-1], hop * step, step)
    )


def spectra(
    op: str, x: GPUArray, how: Framing, window: Window, output: str = "complex"
) -> GPUArray:
    """[..., frames, bins]: "complex", "power" or "magnitude"."""
    taper = frame_window(op, window, how.win_length, how.n_fft, x)
    if _native.audio_is_fused(how.n_fft, x):
        return fused(op, x, how, taper, output)
    frames = frames_of(padded(op, x, how), how.n_fft, how.hop)
    z = rfft(_native.multiply(frames, taper))
    if output == "complex":
        return z
    return power_spectrum(z) if output == "power" else _native.abs(z)


def fused(
    op: str,
    x: GPUArray,
    how: Framing,
    taper: GPUArray,
    output: str,
    bank: tuple[GPUArray, GPUArray] | None = None,
    log: str = "",
    floor: float = 0.0,
    transposed: bool = False,
    frames: int | None = None,
) -> GPUArray:
    """Spectra by one kernel; all frames where `frames` is None."""
    count = how.count(x.shape[-1]) if frames is None else frames
    padding, mode = (how.n_fft // 2 if how.center else 0), how.pad_mode
    if not how.center or mode not in ("constant", "edge", "reflect"):
        x, padding, mode = padded(op, x, how), 0, "constant"
    return _native.audio_spectrogram(
        op,
        x,
        taper,
        how.hop,
        padding,
        mode,
        count,
        output,
        None if bank is None else bank[0],
        None if bank is None else bank[1],
        log,
        floor,
        transposed,
    )


def stft(
    a: Signal,
    n_fft: int = 512,
    hop_length: int = 160,
    win_length: int = -1,
    center: bool = True,
    *,
    window: Window = "hann",
    pad_mode: str = "reflect",
    return_complex: bool = True,
) -> GPUArray:
    """The short-time Fourier transform along the last axis: complex [..., frames, n_fft // 2 + 1].

    Frames of n_fft samples begin hop_length apart; with center, frame t has sample t * hop_length
    in its middle and the signal is padded by half a frame. The window has win_length samples, in
    the middle of a frame. return_complex=False gives reals [..., frames, bins, 2].
    """
    x = signal("stft", a)
    how = framing("stft", n_fft, hop_length, win_length, center, pad_mode)
    as_complex_numbers = flag("stft", "return_complex", return_complex)
    check_samples("stft", x, how)
    result = spectra("stft", x, how, window)
    return result if as_complex_numbers else as_pairs(result)


def as_pairs(s: GPUArray) -> GPUArray:
    """Complex numbers as a last axis of real and imaginary parts."""
    return _native.stack([_native.real(s), _native.imag(s)], -1)


def as_complex(op: str, s: GPUArray, name: str = "s") -> GPUArray:
    """Complex spectra, also from reals [..., bins, 2]."""
    require_arrays(op, **{name: s})
    if s.dtype.name.startswith("complex"):
        if s.ndim >= 2:
            return s
    elif s.ndim >= 3 and s.shape[-1] == 2:
        pairs = rows(op, name, s)
        imaginary = _native.multiply(pairs[..., 1], 1j)
        kind = "complex128" if pairs.dtype.name == "float64" else "complex64"
        return _native.astype(_native.add(pairs[..., 0], imaginary), kind, False)
    raise InvalidTypeError(
        f"{op}: {name} has dtype {s.dtype} and shape {s.shape}, expected complex "
        "(..., frames, bins) or real (..., frames, bins, 2)"
    )


def istft(
    s: GPUArray,
    hop_length: int = 160,
    win_length: int = -1,
    center: bool = True,
    length: int = -1,
    *,
    n_fft: int | None = None,
    window: Window = "hann",
) -> GPUArray:
    """The inverse of stft: the overlap-add of windowed frames, divided by that of window**2.

    length is that of the result, -1 what the frames hold. n_fft is needed where it is odd.
    """
    z = as_complex("istft", s)
    size = 2 * (z.shape[-1] - 1) if n_fft is None else n_fft
    how = framing("istft", size, hop_length, win_length, center)
    if z.shape[-1] != how.bins:
        raise InvalidValueError(
            f"istft: s has {z.shape[-1]} bins, expected {how.bins} for n_fft {how.n_fft}"
        )
    given = None if length is None else whole("istft", "length", length, -1)
    return from_spectra("istft", z, how, window, None if given == -1 else given)


def from_spectra(
    op: str, z: GPUArray, how: Framing, window: Window, length: int | None
) -> GPUArray:
    """The signal of complex spectra [..., frames, bins]."""
    frames = irfft(z, how.n_fft)
    taper = frame_window(op, window, how.win_length, how.n_fft, frames)
    count = frames.shape[-2]
    start = how.n_fft // 2 if how.center else 0
    natural = max(0, (count - 1) * how.hop + how.n_fft - 2 * start) if count else 0
    size = natural if length is None else whole(op, "length", length)
    return _native.audio_overlap_add(op, frames, taper, how.hop, start, size)


def power_spectrum(s: GPUArray) -> GPUArray:
    """re**2 + im**2 of complex spectra, or of reals [..., bins, 2]."""
    z = as_complex("power_spectrum", s)
    return _native.add(_native.square(_native.real(z)), _native.square(_native.imag(z)))


def magnitude_spectrum(s: GPUArray) -> GPUArray:
    """sqrt(re**2 + im**2) of complex spectra, or of reals [..., bins, 2]."""
    return _native.abs(as_complex("magnitude_spectrum", s))


__all__ = ["frame", "istft", "magnitude_spectrum", "power_spectrum", "stft"]
