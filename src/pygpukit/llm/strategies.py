"""Ways to compute several tokens of a text at once.

A strategy guesses what comes next; the model checks all guesses in one step and keeps those that it
would have said itself. The text is the same with every strategy and without one; only the speed
differs. A strategy belongs to one text at a time, and has figures about the newest one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.core.model_lock import ModelLock

if TYPE_CHECKING:
    from pygpukit.llm.language_model import LanguageModel


@dataclass(frozen=True)
class StrategyStats:
    """Counts of one text."""

    steps: int  # of the model, after the prompt
    tokens: int
    drafted: int  # guesses that were checked
    accepted: int

    @property
    def acceptance(self) -> float:
        """The share of guesses that were right."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def tokens_per_step(self) -> float:
        """1 without a strategy."""
        return (self.tokens - 1) / self.steps if self.steps else 0.0


@dataclass(kw_only=True)
class Strategy(ABC):
    """A drafter, and how much of its guesses is checked in a step."""

    max_drafts: int = 4
    stats: StrategyStats | None = field(default=None, init=False, repr=False)

    @abstractmethod
    def _drafter(self, runner: _native.LlmRunner, use_graph: bool) -> _native.LlmDrafter: ...

    def _sizes(self) -> tuple[int, int]:
        return whole(type(self).__name__, "max_drafts", self.max_drafts), 1

    def _tokens(
        self,
        model: _native.LlmModel,
        runner: _native.LlmRunner,
        prompt: list[int],
        options: _native.LlmGenerationOptions,
        use_graph: bool,
    ) -> Iterator[int]:
        drafts, branches = self._sizes()
        self._check(model)
        drafter = self._drafter(runner, use_graph)
        text = _native.LlmSpeculation(runner, prompt, options, drafter, drafts, branches)
        return self._read([text])

    def _check(self, model: _native.LlmModel) -> None:  # noqa: B027 - most take every model
        pass

    def _locks(self, lock: ModelLock) -> list[ModelLock]:
        return [lock]  # of the models that compute

    def _read(self, held: list[_native.LlmSpeculation]) -> Iterator[int]:
        """Of one, which is dropped at the end: a traceback may keep the list, not its pages."""
        try:
            while tokens := held[0].next():
                text = held[0]
                self.stats = StrategyStats(text.steps, text.tokens, text.drafted, text.accepted)
                del text
                yield from tokens
        finally:
            held.clear()


@dataclass
class NgramLookup(Strategy):
    """Guesses what followed the last tokens where they occurred before."""

    ngram: int = 3
    max_drafts: int = field(default=8, kw_only=True)

    def _drafter(self, runner: _native.LlmRunner, use_graph: bool) -> _native.LlmDrafter:
        return _native.LlmDrafter.ngram(whole("NgramLookup", "ngram", self.ngram))


@dataclass
class DraftModel(Strategy):
    """Guesses by a smaller model with the same vocabulary."""

    model: LanguageModel

    def _check(self, model: _native.LlmModel) -> None:
        given, expected = getattr(self.model, "vocab_size", None), model.vocab_size
        if given is None:
            raise InvalidTypeError(
                f"DraftModel: model is of type {type(self.model).__name__}, "
                "expected a LanguageModel"
            )
        if given != expected:
            raise InvalidValueError(
                f"DraftModel: model has {given} tokens, expected {expected}, as the model it "
                "drafts for"
            )

    def _locks(self, lock: ModelLock) -> list[ModelLock]:
        return [lock, getattr(self.model, "_lock", lock)]

    def _drafter(self, runner: _native.LlmRunner, use_graph: bool) -> _native.LlmDrafter:
        self.model._chat = None  # its pages are needed
        return _native.LlmDrafter.model(self.model._runner, use_graph)


@dataclass
class SelfSpeculation(Strategy):
    """Guesses by the first layers of the model and its head."""

    num_layers: int

    def _drafter(self, runner: _native.LlmRunner, use_graph: bool) -> _native.LlmDrafter:
        layers = whole("SelfSpeculation", "num_layers", self.num_layers)
        return _native.LlmDrafter.layers(runner, layers, use_graph)


@dataclass
class Jacobi(Strategy):
    """Guesses what the model said about the last guesses: fixed-point iteration."""

    max_drafts: int = field(default=8, kw_only=True)

    def _drafter(self, runner: _native.LlmRunner, use_graph: bool) -> _native.LlmDrafter:
        return _native.LlmDrafter.jacobi()


@dataclass
class Lookahead(Strategy):
    """Lookahead decoding: n-grams from a window of Jacobi iterations beside the text."""

    window: int = 8
    ngram: int = 3
    guesses: int = 4

    def _sizes(self) -> tuple[int, int]:
        window = whole("Lookahead", "window", self.window)
        ngram = whole("Lookahead", "ngram", self.ngram)
        return max(window, ngram - 1, 1), 1 + whole("Lookahead", "guesses", self.guesses)

    def _drafter(self, runner: _native.LlmRunner, use_graph: bool) -> _native.LlmDrafter:
        return _native.LlmDrafter.lookahead(self.window, self.ngram, self.guesses)


__all__ = [
    "DraftModel",
    "Jacobi",
    "Lookahead",
    "NgramLookup",
    "SelfSpeculation",
    "Strategy",
    "StrategyStats",
]
