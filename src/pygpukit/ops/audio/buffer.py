"""AudioBuffer: samples with their rate and channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import amount, require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pygpukit._native import _DeviceLike

_SILENCE = 1e-8
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_MOST_DB = 300.0


@dataclass(repr=False, eq=False)
class AudioBuffer:
    """Floats on a device: [frames * channels], the channels of a frame next to each other."""

    data: GPUArray
    sample_rate: int
    channels: int = 1

    def __post_init__(self) -> None:
        require_arrays("AudioBuffer", data=self.data)
        self.sample_rate = whole("AudioBuffer", "sample_rate", self.sample_rate, 1)
        self.channels = whole("AudioBuffer", "channels", self.channels, 1)
        if self.data.dtype.name not in _FLOATS:
            raise InvalidTypeError(
                f"AudioBuffer: data has dtype {self.data.dtype}, expected a float dtype; "
                "from_pcm() converts int16 samples"
            )
        if self.data.ndim != 1 or self.data.size % self.channels:
            raise InvalidValueError(
                f"AudioBuffer: data has shape {self.data.shape}, expected one axis, a multiple of "
                f"{self.channels} channels"
            )

    @property
    def num_frames(self) -> int:
        """Samples of a channel."""
        return self.data.size // self.channels

    @property
    def duration(self) -> float:
        """In seconds."""
        return self.num_frames / self.sample_rate

    def planes(self) -> GPUArray:
        """A view [channels, frames]."""
        return _native.transpose(_native.reshape(self.data, (self.num_frames, self.channels)))

    def to_mono(self) -> AudioBuffer:
        """The mean of the channels; itself where there is one."""
        if self.channels == 1:
            return self
        return AudioBuffer(_native.mean(self.planes(), 0), self.sample_rate, 1)

    def resample(self, rate: int, *, method: str = "sinc") -> AudioBuffer:
        """At another rate, frames * rate // sample_rate of them; itself where the rate is its own.

        Polyphase windowed sinc, or with method "linear" linear interpolation.
        """
        from pygpukit.ops.audio.resampling import resample

        rate = whole("resample", "rate", rate, 1)
        if rate == self.sample_rate:
            return self
        length = self.num_frames * rate // self.sample_rate
        planes = resample(self.planes(), self.sample_rate, rate, method=method)[:, :length]
        data = _native.reshape(_native.transpose(planes), (-1,))
        return AudioBuffer(data, rate, self.channels)

    def normalize(self, mode: str = "peak", target_db: float = -20.0) -> AudioBuffer:
        """Scales in place: "peak" to a largest magnitude of 1, "rms" to an RMS of target_db.

        Near silence (below 1e-8) nothing changes. Returns itself.
        """
        if mode not in ("peak", "rms"):
            raise InvalidValueError(
                f"normalize: mode is {safe_repr(mode)}, expected 'peak' or 'rms'"
            )
        loudness = amount("normalize", "target_db", target_db, -_MOST_DB, _MOST_DB)
        if self.data.size == 0:
            return self
        if mode == "peak":
            level, target = _native.max(_native.abs(self.data)), 1.0
        else:
            level = _native.sqrt(_native.mean(_native.square(self.data)))
            target = 10.0 ** (loudness / 20.0)
        loud = _native.greater_equal(level, _SILENCE)
        gain = _native.where(loud, _native.divide(target, level), 1.0)
        _native.multiply(self.data, _native.astype(gain, self.data.dtype), out=self.data)
        return self

    def to_numpy(self) -> NDArray[Any]:
        """The samples, interleaved."""
        return self.data.to_numpy()

    def __len__(self) -> int:
        return self.data.size

    def __repr__(self) -> str:
        return (
            f"AudioBuffer(samples={self.data.size}, sample_rate={self.sample_rate}, "
            f"channels={self.channels})"
        )


def from_pcm(
    samples: Any, sample_rate: int, channels: int = 1, *, device: _DeviceLike = None
) -> AudioBuffer:
    """A buffer of NumPy samples: int16 divided by 32768, float32 and float64 as they are."""
    import numpy as np

    if not isinstance(samples, np.ndarray):
        kind = type(samples).__qualname__
        raise InvalidTypeError(f"from_pcm: samples is of type {kind}, expected a numpy.ndarray")
    values: NDArray[Any]
    if samples.dtype == np.int16:
        values = samples.astype(np.float32) / np.float32(32768)
    elif samples.dtype in (np.float32, np.float64):
        values = samples
    else:
        raise InvalidValueError(
            f"from_pcm: samples has dtype {samples.dtype}, expected int16, float32 or float64"
        )
    data = _native.from_numpy(np.ascontiguousarray(values.reshape(-1)), device=device)
    return AudioBuffer(data, sample_rate, channels)


__all__ = ["AudioBuffer", "from_pcm"]
