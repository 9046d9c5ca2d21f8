"""AudioRingBuffer: the newest samples of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.audio._arguments import check_rate, signal
from pygpukit.ops.audio.buffer import AudioBuffer

if TYPE_CHECKING:
    from pygpukit._native import _DeviceLike


class AudioRingBuffer:
    """Keeps the last `capacity` samples, in float32 on a device."""

    def __init__(
        self, capacity: int, sample_rate: int = 16000, *, device: _DeviceLike = None
    ) -> None:
        self.capacity = whole("AudioRingBuffer", "capacity", capacity, 1)
        self.sample_rate = whole("AudioRingBuffer", "sample_rate", sample_rate, 1)
        self._samples = _native.zeros((self.capacity,), "float32", device=device)
        self._written = 0

    @property
    def samples_available(self) -> int:
        """Samples kept."""
        return min(self._written, self.capacity)

    @property
    def duration_available(self) -> float:
        """In seconds."""
        return self.samples_available / self.sample_rate

    def write(self, samples: GPUArray | AudioBuffer | Any) -> int:
        """Appends samples (a GPUArray, an AudioBuffer or a NumPy array); returns how many."""
        x = samples_of("write", samples, self._samples, self.sample_rate)
        kept = x[-self.capacity :] if x.size > self.capacity else x
        at = (self._written + x.size - kept.size) % self.capacity
        head = min(kept.size, self.capacity - at)
        if head:
            self._samples[at : at + head] = kept[:head]
        if kept.size > head:
            self._samples[: kept.size - head] = kept[head:]
        self._written += x.size
        return x.size

    def read(self, num: int, offset: int = 0) -> GPUArray:
        """A copy of `num` samples from `offset` on, counted from the oldest one kept."""
        num = whole("read", "num", num)
        offset = whole("read", "offset", offset)
        if offset + num > self.samples_available:
            raise InvalidValueError(
                f"read: samples {offset} to {offset + num} were asked for, expected up to "
                f"{self.samples_available}"
            )
        at = (self._written - self.samples_available + offset) % self.capacity
        head = self._samples[at : at + num]
        if head.size == num:
            return _native.copy(head)
        return _native.concat([head, self._samples[: num - head.size]])

    def clear(self) -> None:
        """Forgets all samples."""
        self._written = 0

    def __repr__(self) -> str:
        return (
            f"AudioRingBuffer(capacity={self.capacity}, sample_rate={self.sample_rate}, "
            f"samples_available={self.samples_available})"
        )


def samples_of(op: str, samples: Any, like: GPUArray, rate: int) -> GPUArray:
    """One axis of samples in the dtype and on the device of `like`; a buffer has that rate."""
    if not isinstance(samples, (GPUArray, AudioBuffer)):
        import numpy as np

        if not isinstance(samples, np.ndarray):
            kind = type(samples).__qualname__
            raise InvalidTypeError(
                f"{op}: samples is of type {kind}, expected a GPUArray, an AudioBuffer or a "
                "NumPy array"
            )
        samples = _native.from_numpy(np.ascontiguousarray(samples), device=str(like.device))
    x = signal(op, samples, "samples")
    check_rate(op, "samples", samples, rate)
    if x.ndim != 1:
        raise InvalidValueError(f"{op}: samples has shape {x.shape}, expected one axis")
    return _native.astype(x, like.dtype, False)


__all__ = ["AudioRingBuffer"]
