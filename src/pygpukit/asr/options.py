"""How sound is transcribed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pygpukit._native import safe_repr
from pygpukit.asr.tokens import TASKS
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

_OP = "transcribe"
_FLAGS = ("timestamps", "word_timestamps", "condition_on_previous_text")
_TEXTS = ("language", "initial_prompt", "hotwords")


@dataclass(frozen=True)
class TranscribeOptions:
    """Checked values.

    ``temperature`` is a number or several: where a text repeats itself (``compression_ratio_
    threshold``) or is unlikely (``logprob_threshold``), it is decoded again with the next one.
    0 decodes by beam search where ``num_beams`` is more than 1, others sample. A window with no
    text that is likely is silence where the model says so (``no_speech_threshold``). Thresholds
    that are None do not count.
    """

    language: str | None = None  # None: detected
    task: str = "transcribe"
    temperature: tuple[float, ...] = (0.0,)
    num_beams: int = 1
    length_penalty: float = 1.0
    max_new_tokens: int = 0  # of a window; 0: as many as the model has positions for
    top_k: int = 0
    seed: int = 0
    timestamps: bool = True
    word_timestamps: bool = False
    initial_prompt: str | None = None  # ahead of the first window
    hotwords: str | None = None  # ahead of every window
    condition_on_previous_text: bool = False
    compression_ratio_threshold: float | None = 2.4
    logprob_threshold: float | None = -1.0
    no_speech_threshold: float | None = 0.6

    def __post_init__(self) -> None:
        def store(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        if self.task not in TASKS:
            raise InvalidValueError(
                f"{_OP}: task is {safe_repr(self.task)}, expected 'transcribe' or 'translate'"
            )
        store("temperature", _temperatures(self.temperature))
        store("num_beams", whole(_OP, "num_beams", self.num_beams, 1, 64))
        store("length_penalty", amount(_OP, "length_penalty", self.length_penalty))
        store("max_new_tokens", whole(_OP, "max_new_tokens", self.max_new_tokens, 0, 2**31 - 1))
        store("top_k", whole(_OP, "top_k", self.top_k, 0, 2**31 - 1))
        store("seed", whole(_OP, "seed", self.seed, 0, 2**62))
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise _wrong(name, getattr(self, name), "a bool")
        for name in _TEXTS:
            if not isinstance(getattr(self, name), str | None):
                raise _wrong(name, getattr(self, name), "str or None")
        if self.compression_ratio_threshold is not None:
            amount(_OP, "compression_ratio_threshold", self.compression_ratio_threshold)
        if self.logprob_threshold is not None:
            amount(_OP, "logprob_threshold", self.logprob_threshold, -1e9, 0.0)
        if self.no_speech_threshold is not None:
            amount(_OP, "no_speech_threshold", self.no_speech_threshold, 0.0, 1.0)

    @classmethod
    def of(cls, given: dict[str, Any]) -> TranscribeOptions:
        """From keyword arguments."""
        names = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise InvalidTypeError(
                f"{_OP}: unknown option {unknown[0]!r}, expected one of {', '.join(names)}"
            )
        return cls(**given)


def _temperatures(value: Any) -> tuple[float, ...]:
    values = (
        tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    )
    if not values:
        raise InvalidValueError(f"{_OP}: temperature is empty, expected a number or several")
    return tuple(amount(_OP, "temperature", number) for number in values)


def _wrong(name: str, value: object, expected: str) -> InvalidTypeError:
    return InvalidTypeError(
        f"{_OP}: {name} is {type(value).__name__} {safe_repr(value)}, expected {expected}"
    )


__all__ = ["TranscribeOptions"]
