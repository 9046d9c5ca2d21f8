"""Language models by their config.json, and what a step of one reads and computes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from pygpukit import _native

ITEM_BYTES = 2  # bfloat16, weights and cache

_QWEN3: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 151936,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "hidden_act": "silu",
}
CONFIGS: MappingProxyType[str, dict[str, Any]] = MappingProxyType(
    {
        "llama-3.2-1b": {
            "model_type": "llama",
            "vocab_size": 128256,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "max_position_embeddings": 131072,
            "rms_norm_eps": 1e-5,
            "rope_theta": 5e5,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 32.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
            "hidden_act": "silu",
            "tie_word_embeddings": True,
        },
        "qwen3-0.6b": {
            **_QWEN3,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "tie_word_embeddings": True,
        },
        "qwen3-8b": {
            **_QWEN3,
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "num_hidden_layers": 36,
            "num_attention_heads": 32,
            "tie_word_embeddings": False,
        },
        "qwen3-30b-a3b": {
            **_QWEN3,
            "model_type": "qwen3_moe",
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "moe_intermediate_size": 768,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "norm_topk_prob": True,
            "num_hidden_layers": 48,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "tie_word_embeddings": False,
        },
    }
)
DEFAULT_SHAPES = ("llama-3.2-1b", "qwen3-0.6b", "qwen3-8b")
TINY: dict[str, Any] = {
    **_QWEN3,
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}

_EXPERTS = ("experts_up", "experts_down")
_MATRICES = ("qkv", "output", "up", "down", "router")


@dataclass(frozen=True)
class ModelShape:
    """A model without its weights."""

    name: str
    config: dict[str, Any]

    @cached_property
    def text(self) -> str:
        """The config.json."""
        return json.dumps(self.config)

    @cached_property
    def tensors(self) -> list[tuple[str, tuple[int, ...], str]]:
        """Name, shape and role of each."""
        return _native.llm_tensors(self.text)

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        return int(self.config["vocab_size"])

    @property
    def max_positions(self) -> int:
        """The longest text that it was made for."""
        return int(self.config["max_position_embeddings"])

    @property
    def num_bytes(self) -> int:
        """Of all tensors."""
        return ITEM_BYTES * sum(math.prod(shape) for _, shape, _ in self.tensors)

    def _elements(self, roles: Iterable[str]) -> int:
        wanted = tuple(roles)
        return sum(math.prod(shape) for _, shape, role in self.tensors if role in wanted)

    def experts_read(self, batch: int) -> float:
        """Different experts that a layer's tokens choose, expected of random choices."""
        experts = int(self.config.get("num_experts", 0))
        if not experts:
            return 0.0
        chosen = int(self.config["num_experts_per_tok"])
        return float(experts * (1 - (1 - chosen / experts) ** batch))

    def step_weight_bytes(self, batch: int) -> float:
        """Weights that a decode step reads. A tied embedding is read by the head."""
        skipped = [*_EXPERTS, "positions"]  # a token gathers one row of positions
        if not self.config["tie_word_embeddings"]:
            skipped.append("embedding")
        read = float(sum(math.prod(s) for _, s, role in self.tensors if role not in skipped))
        if experts := int(self.config.get("num_experts", 0)):
            read += self._elements(_EXPERTS) * self.experts_read(batch) / experts
        return ITEM_BYTES * read

    def cache_bytes(self, tokens: int) -> int:
        """Keys and values of so many tokens."""
        c = self.config
        elements = 2 * c["num_hidden_layers"] * c["num_key_value_heads"] * c["head_dim"]
        return int(ITEM_BYTES * elements * tokens)

    def prefill_flops(self, tokens: int) -> float:
        """Matrices of the layers for every token, the head for the last one, causal attention."""
        c = self.config
        per_token = float(self._elements(_MATRICES))
        if experts := int(c.get("num_experts", 0)):
            per_token += self._elements(_EXPERTS) * c["num_experts_per_tok"] / experts
        head = c["vocab_size"] * c["hidden_size"]
        scores = tokens * (tokens + 1) / 2 * c["num_attention_heads"] * c["head_dim"]
        return float(2 * per_token * tokens + 2 * head + 4 * scores * c["num_hidden_layers"])


def shape_named(name: str) -> ModelShape:
    """ValueError, with the names there are, for another one."""
    if name not in CONFIGS:
        raise ValueError(f"benchmark: unknown shape '{name}', expected {', '.join(CONFIGS)}")
    return ModelShape(name, CONFIGS[name])
