"""Text or phonemes to tokens."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pygpukit._native import safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError, MissingPackageError
from pygpukit.tts.kokoro.config import check_vocab
from pygpukit.tts.kokoro.phonemes import check_language, phonemizer
from pygpukit.tts.kokoro.vocabulary import VOCABULARY

_LONGEST = 3  # characters of a symbol


@dataclass(frozen=True)
class TokenizerOutput:
    """A text, its phonemes and their tokens, without the padding at both ends."""

    tokens: list[int]
    phonemes: str
    text: str


class KokoroTokenizer:
    """Phonemes to the tokens of a vocabulary; text to phonemes where something for it is installed.

    Text goes through misaki (pip install 'pygpukit[tts]'), else through the program espeak-ng.
    Without both, and with use_misaki=False, a text is taken as phonemes.
    """

    def __init__(
        self, vocab: Mapping[str, int] | None = None, lang: str = "a", use_misaki: bool = True
    ) -> None:
        self.vocab = check_vocab("KokoroTokenizer", VOCABULARY if vocab is None else vocab)
        self.lang = check_language(lang)
        self.use_misaki = use_misaki
        self._symbols = {token: symbol for symbol, token in self.vocab.items()}
        self._phonemize: Callable[[str], str] | None = None

    @property
    def vocab_size(self) -> int:
        """Number of symbols."""
        return len(self.vocab)

    def phonemize(self, text: str) -> str:
        """The phonemes of a text. MissingPackageError where nothing is installed for it."""
        if self._phonemize is None:
            self._phonemize = phonemizer(self.lang)
        return self._phonemize(_checked("phonemize", text))

    def encode(self, text: str, *, phonemes: bool = False) -> TokenizerOutput:
        """The tokens of a text; with phonemes=True, of phonemes.

        Symbols are matched greedily, the longest first (three characters, then two, then one).
        What the vocabulary does not have is dropped.
        """
        _checked("encode", text)
        spoken = text
        if self.use_misaki and not phonemes:
            try:
                spoken = self.phonemize(text)
            except MissingPackageError as error:
                warnings.warn(f"{error}; the text is taken as phonemes", stacklevel=2)
        return TokenizerOutput(self.tokens_of(spoken), spoken, text)

    def tokens_of(self, phonemes: str) -> list[int]:
        """The tokens of phonemes."""
        tokens, at = [], 0
        while at < len(phonemes):
            for length in range(min(_LONGEST, len(phonemes) - at), 0, -1):
                token = self.vocab.get(phonemes[at : at + length])
                if token is not None:
                    tokens.append(token)
                    at += length
                    break
            else:
                at += 1
        return tokens

    def decode(self, ids: Iterable[int]) -> str:
        """The symbols of tokens; those without one, such as the padding, are dropped."""
        return "".join(self._symbols.get(token, "") for token in ids)

    def __repr__(self) -> str:
        return f"KokoroTokenizer({self.vocab_size} symbols, lang='{self.lang}')"


def _checked(op: str, text: str) -> str:
    if not isinstance(text, str):
        raise InvalidTypeError(f"{op}: text is {safe_repr(text)}, expected a str")
    if "\0" in text:
        raise InvalidValueError(f"{op}: text has a NUL character")
    return text
