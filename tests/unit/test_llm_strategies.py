"""Strategies on CPU simulation: the tokens of one by one, in fewer steps where guesses hold."""

from __future__ import annotations

from typing import Any

import pytest
from cases.llm import TINY, golden, strategies

import pygpukit as gp


@pytest.fixture(scope="module")
def tiny() -> gp.llm.LanguageModel:
    return gp.llm.load(TINY, "float32", device="cpu", max_length=256)


NAMES = ("ngram", "draft-model", "self", "jacobi", "lookahead")


@pytest.mark.parametrize("name", NAMES)
def test_greedy_tokens_are_those_of_one_by_one(tiny: gp.llm.LanguageModel, name: str) -> None:
    strategy = strategies(tiny)[name]
    for text in golden()["greedy"][:2]:
        got = tiny.generate(
            text["prompt_ids"], max_new_tokens=30, stop_tokens=[], strategy=strategy
        )
        assert got == text["float32"][:30]
        assert strategy.stats is not None
        assert strategy.stats.tokens == 30
        assert strategy.stats.accepted + strategy.stats.steps == 29
    assert tiny.free_tokens == 8 * 256


@pytest.mark.parametrize("name", NAMES)
def test_sampled_tokens_too(tiny: gp.llm.LanguageModel, name: str) -> None:
    options: dict[str, Any] = {
        "max_new_tokens": 24,
        "temperature": 0.7,
        "top_k": 20,
        "seed": 5,
        "stop_tokens": [],
    }
    prompt = golden()["greedy"][1]["prompt_ids"]
    wanted = tiny.generate(prompt, **options)
    assert tiny.generate(prompt, **options, strategy=strategies(tiny)[name]) == wanted


def test_a_perfect_draft_is_always_accepted(tiny: gp.llm.LanguageModel) -> None:
    strategy = gp.llm.DraftModel(tiny, max_drafts=4)
    prompt = golden()["greedy"][0]["prompt_ids"]
    tiny.generate(prompt, max_new_tokens=41, stop_tokens=[], strategy=strategy)
    assert strategy.stats == gp.llm.StrategyStats(steps=8, tokens=41, drafted=32, accepted=32)
    assert strategy.stats.acceptance == 1.0
    assert strategy.stats.tokens_per_step == 5.0


def test_ngrams_of_a_repeating_text(tiny: gp.llm.LanguageModel) -> None:
    strategy = gp.llm.NgramLookup(max_drafts=6)
    prompt = golden()["greedy"][0]["prompt_ids"] * 6
    wanted = tiny.generate(prompt, max_new_tokens=48, stop_tokens=[])
    assert tiny.generate(prompt, max_new_tokens=48, stop_tokens=[], strategy=strategy) == wanted
    assert strategy.stats is not None
    assert strategy.stats.steps < 47


def test_lookahead_finds_more_than_jacobi(tiny: gp.llm.LanguageModel) -> None:
    steps = {}
    for name in ("jacobi", "lookahead"):
        strategy = strategies(tiny)[name]
        for text in golden()["greedy"][:2]:
            tiny.generate(text["prompt_ids"], max_new_tokens=64, stop_tokens=[], strategy=strategy)
            assert strategy.stats is not None
            steps[name] = steps.get(name, 0) + strategy.stats.steps
    assert steps["lookahead"] <= steps["jacobi"] <= 2 * 63


@pytest.mark.parametrize("name", NAMES)
def test_stop_token(tiny: gp.llm.LanguageModel, name: str) -> None:
    text = golden()["greedy"][2]
    stop = text["float32"][7]
    wanted = text["float32"][: text["float32"].index(stop) + 1]
    strategy = strategies(tiny)[name]
    got = tiny.generate(
        text["prompt_ids"], max_new_tokens=64, stop_tokens=[stop], strategy=strategy
    )
    assert got == wanted


def test_one_new_token(tiny: gp.llm.LanguageModel) -> None:
    text = golden()["greedy"][0]
    for strategy in strategies(tiny).values():
        got = tiny.generate(text["prompt_ids"], max_new_tokens=1, stop_tokens=[], strategy=strategy)
        assert got == text["float32"][:1]


def test_few_pages_mean_fewer_branches() -> None:
    model = gp.llm.load(TINY, "float32", device="cpu", max_length=128, max_batch=1)
    text = golden()["greedy"][0]
    strategy = gp.llm.Lookahead(window=4, ngram=3, guesses=3)
    got = model.generate(text["prompt_ids"], max_new_tokens=50, stop_tokens=[], strategy=strategy)
    assert got == text["float32"][:50]
    assert model.free_tokens == 128


def test_text(tiny: gp.llm.LanguageModel) -> None:
    text = golden()["greedy"][0]
    pieces = tiny.generate_stream(
        text["prompt"], max_new_tokens=64, stop_tokens=[], strategy=gp.llm.NgramLookup()
    )
    assert "".join(map(str, pieces)) == text["text_float32"]


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (gp.llm.NgramLookup(0), ("longest is 0", "1 or more")),
        (gp.llm.NgramLookup(max_drafts=0), ("max_drafts is 0", "1 to 63")),
        (gp.llm.Lookahead(window=1), ("window is 1", "2 or more")),
        (gp.llm.Lookahead(ngram=1), ("ngram is 1", "2 or more")),
        (gp.llm.SelfSpeculation(4), ("num_layers is 4", "1 to 3")),
        (gp.llm.SelfSpeculation(0), ("num_layers is 0", "1 to 3")),
    ],
)
def test_bad_sizes(
    tiny: gp.llm.LanguageModel, strategy: gp.llm.Strategy, words: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match=words[0]) as error:
        tiny.generate([3, 5], strategy=strategy)
    assert words[1] in str(error.value)


def test_other_errors(tiny: gp.llm.LanguageModel) -> None:
    with pytest.raises(TypeError, match="strategy is of type str"):
        tiny.generate([3, 5], strategy="ngram")
    with pytest.raises(TypeError, match="model is of type str"):
        tiny.generate([3, 5], strategy=gp.llm.DraftModel("tiny"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="penalties are given"):
        tiny.generate([3, 5], strategy=gp.llm.Jacobi(), repetition_penalty=1.2)
    with pytest.raises(ValueError, match="no tokens"):
        tiny.generate([], strategy=gp.llm.Jacobi())
    assert tiny.free_tokens == 8 * 256
