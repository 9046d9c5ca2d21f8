"""Decode strategies of section 18.4 of 0.2, on CPU simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import compat_llm as cases
from cases.llm import DATA

import pygpukit as gp
from pygpukit import llm

COUNT = 24


@pytest.fixture(scope="module")
def model() -> llm.CausalTransformerModel:
    return cases.tiny(device="cpu")


@pytest.mark.parametrize("i", [0, 3])
def test_one_token_a_step(model: llm.CausalTransformerModel, i: int) -> None:
    ids, tokens = cases.prompt_and_tokens(i)
    assert cases.by_steps(model, ids, COUNT) == tokens[:COUNT]


def test_graph(model: llm.CausalTransformerModel) -> None:
    ids, tokens = cases.prompt_and_tokens(1)
    assert cases.by_graph(model, ids, COUNT) == tokens[:COUNT]


@pytest.mark.parametrize("family", ["gpt2", "gemma3_text", "mistral"])
def test_fixed_caches_of_families(family: str) -> None:
    folder = DATA / "families" / family
    wanted = np.load(folder / "golden.npz")
    ids = wanted["ids"].tolist()
    model = llm.load_model_from_safetensors(folder / "model.safetensors", device="cpu")
    for block in model.blocks:
        block.attn.init_fixed_cache(64, "float32")
    strategy = llm.DecodeBatch(len(ids) - 1)
    strategy.bind(model)
    many = model.get_logits(strategy.step_batch(ids[:-1], 0, len(ids) - 1)).to_numpy()
    np.testing.assert_allclose(many, wanted["logits"][:-1], atol=2e-4)
    last = model.get_logits(strategy.step(ids[-1], len(ids) - 1, len(ids))).to_numpy()
    np.testing.assert_allclose(last, wanted["logits"][-1:], atol=2e-4)


def test_batch_graph(model: llm.CausalTransformerModel) -> None:
    ids, tokens = cases.prompt_and_tokens()
    text = [*ids, *tokens[:9]]
    strategy = llm.DecodeBatch(4)
    strategy.bind(model)
    assert not strategy.has_graph()
    strategy.init_graph(cases.LENGTH)
    assert strategy.has_graph()
    found: list[int] = []
    for start in range(0, 12, 4):
        logits = strategy.step_graph(text[start : start + 4], start, start + 4)
        assert logits.shape == (4, 4096)
        found += logits.to_numpy().argmax(-1).tolist()
    assert found[len(ids) - 1 :] == tokens[:10]
    with pytest.raises(ValueError, match="3 tokens, expected batch_size, 4"):
        strategy.step_graph(text[:3], 0, 3)
    strategy.bind(model)
    assert not strategy.has_graph()


def test_a_capture_leaves_the_caches_alone(model: llm.CausalTransformerModel) -> None:
    cases.prefill(model, list(range(cases.LENGTH)))
    before = model.snapshot_kv_cache()
    strategy = llm.DecodeM1Graph()
    strategy.bind(model)
    strategy.init_graph(cases.LENGTH)
    for saved, now in zip(before, model.snapshot_kv_cache(), strict=True):
        for a, b in zip(saved, now, strict=True):
            np.testing.assert_array_equal(a.to_numpy(), b.to_numpy())


@pytest.mark.parametrize("draft_layers", [1, 3, 8])
def test_speculative(model: llm.CausalTransformerModel, draft_layers: int) -> None:
    ids, tokens = cases.prompt_and_tokens()
    strategy = llm.DecodeSpeculative(max_draft_tokens=4, draft_layers=draft_layers)
    got, rounds = cases.by_rounds(model, strategy, ids, COUNT)
    assert got == tokens[:COUNT]
    if draft_layers == 8:  # all of the model: every draft is right
        assert rounds == -(-(COUNT - 1) // 4)


def test_counts_of_a_speculative_round(model: llm.CausalTransformerModel) -> None:
    ids, tokens = cases.prompt_and_tokens()
    first = cases.prefill(model, ids)
    strategy = llm.DecodeSpeculative(max_draft_tokens=3)
    strategy.bind(model)
    new, position, stats = strategy.step_speculative(first, len(ids), len(ids) + 1)
    assert (new, position) == (tokens[1:4], len(ids) + 3)
    assert stats == {"draft_count": 3, "accepted_count": 3}
    drafts = iter([tokens[1], 7, 7])
    strategy._argmax = _drafting(strategy, drafts)  # type: ignore[method-assign]
    new, position, stats = strategy.step_speculative(first, len(ids), len(ids) + 1)
    assert (new, position) == (tokens[1:3], len(ids) + 2)
    assert stats == {"draft_count": 3, "accepted_count": 1}


def _drafting(strategy: llm.DecodeSpeculative, drafts: Any) -> Any:
    """The model's own words for a batch, these drafts for a single row."""
    real = type(strategy)._argmax

    def argmax(hidden: gp.GPUArray) -> list[int]:
        return [next(drafts)] if hidden.shape[0] == 1 else real(strategy, hidden)

    return argmax


@pytest.mark.parametrize("init", ["repeat", "ngram", "greedy"])
def test_jacobi(model: llm.CausalTransformerModel, init: str) -> None:
    ids, tokens = cases.prompt_and_tokens(2)
    strategy = llm.DecodeJacobi(n_tokens=5, max_iter=3, init_strategy=init)
    got, rounds = cases.by_rounds(model, strategy, ids, COUNT)
    assert got == tokens[:COUNT]
    assert rounds < COUNT - 1


def test_counts_of_a_jacobi_round(model: llm.CausalTransformerModel) -> None:
    ids, tokens = cases.prompt_and_tokens()
    first = cases.prefill(model, ids)
    strategy = llm.DecodeJacobi(n_tokens=4, max_iter=10)
    strategy.bind(model)
    new, position, stats = strategy.step_jacobi(first, len(ids), len(ids) + 1)
    assert (new, position) == (tokens[1:5], len(ids) + 4)
    assert (stats["converged"], stats["accepted_count"]) == (True, 4)
    assert 1 < stats["iterations"] <= 4
    once = llm.DecodeJacobi(n_tokens=4, max_iter=1)
    once.bind(model)
    new, _, stats = once.step_jacobi(first, len(ids), len(ids) + 1)
    assert new == tokens[1 : 1 + len(new)]
    assert stats == {"iterations": 1, "converged": False, "accepted_count": len(new)}


def test_lookahead(model: llm.CausalTransformerModel) -> None:
    ids, tokens = cases.prompt_and_tokens()
    for strategy in (llm.DecodeSpeculative(4, 2), llm.DecodeJacobi(4)):
        got, _ = cases.by_rounds(model, strategy, ids, COUNT, lookahead=True)
        assert got == tokens[:COUNT]
        assert model.blocks[0].attn.confirmed_pos >= len(ids) + COUNT - 1
    first = cases.prefill(model, ids)
    for step in (
        model.decode_step_self_speculative_lookahead,
        model.decode_step_jacobi_lookahead,
    ):
        new, position, _ = step(first, len(ids), len(ids) + 1)
        assert new == tokens[1 : 1 + len(new)]
        assert model.blocks[-1].attn.confirmed_pos == position == len(ids) + len(new)


def test_a_round_ends_with_the_cache(model: llm.CausalTransformerModel) -> None:
    strategy = llm.DecodeSpeculative(max_draft_tokens=8)
    strategy.bind(model)
    position = cases.LENGTH - 2
    new, after, _ = strategy.step_speculative(5, position, position + 1)
    assert (len(new), after) == (2, cases.LENGTH)


def test_snapshots(model: llm.CausalTransformerModel) -> None:
    ids, tokens = cases.prompt_and_tokens()
    cases.prefill(model, ids)
    saved = model.snapshot_kv_cache()
    assert len(saved) == 4
    cases.prefill(model, [1] * 8)
    model.restore_kv_cache(saved)
    strategy = llm.DecodeM1()
    strategy.bind(model)
    hidden = strategy.step(tokens[0], len(ids), len(ids) + 1)
    assert cases.greedy(model.get_logits(hidden)) == tokens[1]
    with pytest.raises(ValueError, match="a snapshot of 2 blocks, expected 4"):
        model.restore_kv_cache(saved[:2])
    wrong = [(k[:, :5], v[:, :5]) for k, v in saved]
    with pytest.raises(ValueError, match="the snapshot's is"):
        model.restore_kv_cache(wrong)


def test_lookahead_of_a_model(model: llm.CausalTransformerModel) -> None:
    cases.prefill(model, [5, 6, 7, 8])
    model.set_lookahead_confirmed_pos(1)
    model.commit_lookahead_all(2)
    model.reset_lookahead_all()
    for block in model.blocks:
        keys = block.attn.caches()[0].to_numpy()
        assert keys[:, :3].any(-1).all()
        assert not keys[:, 3:].any()


def test_errors(model: llm.CausalTransformerModel) -> None:
    with pytest.raises(TypeError, match="abstract"):
        llm.DecodeStrategy()  # type: ignore[abstract]
    unbound = llm.DecodeM1()
    with pytest.raises(RuntimeError, match="DecodeM1: no model, call bind"):
        _ = unbound.model
    with pytest.raises(RuntimeError, match="no model"):
        unbound.step(1, 0, 1)
    with pytest.raises(TypeError, match=r"DecodeM1.bind: model is of type int"):
        unbound.bind(3)  # type: ignore[arg-type]
    unbound.bind(model)
    with pytest.raises(NotImplementedError, match="not captured"):
        unbound.init_graph()
    assert not unbound.has_graph()
    with pytest.raises(ValueError, match="a token id is 4096, expected 0 to 4095"):
        unbound.step(4096, 0, 1)
    graph = llm.DecodeM1Graph()
    with pytest.raises(RuntimeError, match="no model"):
        graph.init_graph()
    graph.bind(model)
    with pytest.raises(RuntimeError, match="no graph, call init_graph"):
        graph.step_graph(1, 0, 1)
    with pytest.raises(NotImplementedError, match="step_graph"):
        graph.step(1, 0, 1)
    graph.init_graph(16)
    for call, text in (
        (lambda: graph.step_graph(9999, 0, 1), "a token id is 9999"),
        (lambda: graph.step_graph(1, 16, 16), "position is 16, expected 0 to 15"),
        (lambda: graph.step_graph(1, 0, 17), "context_len is 17, expected 1 to 16"),
        (lambda: llm.DecodeBatch(0), "batch_size is 0"),
        (lambda: llm.DecodeSpeculative(0), "max_draft_tokens is 0"),
        (lambda: llm.DecodeSpeculative(1, 0), "draft_layers is 0"),
        (lambda: llm.DecodeJacobi(0), "n_tokens is 0"),
        (lambda: llm.DecodeJacobi(4, 0), "max_iter is 0"),
        (lambda: llm.DecodeJacobi(init_strategy="beam"), "init_strategy is 'beam'"),
    ):
        with pytest.raises(ValueError, match=text):
            call()


def test_experts_are_not_captured() -> None:
    path = DATA / "families" / "mixtral" / "model.safetensors"
    experts = llm.load_model_from_safetensors(path, device="cpu")
    for strategy in (llm.DecodeM1Graph(), llm.DecodeBatch(2)):
        strategy.bind(experts)
        with pytest.raises(NotImplementedError, match="experts"):
            strategy.init_graph(16)
    for block in experts.blocks:
        block.attn.init_fixed_cache(16, "float32")
    step = llm.DecodeM1()
    step.bind(experts)
    buffers = llm.DecodeBuffers.allocate(experts.config, "float32", device="cpu")
    hidden = step.step(3, 0, 1, buffers)
    np.testing.assert_allclose(hidden.to_numpy(), experts([3])[0].to_numpy(), atol=1e-5)
