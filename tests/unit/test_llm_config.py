"""Values of config.json that change what a model computes: run as given, or refused by name."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.llm import DATA

import pygpukit as gp

FAMILIES = DATA / "families"
Array = np.ndarray[Any, np.dtype[np.float64]]


def changed(
    tmp_path: Path, family: str, without: tuple[str, ...] = (), /, **values: object
) -> Path:
    """A family's folder with another config.json."""
    folder = Path(shutil.copytree(FAMILIES / family, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text()) | values
    config = {name: value for name, value in config.items() if name not in without}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def logits(folder: Path) -> Array:
    ids = np.load(folder / "golden.npz")["ids"].tolist()
    model = gp.llm.load(folder, "float32", device="cpu", max_length=128, max_batch=1)
    return model.logits(ids).to_numpy().astype(np.float64)


def gpt2_with_erf(folder: Path) -> Array:
    """GPT-2 in float64 with GELU as x * (1 + erf(x / sqrt 2)) / 2."""
    file = gp.llm.SafeTensorsFile(folder / "model.safetensors")
    w = {
        name.removeprefix("transformer."): file.tensor(name).to_numpy().astype(np.float64)
        for name in file.tensor_names
    }
    ids = np.load(folder / "golden.npz")["ids"]
    config = json.loads((folder / "config.json").read_text())
    heads, erf = config["n_head"], np.vectorize(math.erf)

    def norm(x: Array, at: str) -> Array:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + config["layer_norm_epsilon"])
        return x * w[f"{at}.weight"] + w[f"{at}.bias"]

    def linear(x: Array, at: str) -> Array:
        result: Array = x @ w[f"{at}.weight"] + w[f"{at}.bias"]
        return result

    x = w["wte.weight"][ids] + w["wpe.weight"][: len(ids)]
    mask = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
    for i in range(config["n_layer"]):
        qkv = linear(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn")
        q, k, v = (t.reshape(len(ids), heads, -1) for t in np.split(qkv, 3, -1))
        scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1]) + mask
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        states = np.einsum("hqk,khd->qhd", shares, v).reshape(len(ids), -1)
        x = x + linear(states, f"h.{i}.attn.c_proj")
        inner = linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        x = x + linear(inner * (1 + erf(inner / math.sqrt(2))) / 2, f"h.{i}.mlp.c_proj")
    result: Array = norm(x, "ln_f") @ w["wte.weight"].T
    return result


def test_gpt2_with_the_erf_form_of_gelu(tmp_path: Path) -> None:
    folder = changed(tmp_path, "gpt2", activation_function="gelu")
    wanted = gpt2_with_erf(folder)
    assert np.abs(wanted - np.load(folder / "golden.npz")["logits"]).max() > 1e-4  # the tanh form
    np.testing.assert_allclose(logits(folder), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "values", "words"),
    [
        ("gpt2", {"activation_function": "gelu_fast"}, "'gelu_fast' (activation_function)"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx of"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights of config.json is false"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention of config.json is true"),
        ("gemma2", {"hidden_activation": "gelu"}, "'gelu' (hidden_activation), expected gelu_py"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "use_bidirectional_attention of"),
        ("llama", {"mlp_bias": True}, "mlp_bias of config.json is true"),
        ("qwen2", {"use_mrope": True}, "use_mrope of config.json is true"),
        ("qwen3_moe", {"mlp_only_layers": [1]}, "layers without experts"),
        (
            "llama_bias",
            {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "truncate": 1}},
            "truncate of config.json is an integer",
        ),
    ],
)
def test_refused(tmp_path: Path, family: str, values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match="load: ") as error:
        gp.llm.load(changed(tmp_path, family, **values), device="cpu")
    assert words in str(error.value)


@pytest.mark.parametrize("truncate", [True, False])
def test_yarn_with_a_ramp_between_any_pairs(tmp_path: Path, truncate: bool) -> None:
    """The frequencies of the published formula, which longrope is given as a list of factors."""
    dim = json.loads((FAMILIES / "llama_bias" / "config.json").read_text())["head_dim"]
    base, factor, trained = 10000.0, 4.0, 64
    yarn = {"rope_type": "yarn", "factor": factor, "truncate": truncate}
    low, high = (
        dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (32, 1)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    ramp = np.clip((np.arange(dim // 2) - max(low, 0)) / (high - max(low, 0)), 0, 1)
    stretch = (1 / (ramp / factor + 1 - ramp)).tolist()
    longrope = {
        "rope_type": "longrope",
        "short_factor": stretch,
        "long_factor": stretch,
        "attention_factor": 0.1 * math.log(factor) + 1,
    }
    shared = {"rope_theta": base, "original_max_position_embeddings": trained}
    got, wanted = (
        logits(changed(tmp_path / name, "llama_bias", rope_parameters={**scaling, **shared}))
        for name, scaling in (("yarn", yarn), ("formula", longrope))
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("family", "without", "values"),
    [
        ("gemma2", ("hidden_activation",), {"hidden_act": "gelu"}),  # another key than it reads
        ("llama", (), {"sliding_window": 3}),  # which LLaMA does not have
        ("qwen3", ("use_sliding_window", "layer_types"), {"sliding_window": 3}),  # off by default
        ("gemma3_text", ("layer_types", "_sliding_window_pattern"), {}),  # every sixth
        ("gemma3_text", (), {"attn_logit_softcapping": 8.0}),  # which Gemma 3 does not read
        ("qwen2", ("rope_parameters",), {}),
        ("qwen3", ("rope_parameters",), {}),
        ("qwen3_moe", ("rope_parameters",), {}),
    ],
)
def test_as_the_golden(
    tmp_path: Path, family: str, without: tuple[str, ...], values: dict[str, Any]
) -> None:
    folder = changed(tmp_path, family, without, **values)
    np.testing.assert_allclose(logits(folder), np.load(folder / "golden.npz")["logits"], atol=1e-3)


def test_qwen3_moe_has_windows_in_all_layers(tmp_path: Path) -> None:
    windows = {"use_sliding_window": True, "sliding_window": 8}
    by_layer = ("layer_types",)
    some = changed(tmp_path / "a", "qwen3_moe", by_layer, **windows, max_window_layers=1)
    every = changed(tmp_path / "b", "qwen3_moe", by_layer, **windows)
    np.testing.assert_array_equal(logits(some), logits(every))
    golden = np.load(every / "golden.npz")["logits"]  # without
    assert np.abs(logits(every) - golden).max() > 1e-2


def test_trained_lengths_by_default(tmp_path: Path) -> None:
    for family, length in (("llama", 2048), ("qwen2", 32768), ("mixtral", 131072)):
        folder = changed(tmp_path / family, family, ("max_position_embeddings",))
        with pytest.raises(ValueError, match=f"expected 1 to {length}"):
            gp.llm.load(folder, device="cpu", max_length=length + 1)


def test_qwen3_moe_keeps_its_weights_by_default(tmp_path: Path) -> None:
    """Transformers normalises the weights of the chosen experts only where it is asked to."""
    missing = changed(tmp_path / "a", "qwen3_moe", ("norm_topk_prob",))
    off = changed(tmp_path / "b", "qwen3_moe", norm_topk_prob=False)
    np.testing.assert_array_equal(logits(missing), logits(off))
    golden = np.load(off / "golden.npz")["logits"]  # with it
    assert np.abs(logits(off) - golden).max() > 1e-2


@pytest.mark.parametrize(
    ("stem", "other"),
    [
        ("language_model.model.", ""),  # as Transformers 4 wrote them
        ("model.language_model.", "model."),
    ],
)
def test_gemma3_beside_a_vision_tower(tmp_path: Path, stem: str, other: str) -> None:
    source = FAMILIES / "gemma3_text"
    file = gp.llm.SafeTensorsFile(source / "model.safetensors")
    tensors = {stem + name.removeprefix("model."): file.tensor(name) for name in file.tensor_names}
    tensors[f"{other}vision_tower.vision_model.post_layernorm.weight"] = gp.ones(3)
    tensors[f"{other}multi_modal_projector.mm_soft_emb_norm.weight"] = gp.ones(3)
    gp.llm.save_safetensors(tmp_path / "model.safetensors", tensors)
    text = json.loads((source / "config.json").read_text())
    del text["model_type"], text["architectures"]
    config = {"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 3}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    shutil.copy(source / "golden.npz", tmp_path)
    np.testing.assert_allclose(
        logits(tmp_path), np.load(source / "golden.npz")["logits"], atol=1e-3
    )
    tensors["audio_tower.weight"] = gp.ones(3)
    gp.llm.save_safetensors(tmp_path / "model.safetensors", tensors)
    with pytest.raises(ValueError, match=r"1 tensors are none of gemma3_text's: audio_tower"):
        gp.llm.load(tmp_path, device="cpu")
