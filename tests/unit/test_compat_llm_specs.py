"""Specs and configs of section 18.2 of 0.2."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from cases.llm import DATA

from pygpukit import llm

SPECS = {
    "gpt2": (llm.GPT2_SPEC, "layernorm", "gelu", False, 1e-5, 1e4),
    "llama": (llm.LLAMA_SPEC, "rmsnorm", "silu", True, 1e-5, 1e4),
    "qwen2": (llm.QWEN2_SPEC, "rmsnorm", "silu", True, 1e-6, 1e6),
    "qwen3": (llm.QWEN3_SPEC, "rmsnorm", "silu", True, 1e-6, 1e6),
    "qwen3_moe": (llm.QWEN3_MOE_SPEC, "rmsnorm", "silu", True, 1e-6, 1e7),
    "mixtral": (llm.MIXTRAL_SPEC, "rmsnorm", "silu", True, 1e-5, 1e6),
}


@pytest.mark.parametrize("name", SPECS)
def test_specs(name: str) -> None:
    spec, norm, activation, rope, eps, theta = SPECS[name]
    assert isinstance(spec, llm.ModelSpec)
    assert llm.MODEL_SPECS[name] is spec
    assert (spec.name, spec.hf_model_type) == (name, name)
    assert (spec.norm_type, spec.activation, spec.use_rope) == (norm, activation, rope)
    assert spec.default_norm_eps == eps
    assert not rope or spec.default_rope_theta == theta
    assert spec.use_position_embed == (name == "gpt2")
    assert spec.use_qk_norm == name.startswith("qwen3")
    assert spec.is_moe == (name in ("qwen3_moe", "mixtral"))
    assert spec.qkv_combined == spec.weight_transpose == (name == "gpt2")
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.name = "other"  # type: ignore[misc]


def test_tensor_names_of_specs() -> None:
    assert llm.GPT2_SPEC.q_proj == "h.{layer}.attn.c_attn.weight"
    assert llm.GPT2_SPEC.k_proj is None
    assert llm.LLAMA_SPEC.fc1 is None
    assert llm.LLAMA_SPEC.q_norm is None
    assert llm.QWEN2_SPEC.q_bias == "model.layers.{layer}.self_attn.q_proj.bias"
    assert llm.MIXTRAL_SPEC.expert_up_proj == (
        "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight"
    )
    assert llm.MIXTRAL_SPEC.gate_proj is None


@pytest.mark.parametrize(
    ("names", "family"),
    [
        (["model.layers.0.block_sparse_moe.gate.weight"], "mixtral"),
        (["a.mlp.experts.0.up_proj", "a.q_norm.weight"], "qwen3_moe"),
        (["model.embed_tokens.weight", "model.layers.0.self_attn.q_norm.weight"], "qwen3"),
        (["model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.bias"], "qwen2"),
        (["model.embed_tokens.weight"], "llama"),
        (["wte.weight"], "gpt2"),
    ],
)
def test_detect_model_spec(names: list[str], family: str) -> None:
    assert llm.detect_model_spec(names) is llm.MODEL_SPECS[family]


@pytest.mark.parametrize("family", ["gpt2", "mixtral", "qwen2", "qwen3", "qwen3_moe", "llama"])
def test_detect_model_spec_of_files(family: str) -> None:
    files = llm.load_safetensors(DATA / "families" / family / "model.safetensors")
    assert llm.detect_model_spec(files.tensor_names).name == family


def test_detect_model_spec_error() -> None:
    with pytest.raises(ValueError, match="Cannot detect model type"):
        llm.detect_model_spec(["encoder.weight"])


def test_transformer_config() -> None:
    config = llm.TransformerConfig()
    assert (config.num_kv_heads, config.intermediate_size) == (32, 4 * 2048)
    assert (config.head_dim, config.num_kv_groups, config.is_moe) == (64, 1, False)
    other = llm.TransformerConfig(
        hidden_size=96, num_heads=8, num_kv_heads=2, _head_dim=32, num_experts=4
    )
    assert (other.head_dim, other.num_kv_groups, other.is_moe) == (32, 4, True)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"num_layers": 0}, "num_layers is 0, expected 1"),
        ({"num_heads": 6, "num_kv_heads": 4}, "num_kv_heads is 4, expected a divisor"),
        ({"norm_type": "batch"}, "norm_type is 'batch', expected rmsnorm or layernorm"),
        ({"activation": "relu"}, "activation is 'relu', expected silu or gelu"),
    ],
)
def test_transformer_config_errors(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        llm.TransformerConfig(**values)


def test_small_configs() -> None:
    gpt2 = llm.GPT2Config(n_embd=64, n_layer=2, n_head=4).to_transformer_config()
    assert (gpt2.hidden_size, gpt2.num_layers, gpt2.intermediate_size) == (64, 2, 256)
    assert (gpt2.norm_type, gpt2.activation, gpt2.use_rope) == ("layernorm", "gelu", False)
    llama = llm.LlamaConfig(num_hidden_layers=3).to_transformer_config()
    assert (llama.num_layers, llama.num_kv_heads, llama.head_dim) == (3, 4, 64)
    qwen3 = llm.Qwen3Config().to_transformer_config()
    assert (qwen3.head_dim, qwen3.rope_theta, qwen3.norm_eps) == (128, 1e6, 1e-6)


SECTION_18 = [
    "Dtype", "TensorInfo", "SafeTensorsFile", "ShardedSafeTensorsFile", "load_safetensors",
    "LazyModelLoader", "TensorState", "PoolStats", "Tokenizer", "ModelSpec", "GPT2_SPEC",
    "LLAMA_SPEC", "QWEN2_SPEC", "QWEN3_SPEC", "QWEN3_MOE_SPEC", "MIXTRAL_SPEC",
    "MODEL_SPECS", "detect_model_spec", "TransformerConfig", "GPT2Config", "LlamaConfig",
    "Qwen3Config", "load_model_from_safetensors", "load_gpt2_from_safetensors",
    "load_llama_from_safetensors", "load_qwen3_from_safetensors",
    "load_mixtral_from_safetensors", "LinearBF16", "Linear", "LinearFP8", "Norm", "MLP",
    "MoELayer", "Attention", "TransformerBlock", "precompute_freqs_cis",
    "apply_rotary_pos_emb_numpy", "repack_weight", "repack_linear", "repack_norm",
    "repack_model_weights", "CausalTransformerModel", "GPT2Model", "LlamaModel", "RMSNorm",
    "LayerNorm", "LlamaAttention", "CausalSelfAttention", "LlamaMLP", "LlamaBlock",
    "DecodeStrategy", "DecodeM1", "DecodeM1Graph", "DecodeBatch", "DecodeSpeculative",
    "DecodeJacobi", "DecodeBuffers", "PrefillBuffers", "FP8QuantConfig", "QATQuantConfig",
    "PruningConfig", "SparsityConfig", "ModelOptimizationInfo", "sample_token",
    "ChatMessage", "format_chat_messages", "apply_chat_template", "create_chat_prompt",
    "LoadingStrategy", "SimpleStreaming", "SlidingWindow", "AutoLRU",
    "LayerStreamingContext", "create_streaming_context",
]  # fmt: skip


def test_every_name_of_section_18() -> None:
    missing = [name for name in SECTION_18 if name not in llm.__all__ or not hasattr(llm, name)]
    assert not missing
