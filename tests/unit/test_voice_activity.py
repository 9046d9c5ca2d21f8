"""Sentences of a text that is still written, and voice activity of sound that still arrives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.pipeline import (
    AudioBuffer,
    SentenceSplitter,
    VADConfig,
    VADEvent,
    VoiceActivityDetector,
)

RATE = 16000


# --- Sentences -------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 2, 5, 100])
@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. A. Smith paid 3.50 to Mr. Jones. So it is.", None),
        ('He said "Go." Then (left.) he went', ['He said "Go."', "Then (left.)", "he went"]),
        ("Wait... what?! Yes", ["Wait...", "what?!", "Yes"]),
        ("a\n\nb", ["a", "b"]),
        ("\u4f60\u597d\u3002\u518d\u89c1\u3002", ["\u4f60\u597d\u3002", "\u518d\u89c1\u3002"]),
        ("   ", []),
        ("", []),
    ],
)
def test_sentences(text: str, sentences: list[str] | None, step: int) -> None:
    if sentences is None:
        sentences = ["Dr. A. Smith paid 3.50 to Mr. Jones.", "So it is."]
    splitter = SentenceSplitter()
    found = [one for at in range(0, len(text), step) for one in splitter.push(text[at : at + step])]
    rest = splitter.finish()
    assert [*found, *([rest] if rest else [])] == sentences
    assert not splitter.pending


def test_long_and_short_sentences() -> None:
    splitter = SentenceSplitter(min_chars=6, max_chars=20)
    assert splitter.push("No. No. Yes. ") == ["No. No."]
    assert splitter.finish() == "Yes."
    found = splitter.push("one two three, four five six seven eight nine")
    assert found == ["one two three,", "four five six"]
    assert SentenceSplitter(max_chars=4).push("abcdefgh ") == ["abcd", "efgh"]
    for low, high in ((0, 5), (6, 5)):
        with pytest.raises(ValueError, match="SentenceSplitter: min_chars"):
            SentenceSplitter(low, high)


# --- Voice activity --------------------------------------------------------------------------


def sound(*parts: tuple[float, float]) -> np.ndarray[Any, Any]:
    """(seconds, level) after each other."""
    return np.concatenate([np.full(round(s * RATE), level, np.float32) for s, level in parts])


def kinds(events: list[VADEvent]) -> list[tuple[str, float]]:
    return [(event.event_type, round(event.timestamp, 2)) for event in events]


@pytest.mark.parametrize("chunk", [160, 480, 999, 100000])
def test_voice_activity(chunk: int) -> None:
    vad = VoiceActivityDetector()
    x = sound((0.3, 0.0), (0.6, 0.1), (0.3, 0.001), (0.3, 0.1), (0.9, 0.0), (0.06, 0.1), (0.9, 0.0))
    events = [
        event for at in range(0, x.size, chunk) for event in vad.process_audio(x[at : at + chunk])
    ]
    # The last burst is shorter than min_speech_duration: it starts, and ends without an event.
    assert [event.event_type for event in events] == ["speech_start", "speech_end", "speech_start"]
    assert events[0].timestamp == pytest.approx(0.3, abs=0.04)
    assert events[1].audio is not None
    assert events[1].duration == pytest.approx(1.2 + 0.5, abs=0.1)
    assert events[1].audio.size == round(events[1].duration * RATE)
    assert not vad.is_speaking


def test_speech_that_is_too_long_is_cut() -> None:
    vad = VoiceActivityDetector(VADConfig(max_speech_duration=0.3))
    assert kinds(vad.process_audio(sound((1.0, 0.1))))[:3] == [
        ("speech_start", 0.0),
        ("speech_end", 0.3),
        ("speech_start", 0.3),
    ]
    assert vad.is_speaking


def test_between_the_thresholds_nothing_changes() -> None:
    vad = VoiceActivityDetector()
    assert vad.process_audio(sound((1.0, 0.007))) == []
    vad.process_audio(sound((0.3, 0.1)))
    assert vad.process_audio(sound((5.0, 0.007))) == []  # still speech
    assert vad.is_speaking
    end = vad.finish()
    assert end is not None
    assert end.event_type == "speech_end"
    assert vad.finish() is None


def test_frames_at_the_end() -> None:
    vad = VoiceActivityDetector()
    half = vad.config.frame_size // 2
    assert vad.process_audio(np.full(half - 1, 0.1, np.float32)) == []
    assert kinds(vad.process_audio(np.full(1, 0.1, np.float32))) == [("speech_start", 0.0)]
    vad.reset()
    assert kinds(vad.process_audio(np.full(half, 0.1, np.float32))) == [("speech_start", 0.0)]


def test_wrong_sound_and_wrong_options() -> None:
    vad = VoiceActivityDetector()
    with pytest.raises(TypeError, match=r"process_audio: audio is of type GPUArray.*to_numpy"):
        vad.process_audio(gp.ones(10))
    with pytest.raises(ValueError, match=r"audio has shape \(2, 3\)"):
        vad.process_audio(np.zeros((2, 3), np.float32))
    with pytest.raises(TypeError, match="dtype int16"):
        vad.process_audio(np.zeros(3, np.int16))
    with pytest.raises(ValueError, match="VADConfig: frame_duration_ms is 0"):
        VADConfig(frame_duration_ms=0)
    with pytest.raises(ValueError, match=r"VADConfig: silence_threshold is 0\.5"):
        VADConfig(silence_threshold=0.5)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"energy_threshold": "loud"}, "VADConfig: energy_threshold is str 'loud', expected a num"),
        ({"sample_rate": 16000.0}, "VADConfig: sample_rate is float 16000.0, expected int"),
    ]
    for options, words in wrong:
        with pytest.raises(gp.PyGPUkitError, match=re.escape(words)):
            VADConfig(**options)
    with pytest.raises(gp.PyGPUkitError, match="config is of type int, expected a VADConfig"):
        VoiceActivityDetector(16000)  # type: ignore[arg-type]
    assert VADConfig(frame_duration_ms=30.5).frame_size == 488  # type: ignore[arg-type]


def test_audio_buffer() -> None:
    buffer = AudioBuffer(sample_rate=10, max_duration=1.0)
    buffer.append(np.arange(6, dtype=np.float32))
    buffer.append(np.arange(6, 13, dtype=np.float32))
    assert len(buffer) == 10
    assert buffer.duration == 1.0
    np.testing.assert_array_equal(buffer.get_all(), np.arange(3, 13))
    buffer.append(np.zeros(25, np.float32))
    assert len(buffer) == 10
    buffer.clear()
    assert buffer.get_all().size == len(buffer) == 0
    for duration in (0, float("inf")):
        with pytest.raises(ValueError, match="AudioBuffer: max_duration"):
            AudioBuffer(max_duration=duration)
    with pytest.raises(gp.PyGPUkitError, match="AudioBuffer: sample_rate is str 'high'"):
        AudioBuffer("high")  # type: ignore[arg-type]
