"""Token ids to text, one at a time."""

from __future__ import annotations

from collections.abc import Sequence

from pygpukit.core.arguments import whole
from pygpukit.core.errors import OperationError
from pygpukit.llm.tokenizer import Tokenizer

_PARTIAL = "\ufffd"  # where bytes are not a whole character
_WINDOW = 8  # tokens decoded together


class Detokenizer:
    """Pieces of text that together are ``tokenizer.decode`` of all tokens.

    >>> detokenizer = Detokenizer(tokenizer)
    >>> text = "".join(map(detokenizer.push, ids)) + detokenizer.finish()

    A piece never ends inside a character. What a token adds is the difference to the text of a few
    tokens before it, since its leading space or its bytes may depend on them. With ``prompt`` the
    text continues that of the prompt's ids; else its leading space is that of a first token.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        skip_special_tokens: bool = True,
        prompt: Sequence[int] = (),
    ) -> None:
        self._tokenizer = tokenizer
        self._skipped = tokenizer.special_ids if skip_special_tokens else frozenset[int]()
        self._finished = False
        self._window = self._end_of(prompt)
        self._sent = len(self._decode(self._window).rstrip(_PARTIAL))  # characters of its text

    def push(self, token_id: int) -> str:
        """The text that is complete with this token."""
        if self._finished:
            raise OperationError("Detokenizer.push: called after finish()")
        token = whole("Detokenizer.push", "token_id", token_id, 0, 2**32 - 1)
        if not self._counts(token):
            return ""
        self._window.append(token)
        if token in self._tokenizer.byte_ids:  # decoded as a run, which is valid or not as a whole
            return ""
        text = self._decode(self._window)
        end = len(text) - text.endswith(_PARTIAL)
        piece = text[self._sent : end]
        self._sent = max(self._sent, end)
        if len(self._window) > _WINDOW:
            self._restart_window(text, end)
        return piece

    def finish(self) -> str:
        """The text held back, when no more tokens come."""
        self._finished = True
        return self._decode(self._window)[self._sent :]

    def _end_of(self, prompt: Sequence[int]) -> list[int]:
        """Its last tokens, not from inside a run of bytes."""
        ids: list[int] = []
        for token in filter(self._counts, reversed(prompt)):
            ids.append(token)
            if len(ids) >= _WINDOW and token not in self._tokenizer.byte_ids:
                break
        return ids[::-1]

    def _counts(self, token: int) -> bool:
        return token not in self._skipped and self._tokenizer.id_to_token(token) is not None

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def _restart_window(self, text: str, end: int) -> None:
        """Keeps the last token only, if the text after it does not depend on those before."""
        before, last = self._window[:-1], self._window[-1:]
        tail = self._decode(last)
        if end == len(text):
            safe = tail != ""  # else a space that follows would be a leading one
        else:
            safe = self._decode(before) + tail == text  # it begins a character
        if safe:
            self._window = last
            self._sent = len(tail) - (len(text) - end)
