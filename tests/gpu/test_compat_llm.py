"""0.2's transformer layers and decode strategies on a GPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from cases import compat_llm as cases
from cases.llm import DATA, FAMILIES, golden
from numpy.typing import NDArray

import pygpukit as gp
from pygpukit import llm

pytestmark = pytest.mark.gpu
COUNT = 32


@pytest.fixture(scope="module")
def model() -> llm.CausalTransformerModel:
    return cases.tiny("float32", "cuda")


def test_every_strategy_gives_the_same_tokens(model: llm.CausalTransformerModel) -> None:
    ids, tokens = cases.prompt_and_tokens()
    assert cases.by_steps(model, ids, COUNT) == tokens[:COUNT]
    assert cases.by_graph(model, ids, COUNT) == tokens[:COUNT]
    strategies = (
        *(llm.DecodeSpeculative(4, layers) for layers in (1, 3, 8)),
        *(llm.DecodeJacobi(6, 3, init) for init in ("repeat", "ngram", "greedy")),
    )
    for strategy in strategies:
        for lookahead in (False, True):
            got, _ = cases.by_rounds(model, strategy, ids, COUNT, lookahead=lookahead)
            assert got == tokens[:COUNT], type(strategy).__name__


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 3e-2)])
def test_graphs_and_steps_agree(dtype: str, tolerance: float) -> None:
    model = cases.tiny(dtype, "cuda")
    ids, tokens = cases.prompt_and_tokens()
    text = [*ids, *tokens[:13]]

    def rows(x: gp.GPUArray) -> NDArray[np.float64]:
        return x.to_numpy().astype(np.float64)

    want = rows(model.get_logits(model(text)[0]))
    scale = np.abs(want).max()
    batch, one = llm.DecodeBatch(4), llm.DecodeM1Graph()
    for strategy in (batch, one):
        strategy.bind(model)
        strategy.init_graph(cases.LENGTH)
    for start in range(0, 16, 4):
        part, wanted = text[start : start + 4], want[start : start + 4]
        captured = rows(batch.step_graph(part, start, start + 4))
        eager = rows(model.get_logits(batch.step_batch(part, start, start + 4)))
        single = [rows(one.step_graph(t, start + i, start + i + 1))[0] for i, t in enumerate(part)]
        for got in (captured, eager, np.stack(single)):
            assert np.abs(got - wanted).max() < tolerance * scale


@pytest.mark.parametrize("family", FAMILIES)
def test_families_by_layers(family: str) -> None:
    folder = DATA / "families" / family
    wanted = np.load(folder / "golden.npz")
    ids = wanted["ids"].tolist()
    model = llm.load_model_from_safetensors(folder / "model.safetensors", device="cuda")
    hidden, past = model(ids[:-1], use_cache=True)
    last, _ = model(ids[-1:], past_key_values=past)
    got = np.concatenate([model.get_logits(x).to_numpy() for x in (hidden, last)])
    want = wanted["logits"]
    assert np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2)) < 2e-5
    new = model.generate(ids, len(wanted["greedy"]), temperature=0.0)[len(ids) :]
    assert new == wanted["greedy"].tolist()


def test_greedy_tokens() -> None:
    model = cases.tiny("float32", "cuda")
    for text in golden()["greedy"]:
        got = model.generate(text["prompt_ids"], 64, temperature=0.0)
        assert got == [*text["prompt_ids"], *text["float32"]]


def test_linear_fp8() -> None:
    rng = np.random.default_rng(0)
    stored = rng.normal(size=(200, 300)).astype(ml_dtypes.float8_e4m3fn)
    scales = rng.uniform(0.5, 2.0, (2, 3)).astype(np.float32)
    x = rng.normal(size=(5, 300)).astype(np.float32)
    layer = llm.LinearFP8(gp.from_numpy(stored.view(np.uint8)), gp.from_numpy(scales))
    blocks = np.repeat(np.repeat(scales, 128, 0), 128, 1)[:200, :300]
    want = x @ (stored.astype(np.float32) * blocks).T
    np.testing.assert_allclose(layer(gp.from_numpy(x)).to_numpy(), want, rtol=1e-4, atol=1e-3)
