"""A text that a model generates, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

from pygpukit.core.model_lock import LockedIterator
from pygpukit.llm.detokenizer import Detokenizer
from pygpukit.llm.stop_strings import StopStrings


class TextStream(Iterator[str]):
    """Whole characters as soon as they are there, up to a stop string."""

    def __init__(self, ids: LockedIterator[int], text: Detokenizer, stop: StopStrings) -> None:
        self.tokens: list[int] = []  # those that were computed, stop token and all
        self._ids = ids
        self._text, self._stop = text, stop
        self._ended = False

    def __next__(self) -> str:
        while not self._ended:
            try:
                token = next(self._ids)
            except StopIteration:
                self._ended = True
                piece = self._stop.push(self._text.finish()) + self._stop.finish()
            else:
                self.tokens.append(token)
                piece = self._stop.push(self._text.push(token))
                self._ended = self._stop.matched is not None
            if self._ended:
                self.close()
            if piece:
                return piece
        raise StopIteration

    def close(self) -> None:
        """Ends the text: its part of the cache is free again."""
        self._ended = True
        self._ids.close()


__all__ = ["TextStream"]
