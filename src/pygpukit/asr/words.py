"""Words of a text, and when each is spoken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pygpukit.asr.result import TranscriptionSegment, Word
from pygpukit.asr.tokens import SECONDS_PER_TIMESTAMP

if TYPE_CHECKING:
    from pygpukit._native import AsrSource
    from pygpukit.asr.tokens import WhisperTokens
    from pygpukit.asr.window_decoder import WindowDecoder

# Languages that are written without spaces.
_UNSPACED = frozenset(("zh", "ja", "th", "lo", "my", "yue"))
_BEFORE = frozenset("\"'([{-\u201c\u00bf")  # belong to the word after them
_BEHIND = frozenset("\"'.,!?:)]}\u3002\uff0c\uff01\uff1f\uff1a\u201d\u3001")  # ... before them
PUNCTUATION = "".join(sorted(_BEFORE | _BEHIND))


def split_words(
    tokens: WhisperTokens, ids: Sequence[int], language: str | None
) -> list[tuple[str, list[int]]]:
    """(text, tokens) of each word; characters of several tokens stay together."""
    pieces = _characters(tokens, ids)
    if language in _UNSPACED:
        return pieces
    words: list[tuple[str, list[int]]] = []
    for text, part in pieces:
        joins = bool(words) and not text.startswith(" ")
        if joins and not (text.strip() and all(c in _BEHIND or c in _BEFORE for c in text.strip())):
            words[-1] = (words[-1][0] + text, [*words[-1][1], *part])
        else:
            words.append((text, part))
    return _with_punctuation(words)


def _characters(tokens: WhisperTokens, ids: Sequence[int]) -> list[tuple[str, list[int]]]:
    """The shortest runs of tokens whose bytes are whole characters."""
    pieces: list[tuple[str, list[int]]] = []
    part: list[int] = []
    for token in ids:
        part.append(token)
        text = tokens.tokenizer.decode(part)
        if "\ufffd" not in text:
            pieces.append((text, part))
            part = []
    if part:
        pieces.append((tokens.tokenizer.decode(part), part))
    return pieces


def _with_punctuation(words: list[tuple[str, list[int]]]) -> list[tuple[str, list[int]]]:
    joined: list[tuple[str, list[int]]] = []
    held: tuple[str, list[int]] | None = None  # marks that wait for their word
    for text, ids in words:
        mark = text.strip()
        if mark and text.startswith(" ") and all(c in _BEFORE for c in mark):
            held = (text, ids) if held is None else (held[0] + text, [*held[1], *ids])
        elif mark and joined and held is None and all(c in _BEHIND for c in mark):
            joined[-1] = (joined[-1][0] + text, [*joined[-1][1], *ids])
        elif held is not None:
            joined.append((held[0] + text.lstrip(), [*held[1], *ids]))
            held = None
        else:
            joined.append((text, ids))
    return joined if held is None else [*joined, held]


def timed_words(
    decoder: WindowDecoder,
    source: AsrSource,
    prompt: Sequence[int],
    texts: Sequence[Sequence[int]],
    num_frames: int,
    language: str | None,
) -> list[tuple[Word, list[int]]]:
    """The words of texts that follow each other, with times from the window's start and tokens."""
    ids = [i for text in texts for i in text]
    if not ids:
        return []
    begins, probs = decoder.align(source, prompt, ids, num_frames)
    words: list[tuple[Word, list[int]]] = []
    at = 0
    for text, part in (w for ids in texts for w in split_words(decoder.tokens, ids, language)):
        end = at + len(part)
        word = Word(
            text,
            begins[at] * SECONDS_PER_TIMESTAMP,
            max(begins[end], begins[at]) * SECONDS_PER_TIMESTAMP,
            sum(probs[at:end]) / len(part),
        )
        words.append((word, part))
        at = end
    return words


def add_words(
    decoder: WindowDecoder,
    source: AsrSource,
    segments: Sequence[TranscriptionSegment],
    start: Sequence[int],
    num_frames: int,
    offset: float,
    language: str | None,
) -> None:
    """Fills in the words of a window's segments, with ``offset`` added to their times."""
    tokens = decoder.tokens
    prompt = [i for i in start if i != tokens.no_timestamps] + [tokens.no_timestamps]
    texts = [[i for i in segment.tokens if tokens.is_text(i)] for segment in segments]
    found = timed_words(decoder, source, prompt, texts, num_frames, language)
    segment, left = 0, len(texts[0]) if texts else 0
    for word, part in found:
        while left <= 0 and segment + 1 < len(segments):
            segment += 1
            left = len(texts[segment])
        word.start += offset
        word.end += offset
        segments[segment].words.append(word)
        left -= len(part)


__all__ = ["PUNCTUATION", "add_words", "split_words", "timed_words"]
