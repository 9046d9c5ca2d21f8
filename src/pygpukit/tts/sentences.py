"""Where sentences end, in whole texts and in texts that arrive in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pygpukit.core.errors import InvalidValueError

CLOSING = re.escape("\"')]\u201d\u2019\u300d")  # in a character class
# The mark, what closes behind it, and a space that shows that the sentence has ended. Full-width
# marks need none.
_END = re.compile(rf"[.!?\u2026]+[{CLOSING}]*(?=\s)|[\u3002\uff01\uff1f]+[{CLOSING}]*|\n{{2,}}")
_ABBREVIATIONS = frozenset(
    ("mr", "mrs", "ms", "dr", "prof", "st", "vs", "fig", "jr", "sr", "inc", "ltd")
)
_LETTERS = re.compile(r"[a-z](\.[a-z])+")  # e.g, p.m, u.s.a
_LONGEST = 32  # characters in front of a full stop that are looked at


def sentence_ends(text: str, start: int = 0) -> Iterator[int]:
    """Where sentences of text[start:] end that more text cannot change."""
    for match in _END.finditer(text, start):
        if not is_abbreviation(text[max(start, match.end() - _LONGEST) : match.end()]):
            yield match.end()


def is_abbreviation(text: str) -> bool:
    """Whether the full stop behind the last word is one of its letters."""
    text = text.rstrip()
    if not text.endswith("."):
        return False
    words = text[:-1].split()
    word = words[-1].lower().lstrip("(\"'") if words else ""
    initial = len(word) == 1 and word.isalpha() and word != "i"
    return initial or word in _ABBREVIATIONS or _LETTERS.fullmatch(word) is not None


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without the space around them. Lines end sentences."""
    sentences = []
    for line in text.splitlines():
        start = 0
        for end in sentence_ends(line):
            sentences.append(line[start:end].strip())
            start = end
        sentences.append(line[start:].strip())
    return [sentence for sentence in sentences if sentence]


class SentenceSplitter:
    """Cuts a stream of text where a voice may pause.

    >>> splitter = SentenceSplitter()
    >>> splitter.push("Dr. Smith came. He sat"), splitter.push(" down. "), splitter.finish()
    (['Dr. Smith came.'], ['He sat down.'], '')

    Sentences shorter than ``min_chars`` wait for the next one. One that exceeds ``max_chars`` is
    cut at its last comma or space.
    """

    def __init__(self, min_chars: int = 1, max_chars: int = 400) -> None:
        if min_chars < 1 or max_chars < min_chars:
            raise InvalidValueError(
                f"SentenceSplitter: min_chars is {min_chars} and max_chars {max_chars}, "
                "expected 1 <= min_chars <= max_chars"
            )
        self._min = min_chars
        self._max = max_chars
        self._held = ""

    def push(self, text: str) -> list[str]:
        """The sentences that are whole now."""
        self._held += text
        found = []
        while (at := self._cut()) > 0:
            sentence, self._held = self._held[:at].strip(), self._held[at:]
            if sentence:
                found.append(sentence)
        return found

    @property
    def pending(self) -> bool:
        """Whether there is text that no sentence has."""
        return bool(self._held.strip())

    def finish(self) -> str:
        """The rest, when no more text comes."""
        rest, self._held = self._held.strip(), ""
        return rest

    def _cut(self) -> int:
        """Where the first sentence ends; 0: not yet."""
        for end in sentence_ends(self._held):
            if len(self._held[:end].strip()) >= self._min:
                return end
            if end > self._max:
                break
        if len(self._held) <= self._max:
            return 0
        head = self._held[: self._max]
        pauses = (head.rfind(mark) + 1 for mark in ("; ", ": ", ", ", " "))
        return next(filter(None, pauses), self._max)


__all__ = ["SentenceSplitter", "is_abbreviation", "sentence_ends", "split_sentences"]
