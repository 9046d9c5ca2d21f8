"""Sentences of a text that arrives in pieces."""

from __future__ import annotations

import re

from pygpukit.core.errors import InvalidValueError

# The mark, what closes behind it, and a space that shows that the sentence has ended. Full-width
# marks need none.
_END = re.compile(r"[.!?]+[\"')\]]*(?=\s)|[\u3002\uff01\uff1f]+|\n{2,}")
_ABBREVIATIONS = frozenset(
    ("mr", "mrs", "ms", "dr", "prof", "st", "vs", "e.g", "i.e", "fig", "jr", "sr", "inc", "ltd")
)


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
        for end in _END.finditer(self._held):
            before = self._held[: end.end()].strip()
            if len(before) >= self._min and not _is_abbreviation(before):
                return end.end()
            if end.end() > self._max:
                break
        if len(self._held) <= self._max:
            return 0
        head = self._held[: self._max]
        pauses = (head.rfind(mark) + 1 for mark in ("; ", ": ", ", ", " "))
        return next(filter(None, pauses), self._max)


def _is_abbreviation(text: str) -> bool:
    """Whether the full stop behind the last word is one of its letters."""
    if not text.endswith("."):
        return False
    word = text[:-1].split()[-1].lower() if text[:-1].split() else ""
    initial = len(word) == 1 and word.isalpha() and word != "i"
    return initial or word.lstrip("(\"'") in _ABBREVIATIONS
