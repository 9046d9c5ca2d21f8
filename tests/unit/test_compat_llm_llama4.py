"""Llama 4 of 0.2 (llm.models.llama4), against its formulas in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import llm
from pygpukit.llm.models.llama4 import Llama4Config, Llama4Model

CONFIG = Llama4Config(
    vocab_size=50, hidden_size=24, intermediate_size=10, intermediate_size_mlp=14,
    num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
    num_local_experts=3, num_experts_per_tok=1, interleave_moe_layer_step=2,
    no_rope_layer_interval=4, attention_chunk_size=5, floor_scale=3.0,
)  # fmt: skip


def make_tensors(config: Llama4Config) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    c = config

    def array(*shape: int) -> Any:
        return (rng.normal(size=shape) * 0.4).astype(np.float32)

    tensors = {
        "model.embed_tokens.weight": array(c.vocab_size, c.hidden_size),
        "model.norm.weight": 1 + array(c.hidden_size),
        "lm_head.weight": array(c.vocab_size, c.hidden_size),
    }
    q, kv = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    for i in range(c.num_hidden_layers):
        at = f"model.layers.{i}."
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            tensors[f"{at}self_attn.{name}_proj.weight"] = array(rows, c.hidden_size)
        tensors[f"{at}self_attn.o_proj.weight"] = array(c.hidden_size, q)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}{name}.weight"] = 1 + array(c.hidden_size)
        mlp, inner = f"{at}feed_forward.", c.intermediate_size_mlp
        if c.has_experts(i):
            e, inner = c.num_local_experts, c.intermediate_size
            tensors[f"{mlp}router.weight"] = array(e, c.hidden_size)
            tensors[f"{mlp}experts.gate_up_proj"] = array(e, c.hidden_size, 2 * inner)
            tensors[f"{mlp}experts.down_proj"] = array(e, inner, c.hidden_size)
            mlp += "shared_expert."
        tensors[f"{mlp}gate_proj.weight"] = array(inner, c.hidden_size)
        tensors[f"{mlp}up_proj.weight"] = array(inner, c.hidden_size)
        tensors[f"{mlp}down_proj.weight"] = array(c.hidden_size, inner)
    return tensors


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def rms(x: Any, eps: float = 1e-5) -> Any:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)


def reference(t: dict[str, Any], c: Llama4Config, ids: list[int]) -> Any:
    """Logits by loops, after Llama 4's published architecture."""
    x = t["model.embed_tokens.weight"][ids].astype(np.float64)
    n, d = len(ids), c.head_dim
    for i in range(c.num_hidden_layers):
        at = f"model.layers.{i}."
        y = rms(x) * t[f"{at}input_layernorm.weight"]
        q, k, v = ((y @ t[f"{at}self_attn.{p}_proj.weight"].T).reshape(n, -1, d) for p in "qkv")
        if c.has_rope(i):
            angles = np.arange(n)[:, None] * c.rope_theta ** -(np.arange(0, d, 2) / d)
            turn = np.exp(1j * angles)[:, None]
            q, k = (
                np.stack([(z := (h[..., ::2] + 1j * h[..., 1::2]) * turn).real, z.imag], -1)
                .reshape(h.shape)
                for h in (q, k)
            )  # fmt: skip
            q, k = rms(q), rms(k)
        else:
            q = (
                q
                * (np.log1p(np.floor((np.arange(n) + 1) / c.floor_scale)) * 0.1 + 1)[:, None, None]
            )
        mixed = np.zeros_like(q)
        for h, row in np.ndindex(q.shape[1], n):
            first = row // c.attention_chunk_size * c.attention_chunk_size if c.has_rope(i) else 0
            scores = k[first : row + 1, h // 2] @ q[row, h] / np.sqrt(d)
            shares = np.exp(scores - scores.max())
            mixed[row, h] = shares / shares.sum() @ v[first : row + 1, h // 2]
        x = x + mixed.reshape(n, -1) @ t[f"{at}self_attn.o_proj.weight"].T
        y = rms(x) * t[f"{at}post_attention_layernorm.weight"]
        mlp = f"{at}feed_forward."
        if c.has_experts(i):
            for row in range(n):
                scores = t[f"{mlp}router.weight"] @ y[row]
                for e in np.argsort(-scores)[: c.num_experts_per_tok]:
                    given = y[row] / (1 + np.exp(-scores[e]))
                    gate, up = np.split(given @ t[f"{mlp}experts.gate_up_proj"][e], 2)
                    x[row] += silu(gate) * up @ t[f"{mlp}experts.down_proj"][e]
            mlp += "shared_expert."
        gate, up, down = (t[f"{mlp}{p}_proj.weight"] for p in ("gate", "up", "down"))
        x = x + (silu(y @ gate.T) * (y @ up.T)) @ down.T
    return rms(x) * t["model.norm.weight"] @ t["lm_head.weight"].T


@pytest.fixture(scope="module")
def tensors() -> dict[str, Any]:
    return make_tensors(CONFIG)


def save(folder: Path, tensors: dict[str, Any], prefix: str = "") -> Path:
    path = folder / "model.safetensors"
    llm.save_safetensors(path, {prefix + name: gp.from_numpy(x) for name, x in tensors.items()})
    return path


@pytest.mark.parametrize("experts", [1, 2])
def test_logits(tensors: dict[str, Any], tmp_path: Path, experts: int) -> None:
    config = Llama4Config(**{**vars(CONFIG), "num_experts_per_tok": experts})
    path = save(tmp_path, tensors, "language_model.")
    model = Llama4Model.from_safetensors(path, "float32", config, device="cpu")
    ids = [3, 41, 7, 7, 19, 30, 2, 11, 48]  # two chunks
    want = reference(tensors, config, ids)
    hidden, past = model(ids, use_cache=True)
    np.testing.assert_allclose(model.get_logits(hidden).to_numpy(), want, atol=2e-4)
    assert past is not None
    more = [5, 6]
    last, _ = model(more, past_key_values=past)
    want = reference(tensors, config, ids + more)[-2:]
    np.testing.assert_allclose(model.get_logits(last).to_numpy(), want, atol=2e-4)
    best = int(reference(tensors, config, ids)[-1].argmax())
    assert model.generate(ids, 1, temperature=0.0) == [*ids, best]


def test_fixed_caches(tensors: dict[str, Any], tmp_path: Path) -> None:
    model = Llama4Model.from_safetensors(save(tmp_path, tensors), "float32", CONFIG, device="cpu")
    for block in model.blocks:
        block.attn.init_fixed_cache(5, "float32")
    strategy = llm.DecodeM1()
    strategy.bind(model)
    ids = [3, 41, 7, 9]
    want = reference(tensors, CONFIG, ids)
    for i, token in enumerate(ids):
        logits = model.get_logits(strategy.step(token, i, i + 1)).to_numpy()
        np.testing.assert_allclose(logits, want[i : i + 1], atol=2e-4)
    with pytest.raises(NotImplementedError, match="max_seq_len is 6"):
        model.blocks[0].attn.init_fixed_cache(6)


def test_config(tmp_path: Path, tensors: dict[str, Any]) -> None:
    given = {"model_type": "llama4", "text_config": {"hidden_size": 64, "head_dim": 16}}
    config = Llama4Config.from_dict(given)
    assert (config.hidden_size, config.head_dim, config.num_hidden_layers) == (64, 16, 48)
    assert [config.has_rope(i) for i in range(4)] == [True, True, True, False]
    sizes = config.to_transformer_config()
    assert isinstance(sizes, llm.TransformerConfig)
    assert (sizes.num_experts, sizes.moe_intermediate_size) == (16, 8192)
    path = save(tmp_path, {k: v for k, v in tensors.items() if "lm_head" not in k})
    with pytest.raises(ValueError, match=r"has no tensor 'lm_head\.weight'"):
        Llama4Model.from_safetensors(path, "float32", CONFIG)
    with pytest.raises(OSError, match=r"config\.json"):
        Llama4Model.from_safetensors(path)
