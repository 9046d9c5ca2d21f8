"""When somebody speaks: a detector by energy, with hysteresis."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pygpukit.core.arguments import positive, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.pipeline.audio_queue import mono


@dataclass(frozen=True)
class VADConfig:
    """Thresholds are RMS values of frames, durations seconds."""

    energy_threshold: float = 0.01
    silence_threshold: float = 0.005
    min_speech_duration: float = 0.1
    min_silence_duration: float = 0.5
    max_speech_duration: float = 30.0
    frame_duration_ms: int = 30
    sample_rate: int = 16000

    def __post_init__(self) -> None:
        for field in fields(self):
            positive("VADConfig", field.name, getattr(self, field.name))
        whole("VADConfig", "sample_rate", self.sample_rate, 1)
        if self.silence_threshold > self.energy_threshold:
            raise InvalidValueError(
                f"VADConfig: silence_threshold is {self.silence_threshold}, "
                f"expected at most energy_threshold ({self.energy_threshold})"
            )

    @property
    def frame_size(self) -> int:
        """Samples of a frame."""
        return max(1, int(self.sample_rate * self.frame_duration_ms // 1000))


@dataclass(frozen=True)
class VADEvent:
    """``event_type`` is "speech_start" or "speech_end"; the latter has the sound."""

    event_type: str
    timestamp: float  # seconds since the start of the stream
    audio: NDArray[np.float32] | None = None
    duration: float = 0.0


class _State(enum.Enum):
    SILENCE = "silence"
    SPEECH = "speech"
    TRAILING = "trailing"


class VoiceActivityDetector:
    """Speech starts when a frame exceeds ``energy_threshold``, and ends when frames have been below
    ``silence_threshold`` and not above the other one for ``min_silence_duration``. What is
    shorter than ``min_speech_duration`` ends without an event.
    """

    def __init__(self, config: VADConfig | None = None) -> None:
        self.config = VADConfig() if config is None else config
        if not isinstance(self.config, VADConfig):
            raise InvalidTypeError(
                f"VoiceActivityDetector: config is of type {type(config).__name__}, expected a "
                "VADConfig"
            )
        self.reset()

    def reset(self) -> None:
        """A new stream: time starts at 0."""
        self._state = _State.SILENCE
        self._rest: NDArray[np.float32] = np.zeros(0, np.float32)
        self._position = 0  # samples of the stream that frames have used
        self._collected: list[NDArray[np.float32]] = []
        self._speech = 0  # samples up to the last frame that was speech
        self._silence = 0  # samples of the frames since then

    @property
    def is_speaking(self) -> bool:
        """Also in a pause that is not long enough yet."""
        return self._state is not _State.SILENCE

    def process_audio(self, audio: Any) -> list[VADEvent]:
        """The events of the next samples.

        A remainder of half a frame or more counts as a frame; a shorter one waits for more.
        """
        samples = np.concatenate([self._rest, mono("VoiceActivityDetector.process_audio", audio)])
        size = self.config.frame_size
        events: list[VADEvent] = []
        start = 0
        while 2 * (samples.size - start) >= size:
            frame = samples[start : start + size]
            event = self._frame(frame)
            if event is not None:
                events.append(event)
            start += frame.size
        self._rest = samples[start:]
        return events

    def finish(self) -> VADEvent | None:
        """The end of the stream ends speech too."""
        event = self._end() if self.is_speaking else None
        self.reset()
        return event

    def _frame(self, frame: NDArray[np.float32]) -> VADEvent | None:
        config = self.config
        level = float(np.sqrt(np.mean(np.square(frame, dtype=np.float64))))
        start = self._position
        self._position += frame.size
        if self._state is _State.SILENCE:
            if not level > config.energy_threshold:
                return None
            self._state = _State.SPEECH
            self._collected = [frame]
            self._speech, self._silence = frame.size, 0
            return VADEvent("speech_start", start / config.sample_rate)
        self._collected.append(frame)
        self._silence += frame.size
        if self._state is _State.SPEECH and level < config.silence_threshold:
            self._state = _State.TRAILING
        elif self._state is _State.TRAILING and level > config.energy_threshold:
            self._state = _State.SPEECH
        if self._state is _State.SPEECH:
            self._speech += self._silence
            self._silence = 0
            too_long = self._speech >= config.max_speech_duration * config.sample_rate
            return self._end() if too_long else None
        if self._silence >= config.min_silence_duration * config.sample_rate:
            return self._end()
        return None

    def _end(self) -> VADEvent | None:
        config = self.config
        self._state = _State.SILENCE
        sound = np.concatenate(self._collected)
        self._collected = []
        if self._speech < config.min_speech_duration * config.sample_rate:
            return None
        seconds = sound.size / config.sample_rate
        return VADEvent("speech_end", self._position / config.sample_rate, sound, seconds)
