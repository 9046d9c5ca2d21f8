"""Quantised models on CPU simulation: on load, and checkpoints of other tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.llm import DATA, TINY

import pygpukit as gp

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import make_quantized_checkpoints as checkpoints

IDS = np.load(TINY / "val_ids.npy").reshape(-1)[:192].astype(int).tolist()
# The model has rows of 128 values, which leaves no redundancy: larger ones lose less
# (docs/quantization.md).
MOST_PERPLEXITY = {"fp8": 1.02, "int8": 1.005, "int4": 1.25, "nvfp4": 1.15}


@pytest.fixture(scope="module")
def plain_perplexity() -> float:
    return gp.llm.load(TINY, "float32", max_length=256, max_batch=1).perplexity(IDS)


@pytest.mark.parametrize("quantization", MOST_PERPLEXITY)
def test_perplexity(quantization: str, plain_perplexity: float) -> None:
    model = gp.llm.load(TINY, "float32", max_length=256, max_batch=1, quantization=quantization)
    ratio = model.perplexity(IDS) / plain_perplexity
    assert 0.97 < ratio < MOST_PERPLEXITY[quantization]


def test_quantized_on_load() -> None:
    plain = gp.llm.load(TINY, max_length=64, max_batch=2)
    model = gp.llm.load(TINY, max_length=64, max_batch=2, quantization="int4", group=64)
    assert model.num_parameters == plain.num_parameters
    assert model.num_bytes < plain.num_bytes
    text = model.explain()
    assert "qkv: int4, group 64\n" in text
    assert "down: int4, group 64\n" in text
    assert "embedding:" not in text
    new = model.generate(IDS[:8], max_new_tokens=6, stop_tokens=[])
    assert len(new) == 6
    logits = model.logits(IDS[:8]).to_numpy().astype(np.float64)
    want = plain.logits(IDS[:8]).to_numpy().astype(np.float64)
    assert np.sqrt(np.mean((logits - want) ** 2) / np.mean(want**2)) < 0.25


def test_experts_are_quantized() -> None:
    folder = DATA / "families" / "qwen3_moe"
    ids = np.load(folder / "golden.npz")["ids"].tolist()
    plain = gp.llm.load(folder, "float32", max_length=128, max_batch=1)
    model = gp.llm.load(folder, "float32", max_length=128, max_batch=1, quantization="int8")
    assert "experts_up: int8, per row\n" in model.explain()
    assert "router:" not in model.explain()
    error = np.abs(model.logits(ids).to_numpy() - plain.logits(ids).to_numpy())
    assert 0 < error.mean() < 0.05 * np.abs(plain.logits(ids).to_numpy()).mean()


def test_unknown_format() -> None:
    with pytest.raises(ValueError, match="load: format is 'int3', expected 'int8'"):
        gp.llm.load(TINY, quantization="int3")


@pytest.mark.parametrize("format", checkpoints.FORMATS)
def test_checkpoint_decodes_as_its_plain_twin(format: str, tmp_path: Path) -> None:
    packed, plain = checkpoints.make(TINY, tmp_path, format)
    options: dict[str, Any] = {"max_length": 64, "max_batch": 1}
    model = gp.llm.load(packed, "float32", **options)
    twin = gp.llm.load(plain, "float32", **options)
    assert model.num_bytes < twin.num_bytes
    got = model.logits(IDS[:24]).to_numpy()
    want = twin.logits(IDS[:24]).to_numpy()
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4 * np.abs(want).max())
    ids = {"max_new_tokens": 12, "stop_tokens": []}
    assert model.generate(IDS[:8], **ids) == twin.generate(IDS[:8], **ids)


def edited(tmp_path: Path, format: str, changes: dict[str, Any]) -> Path:
    packed, _ = checkpoints.make(TINY, tmp_path, format)
    config = json.loads((packed / "config.json").read_text())
    config["quantization_config"] |= changes
    (packed / "config.json").write_text(json.dumps(config))
    return packed


@pytest.mark.parametrize(
    ("format", "changes", "message"),
    [
        ("awq", {"quant_method": "hqq"}, "quant_method is 'hqq', expected awq, gptq"),
        ("awq", {"version": "gemv"}, "version is 'gemv', expected gemm"),
        ("awq", {"bits": 3}, "bits is 3, expected 4"),
        ("gptq", {"desc_act": True}, "desc_act is true"),
        ("gptq", {"group_size": 48}, "group_size is 48, expected 32, 64, 128 or -1"),
        ("fp8-block", {"weight_block_size": [64, 64]}, "weight_block_size is not 128 x 128"),
        ("int-quantized", {"format": "marlin-24"}, "format is 'marlin-24'"),
        ("nf4", {"bnb_4bit_quant_type": "fp4"}, "bnb_4bit_quant_type nf4 only"),
    ],
)
def test_configs_that_are_refused(
    format: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = edited(tmp_path, format, changes)
    with pytest.raises(ValueError, match="load: quantization_config: ") as caught:
        gp.llm.load(folder)
    assert message in str(caught.value)


def test_groups_in_another_order_are_refused(tmp_path: Path) -> None:
    folder, _ = checkpoints.make(TINY, tmp_path, "gptq")
    tensors = checkpoints.read_safetensors(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith(".g_idx"))
    tensors[name] = tensors[name][::-1].copy()
    checkpoints.write_safetensors(folder / "model.safetensors", tensors)
    with pytest.raises(ValueError, match="g_idx has groups of k that are not consecutive"):
        gp.llm.load(folder)


def test_tensors_of_another_shape_are_refused(tmp_path: Path) -> None:
    folder, _ = checkpoints.make(TINY, tmp_path, "awq")
    tensors = checkpoints.read_safetensors(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith(".scales"))
    tensors[name] = tensors[name][:, 1:].copy()
    checkpoints.write_safetensors(folder / "model.safetensors", tensors)
    with pytest.raises(ValueError, match=r"load: tensor .*\.scales has shape"):
        gp.llm.load(folder)


def test_quantized_twice_is_refused(tmp_path: Path) -> None:
    folder, _ = checkpoints.make(TINY, tmp_path, "awq")
    with pytest.raises(ValueError, match="the files are quantised already: AWQ, 4 bits, group 64"):
        gp.llm.load(folder, quantization="int4")
