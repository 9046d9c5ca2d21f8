"""The numbers of a Kokoro model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pygpukit._native import safe_repr
from pygpukit.core.arguments import file_path, whole
from pygpukit.core.errors import InvalidArgument, InvalidTypeError, InvalidValueError
from pygpukit.llm.json_file import read_object
from pygpukit.tts.kokoro.vocabulary import VOCABULARY

_OP = "KokoroConfig"
_PLBERT = {
    "plbert_embedding_size": "embedding_size",
    "plbert_hidden_size": "hidden_size",
    "plbert_num_attention_heads": "num_attention_heads",
    "plbert_intermediate_size": "intermediate_size",
    "plbert_max_position_embeddings": "max_position_embeddings",
    "plbert_num_hidden_layers": "num_hidden_layers",
    "plbert_num_hidden_groups": "num_hidden_groups",
}
_ISTFTNET = (
    *("upsample_rates", "upsample_kernel_sizes", "upsample_initial_channel"),
    *("resblock_kernel_sizes", "resblock_dilation_sizes"),
    *("gen_istft_n_fft", "gen_istft_hop_size"),
)
_TOP = (
    *("n_token", "hidden_dim", "n_layer", "max_dur", "style_dim", "n_mels"),
    "text_encoder_kernel_size",
)
_DEPTHS = {
    "upsample_rates": 1,
    "upsample_kernel_sizes": 1,
    "resblock_kernel_sizes": 1,
    "resblock_dilation_sizes": 2,
}


@dataclass
class KokoroConfig:
    """Sizes and the vocabulary; the defaults are those of Kokoro-82M."""

    n_token: int = 178
    hidden_dim: int = 512
    n_layer: int = 3
    max_dur: int = 50
    style_dim: int = 128
    n_mels: int = 80
    text_encoder_kernel_size: int = 5
    plbert_embedding_size: int = 128
    plbert_hidden_size: int = 768
    plbert_num_attention_heads: int = 12
    plbert_intermediate_size: int = 2048
    plbert_max_position_embeddings: int = 512
    plbert_num_hidden_layers: int = 12
    plbert_num_hidden_groups: int = 1
    upsample_rates: tuple[int, ...] = (10, 6)
    upsample_kernel_sizes: tuple[int, ...] = (20, 12)
    upsample_initial_channel: int = 512
    resblock_kernel_sizes: tuple[int, ...] = (3, 7, 11)
    resblock_dilation_sizes: tuple[tuple[int, ...], ...] = ((1, 3, 5), (1, 3, 5), (1, 3, 5))
    gen_istft_n_fft: int = 20
    gen_istft_hop_size: int = 5
    sample_rate: int = 24000
    vocab: dict[str, int] = field(default_factory=lambda: dict(VOCABULARY))

    def __post_init__(self) -> None:
        for name in (*_TOP, *_PLBERT, *_ISTFTNET, "sample_rate"):
            setattr(self, name, _sizes(name, getattr(self, name), _DEPTHS.get(name, 0)))
        self.vocab = check_vocab(_OP, self.vocab)

    @property
    def plbert_head_dim(self) -> int:
        """Of an attention head."""
        return self.plbert_hidden_size // self.plbert_num_attention_heads

    @property
    def hop_length(self) -> int:
        """Samples for each value of the pitch curve."""
        hop = self.gen_istft_hop_size
        for rate in self.upsample_rates:
            hop *= rate
        return hop

    @property
    def max_phonemes(self) -> int:
        """Of one pass: two tokens of padding are added."""
        return self.plbert_max_position_embeddings - 2

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> KokoroConfig:
        """From the contents of a config.json; members that are not there keep their defaults."""
        _check_object(f"{_OP}.from_dict", "values", values)
        plbert = _check_object(_OP, "plbert", values.get("plbert", {}))
        net = _check_object(_OP, "istftnet", values.get("istftnet", {}))
        found = {name: values[name] for name in _TOP if name in values}
        found |= {name: plbert[key] for name, key in _PLBERT.items() if key in plbert}
        found |= {name: net[name] for name in _ISTFTNET if name in net}
        if "vocab" in values:
            found["vocab"] = values["vocab"]
        return cls(**found)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> KokoroConfig:
        """From a config.json. OSError where it cannot be read, ValueError where it is no JSON."""
        file = Path(file_path(f"{_OP}.from_json", path))
        values = read_object(file)
        try:
            return cls.from_dict(values)
        except InvalidArgument as error:
            reason = str(error).removeprefix(f"{_OP}: ")
            raise type(error)(f"{file.name}: {reason}") from None

    def to_dict(self) -> dict[str, Any]:
        """As a config.json has it."""
        result: dict[str, Any] = {name: getattr(self, name) for name in _TOP}
        result["plbert"] = {key: getattr(self, name) for name, key in _PLBERT.items()}
        result["istftnet"] = {name: getattr(self, name) for name in _ISTFTNET}
        return {**result, "vocab": dict(self.vocab)}


def _sizes(name: str, value: Any, depth: int) -> Any:
    """A size, or with a depth tuples of them."""
    if depth == 0:
        if isinstance(value, bool):
            raise InvalidTypeError(f"{_OP}: {name} is {value}, expected int")
        return whole(_OP, name, value, 1, 2**31 - 1)
    if not isinstance(value, (list, tuple)):
        raise InvalidTypeError(f"{_OP}: {name} is {safe_repr(value)}, expected an array")
    return tuple(_sizes(name, item, depth - 1) for item in value)


def _check_object(op: str, name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidTypeError(f"{op}: {name} is {safe_repr(value)}, expected an object")
    return value


def check_vocab(op: str, value: Any) -> dict[str, int]:
    """A dict of symbols to tokens."""
    vocab = _check_object(op, "vocab", value)
    for symbol, token in vocab.items():
        if not isinstance(symbol, str):
            raise InvalidTypeError(f"{op}: vocab has the symbol {safe_repr(symbol)}, expected str")
        if not isinstance(token, int) or isinstance(token, bool) or token < 0:
            raise InvalidValueError(
                f"{op}: vocab has {safe_repr(token)} for {safe_repr(symbol)}, expected a token"
            )
    return dict(vocab)
