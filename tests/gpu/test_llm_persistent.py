"""Decode steps as one cooperative kernel, beside a launch for each op."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import run_chain
from cases.llm import TINY, golden, strategies, write_model

import pygpukit as gp


@pytest.fixture(autouse=True)
def _sm_90() -> None:
    if gp.get_sm_version() < 90:
        pytest.skip("needs SM 90")


@pytest.fixture(scope="module", params=["qwen3", "qwen2"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """K of more than a step of all warps, split-K, tiles that are not whole."""
    sizes = {"hidden": 1216, "inner": 2120, "layers": 2, "vocab": 1004, "positions": 2048}
    at = tmp_path_factory.mktemp(request.param)
    return write_model(at, qwen2=request.param == "qwen2", **sizes)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("use_graph", [False, True])
def test_bits_of_a_step(folder: Path, dtype: str, use_graph: bool) -> None:
    model = run_chain.load(folder, dtype)
    for lengths in ([30], [700], [5, 64, 1, 300, 65], [7] * 8):
        text = run_chain.check(
            model, lengths, layers=2, max_length=1024, steps=4, use_graph=use_graph
        )
        assert text.startswith("chain: ")


@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(16, 8, 128), (6, 2, 96), (20, 20, 64)])
def test_heads(tmp_path: Path, heads: int, kv_heads: int, dim: int) -> None:
    sizes = {"hidden": 640, "inner": 1024, "layers": 2, "vocab": 1000, "positions": 8192}
    model = run_chain.load(
        write_model(tmp_path, heads=heads, kv_heads=kv_heads, dim=dim, **sizes), "bfloat16"
    )
    for lengths, max_length in (([40], 128), ([40, 90], 8192)):
        text = run_chain.check(model, lengths, layers=2, max_length=max_length, steps=3)
        assert text.startswith("chain: ")


def test_a_cache_of_8_bits(folder: Path) -> None:
    model = run_chain.load(folder, "bfloat16")
    for lengths in ([300], [5, 300]):
        text = run_chain.check(model, lengths, layers=2, max_length=1024, kv_dtype="float8_e4m3fn")
        assert text.startswith("chain: ")


def test_what_cannot_be_chained_is_launched(folder: Path) -> None:
    model = run_chain.load(folder, "float32")
    assert "a launch for each op" in run_chain.decode(model, [5], persistent=True, layers=2)[2]
    rows = run_chain.decode(run_chain.load(folder, "bfloat16"), [5] * 9, persistent=True, layers=2)
    assert "rows" in rows[2]


def test_whisper() -> None:
    texts, _ = run_chain.whisper_texts(persistent=False)
    got, text = run_chain.whisper_texts(persistent=True)
    assert got == texts
    assert text.startswith("chain: ")


def load_tiny(**options: Any) -> gp.llm.LanguageModel:
    return gp.llm.load(TINY, "bfloat16", device="cuda", max_length=256, **options)


def test_generation() -> None:
    """Every way of generating: the same tokens."""
    plain, chained = load_tiny(), load_tiny(persistent=True)
    prompts = [text["prompt_ids"] for text in golden()["greedy"]][:3]
    options: dict[str, Any] = {"max_new_tokens": 8, "stop_tokens": []}
    wanted = [plain.generate(p, **options) for p in prompts]
    assert [chained.generate(p, **options) for p in prompts] == wanted
    assert chained.generate_batch(prompts, **options) == wanted
    for strategy in strategies(chained).values():
        assert chained.generate(prompts[0], strategy=strategy, **options) == wanted[0]
    drawn = {"temperature": 0.8, "seed": 5}
    assert chained.generate(prompts[1], **drawn, **options) == plain.generate(
        prompts[1], **drawn, **options
    )


def test_the_engine() -> None:
    rng = np.random.default_rng(3)
    prompts = [rng.integers(1, 4000, n).tolist() for n in (3, 70, 20, 128, 9, 33)]
    texts = []
    for persistent in (False, True):
        with gp.llm.Engine(load_tiny(persistent=persistent), max_batch=4) as engine:
            requests = [engine.submit(p, max_new_tokens=6, stop_tokens=[]) for p in prompts]
            texts.append([request.result() for request in requests])
    assert texts[0] == texts[1]
