"""Voice activity by the energy of frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.audio._arguments import check_rate, signal

if TYPE_CHECKING:
    from pygpukit._native import GPUArray
    from pygpukit.ops.audio._arguments import Signal

_LEAST_THRESHOLD = 0.01


@dataclass(frozen=True)
class SpeechSegment:
    """A stretch of speech, in samples and in seconds."""

    start_sample: int
    end_sample: int
    start_time: float
    end_time: float


class VAD:
    """A frame is speech where its RMS is above the threshold and its zero crossing rate is not
    below zcr_low.

    Without a threshold it is three times the RMS of the quietest frame, at least 0.01. Each run of
    speech is extended by hangover_ms.
    """

    def __init__(
        self,
        sample_rate: int = 16000,
        frame_ms: float = 20.0,
        hop_ms: float = 10.0,
        energy_threshold: float | None = None,
        hangover_ms: float = 100.0,
        zcr_low: float = 0.02,
        zcr_high: float = 0.25,
    ) -> None:
        self.sample_rate = whole("VAD", "sample_rate", sample_rate, 1)
        self.frame_ms = amount("VAD", "frame_ms", frame_ms)
        self.hop_ms = amount("VAD", "hop_ms", hop_ms)
        self.frame_size = int(self.sample_rate * self.frame_ms / 1000)
        self.hop_size = int(self.sample_rate * self.hop_ms / 1000)
        for name, size in (("frame_ms", self.frame_size), ("hop_ms", self.hop_size)):
            if size < 1:
                raise InvalidValueError(f"VAD: {name} is less than a sample of {sample_rate} Hz")
        given = energy_threshold
        self.energy_threshold = None if given is None else amount("VAD", "energy_threshold", given)
        self.hangover_frames = int(amount("VAD", "hangover_ms", hangover_ms) / self.hop_ms)
        self.zcr_low = amount("VAD", "zcr_low", zcr_low)
        self.zcr_high = amount("VAD", "zcr_high", zcr_high)

    def get_frame_features(self, audio: Signal) -> tuple[GPUArray, GPUArray]:
        """(RMS, zero crossing rate) of the frames that fit, [..., frames]."""
        x = signal("get_frame_features", audio)
        check_rate("get_frame_features", "audio", audio, self.sample_rate)
        squares, crossings = _native.audio_frame_stats(
            "get_frame_features", x, self.frame_size, self.hop_size
        )
        rate = _native.multiply(crossings, 1.0 / max(1, self.frame_size - 1))
        return _native.sqrt(squares), rate

    def detect(self, audio: Signal) -> list[SpeechSegment]:
        """The stretches of speech of one signal, at the detector's rate. NaN is refused."""
        import numpy as np

        x = signal("detect", audio)
        check_rate("detect", "audio", audio, self.sample_rate)
        if x.ndim != 1:
            raise InvalidValueError(f"detect: audio has shape {x.shape}, expected one axis")
        features = _native.stack(list(self.get_frame_features(x))).to_numpy()
        rms, rate = features
        if rms.size == 0:
            return []
        bad = int(rms.size - np.isfinite(rms).sum())
        if bad:
            raise InvalidValueError(
                f"detect: audio has samples that are not finite, in {bad} of {rms.size} frames"
            )
        threshold = self.energy_threshold
        if threshold is None:
            threshold = max(3.0 * float(rms.min()), _LEAST_THRESHOLD)
        speech = (rms > threshold) & (rate >= self.zcr_low)
        reach = np.where(speech, np.arange(speech.size), -1 - self.hangover_frames)
        speech = np.arange(speech.size) - np.maximum.accumulate(reach) <= self.hangover_frames
        edges = np.flatnonzero(np.diff(np.concatenate([[0], speech.astype(np.int8), [0]])))
        return [self._segment(int(first), int(past) - 1) for first, past in edges.reshape(-1, 2)]

    def _segment(self, first: int, last: int) -> SpeechSegment:
        start = first * self.hop_size
        end = last * self.hop_size + self.frame_size
        return SpeechSegment(start, end, start / self.sample_rate, end / self.sample_rate)


__all__ = ["VAD", "SpeechSegment"]
