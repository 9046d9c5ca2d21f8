"""Sound to the spectrograms that a Whisper takes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pygpukit.ops.audio import AudioBuffer

    Sound = NDArray[Any] | GPUArray | AudioBuffer | str | os.PathLike[str]

WHISPER_SAMPLE_RATE = 16000
WHISPER_N_FFT = 400
WHISPER_HOP_LENGTH = 160
WHISPER_N_MELS = 80
WHISPER_CHUNK_LENGTH = 30
WHISPER_N_SAMPLES = WHISPER_CHUNK_LENGTH * WHISPER_SAMPLE_RATE
_MOST_CHANNELS = 256  # an array with more is probably [samples, channels]
WHISPER_N_FRAMES = WHISPER_N_SAMPLES // WHISPER_HOP_LENGTH


def pad_or_trim(audio: Any, length: int = WHISPER_N_SAMPLES) -> Any:
    """Zeros behind the last axis, or its beginning: `length` elements. NumPy stays NumPy."""
    length = whole("pad_or_trim", "length", length)
    if not isinstance(audio, GPUArray | np.ndarray):
        raise InvalidTypeError(
            f"pad_or_trim: audio is of type {type(audio).__name__}, expected a GPUArray or an "
            "ndarray"
        )
    if audio.ndim == 0:
        raise InvalidValueError("pad_or_trim: audio has no axis, expected samples along the last")
    missing = length - audio.shape[-1]
    if missing <= 0:
        return audio[..., :length]
    width = [(0, 0)] * (audio.ndim - 1) + [(0, missing)]
    if isinstance(audio, np.ndarray):
        return np.pad(audio, width)
    from pygpukit.ops.repeating import pad

    return pad(audio, width)


def normalize_mel(mel: Any) -> Any:
    """(mel + 4) / 4, which takes log10 values of speech to about -1 .. 1."""
    if not isinstance(mel, GPUArray | np.ndarray):
        raise InvalidTypeError(
            f"normalize_mel: mel is of type {type(mel).__name__}, expected a GPUArray or an ndarray"
        )
    return (mel + 4.0) / 4.0


def load_sound(
    op: str,
    audio: Sound,
    sample_rate: int | None = None,
    device: str | None = None,
    *,
    finite: bool = False,
) -> GPUArray:
    """One channel at 16 kHz, float32 [samples], of a file or of samples.

    Samples are [samples] or [channels, samples] with a ``sample_rate`` (16000 where it is None);
    int16 becomes float. A file and an AudioBuffer know their rate, which a given one must be.
    ``finite`` refuses NaN and infinities, which takes a reduction on the device and waits for it.
    """
    from pygpukit.ops import audio as sounds
    from pygpukit.ops.audio._arguments import rate_of

    if isinstance(audio, str | os.PathLike):
        audio = sounds.load(audio, device=device)
    if isinstance(audio, sounds.AudioBuffer):
        rate_of(op, audio, sample_rate)
        data = _native.astype(audio.data, "float32", False)
        if finite:
            _check_finite(op, data)
        buffer = sounds.AudioBuffer(data, audio.sample_rate, audio.channels)
        return buffer.to_mono().resample(WHISPER_SAMPLE_RATE).data
    if isinstance(audio, np.ndarray):
        audio = _native.from_numpy(np.ascontiguousarray(_as_float(op, audio)), device=device)
    if not isinstance(audio, GPUArray):
        raise InvalidTypeError(
            f"{op}: audio is of type {type(audio).__name__}, expected samples, a path or an "
            "AudioBuffer"
        )
    if audio.ndim not in (1, 2) or (audio.ndim == 2 and audio.shape[0] > _MOST_CHANNELS):
        raise InvalidValueError(
            f"{op}: audio has shape {audio.shape}, expected (samples,) or (channels, samples), at "
            f"most {_MOST_CHANNELS} channels"
        )
    rate = WHISPER_SAMPLE_RATE
    if sample_rate is not None:
        rate = whole(op, "sample_rate", sample_rate, 1, 2**30)
    mono = _floats(op, audio)
    if finite:
        _check_finite(op, mono)
    if mono.ndim == 2:
        mono = _native.mean(mono, 0)
    return mono if rate == WHISPER_SAMPLE_RATE else sounds.resample(mono, rate, WHISPER_SAMPLE_RATE)


def _check_finite(op: str, samples: GPUArray) -> None:
    if samples.size == 0:
        return
    bad = int(_native.sum(_native.logical_not(_native.isfinite(samples))).to_numpy())
    if bad:
        raise InvalidValueError(
            f"{op}: audio has {bad} of {samples.size} samples that are not finite"
        )


def _floats(op: str, samples: GPUArray) -> GPUArray:
    if samples.dtype.name == "int16":
        return _native.multiply(_native.astype(samples, "float32"), 1 / 32768)
    if "float" not in samples.dtype.name:
        raise InvalidTypeError(
            f"{op}: audio has dtype {samples.dtype}, expected a float dtype or int16"
        )
    return _native.astype(samples, "float32")


def _as_float(op: str, samples: NDArray[Any]) -> NDArray[Any]:
    if samples.dtype == np.int16:
        scaled: NDArray[Any] = samples.astype(np.float32) / np.float32(32768)
        return scaled
    if samples.dtype.kind != "f":
        raise InvalidTypeError(
            f"{op}: audio has dtype {samples.dtype}, expected a float dtype or int16"
        )
    return samples.astype(np.float32)


def preprocess_audio(
    audio: Sound,
    sample_rate: int | None = None,
    n_mels: int = WHISPER_N_MELS,
    padding: bool = True,
    *,
    device: str | None = None,
) -> GPUArray:
    """The log-mel spectrogram [n_mels, frames]; with padding, of 30 s: 3000 frames."""
    from pygpukit.ops.audio import whisper_log_mel

    sound = load_sound("preprocess_audio", audio, sample_rate, device)
    return whisper_log_mel(sound, n_mels, length=WHISPER_N_SAMPLES if padding else None)


def preprocess_audio_batch(
    audios: Iterable[Sound],
    sample_rate: int | None = None,
    n_mels: int = WHISPER_N_MELS,
    *,
    device: str | None = None,
) -> GPUArray:
    """Spectrograms of 30 s each: [batch, n_mels, 3000]."""
    from pygpukit.ops.audio import whisper_log_mel

    if isinstance(audios, str | os.PathLike | GPUArray) or not isinstance(audios, Iterable):
        raise InvalidTypeError(
            f"preprocess_audio_batch: audios is of type {type(audios).__name__}, expected a list"
        )
    sounds = [load_sound("preprocess_audio_batch", x, sample_rate, device) for x in audios]
    if not sounds:
        raise InvalidValueError("preprocess_audio_batch: audios is empty, expected one or more")
    windows = [pad_or_trim(sound, WHISPER_N_SAMPLES) for sound in sounds]
    return whisper_log_mel(_native.stack(windows, 0), n_mels)


__all__ = [
    "WHISPER_CHUNK_LENGTH",
    "WHISPER_HOP_LENGTH",
    "WHISPER_N_FFT",
    "WHISPER_N_FRAMES",
    "WHISPER_N_MELS",
    "WHISPER_N_SAMPLES",
    "WHISPER_SAMPLE_RATE",
    "normalize_mel",
    "pad_or_trim",
    "preprocess_audio",
    "preprocess_audio_batch",
]
