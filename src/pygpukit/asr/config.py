"""The numbers of a Whisper, by the file config.json."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pygpukit._native import safe_repr
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.llm.json_file import read_object

_SIZES = (
    *("vocab_size", "num_mel_bins", "d_model", "encoder_layers", "encoder_attention_heads"),
    *("encoder_ffn_dim", "decoder_layers", "decoder_attention_heads", "decoder_ffn_dim"),
    *("max_source_positions", "max_target_positions"),
)
_TOKENS = ("eos_token_id", "decoder_start_token_id")


@dataclass
class WhisperConfig:
    """Defaults are those of large-v3."""

    vocab_size: int = 51866
    num_mel_bins: int = 128
    d_model: int = 1280
    encoder_layers: int = 32
    encoder_attention_heads: int = 20
    encoder_ffn_dim: int = 5120
    decoder_layers: int = 32
    decoder_attention_heads: int = 20
    decoder_ffn_dim: int = 5120
    max_source_positions: int = 1500
    max_target_positions: int = 448
    eos_token_id: int = 50257
    decoder_start_token_id: int = 50258
    activation_function: str = "gelu"
    scale_embedding: bool = False
    tie_word_embeddings: bool = True
    median_filter_width: int = 7

    def __post_init__(self) -> None:
        for name in _SIZES:
            setattr(self, name, _size(name, getattr(self, name), 1))
        for name in _TOKENS:
            setattr(self, name, _size(name, getattr(self, name), 0))
        self.median_filter_width = _size("median_filter_width", self.median_filter_width, 1)
        for part in ("encoder", "decoder"):
            heads = getattr(self, f"{part}_attention_heads")
            if self.d_model % heads:
                raise InvalidValueError(
                    f"WhisperConfig: {part}_attention_heads is {heads}, expected a divisor of "
                    f"d_model, {self.d_model}"
                )

    @property
    def head_dim(self) -> int:
        """Elements of a head of the encoder."""
        return self.d_model // self.encoder_attention_heads

    @property
    def is_distilled(self) -> bool:
        """Whether the decoder has fewer layers than the encoder."""
        return self.decoder_layers < self.encoder_layers

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> WhisperConfig:
        """From the content of config.json. Unknown fields do not count, nor do null ones."""
        if not isinstance(values, Mapping):
            raise InvalidTypeError(
                f"WhisperConfig.from_dict: values is of type {type(values).__name__}, expected a "
                "mapping"
            )
        kind = values.get("model_type", "whisper")
        if kind != "whisper":
            raise InvalidValueError(
                f"WhisperConfig: model_type is {safe_repr(kind)}, expected 'whisper'"
            )
        known = {field.name for field in fields(cls)}
        return cls(**{k: v for k, v in values.items() if k in known and v is not None})

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> WhisperConfig:
        """From a config.json."""
        return cls.from_dict(read_object(Path(path)))

    @classmethod
    def from_pretrained(cls, path: str | os.PathLike[str]) -> WhisperConfig:
        """From a Hugging Face folder, or one of the names in WHISPER_CONFIGS."""
        if isinstance(path, str) and path in WHISPER_CONFIGS:
            return WHISPER_CONFIGS[path]
        return cls.from_json(Path(path) / "config.json")

    def to_dict(self) -> dict[str, Any]:
        """The fields of a config.json."""
        return {"model_type": "whisper", **asdict(self)}

    def to_json(self) -> str:
        """The text of a config.json."""
        return json.dumps(self.to_dict(), indent=2)


def _size(name: str, value: object, low: int) -> int:
    if isinstance(value, bool):
        raise InvalidTypeError(f"WhisperConfig: {name} is {value}, expected int")
    return whole("WhisperConfig", name, value, low, 2**31 - 1)


def _whisper(width: int, heads: int, layers: int, decoder: int = 0, **others: Any) -> WhisperConfig:
    return WhisperConfig(
        d_model=width,
        encoder_layers=layers,
        encoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_layers=decoder or layers,
        decoder_attention_heads=heads,
        decoder_ffn_dim=4 * width,
        **{"vocab_size": 51865, "num_mel_bins": 80, **others},
    )


_V3: dict[str, Any] = {"vocab_size": 51866, "num_mel_bins": 128}
WHISPER_CONFIGS = {
    "tiny": _whisper(384, 6, 4),
    "base": _whisper(512, 8, 6),
    "small": _whisper(768, 12, 12),
    "medium": _whisper(1024, 16, 24),
    "large": _whisper(1280, 20, 32),
    "large-v2": _whisper(1280, 20, 32),
    "large-v3": _whisper(1280, 20, 32, **_V3),
    "large-v3-turbo": _whisper(1280, 20, 32, 4, **_V3),
    "distil-large-v3": _whisper(1280, 20, 32, 2, **_V3),
    "kotoba-v2": _whisper(1280, 20, 32, 2, **_V3),
}

__all__ = ["WHISPER_CONFIGS", "WhisperConfig"]
