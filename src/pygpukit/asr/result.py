"""What was said, and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass
class Word:
    """A word with the spaces and punctuation that belong to it."""

    text: str
    start: float
    end: float
    probability: float


@dataclass
class TranscriptionSegment:
    """A piece of a transcript; times are in seconds."""

    text: str
    start: float
    end: float
    tokens: list[int] = field(default_factory=list)
    temperature: float = 0.0
    avg_logprob: float = 0.0
    compression_ratio: float = 0.0
    no_speech_prob: float = 0.0
    words: list[Word] = field(default_factory=list)


@dataclass
class TranscriptionResult:
    """A transcript."""

    text: str
    segments: list[TranscriptionSegment]
    language: str | None
    duration: float = 0.0


def shifted(
    segments: Iterable[TranscriptionSegment], offset: float
) -> Iterator[TranscriptionSegment]:
    """The segments themselves, with ``offset`` added to their times."""
    for segment in segments:
        segment.start += offset
        segment.end += offset
        for word in segment.words:
            word.start += offset
            word.end += offset
        yield segment


__all__ = ["TranscriptionResult", "TranscriptionSegment", "Word", "shifted"]
