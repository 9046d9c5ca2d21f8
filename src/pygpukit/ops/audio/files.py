"""Sound files: WAV by the C++ core, other formats by the package soundfile."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.arguments import file_path, require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.core.extras import import_extra
from pygpukit.ops.audio._arguments import choice, rate_of
from pygpukit.ops.audio.buffer import AudioBuffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pygpukit._native import _DeviceLike

    Path_ = str | os.PathLike[str]

_SUBTYPES = ("pcm_u8", "pcm_16", "pcm_24", "pcm_32", "float", "double")
_MAX_BYTES = 2**32 - 64  # sizes in a WAV file have 32 bits


def load(
    path: Path_ | bytes,
    sample_rate: int | None = None,
    mono: bool = False,
    *,
    device: _DeviceLike = None,
) -> AudioBuffer:
    """A sound file, or the bytes of one, as float32 (float64 for 64-bit floats).

    WAV needs nothing; other formats need soundfile (pip install 'pygpukit[audio]'). With mono the
    channels are mixed, with a sample rate the sound is resampled.
    """
    samples, rate = _read(path)
    data = _native.from_numpy(samples.reshape(-1), device=device)
    buffer = AudioBuffer(data, rate, samples.shape[1])
    if mono:
        buffer = buffer.to_mono()
    return buffer if sample_rate is None else buffer.resample(sample_rate)


def read_wav(data: bytes) -> tuple[NDArray[Any], int]:
    """(samples [frames, channels], sample rate) of the bytes of a WAV file.

    Raises ValueError for anything that is not one, truncated files included.
    """
    import numpy as np

    encoding, channels, rate, bits, offset, frames = _native.wav_header(data)
    count = frames * channels
    size = bits // 8
    raw = memoryview(data)[offset : offset + count * size]
    samples: NDArray[Any]
    if encoding == "float":
        samples = np.frombuffer(raw, f"<f{size}").astype(f"f{size}")
    elif bits == 8:
        samples = (np.frombuffer(raw, "u1").astype("f4") - 128) / np.float32(128)
    elif bits == 24:
        wide = np.zeros((count, 4), "u1")
        wide[:, 1:] = np.frombuffer(raw, "u1").reshape(count, 3)
        samples = (wide.reshape(-1).view("<i4") >> 8).astype("f4") / np.float32(2**23)
    else:
        samples = (np.frombuffer(raw, f"<i{size}") / float(2 ** (bits - 1))).astype("f4")
    return samples.reshape(frames, channels), rate


def save(
    path: Any,
    audio: AudioBuffer | GPUArray,
    sample_rate: int | None = None,
    *,
    subtype: str = "pcm_16",
) -> None:
    """Writes samples; the format follows from the file's suffix.

    path is a str or a path. An array is [frames] or [channels, frames] and needs its rate.
    subtype is that of WAV files: pcm_u8, pcm_16, pcm_24, pcm_32, float or double. Samples beyond
    1 are clipped in PCM, NaN becomes 0. Other formats need soundfile (pip install
    'pygpukit[audio]').
    """
    if not isinstance(path, (str, os.PathLike)):
        kind = type(path).__qualname__
        raise InvalidTypeError(f"save: path is of type {kind}, expected a path")
    samples, rate = _host_samples(audio, sample_rate)
    choice("save", "subtype", subtype, _SUBTYPES)
    file = Path(file_path("save", path))
    if file.suffix.lower() in (".wav", ".wave"):
        file.write_bytes(wav_bytes(samples, rate, subtype))
        return
    soundfile = import_extra("save", "soundfile", "audio")
    try:
        soundfile.write(str(path), samples, rate)
    except (RuntimeError, ValueError, TypeError) as error:
        raise InvalidValueError(f"save: {path}: {error}") from error


def wav_bytes(samples: NDArray[Any], sample_rate: int, subtype: str = "pcm_16") -> bytes:
    """The bytes of a WAV file of samples [frames, channels], a NumPy array of floats."""
    if getattr(samples, "ndim", 0) != 2 or samples.dtype.kind != "f":
        raise InvalidTypeError("wav_bytes: samples is not a NumPy array of floats with two axes")
    choice("wav_bytes", "subtype", subtype, _SUBTYPES)
    sample_rate = whole("wav_bytes", "sample_rate", sample_rate, 1, 2**32 - 1)
    body, is_float, bits = _encode(samples, subtype)
    channels = samples.shape[1]
    if len(body) > _MAX_BYTES:
        raise InvalidValueError(f"save: the samples have {len(body)} bytes, expected up to 4 GiB")
    whole("save", "channels", channels, 1, 65535)
    block = channels * bits // 8
    code = 3 if is_float else 1
    fmt = struct.pack("<HHIIHH", code, channels, sample_rate, sample_rate * block, block, bits)
    chunks = b"fmt " + struct.pack("<I", len(fmt)) + fmt
    if is_float:
        chunks += b"fact" + struct.pack("<II", 4, len(samples))
    chunks += b"data" + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def _encode(samples: NDArray[Any], subtype: str) -> tuple[bytes, bool, int]:
    import numpy as np

    if subtype in ("float", "double"):
        bits = 32 if subtype == "float" else 64
        return samples.astype(f"<f{bits // 8}").tobytes(), True, bits
    bits = {"pcm_u8": 8, "pcm_16": 16, "pcm_24": 24, "pcm_32": 32}[subtype]
    top = float(2 ** (bits - 1))
    scaled = np.nan_to_num(samples.astype("f8"), nan=0.0, posinf=1.0, neginf=-1.0) * top
    levels = np.clip(np.rint(scaled), -top, top - 1)
    if bits == 8:
        return (levels + 128).astype("u1").tobytes(), False, bits
    whole_numbers = levels.astype("<i4" if bits > 16 else "<i2")
    if bits == 24:
        return whole_numbers.reshape(-1).view("u1").reshape(-1, 4)[:, :3].tobytes(), False, bits
    return whole_numbers.tobytes(), False, bits


def _read(path: Path_ | bytes) -> tuple[NDArray[Any], int]:
    if isinstance(path, (bytes, bytearray)):
        data = bytes(path)
    else:
        try:
            data = Path(file_path("load", path)).read_bytes()
        except TypeError:
            kind = type(path).__qualname__
            raise InvalidTypeError(
                f"load: path is of type {kind}, expected a path or bytes"
            ) from None
    begun = bool(data) and len(data) < 12 and b"RIFF".startswith(data[:4])
    if begun or (data[:4] == b"RIFF" and data[8:12] == b"WAVE"):
        return read_wav(data)
    return _read_with_soundfile(data, path)


def _read_with_soundfile(data: bytes, path: Path_ | bytes) -> tuple[NDArray[Any], int]:
    import io

    name = "the bytes" if isinstance(path, (bytes, bytearray)) else path
    if not data:
        raise InvalidValueError(f"load: {name}: no data")
    soundfile = import_extra(f"load: {name}: not a WAV file", "soundfile", "audio")
    try:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except (RuntimeError, ValueError, TypeError) as error:
        # Its text names the object that holds the bytes; error_string is the reason alone.
        reason = getattr(error, "error_string", error)
        raise InvalidValueError(f"load: {name}: {reason}") from error
    return samples, int(rate)


def _host_samples(
    audio: AudioBuffer | GPUArray, sample_rate: int | None
) -> tuple[NDArray[Any], int]:
    """(samples [frames, channels], sample rate)"""
    if isinstance(audio, AudioBuffer):
        rate = rate_of("save", audio, sample_rate)
        values = audio.to_numpy().reshape(-1, audio.channels)
    else:
        require_arrays("save", audio=audio)
        if sample_rate is None:
            raise InvalidValueError("save: sample_rate is None, expected the rate of the array")
        if audio.ndim not in (1, 2):
            raise InvalidValueError(
                f"save: audio has shape {audio.shape}, expected (frames,) or (channels, frames)"
            )
        rate = sample_rate
        values = audio.to_numpy().reshape((1, -1) if audio.ndim == 1 else audio.shape).T
    if values.dtype.kind != "f":
        raise InvalidTypeError(f"save: audio has dtype {values.dtype}, expected a float dtype")
    return values, whole("save", "sample_rate", rate, 1, 2**32 - 1)


__all__ = ["load", "read_wav", "save", "wav_bytes"]
