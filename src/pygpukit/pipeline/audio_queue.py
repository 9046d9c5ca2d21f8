"""Sound that waits to be processed, chunk by chunk."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pygpukit.core.arguments import positive, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError


def mono(op: str, audio: Any) -> NDArray[np.float32]:
    """One channel of float32 samples in host memory."""
    if not isinstance(audio, np.ndarray):
        raise InvalidTypeError(
            f"{op}: audio is of type {type(audio).__name__}, expected a numpy.ndarray "
            "(to_numpy() of a GPUArray)"
        )
    if audio.ndim != 1:
        raise InvalidValueError(f"{op}: audio has shape {audio.shape}, expected one dimension")
    if not np.issubdtype(audio.dtype, np.floating):
        raise InvalidTypeError(
            f"{op}: audio has dtype {audio.dtype}, expected floats from -1 to 1 "
            "(int16 samples divided by 32768)"
        )
    return audio.astype(np.float32, copy=False)


class AudioBuffer:
    """The latest sound, at most ``max_duration`` seconds; the oldest samples go first."""

    def __init__(self, sample_rate: int = 16000, max_duration: float = 60.0) -> None:
        self.sample_rate = whole("AudioBuffer", "sample_rate", sample_rate, 1)
        self.max_duration = positive("AudioBuffer", "max_duration", max_duration)
        self._chunks: deque[NDArray[np.float32]] = deque()
        self._samples = 0

    def append(self, audio: Any) -> None:
        """Adds samples behind the others."""
        chunk = mono("AudioBuffer.append", audio).copy()
        self._chunks.append(chunk)
        self._samples += chunk.size
        excess = self._samples - int(self.max_duration * self.sample_rate)
        while excess > 0:
            first = self._chunks.popleft()
            if first.size > excess:
                self._chunks.appendleft(first[excess:])
            cut = min(excess, first.size)
            self._samples -= cut
            excess -= cut

    def get_all(self) -> NDArray[np.float32]:
        """All samples, which stay."""
        return np.concatenate([*self._chunks, np.zeros(0, np.float32)])

    def clear(self) -> None:
        """Forgets all samples."""
        self._chunks.clear()
        self._samples = 0

    @property
    def duration(self) -> float:
        """In seconds."""
        return self._samples / self.sample_rate

    def __len__(self) -> int:
        return self._samples
