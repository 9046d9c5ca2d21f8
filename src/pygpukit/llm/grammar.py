"""Grammars that generated texts follow, by the optional library llguidance."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.core.extras import import_extra

if TYPE_CHECKING:
    from pygpukit.llm.tokenizer import Tokenizer


class Grammar:
    """What a text may be: a JSON schema, a regular expression, or a grammar in Lark's notation.

    >>> engine.submit("An address:", grammar=gp.llm.Grammar.json_schema(schema))
    """

    def __init__(self, kind: str, definition: str) -> None:
        self._kind, self._definition = kind, definition

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any] | str) -> Grammar:
        """JSON that is valid by the schema, given as a dict or as text."""
        if isinstance(schema, Mapping):
            return cls("json_schema", json.dumps(schema))
        return cls("json_schema", _text("json_schema", "schema", schema))

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Text that the whole pattern matches, in the syntax of Rust's regex crate."""
        return cls("regex", _text("regex", "pattern", pattern))

    @classmethod
    def lark(cls, text: str) -> Grammar:
        """Text of the grammar's symbol ``start``."""
        return cls("lark", _text("lark", "text", text))

    def _masks(self, tokenizer: Any, vocab_size: int) -> Callable[[int], bytes | None]:
        """A function from the newest token (-1: none) to bits of those that may follow it."""
        num_bytes = -(-vocab_size // 32) * 4
        library = import_extra("Grammar", "llguidance", "grammar")
        make = getattr(library.LLMatcher, f"grammar_from_{self._kind}")
        try:
            matcher = library.LLMatcher(tokenizer, make(self._definition))
        except ValueError as error:
            raise InvalidValueError(f"submit: grammar: {str(error)[:200]}") from None
        if matcher.is_error():
            raise InvalidValueError(f"submit: grammar: {matcher.get_error()[:200]}")

        def next_mask(token: int) -> bytes | None:
            if token >= 0:
                matcher.consume_token(token)
            if matcher.is_error():
                raise InvalidValueError(f"grammar: {matcher.get_error()[:200]}")
            if matcher.is_stopped():
                return None
            bits: bytes = matcher.compute_bitmask()[:num_bytes]  # it has a bit for the end, too
            return bits

        return next_mask


def grammar_tokenizer(tokenizer: Tokenizer, vocab_size: int, eos: tuple[int, ...]) -> Any:
    """The tokenizer as llguidance wants it."""
    library = import_extra("Grammar", "llguidance", "grammar")
    return library.LLTokenizer(tokenizer.to_json(), n_vocab=vocab_size, eos_token=list(eos) or None)


def _text(op: str, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidTypeError(
            f"Grammar.{op}: {name} is of type {type(value).__name__}, expected str"
        )
    return value


__all__ = ["Grammar"]
