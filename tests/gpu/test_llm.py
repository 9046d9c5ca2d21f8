"""Language models on a GPU, against what Transformers computed."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp
from tests.cases.llm import FAMILIES, TINY, check_family, golden

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


def test_weights_beyond_the_memory_limit() -> None:
    """Weights come back from host memory layer by layer; the tokens are the same."""
    wanted = golden()["greedy"][0]
    model = gp.llm.load(TINY, "float32", device="cuda", evictable=True, max_length=128, max_batch=1)
    got = model.generate(wanted["prompt_ids"], max_new_tokens=16, stop_tokens=[], use_graph=False)
    assert got == wanted["float32"][:16]
