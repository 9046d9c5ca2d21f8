"""Model families of 0.2 as frozen dataclasses, filled from llm/model_spec.cpp."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from pygpukit import _native
from pygpukit.core.errors import InvalidTypeError


@dataclass(frozen=True)
class ModelSpec:
    """Names of a family's tensors ({layer}, {expert}), None for those it lacks, and its kind."""

    name: str
    embed_tokens: str
    position_embed: str | None = None
    lm_head: str | None = None
    final_norm: str = ""
    final_norm_bias: str | None = None
    attn_norm: str = ""
    attn_norm_bias: str | None = None
    q_proj: str = ""
    k_proj: str | None = None
    v_proj: str | None = None
    o_proj: str = ""
    q_bias: str | None = None
    k_bias: str | None = None
    v_bias: str | None = None
    o_bias: str | None = None
    q_norm: str | None = None
    k_norm: str | None = None
    mlp_norm: str = ""
    mlp_norm_bias: str | None = None
    fc1: str | None = None
    fc1_bias: str | None = None
    fc2: str | None = None
    fc2_bias: str | None = None
    gate_proj: str | None = None
    up_proj: str | None = None
    down_proj: str | None = None
    moe_gate: str | None = None
    expert_gate_proj: str | None = None
    expert_up_proj: str | None = None
    expert_down_proj: str | None = None
    norm_type: str = "rmsnorm"
    activation: str = "silu"
    use_rope: bool = True
    use_qk_norm: bool = False
    use_position_embed: bool = False
    qkv_combined: bool = False
    weight_transpose: bool = False
    is_moe: bool = False
    default_norm_eps: float = 1e-5
    default_rope_theta: float = 10000.0
    hf_model_type: str = ""
    # Of families that 0.2 did not have:
    attn_post_norm: str | None = None
    mlp_post_norm: str | None = None
    gate_up_combined: bool = False
    attention_bias: bool = False
    scale_embeddings: bool = False
    norm_offset: float = 0.0
    prefix: str = ""
    ignored: tuple[str, ...] = ()


# What 0.2 says beside the names; C++ reads it from them.
_FOLLOWS = ("use_qk_norm", "use_position_embed", "is_moe")


def _spec(given: dict[str, Any]) -> ModelSpec:
    values: dict[str, Any] = {key: None if value == "" else value for key, value in given.items()}
    for key in ("final_norm", "attn_norm", "q_proj", "o_proj", "mlp_norm", "prefix"):
        values[key] = given[key]
    return ModelSpec(
        **values,
        use_qk_norm=bool(given["q_norm"]),
        use_position_embed=bool(given["position_embed"]),
        is_moe=bool(given["moe_gate"]),
    )


def native_spec(spec: ModelSpec) -> dict[str, Any]:
    """The spec as C++ takes it."""
    if not isinstance(spec, ModelSpec):
        raise InvalidTypeError(
            f"load: spec is of type {type(spec).__name__}, expected a ModelSpec or None"
        )
    values = {f.name: getattr(spec, f.name) for f in fields(spec) if f.name not in _FOLLOWS}
    return {key: "" if value is None else value for key, value in values.items()}


MODEL_SPECS: dict[str, ModelSpec] = {
    str(given["name"]): _spec(given) for given in _native.llm_specs()
}
GPT2_SPEC = MODEL_SPECS["gpt2"]
LLAMA_SPEC = MODEL_SPECS["llama"]
QWEN2_SPEC = MODEL_SPECS["qwen2"]
QWEN3_SPEC = MODEL_SPECS["qwen3"]
QWEN3_MOE_SPEC = MODEL_SPECS["qwen3_moe"]
MIXTRAL_SPEC = MODEL_SPECS["mixtral"]


def detect_model_spec(tensor_names: Iterable[str]) -> ModelSpec:
    """The family whose tensors have such names."""
    return MODEL_SPECS[_native.llm_detect_family(list(tensor_names))]


__all__ = [
    "GPT2_SPEC",
    "LLAMA_SPEC",
    "MIXTRAL_SPEC",
    "MODEL_SPECS",
    "QWEN2_SPEC",
    "QWEN3_MOE_SPEC",
    "QWEN3_SPEC",
    "ModelSpec",
    "detect_model_spec",
]
