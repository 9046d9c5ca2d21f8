"""Speech as NumPy samples: WAV files, other rates, joining."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.audio.files import read_wav, wav_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PEAK = 0.95


def to_wav(
    audio: Any, path: str | os.PathLike[str], sample_rate: int = 24000, normalize: bool = True
) -> None:
    """Writes mono samples as a WAV file of 16 bits.

    `normalize` scales the largest magnitude to 0.95; silence stays as it is.
    """
    import numpy as np

    samples = _mono("to_wav", "audio", audio)
    rate = whole("to_wav", "sample_rate", sample_rate, 1, 2**32 - 1)
    peak = float(np.abs(samples).max(initial=0.0))
    if normalize and peak > 0 and np.isfinite(peak):
        samples = samples * np.float32(_PEAK / peak)
    Path(path).write_bytes(wav_bytes(samples.reshape(-1, 1), rate, "pcm_16"))


def from_wav(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], int]:
    """(float32 samples, sample rate) of a WAV file, its channels mixed.

    OSError where it cannot be read, ValueError where it is no WAV file.
    """
    import numpy as np

    samples, rate = read_wav(Path(path).read_bytes())
    return samples.mean(axis=1, dtype=np.float32).astype(np.float32), rate


def resample_audio(audio: Any, src: int, dst: int) -> NDArray[np.float32]:
    """Samples at another rate, by linear interpolation; gp.ops.audio.resample does better."""
    import numpy as np

    samples = _mono("resample_audio", "audio", audio)
    src = whole("resample_audio", "src", src, 1)
    dst = whole("resample_audio", "dst", dst, 1)
    if src == dst or samples.size == 0:
        return samples
    length = max(1, samples.size * dst // src)
    at = np.arange(length) * (src / dst)
    return np.asarray(np.interp(at, np.arange(samples.size), samples), np.float32)


def concatenate_audio(audios: Sequence[Any], gap_samples: int = 0) -> NDArray[np.float32]:
    """One behind the other, with silence between them."""
    import numpy as np

    gap = np.zeros(whole("concatenate_audio", "gap_samples", gap_samples), np.float32)
    parts: list[NDArray[np.float32]] = []
    for i, audio in enumerate(audios):
        parts += [gap] if i else []
        parts.append(_mono("concatenate_audio", f"audios[{i}]", audio))
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _mono(op: str, name: str, audio: Any) -> NDArray[np.float32]:
    """One dimension of float32, from NumPy, a GPUArray or an AudioBuffer."""
    import numpy as np

    if hasattr(audio, "to_numpy"):
        audio = audio.to_numpy()
    try:
        samples = np.asarray(audio)
    except ValueError:
        samples = np.empty(0, object)
    if samples.dtype.kind not in "fiu" and samples.size:
        raise InvalidTypeError(f"{op}: {name} has dtype {samples.dtype}, expected numbers")
    if samples.ndim != 1:
        raise InvalidValueError(f"{op}: {name} has shape {samples.shape}, expected (samples,)")
    return samples.astype(np.float32)
