"""Chunks of a recording, joined word by word where they overlap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pygpukit.asr.words import PUNCTUATION, split_words

if TYPE_CHECKING:
    from pygpukit.asr.result import TranscriptionSegment
    from pygpukit.asr.tokens import WhisperTokens

# What two chunks say of when a word starts, or ends, differs by up to 2 s and half of what they
# share: a real repetition of which each hears one only is further apart.
_SAME_SECONDS, _SAME_SHARE = 2.0, 0.5


@dataclass
class Chunk:
    """What was said from ``begin`` to ``end`` seconds, which is infinite for the last one."""

    begin: float
    end: float
    language: str | None
    segments: Iterable[TranscriptionSegment]


class Heard(NamedTuple):
    """A word as a chunk has it."""

    name: str
    start: float
    end: float

    def middle(self, begin: float, end: float) -> float:
        """Of its part from ``begin`` to ``end``: the edge of a chunk may stretch a word."""
        return (min(max(self.start, begin), end) + min(max(self.end, begin), end)) / 2


def in_turn(chunks: Iterable[Chunk]) -> Iterator[TranscriptionSegment]:
    """The segments of chunks that share nothing; what is timed outside of its chunk is left out."""
    done = 0.0
    for chunk in chunks:
        for segment in chunk.segments:
            if done < (segment.start + segment.end) / 2 < chunk.end:
                done = segment.end
                yield segment


def join_chunks(
    tokens: WhisperTokens, chunks: Iterable[Chunk], overlap: float, *, words: bool
) -> Iterator[TranscriptionSegment]:
    """The segments of chunks, each of which begins ``overlap`` seconds before the last one's end.

    A segment comes as soon as no later chunk hears any of it. Segments have words, and keep them
    where ``words`` says so.
    """
    done = 0.0
    held: list[TranscriptionSegment] = []  # of the last chunk
    language: str | None = None
    for chunk in chunks:
        found = [segment for segment in chunk.segments if segment.words]
        if chunk.begin > 0.0:
            ours, theirs = _heard(held), _heard(found)
            kept, dropped = split_at_border(ours, theirs, chunk.begin, chunk.begin + overlap)
            held = _some_words(tokens, held, 0, kept, language)
            found = _some_words(tokens, found, dropped, len(theirs), chunk.language)
        settled = 0
        while settled < len(found) and found[settled].words[-1].end <= chunk.end - overlap:
            settled += 1
        for segment in [*held, *found[:settled]]:
            segment.start = max(segment.start, done)
            done = segment.end = max(segment.end, segment.start)
            yield segment if words else replace(segment, words=[])
        held, language = found[settled:], chunk.language


def split_at_border(
    earlier: Sequence[Heard], later: Sequence[Heard], begin: float, end: float
) -> tuple[int, int]:
    """How many words of a chunk are kept, and how many of the next one are dropped.

    Both chunks hear ``begin`` to ``end``; the border is the middle. A word that both have, be it at
    other times or misheard by one, is on one side of it for both.
    """
    border = (begin + end) / 2
    first = next((i for i, word in enumerate(earlier) if word.end > begin), len(earlier))
    past = next((i for i, word in enumerate(later) if word.start >= end), len(later))
    ours, theirs = earlier[first:], later[:past]
    most = min(_SAME_SECONDS, _SAME_SHARE * (end - begin))
    count = dropped = 0
    stop, until = len(ours), len(theirs)
    for i, j in _pairs(ours, theirs, most):
        if ours[i].middle(begin, end) + theirs[j].middle(begin, end) >= 2 * border:
            stop, until = i, j
            break
        count, dropped = i + 1, j + 1
    while count < stop and ours[count].middle(begin, end) < border:
        count += 1
    while dropped < until and theirs[dropped].middle(begin, end) < border:
        dropped += 1
    return first + count, dropped


def _pairs(ours: Sequence[Heard], theirs: Sequence[Heard], most: float) -> list[tuple[int, int]]:
    """Which words are one word that both chunks have: the alignment of the greatest likeness."""
    rows, columns = len(ours), len(theirs)
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]  # of the words from there
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            likeness = _likeness(ours[i], theirs[j], most)
            paired = likeness + best[i + 1][j + 1] if likeness > 0.0 else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < rows and j < columns:
        if best[i][j] == best[i + 1][j]:
            i += 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            pairs.append((i, j))
            i, j = i + 1, j + 1
    return pairs


def _likeness(a: Heard, b: Heard, most: float) -> float:
    """1 to 2 for one word at about one time, up to 0.5 for two words spoken at once."""
    if a.name == b.name:
        apart = min(abs(a.start - b.start), abs(a.end - b.end))
        return 2.0 - apart / most if apart <= most else 0.0
    shared = min(a.end, b.end) - max(a.start, b.start)
    longer = max(a.end - a.start, b.end - b.start)
    return 0.5 * shared / longer if shared > 0.5 * longer else 0.0


def _heard(segments: Sequence[TranscriptionSegment]) -> list[Heard]:
    """Their words; the pauses around a segment are in none of them."""
    found = []
    for segment in segments:
        for word in segment.words:
            text = word.text.strip().casefold()
            name = text.strip(PUNCTUATION) or text
            start, end = max(word.start, segment.start), min(word.end, segment.end)
            found.append(
                Heard(name, start, end) if start <= end else Heard(name, word.start, word.end)
            )
    return found


def _some_words(
    tokens: WhisperTokens,
    segments: Sequence[TranscriptionSegment],
    first: int,
    past: int,
    language: str | None,
) -> list[TranscriptionSegment]:
    """Segments with their words from ``first`` to ``past`` in all."""
    kept: list[TranscriptionSegment] = []
    for segment in segments:
        count = len(segment.words)
        begin, end = (min(max(place, 0), count) for place in (first, past))
        first, past = first - count, past - count
        if end - begin == count:
            kept.append(segment)
        elif begin < end:
            kept.append(_part(tokens, segment, begin, end, language))
    return kept


def _part(
    tokens: WhisperTokens, segment: TranscriptionSegment, begin: int, end: int, language: str | None
) -> TranscriptionSegment:
    """Some words of a segment, with their text, tokens and times."""
    places = [i for i, token in enumerate(segment.tokens) if tokens.is_text(token)]
    parts = split_words(tokens, [segment.tokens[i] for i in places], language)
    before, behind = (sum(len(ids) for _, ids in parts[:count]) for count in (begin, end))
    first = 0 if begin == 0 else places[before]
    past = len(segment.tokens) if end == len(parts) else places[behind - 1] + 1
    ids, words = segment.tokens[first:past], segment.words[begin:end]
    return replace(
        segment,
        text=tokens.text(ids),
        start=segment.start if begin == 0 else words[0].start,
        end=segment.end if end == len(parts) else words[-1].end,
        tokens=ids,
        words=words,
    )


__all__ = ["Chunk", "Heard", "in_turn", "join_chunks", "split_at_border"]
