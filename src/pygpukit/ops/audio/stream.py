"""AudioStream: chunks of samples as they arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidValueError, OperationError
from pygpukit.ops.audio._arguments import table
from pygpukit.ops.audio.ring_buffer import samples_of
from pygpukit.ops.audio.windows import window_values

if TYPE_CHECKING:
    from pygpukit._native import GPUArray, _DeviceLike
    from pygpukit.ops.audio.buffer import AudioBuffer


class AudioStream:
    """Samples in, chunks of `chunk_size` out, that begin `hop_size` (half a chunk) apart."""

    def __init__(
        self,
        chunk_size: int = 480,
        hop_size: int | None = None,
        sample_rate: int = 16000,
        buffer_duration: float = 30.0,
        *,
        device: _DeviceLike = None,
    ) -> None:
        op = "AudioStream"
        self.chunk_size = whole(op, "chunk_size", chunk_size, 1)
        default = max(1, self.chunk_size // 2)
        self.hop_size = default if hop_size is None else whole(op, "hop_size", hop_size, 1)
        self.sample_rate = whole(op, "sample_rate", sample_rate, 1)
        self.capacity = max(
            self.chunk_size, int(amount(op, "buffer_duration", buffer_duration) * self.sample_rate)
        )
        self._pending = _native.empty((0,), "float32", device=device)
        self._empty = self._pending
        self._gap = 0  # samples to come that no chunk has: hop_size may exceed chunk_size

    @property
    def chunks_available(self) -> int:
        """Chunks that pop_chunk() would return."""
        return max(0, (self._pending.size - self.chunk_size) // self.hop_size + 1)

    def has_chunk(self) -> bool:
        """Whether there is one."""
        return self.chunks_available > 0

    def push(self, samples: GPUArray | AudioBuffer | Any) -> int:
        """Appends samples; returns how many. Raises once buffer_duration would be exceeded."""
        x = samples_of("push", samples, self._empty, self.sample_rate)
        count = x.size
        skipped = min(self._gap, count)
        if self._pending.size + count - skipped > self.capacity:
            raise InvalidValueError(
                f"push: {count - skipped} samples after {self._pending.size} that wait, expected "
                f"up to {self.capacity} in all; pop_chunk() takes them out"
            )
        self._gap -= skipped
        x = x[skipped:]
        # A copy in any case: the caller may write the next samples into its array.
        self._pending = _native.concat([self._pending, x])
        return count

    def pop_chunk(self, apply_window: bool = True) -> GPUArray:
        """The next chunk, under a symmetric Hann window unless that is switched off."""
        if not self.has_chunk():
            raise OperationError(
                f"pop_chunk: {self._pending.size} samples wait, a chunk has {self.chunk_size}"
            )
        chunk = self._pending[: self.chunk_size]
        self._gap = max(0, self.hop_size - self._pending.size)
        self._pending = self._pending[self.hop_size :]
        if not apply_window:
            return _native.copy(chunk)
        window = table(window_values, ("hann", 0.0, self.chunk_size, False), chunk)
        return _native.multiply(chunk, window)

    def reset(self) -> None:
        """Forgets all samples."""
        self._pending = self._empty
        self._gap = 0


__all__ = ["AudioStream"]
