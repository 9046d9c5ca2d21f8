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
TEXTS = [
    np.load(TINY / "val_ids.npy").reshape(-1)[first : first + 512].astype(int).tolist()
    for first in (0, 1024)
]
# The model has rows of 128 values, which leaves no redundancy: larger ones lose less
# (docs/quantization.md). Shown: 0.8, 0.1, 9.7, 3.9, 7.9, 0.0, 3.9, 1.9 and 0.0 %, the cache 1.0 %.
MOST_PERPLEXITY: tuple[tuple[dict[str, Any], float], ...] = (
    ({"quantization": "fp8"}, 1.012),
    ({"quantization": "int8"}, 1.003),
    ({"quantization": "int4"}, 1.12),
    ({"quantization": "nvfp4"}, 1.06),
    ({"quantization": "mxfp4"}, 1.1),
    ({"quantization": "mxfp8"}, 1.003),
    ({"quantization": "nf4"}, 1.06),
    ({"quantization": "int4", "group": 32, "zero_point": True}, 1.03),
    ({"quantization": "fp8", "block": True}, 1.004),
    ({"kv_dtype": "fp8"}, 1.015),
)


def perplexity(**options: Any) -> float:
    model = gp.llm.load(TINY, "float32", max_length=512, max_batch=1, **options)
    return float(np.exp(np.mean([np.log(model.perplexity(text)) for text in TEXTS])))


@pytest.fixture(scope="module")
def plain_perplexity() -> float:
    return perplexity()


@pytest.mark.parametrize(("options", "most"), MOST_PERPLEXITY, ids=str)
def test_perplexity(options: dict[str, Any], most: float, plain_perplexity: float) -> None:
    assert 0.995 < perplexity(**options) / plain_perplexity < most


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


@pytest.mark.parametrize(
    ("quantization", "options", "text"),
    [
        ("int4", {"zero_point": True, "group": 32}, "qkv: int4, group 32, zero points\n"),
        ("fp8", {"block": True}, "qkv: fp8, blocks of 128x128\n"),
    ],
)
def test_options_of_the_format(quantization: str, options: dict[str, Any], text: str) -> None:
    model = gp.llm.load(TINY, max_length=64, max_batch=1, quantization=quantization, **options)
    assert text in model.explain()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"group": 64}, ValueError, "load: group is 64, quantization is None, expected a format"),
        ({"zero_point": True}, ValueError, "load: zero_point is True, quantization is None"),
        ({"block": True}, ValueError, "load: block is True, quantization is None"),
        ({"quantization": 8}, TypeError, "load: quantization is 8, expected a str or None"),
        ({"quantization": "int4", "group": "a"}, TypeError, "load: group"),
        ({"quantization": "int4", "group": 48}, ValueError, "load: group is 48, int4 takes 32"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        gp.llm.load(TINY, **options)


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
        ("pack-quantized", {"transform_config": {"x": {}}}, "transform_config is given"),
        (
            "pack-quantized",
            {"sparsity_config": {"format": "sparse-24-bitmask"}},
            "sparsity_config has format 'sparse-24-bitmask', expected dense",
        ),
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


def with_order(folder: Path, suffix: str, order: Any) -> Path:
    """The folder with that index of groups in every quantised module."""
    tensors = checkpoints.read_safetensors(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith((".weight_packed", ".qweight"))]:
        k = 8 * tensors[name].shape[1 if name.endswith(".weight_packed") else 0]
        tensors[name.rsplit(".", 1)[0] + suffix] = order(k).astype(np.int32)
    checkpoints.write_safetensors(folder / "model.safetensors", tensors)
    return folder


ORDERED = {
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 4,
                "type": "int",
                "strategy": "group",
                "group_size": 64,
                "actorder": "group",
            },
        }
    }
}


@pytest.mark.parametrize(
    ("format", "changes", "suffix"),
    [
        ("gptq", {}, ".g_idx"),
        ("pack-quantized", ORDERED, ".weight_g_idx"),
        ("pack-quantized", {}, ".weight_g_idx"),
    ],
)
def test_groups_in_another_order_are_refused(
    format: str, changes: dict[str, Any], suffix: str, tmp_path: Path
) -> None:
    folder = edited(tmp_path, format, changes)
    with_order(folder, suffix, lambda k: np.arange(k)[::-1] // 64)
    with pytest.raises(ValueError, match=f"{suffix} has groups of k that are not consecutive"):
        gp.llm.load(folder)


def check_read(folder: Path, twin: Path) -> None:
    """The logits of the folder are those of its plain twin."""
    plain = gp.llm.load(twin, "float32", max_length=64, max_batch=1)
    model = gp.llm.load(folder, "float32", max_length=64, max_batch=1)
    want = plain.logits(IDS[:8]).to_numpy()
    np.testing.assert_allclose(
        model.logits(IDS[:8]).to_numpy(), want, rtol=2e-4, atol=2e-4 * np.abs(want).max()
    )


@pytest.mark.parametrize("order", [lambda k: np.arange(k) // 64, lambda k: np.full(k, -1)])
def test_groups_in_order_are_read(order: Any, tmp_path: Path) -> None:
    folder = with_order(edited(tmp_path, "pack-quantized", ORDERED), ".weight_g_idx", order)
    check_read(folder, tmp_path / "pack-quantized-plain")


def test_an_order_that_is_missing_is_refused(tmp_path: Path) -> None:
    folder = edited(tmp_path, "pack-quantized", ORDERED)
    with pytest.raises(ValueError, match=r"\.weight_g_idx, required by actorder"):
        gp.llm.load(folder)


def test_dense_sparsity_is_read(tmp_path: Path) -> None:
    changes = {"sparsity_config": {"format": "dense"}, "transform_config": {}}
    check_read(edited(tmp_path, "pack-quantized", changes), tmp_path / "pack-quantized-plain")


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
