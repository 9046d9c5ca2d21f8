"""The features of Whisper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.audio._arguments import signal, table
from pygpukit.ops.audio.mel import filterbank_ranges, filterbank_values
from pygpukit.ops.audio.spectrum import framing, fused, pad_last, spectra
from pygpukit.ops.audio.windows import frame_window

if TYPE_CHECKING:
    from pygpukit._native import GPUArray
    from pygpukit.ops.audio._arguments import Signal

_RATE, _N_FFT, _HOP = 16000, 400, 160


def whisper_log_mel(audio: Signal, n_mels: int = 80, *, length: int | None = None) -> GPUArray:
    """log10 mel spectra as Whisper's feature extractor: [..., n_mels, samples // 160].

    The signal has 16 kHz; with a length it is cut or padded with zeros to so many samples first
    (480000: 30 s). Values are max(log10(mel), their maximum - 8), scaled to (x + 4) / 4; the
    maximum is that of a signal, not of the batch.
    """
    op = "whisper_log_mel"
    x = signal(op, audio)
    rate = getattr(audio, "sample_rate", _RATE)
    if rate != _RATE:
        raise InvalidValueError(f"{op}: audio has a rate of {rate} Hz, expected {_RATE}")
    n_mels = whole(op, "n_mels", n_mels, 1, 2**20)
    if length is not None:
        length = whole(op, "length", length, 1)
        x = pad_last(x[..., :length], 0, max(0, length - x.shape[-1]))
    how = framing(op, _N_FFT, _HOP, -1, True)
    frames = x.shape[-1] // _HOP
    if frames == 0:
        return _native.empty((*x.shape[:-1], n_mels, 0), x.dtype, device=x.device)
    key = (n_mels, _N_FFT, _RATE, 0.0, 8000.0, "slaney", "slaney")
    bank = table(filterbank_values, key, x)
    if _native.audio_is_fused(_N_FFT, x):
        taper = frame_window(op, "hann", _N_FFT, _N_FFT, x)
        pair = (bank, table(filterbank_ranges, key, x))
        return fused(op, x, how, taper, "mel", pair, "whisper", 1e-10, True, frames)
    power = spectra(op, x, how, "hann", "power")[..., :frames, :]
    mel = _native.matmul(bank, _native.swapaxes(power, -1, -2))
    log = _native.log10(_native.maximum(mel, 1e-10))
    top = _native.max(log, (-2, -1), keepdims=True)
    log = _native.maximum(log, _native.subtract(top, 8.0))
    return _native.multiply(_native.add(log, 4.0), 0.25)


__all__ = ["whisper_log_mel"]
