"""Language models on a GPU, against what Transformers computed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.llm import (
    FAMILIES,
    TINY,
    check_family,
    check_layer_streaming,
    golden,
    strategies,
    write_model,
)

import pygpukit as gp

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_family(family: str, dtype: str) -> None:
    check_family(family, "cuda", dtype)


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def tiny(request: pytest.FixtureRequest) -> gp.llm.LanguageModel:
    return gp.llm.load(TINY, request.param, device="cuda", max_length=640)


def test_every_way_gives_the_same_tokens(tiny: gp.llm.LanguageModel) -> None:
    prompts = [text["prompt_ids"] for text in golden()["greedy"]]
    alone = [tiny.generate(p, max_new_tokens=64, stop_tokens=[], use_graph=False) for p in prompts]
    graph = [tiny.generate(p, max_new_tokens=64, stop_tokens=[]) for p in prompts]
    batch = tiny.generate_batch(prompts, max_new_tokens=64, stop_tokens=[])
    eager = tiny.generate_batch(prompts, max_new_tokens=64, stop_tokens=[], use_graph=False)
    assert alone == graph == batch == eager
    if tiny.explain().splitlines()[0].find("float32") > 0:
        assert alone == [text["float32"] for text in golden()["greedy"]]
    assert tiny.free_tokens == 8 * 640


@pytest.mark.parametrize("name", ["ngram", "draft-model", "self", "jacobi", "lookahead"])
def test_strategies_give_the_same_tokens(tiny: gp.llm.LanguageModel, name: str) -> None:
    strategy = strategies(tiny)[name]
    for text in golden()["greedy"]:
        wanted = tiny.generate(text["prompt_ids"], max_new_tokens=64, stop_tokens=[])
        for use_graph in (True, False):
            got = tiny.generate(
                text["prompt_ids"],
                max_new_tokens=64,
                stop_tokens=[],
                strategy=strategy,
                use_graph=use_graph,
            )
            assert got == wanted
    if name == "draft-model":  # its own draft: the rows of a step have the bits of single steps
        assert strategy.stats is not None
        assert strategy.stats.acceptance == 1.0


@pytest.mark.skipif("GPK_TEST_MODELS" not in os.environ, reason="GPK_TEST_MODELS is not set")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_small_model_with_a_tiny_draft(dtype: str) -> None:
    """GPK_TEST_MODELS: a folder with small-qwen3-14m, which is too large for this repository."""
    small = Path(os.environ["GPK_TEST_MODELS"]) / "small-qwen3-14m"
    target = gp.llm.load(small, dtype, device="cuda", max_length=256)
    draft = gp.llm.load(TINY, dtype, device="cuda", max_length=256, max_batch=1)
    goldens = json.loads((small / "golden.json").read_text())["greedy"]
    for text in goldens:
        plain = target.generate(text["prompt_ids"], max_new_tokens=64, stop_tokens=[])
        if dtype == "float32":
            assert plain == text["float32"]
        for name, strategy in strategies(draft).items():
            got = target.generate(
                text["prompt_ids"], max_new_tokens=64, stop_tokens=[], strategy=strategy
            )
            assert got == plain, name


def test_sizes_that_are_no_multiples_of_tiles(tmp_path: Path) -> None:
    """One to eight texts, long contexts, every strategy."""
    sizes = {"hidden": 576, "inner": 1088, "layers": 3, "vocab": 1004, "positions": 1024}
    folder = write_model(tmp_path / "model", **sizes)
    model = gp.llm.load(folder, "bfloat16", device="cuda", max_length=1024)
    rng = np.random.default_rng(11)
    lengths = (1, 5, 200, 260, 530, 31, 64, 700)
    prompts = [rng.integers(0, 1004, length).tolist() for length in lengths]
    options: dict[str, Any] = {"max_new_tokens": 24, "stop_tokens": []}
    alone = [model.generate(p, use_graph=False, **options) for p in prompts]
    assert [model.generate(p, **options) for p in prompts] == alone
    for count in (2, 3, 8):
        assert model.generate_batch(prompts[:count], **options) == alone[:count]
    for strategy in strategies(model).values():
        assert model.generate(prompts[2], strategy=strategy, **options) == alone[2]
    assert model.free_tokens == 8 * 1024


def test_logits() -> None:
    model = gp.llm.load(TINY, "float32", device="cuda")
    wanted = np.load(TINY / "golden_logits.npz")
    for text, name in zip(golden()["greedy"], wanted.files, strict=True):
        got = model.logits(text["prompt_ids"]).to_numpy()
        np.testing.assert_allclose(got, wanted[name], atol=1e-4)


def test_perplexity() -> None:
    model = gp.llm.load(TINY, "float32", device="cuda")
    rows = np.load(TINY / "val_ids.npy").reshape(-1)[: 20 * 512].reshape(20, 512)
    logs = [np.log(model.perplexity(row.tolist())) for row in rows]
    wanted = golden()["perplexity_20x512_float32"]
    assert abs(np.exp(np.mean(logs)) - wanted) < 1e-3 * wanted


@pytest.mark.hardware("too long")
def test_weights_beyond_the_memory_limit(tmp_path: Path) -> None:
    check_layer_streaming(tmp_path / "model", "cuda")
