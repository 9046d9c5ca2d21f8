"""Sizes of a model from its tensors, for files without a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pygpukit.core.errors import InvalidValueError

if TYPE_CHECKING:
    from pygpukit._compat.llm_specs import ModelSpec

    Shapes = Mapping[str, tuple[int, ...]]

_DEFAULT_HEAD_DIM = 64  # most models with up to 2048 hidden elements; larger ones have 128
_DEFAULT_MAX_POSITIONS = 32768  # only a limit


class _Tensors:
    """Shapes by the names of a spec, [out, in]."""

    def __init__(self, spec: ModelSpec, shapes: Shapes) -> None:
        self._spec, self._shapes = spec, shapes
        begins = any(name.startswith(spec.prefix) for name in shapes)
        self._prefix = spec.prefix if spec.prefix and begins else ""

    def find(self, pattern: str | None, layer: int = 0, expert: int = 0) -> tuple[int, ...] | None:
        if not pattern:
            return None
        name = pattern.replace("{layer}", str(layer)).replace("{expert}", str(expert))
        shape = self._shapes.get(self._prefix + name)
        if shape is None:
            shape = self._shapes.get(name)
        if shape is None or len(shape) != 2 or "{layer}" not in pattern:
            return shape
        return shape[::-1] if self._spec.weight_transpose else shape

    def get(self, pattern: str | None) -> tuple[int, ...]:
        shape = self.find(pattern)
        if shape is None:
            raise InvalidValueError(
                f"load: no tensor {pattern!r} of {self._spec.name}, which its sizes follow from"
            )
        return shape


def config_from_tensors(spec: ModelSpec, shapes: Shapes) -> tuple[dict[str, Any], list[str]]:
    """(a config.json, what it had to assume)."""
    if spec.scale_embeddings:
        raise InvalidValueError(
            f"load: there is no config.json beside the file; windows and scales of {spec.name} "
            "cannot be seen from tensors"
        )
    tensors = _Tensors(spec, shapes)
    vocab_size, hidden = tensors.get(spec.embed_tokens)
    num_layers = 0
    while tensors.find(spec.attn_norm, num_layers) is not None:
        num_layers += 1
    _, q_size = tensors.get(spec.o_proj)
    if spec.qkv_combined:
        kv_size = (tensors.get(spec.q_proj)[0] - q_size) // 2
    else:
        kv_size = tensors.get(spec.k_proj)[0]
    notes = []
    head_norm = tensors.find(spec.q_norm)
    head_dim = _head_dim(hidden, q_size, kv_size) if head_norm is None else head_norm[0]
    if head_norm is None:
        notes.append(
            f"the size of a head cannot be seen from tensors and is taken as {head_dim}; "
            "a config.json beside the file says it"
        )
    positions = tensors.find(spec.position_embed)
    config: dict[str, Any] = {
        "model_type": spec.hf_model_type,
        "vocab_size": vocab_size,
        "hidden_size": hidden,
        "num_hidden_layers": num_layers,
        "num_attention_heads": q_size // head_dim,
        "num_key_value_heads": kv_size // head_dim,
        "head_dim": head_dim,
        "max_position_embeddings": _DEFAULT_MAX_POSITIONS if positions is None else positions[0],
        "tie_word_embeddings": tensors.find(spec.lm_head) is None,
        "attention_bias": tensors.find(spec.q_bias) is not None,
        "intermediate_size": _intermediate_size(spec, tensors),
    }
    if spec.is_moe:
        config["num_experts"] = tensors.get(spec.moe_gate)[0]
        config["num_experts_per_tok"] = min(8 if spec.use_qk_norm else 2, config["num_experts"])
        notes.append(f"experts of a token are taken as {config['num_experts_per_tok']}")
    return config, notes


def _head_dim(hidden: int, q_size: int, kv_size: int) -> int:
    wanted = _DEFAULT_HEAD_DIM if hidden <= 2048 else 2 * _DEFAULT_HEAD_DIM
    while q_size % wanted or kv_size % wanted:
        wanted //= 2
    return wanted


def _intermediate_size(spec: ModelSpec, tensors: _Tensors) -> int:
    if spec.is_moe:
        return tensors.get(spec.expert_gate_proj)[0]
    if spec.fc1:
        return tensors.get(spec.fc1)[0]
    rows = tensors.get(spec.gate_proj)[0]
    return rows // 2 if spec.gate_up_combined else rows
