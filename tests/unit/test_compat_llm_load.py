"""Models from files (section 18.3 of 0.2), against what Transformers computed."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.llm import DATA, FAMILIES, TINY, golden

import pygpukit as gp
from pygpukit import llm


def weights(family: str) -> Path:
    return DATA / "families" / family / "model.safetensors"


@pytest.fixture(scope="module")
def tiny() -> llm.CausalTransformerModel:
    return llm.load_qwen3_from_safetensors(TINY / "model.safetensors")


def test_greedy_tokens(tiny: llm.CausalTransformerModel) -> None:
    for text in golden()["greedy"]:
        got = tiny.generate(text["prompt_ids"], max_new_tokens=64, temperature=0.0)
        assert got == [*text["prompt_ids"], *text["float32"]]


def test_logits_by_layers(tiny: llm.CausalTransformerModel) -> None:
    wanted = np.load(TINY / "golden_logits.npz")
    for text, name in zip(golden()["greedy"], wanted.files, strict=True):
        hidden, past = tiny(text["prompt_ids"], use_cache=True)
        assert hidden.shape == (len(text["prompt_ids"]), 128)
        np.testing.assert_allclose(tiny.get_logits(hidden).to_numpy(), wanted[name], atol=1e-4)
        assert past is not None
        assert len(past) == 4
        new, _ = tiny(text["float32"][:1], past_key_values=past)
        best = int(tiny.get_logits(new).to_numpy()[-1].argmax())
        assert best == text["float32"][1]


@pytest.mark.parametrize("family", FAMILIES)
def test_families(family: str) -> None:
    wanted = np.load(DATA / "families" / family / "golden.npz")
    ids = wanted["ids"].tolist()
    model = llm.load_model_from_safetensors(weights(family), device="cpu")
    assert model.spec is not None
    hidden, _ = model(ids)
    got, want = model.get_logits(hidden).to_numpy(), wanted["logits"]
    assert np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2)) < 2e-5
    new = model.generate(ids, len(wanted["greedy"]), temperature=0.0)[len(ids) :]
    assert new == wanted["greedy"].tolist()


@pytest.mark.parametrize(
    ("family", "load"),
    [
        ("gpt2", llm.load_gpt2_from_safetensors),
        ("llama", llm.load_llama_from_safetensors),
        ("qwen3", llm.load_qwen3_from_safetensors),
        ("mixtral", llm.load_mixtral_from_safetensors),
    ],
)
def test_loaders_of_families(family: str, load: Any) -> None:
    model = load(weights(family))
    assert isinstance(model, llm.CausalTransformerModel)
    assert llm.GPT2Model is llm.LlamaModel is llm.CausalTransformerModel
    assert model.spec is llm.MODEL_SPECS[family]
    dtype = "bfloat16" if family == "mixtral" else "float32"
    assert model.embed_tokens.dtype.name == dtype
    other = load(weights(family), dtype="float16")
    assert other.blocks[0].attn.q_proj.weight.dtype.name == "float16"


def test_attributes(tiny: llm.CausalTransformerModel) -> None:
    assert tiny.config.head_dim == 32
    assert len(tiny.blocks) == tiny.config.num_layers == 4
    assert tiny.lm_head is tiny.embed_tokens
    assert isinstance(tiny.final_norm, llm.Norm)
    assert isinstance(tiny.blocks[0].mlp, llm.MLP)
    own = llm.load_model_from_safetensors(weights("llama"))
    assert own.lm_head is not own.embed_tokens
    assert isinstance(
        llm.load_model_from_safetensors(weights("qwen3_moe")).blocks[0].mlp, llm.MoELayer
    )


def test_layers_are_views(tiny: llm.CausalTransformerModel) -> None:
    q, k = tiny.blocks[0].attn.q_proj, tiny.blocks[0].attn.k_proj
    assert q.weight.device_ptr + q.weight.nbytes == k.weight.device_ptr
    llm.repack_model_weights(tiny)
    assert tiny.blocks[0].attn.q_proj.weight is q.weight


def test_replaced_layers_count(tiny: llm.CausalTransformerModel) -> None:
    model = llm.load_model_from_safetensors(weights("llama"), device="cpu")
    ids = [3, 4, 5]
    before = model.generate(ids, 8, temperature=0.0)
    assert model._is_as_loaded()
    for block in model.blocks:
        block.attn.init_fixed_cache(16, "float32")  # no weights
    assert model._is_as_loaded()
    kept = model.blocks[1].mlp.down_proj
    model.blocks[1].mlp.down_proj = llm.Linear(gp.zeros(kept.weight.shape))
    changed = model.generate(ids, 8, temperature=0.0)
    hidden, _ = model(ids)
    assert changed[3] == int(model.get_logits(hidden).to_numpy()[-1].argmax())
    assert changed != before
    model.blocks[1].mlp.down_proj = kept
    assert model._is_as_loaded()
    assert model.generate(ids, 8, temperature=0.0) == before


def test_generation_options(tiny: llm.CausalTransformerModel) -> None:
    text = golden()["greedy"][0]
    ids, tokens = text["prompt_ids"], text["float32"]
    eos = tokens[5]
    first = tokens.index(eos)
    got = tiny.generate(ids, 64, temperature=0.0, eos_token_id=eos, gpu_sampling=True)
    assert got == [*ids, *tokens[: first + 1]]
    assert list(tiny.generate_stream(ids, 8, temperature=0.0)) == tokens[:8]
    drawn = []
    for seed in (1, 1, 2):
        gp.ops.sampling.set_sampling_seed(seed)
        drawn.append(tiny.generate(ids))
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == len(ids) + 20


@pytest.mark.parametrize(
    ("ids", "options", "text"),
    [
        ([], {}, "no input_ids"),
        ([4096], {}, "a token id is 4096, expected 0 to 4095"),
        ([1], {"max_new_tokens": 0}, "max_new_tokens is 0"),
        ([1], {"max_new_tokens": 4000}, "max_length"),
        ([1], {"temperature": -1.0}, "temperature is -1"),
        ([1], {"top_p": 1.5}, "top_p is 1.5"),
    ],
)
def test_generation_errors(
    tiny: llm.CausalTransformerModel, ids: list[int], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        tiny.generate(ids, **options)


def test_call_errors(tiny: llm.CausalTransformerModel) -> None:
    with pytest.raises(ValueError, match="no input_ids"):
        tiny([])
    _, past = tiny([1, 2], use_cache=True)
    assert past is not None
    with pytest.raises(ValueError, match="2 past_key_values, expected one for each of 4"):
        tiny([3], past_key_values=past[:2])


# --- files without a config.json ------------------------------------------------------------------


def alone(tmp_path: Path, source: Path) -> Path:
    target = tmp_path / "weights.safetensors"
    shutil.copy(source, target)
    return target


def test_sizes_from_tensors(tmp_path: Path) -> None:
    path = alone(tmp_path, TINY / "model.safetensors")
    spec = dataclasses.replace(llm.QWEN3_SPEC, default_rope_theta=10000.0)
    model = llm.load_model_from_safetensors(path, spec=spec)  # its heads have norms: no warning
    config = model.config
    assert (config.num_layers, config.num_heads, config.num_kv_heads) == (4, 4, 2)
    assert (config.head_dim, config.intermediate_size, config.vocab_size) == (32, 384, 4096)
    text = golden()["greedy"][0]
    got = model.generate(text["prompt_ids"], 32, temperature=0.0)
    assert got[len(text["prompt_ids"]) :] == text["float32"][:32]


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2", "mixtral", "qwen3_moe"])
def test_sizes_of_families(tmp_path: Path, family: str) -> None:
    given = json.loads((DATA / "families" / family / "config.json").read_text())
    path = alone(tmp_path, weights(family))
    with pytest.warns(UserWarning, match="taken as"):
        model = llm.load_model_from_safetensors(path)
    config, spec = model.config, model.spec
    assert spec is llm.MODEL_SPECS[family]
    hidden = given.get("hidden_size", given.get("n_embd"))
    assert (config.hidden_size, config.vocab_size) == (hidden, 160)
    assert config.num_layers == given.get("num_hidden_layers", given.get("n_layer"))
    experts = given.get("num_local_experts", given.get("num_experts"))
    assert config.num_experts == experts
    heads = config.num_heads * config.head_dim
    wanted = given.get("head_dim", 12) * given.get("num_attention_heads", given.get("n_head"))
    assert heads == wanted
    assert len(model.generate([3, 4], 2)) == 4


def test_an_index(tmp_path: Path) -> None:
    source = llm.load_safetensors(weights("llama"))
    arrays = {name: source.tensor(name) for name in source.tensor_names}
    names = sorted(arrays)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, kept in shards.items():
        llm.save_safetensors(tmp_path / file, {name: arrays[name] for name in kept})
    index = tmp_path / "model.safetensors.index.json"
    where = {name: file for file, kept in shards.items() for name in kept}
    index.write_text(json.dumps({"weight_map": where}))
    shutil.copy(weights("llama").parent / "config.json", tmp_path)
    got, want = (llm.load_model_from_safetensors(p) for p in (index, weights("llama")))
    assert got.generate([5, 6, 7], 8, temperature=0.0) == want.generate(
        [5, 6, 7], 8, temperature=0.0
    )


def test_load_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="dtype is 'int8', expected one of float32"):
        llm.load_model_from_safetensors(weights("llama"), dtype="int8")
    with pytest.raises(OSError, match="nowhere"):
        llm.load_model_from_safetensors(tmp_path / "nowhere.safetensors")
    with pytest.raises(TypeError, match="spec is of type str"):
        llm.load_model_from_safetensors(weights("llama"), spec="llama")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tensors of qwen3 are missing"):
        llm.load_qwen3_from_safetensors(weights("llama"))
    odd = dataclasses.replace(llm.LLAMA_SPEC, norm_type="batch")
    with pytest.raises(ValueError, match="norm_type of the spec is 'batch'"):
        llm.load_model_from_safetensors(weights("llama"), spec=odd)
    strange = tmp_path / "strange.safetensors"
    llm.save_safetensors(strange, {"encoder": gp.zeros((2, 2))})
    with pytest.raises(ValueError, match="Cannot detect model type"):
        llm.load_model_from_safetensors(strange)
    with pytest.raises(ValueError, match=r"no config.json beside the file"):
        llm.load_model_from_safetensors(alone(tmp_path, weights("gemma2")))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json: is not JSON"):
        llm.load_model_from_safetensors(strange)
