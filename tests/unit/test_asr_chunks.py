"""Chunks of a recording that overlap, joined by words."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from cases.asr import TINY, golden, wav, word_errors

import pygpukit as gp
from pygpukit.asr.chunks import Chunk, Heard, join_chunks, split_at_border
from pygpukit.asr.result import TranscriptionSegment, Word
from pygpukit.asr.tokens import WhisperTokens
from pygpukit.asr.words import add_words

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
RATE = 16000


@pytest.fixture(scope="module")
def model() -> gp.asr.WhisperModel:
    return gp.asr.WhisperModel.from_pretrained(TINY, device="cpu", max_batch=1, max_beams=1)


@pytest.fixture(scope="module")
def tokens() -> WhisperTokens:
    return WhisperTokens(TINY)


def samples(name: str) -> Any:
    return gp.ops.audio.load(wav(name), device="cpu").to_numpy()


# --- where two chunks are cut ---------------------------------------------------------------------


def joined(earlier: str, later: str, begin: float = 8.0, end: float = 12.0) -> str:
    """Words as "text@start-end", joined where both chunks hear ``begin`` to ``end``."""

    def heard(text: str) -> list[Heard]:
        words = [word.split("@") for word in text.split()]
        return [Heard(name, *map(float, times.split("-"))) for name, times in words]

    a, b = heard(earlier), heard(later)
    kept, dropped = split_at_border(a, b, begin, end)
    return " ".join(word.name for word in a[:kept] + b[dropped:])


@pytest.mark.parametrize(
    ("earlier", "later", "words"),
    [
        # The same times.
        ("a@7-8 b@8.5-9 c@10.5-11 x@11.8-12", "x@8-8.2 b@8.5-9 c@10.5-11 d@12-13", "a b c d"),
        # A word on the other side of the border in the other chunk is neither lost nor doubled.
        ("a@9-9.5 b@9.5-10.4", "a@9-9.5 b@9.8-10.5 c@11-12", "a b c"),
        ("a@9-9.5 b@9.8-10.5", "a@9-9.5 b@9.5-10.4 c@11-12", "a b c"),
        # Heard as another word at the same time.
        ("a@9-9.5 twenty@9.5-10.4", "a@9-9.5 plenty@9.6-10.5 c@11-12", "a plenty c"),
        ("a@9-9.5 twenty@9.4-10.3", "a@9-9.5 plenty@9.5-10.4 c@11-12", "a twenty c"),
        # Said twice for real, and twice in both.
        ("two@9.3-9.7 two@10.1-10.5", "two@9.4-9.7 two@10.0-10.4 c@11-12", "two two c"),
        ("two@9.1-9.5 two@9.5-9.9", "two@9.1-9.5 two@9.5-9.9 c@11-12", "two two c"),
        # The later chunk misses the first one, the earlier one the second one.
        ("a@8.5-9 two@9.1-9.5 two@10.1-10.5", "two@10.0-10.5 c@11-12", "a two two c"),
        ("a@8.5-9 two@9.1-9.5", "two@9.1-9.5 two@10.1-10.5 c@11-12", "a two two c"),
        # Times that collapse at the end of a chunk.
        ("a@9-9.5 b@9.5-12 c@12-12 d@12-12", "a@9-9.5 b@9.5-10 c@10.4-11 d@11-12", "a b c d"),
        # One of them heard nothing.
        ("a@9-9.5 b@10.5-11", "", "a"),
        ("", "a@9-9.5 b@10.5-11", "b"),
        ("", "", ""),
        # Words outside of what is shared.
        ("a@1-2 b@7-7.9", "c@12.5-13", "a b c"),
    ],
)
def test_border(earlier: str, later: str, words: str) -> None:
    assert joined(earlier, later) == words


def test_border_of_a_short_overlap() -> None:
    """Two words that are one after the other are two, a word that both edges cut is one."""
    assert joined("two@7.0-7.5", "two@7.6-8.0", 7.45, 7.65) == "two two"
    assert joined("two@7.0-7.65", "two@7.45-8.0", 7.45, 7.65) == "two"


# --- segments that are cut -----------------------------------------------------------------------


def segment_of(
    tokens: WhisperTokens, text: str, times: list[tuple[float, float]], stamps: tuple[float, float]
) -> TranscriptionSegment:
    ids = tokens.encode(text)
    first, last = (tokens.first_timestamp + round(t / 0.02) for t in stamps)
    names = [" " + word for word in text.split()]
    words = [Word(name, *time, 1.0) for name, time in zip(names, times, strict=True)]
    return TranscriptionSegment(text, *stamps, [first, *ids, last], words=words)


def test_segment_cut_on_both_sides(tokens: WhisperTokens) -> None:
    def chunks() -> list[Chunk]:
        first = segment_of(tokens, " six left", [(7.0, 8.5), (8.5, 9.9)], (7.0, 9.8))
        names = " left play twenty six"
        times = [(8.6, 9.0), (9.4, 11.0), (11.0, 12.0), (14.5, 15.5)]
        second = segment_of(tokens, names, times, (8.0, 15.8))
        third = segment_of(tokens, " six thirty", [(14.6, 15.5), (15.5, 16.0)], (14.4, 16.2))
        return [
            Chunk(0.0, 10.0, "en", [first]),
            Chunk(8.0, 16.0, "en", [second]),
            Chunk(14.0, float("inf"), "en", [third]),
        ]

    parts = list(join_chunks(tokens, chunks(), 2.0, words=True))
    assert [part.text for part in parts] == [" six left", " play twenty", " six thirty"]
    for part in parts:
        assert tokens.text(part.tokens) == part.text == "".join(word.text for word in part.words)
    stamps = [[i for i in part.tokens if not tokens.is_text(i)] for part in parts]
    assert [len(row) for row in stamps] == [2, 0, 2]  # of the ends that are whole
    assert (parts[0].start, parts[0].end) == (7.0, 9.8)
    assert (parts[1].start, parts[1].end) == (9.8, 12.0)  # its word begins before the last end
    assert (parts[2].start, parts[2].end) == (14.4, 16.2)
    bare = list(join_chunks(tokens, chunks(), 2.0, words=False))
    assert bare == [dataclasses.replace(part, words=[]) for part in parts]


def test_segments_come_as_soon_as_they_are_sure(tokens: WhisperTokens) -> None:
    asked: list[int] = []

    def chunks() -> Any:
        for i in range(3):
            asked.append(i)
            begin = 8.0 * i
            words = [(begin + 3.0, begin + 4.0), (begin + 4.0, begin + 5.0)]
            segment = segment_of(tokens, " six left", words, (begin + 3.0, begin + 5.0))
            yield Chunk(begin, begin + 10.0, "en", [segment])

    found = join_chunks(tokens, chunks(), 2.0, words=False)
    assert next(found).start == 3.0
    assert asked == [0]
    assert [segment.start for segment in found] == [11.0, 19.0]


def test_characters_of_a_language_without_spaces(tokens: WhisperTokens) -> None:
    ids = tokens.encode("sixleft")
    pieces = [tokens.text([i]) for i in ids]
    assert len(pieces) > 3

    def chunk(begin: float, offset: float, end: float) -> Chunk:
        words = [
            Word(piece, 8.0 + 0.5 * i + offset, 8.5 + 0.5 * i + offset, 1.0)
            for i, piece in enumerate(pieces)
        ]
        segment = TranscriptionSegment("sixleft", 8.0, 12.0, ids, words=words)
        return Chunk(begin, end, "ja", [segment])

    for offset in (-0.4, 0.0, 0.4):
        pair = [chunk(0.0, 0.0, 12.0), chunk(8.0, offset, float("inf"))]
        found = list(join_chunks(tokens, pair, 4.0, words=True))
        assert "".join(segment.text for segment in found) == "sixleft"
        assert [i for segment in found for i in segment.tokens] == ids


def test_words_stay_in_their_segment(tokens: WhisperTokens) -> None:
    """A segment that begins without a space is no end of the last segment's word."""
    texts = [" six", "left", " play twenty", " thirty"]
    segments = [TranscriptionSegment(text, 0.0, 1.0, tokens.encode(text)) for text in texts]

    class Decoder:
        def __init__(self) -> None:
            self.tokens = tokens

        def align(self, _: Any, __: Any, ids: list[int], ___: int) -> Any:
            return list(range(len(ids) + 1)), [1.0] * len(ids)

    nothing: Any = None
    decoder: Any = Decoder()
    add_words(decoder, nothing, segments, [tokens.start], 99, 0.0, "en")
    assert ["".join(word.text for word in segment.words) for segment in segments] == texts


# --- a recording ---------------------------------------------------------------------------------


def errors_of(model: gp.asr.WhisperModel, length: float, overlap: float, **options: Any) -> int:
    sound, wanted = samples("long"), golden()["long"]["text"]
    segments = list(model.transcribe_streaming(sound, "en", length, overlap, **options))
    times = [(segment.start, segment.end) for segment in segments]
    assert times == sorted(times)
    assert all(begin <= end for begin, end in times)
    for segment in segments:
        assert model.tokens.text(segment.tokens) == segment.text
        if not options.get("word_timestamps", False):
            assert not segment.words
        elif overlap:
            assert "".join(word.text for word in segment.words) == segment.text
    if overlap:
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(times))
    said = "".join(segment.text for segment in segments)
    wrong, count = word_errors(said, wanted)
    assert count == 89
    if overlap >= 2.0:
        assert abs(len(said.split()) - count) <= 2, said  # none is lost, none is said twice
    return wrong


@pytest.mark.parametrize(
    ("length", "overlaps", "options"),
    [
        (5.0, (2.5,), {}),
        (8.0, (2.0,), {"word_timestamps": True}),
        (10.0, (3.0,), {"timestamps": False}),
        (20.0, (6.0,), {}),
    ],
)
def test_recording(
    model: gp.asr.WhisperModel, length: float, overlaps: tuple[float, ...], options: dict[str, Any]
) -> None:
    apart = errors_of(model, length, 0.0, **options)
    for overlap in overlaps:
        wrong = errors_of(model, length, overlap, **options)
        assert wrong <= apart
        assert wrong <= 2  # the model mishears them in the middle of a chunk


def test_no_alignment_without_overlap(
    model: gp.asr.WhisperModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("aligned")

    monkeypatch.setattr(model._windows, "align", never)
    sound = samples("clip3")
    plain = list(model.transcribe_streaming(sound, "en", 2.0))
    assert plain
    assert list(model.transcribe_streaming(sound, "en", 2.0, 1e-6)) == plain  # less than a sample
    with pytest.raises(AssertionError, match="aligned"):
        list(model.transcribe_streaming(sound, "en", 2.0, 0.5))


@pytest.mark.parametrize("count", [0, 1, 159, 160, 8001])
def test_little_sound(model: gp.asr.WhisperModel, count: int) -> None:
    sound = samples("clip3")[:count]
    for segment in model.transcribe_streaming(sound, "en", 1.0, 0.5, word_timestamps=True):
        assert segment.words
