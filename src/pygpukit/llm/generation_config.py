"""How a model is sampled and where it stops, by the file generation_config.json."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, fields
from pathlib import Path
from typing import Any

from pygpukit._native import safe_repr
from pygpukit.core.arguments import amount, file_path, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.llm.json_file import read_object_if_there

_SHARES = ("top_p", "min_p", "typical_p")
_LENGTHS = ("max_length", "max_new_tokens")
_TOKENS = ("bos_token_id", "pad_token_id")
# Fields of Transformers that change a text, and the values that do not; none of them is supported.
_UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "bad_words_ids": ([],),
    "begin_suppress_tokens": ([],),
    "encoder_repetition_penalty": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "exponential_decay_length_penalty": (),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "guidance_scale": (1.0,),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "no_repeat_ngram_size": (0,),
    "num_beams": (1,),
    "penalty_alpha": (0.0,),
    "sequence_bias": ({}, []),
    "suppress_tokens": ([],),
    "top_h": (1.0,),
}


@dataclass(frozen=True)
class GenerationConfig:
    """Checked values; those that a file leaves out are the defaults of Transformers.

    ``max_length`` counts the prompt, ``max_new_tokens`` does not; None: as long as the model can.
    """

    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    max_length: int | None = None
    max_new_tokens: int | None = None
    eos_token_ids: tuple[int, ...] = ()  # any of them ends a text
    bos_token_id: int | None = None
    pad_token_id: int | None = None
    stop_strings: tuple[str, ...] = ()
    # What the file asks for and is not done: "num_beams is 4".
    unsupported: tuple[str, ...] = field(default=(), compare=False)
    source: InitVar[str] = "GenerationConfig"  # what errors name

    def __post_init__(self, source: str) -> None:
        def store(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        if not isinstance(self.do_sample, bool):
            raise _wrong_type(source, "do_sample", self.do_sample, "a bool")
        store("temperature", _number(source, "temperature", self.temperature))
        store("top_k", _integer(source, "top_k", self.top_k))
        for name in _SHARES:
            store(name, _number(source, name, getattr(self, name), high=1.0))
        store("repetition_penalty", _positive(source, "repetition_penalty", self))
        for name in _LENGTHS:
            store(name, _optional_integer(source, name, getattr(self, name), 1))
        for name in _TOKENS:
            store(name, _optional_integer(source, name, getattr(self, name)))
        store("eos_token_ids", _token_ids(source, self.eos_token_ids))
        store("stop_strings", _strings(source, self.stop_strings))

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], source: str = "generation_config.json"
    ) -> GenerationConfig:
        """From the content of the file. Unknown fields do not count, nor do those that are null."""
        names = ({field.name for field in fields(cls)} - {"unsupported"}) & values.keys()
        given = {name: values[name] for name in names if values[name] is not None}
        if values.get("eos_token_id") is not None:  # one, or a list of them
            given["eos_token_ids"] = values["eos_token_id"]
        if values.get("top_k", 50) is None:  # null switches it off
            given["top_k"] = 0
        unsupported = tuple(
            f"{name} is {safe_repr(values[name])}"
            for name, neutral in _UNSUPPORTED.items()
            if values.get(name) is not None and values[name] not in neutral
        )
        return cls(**given, unsupported=unsupported, source=source)

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str]) -> GenerationConfig:
        """From a model folder. Ids that generation_config.json leaves out are config.json's."""
        where = Path(file_path("GenerationConfig", folder))
        values = read_object_if_there(where / "generation_config.json")
        model = read_object_if_there(where / "config.json")
        text_model = model.get("text_config")
        inner = text_model if isinstance(text_model, dict) else {}
        ids = {
            name: model.get(name, inner.get(name))
            for name in ("eos_token_id", *_TOKENS)
            if values.get(name) is None
        }
        cls.from_dict(ids, "config.json")  # for errors that name this file
        return cls.from_dict({**values, **ids})

    def sampling(self) -> dict[str, float]:
        """The arguments of gp.ops.sampling.sample."""
        names = ("top_k", *_SHARES, "repetition_penalty")
        chosen: dict[str, float] = {name: getattr(self, name) for name in names}
        return {"temperature": self.temperature if self.do_sample else 0.0, **chosen}


def _wrong_type(source: str, name: str, value: object, expected: str) -> InvalidTypeError:
    given = f"{type(value).__name__} {safe_repr(value)}"
    return InvalidTypeError(f"{source}: {name} is {given}, expected {expected}")


def _number(source: str, name: str, value: object, high: float = math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _wrong_type(source, name, value, "a number")
    return amount(source, name, value, high=high)


def _positive(source: str, name: str, config: GenerationConfig) -> float:
    number = _number(source, name, getattr(config, name))
    if number == 0.0:
        raise InvalidValueError(f"{source}: {name} is 0.0, expected more than 0")
    return number


def _integer(source: str, name: str, value: object, low: int = 0) -> int:
    if isinstance(value, bool):
        raise _wrong_type(source, name, value, "int")
    return whole(source, name, value, low, 2**31 - 1)


def _optional_integer(source: str, name: str, value: object, low: int = 0) -> int | None:
    return None if value is None else _integer(source, name, value, low)


def _token_ids(source: str, value: object) -> tuple[int, ...]:
    """An id or a list of them, without duplicates."""
    ids = value if isinstance(value, list | tuple) else [value]
    return tuple(dict.fromkeys(_integer(source, "eos_token_id", token) for token in ids))


def _strings(source: str, value: object) -> tuple[str, ...]:
    strings = value if isinstance(value, list | tuple) else [value]
    for string in strings:
        if not isinstance(string, str):
            raise _wrong_type(source, "stop_strings", string, "a str")
        if not string:
            raise InvalidValueError(f"{source}: stop_strings has an empty string")
    return tuple(strings)
