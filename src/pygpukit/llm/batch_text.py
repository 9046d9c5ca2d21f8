"""A text of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pygpukit.llm.detokenizer import Detokenizer

if TYPE_CHECKING:
    from pygpukit.llm.stop_strings import StopStrings
    from pygpukit.llm.tokenizer import Tokenizer


class BatchText:
    """Tokens, or their text, up to the end or a stop string."""

    def __init__(
        self,
        tokenizer: Tokenizer | None = None,
        prompt: Sequence[int] = (),
        stop: StopStrings | None = None,
    ) -> None:
        self._text = None if tokenizer is None else Detokenizer(tokenizer, prompt=prompt)
        self._stop = stop
        self._tokens: list[int] = []
        self._pieces: list[str] = []
        self.ended = False

    def push(self, token: int) -> None:
        if token < 0 or self.ended:
            self.ended = True
            return
        self._tokens.append(token)
        if self._text is not None and self._stop is not None:
            self._pieces.append(self._stop.push(self._text.push(token)))
            self.ended = self._stop.matched is not None

    def result(self) -> str | list[int]:
        if self._text is None or self._stop is None:
            return self._tokens
        self._pieces.append(self._stop.push(self._text.finish()) + self._stop.finish())
        return "".join(self._pieces)


__all__ = ["BatchText"]
