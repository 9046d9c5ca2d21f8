"""The engine on a GPU: many requests at once, each with the tokens that it gets alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases.llm import TINY, golden, write_model

import pygpukit as gp
from pygpukit.benchmark.serving import measure_first_token, measure_throughput

pytestmark = [pytest.mark.gpu, pytest.mark.hardware("too long")]


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def model(request: pytest.FixtureRequest) -> gp.llm.LanguageModel:
    return gp.llm.load(TINY, request.param, device="cuda", max_length=512, max_batch=1)


def check_nothing_held(engine: gp.llm.Engine) -> None:
    m = engine.metrics()
    assert m.free_pages + m.idle_pages == m.pages
    assert (m.waiting, m.prefilling, m.running, m.swapped, m.host_pages_used) == (0, 0, 0, 0, 0)
    assert m.submitted == m.finished + m.cancelled + m.failed


def page_bytes(model: gp.llm.LanguageModel) -> int:
    return 2 * 4 * 64 * 2 * 32 * (4 if "float32" in model.explain().splitlines()[0] else 2)


def make_requests(count: int, seed: int) -> list[tuple[list[int], dict[str, Any]]]:
    rng = random.Random(seed)
    shared = [rng.randrange(1, 4096) for _ in range(200)]
    cases = []
    for _ in range(count):
        begin = shared[: rng.choice((0, 0, 70, 130, 200))]
        ids = begin + [rng.randrange(1, 4096) for _ in range(rng.randint(1, 150))]
        options: dict[str, Any] = {
            "max_new_tokens": rng.randint(1, 100),
            "temperature": rng.choice((0.0, 0.0, 1.0)),
            "top_p": rng.choice((1.0, 0.9)),
            "repetition_penalty": rng.choice((1.0, 1.0, 1.1)),
            "seed": rng.randrange(1000),
            "stop_tokens": [],
        }
        cases.append((ids, options))
    return cases


def run_all(
    engine: gp.llm.Engine, cases: list[tuple[list[int], dict[str, Any]]], seed: int
) -> list[gp.llm.Request]:
    rng = random.Random(seed)
    requests = []
    for ids, options in cases:
        request = engine.submit(
            ids,
            **options,
            priority=rng.randrange(4),
            qos=rng.choice(("guaranteed", "burstable", "best_effort")),
        )
        requests.append(request)
        if rng.randrange(8) == 0:
            rng.choice(requests).cancel()
    for request in requests:
        list(request)
    return requests


@pytest.mark.parametrize("pages", [400, 40])
def test_256_requests_equal_alone(model: gp.llm.LanguageModel, pages: int) -> None:
    """With pages for all of the batch, and with so few that requests are evicted to the host."""
    cases = make_requests(256, seed=pages)
    memory = pages * page_bytes(model)
    with gp.llm.Engine(model, max_batch=64, kv_memory=memory, chunk=256) as engine:
        requests = run_all(engine, cases, seed=pages)
        metrics = engine.metrics()
        check_nothing_held(engine)
    assert metrics.pages == pages
    assert metrics.prefix_hit_rate > 0.1
    if pages == 40:
        assert metrics.preemptions > 0
        assert metrics.restores > 0
    assert metrics.failed == 0
    assert metrics.cancelled < 64
    with gp.llm.Engine(model, max_batch=1, prefix_cache=False) as alone:
        for (ids, options), request in zip(cases, requests, strict=True):
            wanted = alone.submit(ids, **options).result()
            if request.finish_reason == "cancelled":
                assert request.tokens == wanted[: len(request.tokens)]
            else:
                assert request.tokens == wanted


def test_the_engine_equals_generate(model: gp.llm.LanguageModel) -> None:
    cases = make_requests(16, seed=7)
    with gp.llm.Engine(model, max_batch=8) as engine:
        requests = [engine.submit(ids, **options) for ids, options in cases]
        for (ids, options), request in zip(cases, requests, strict=True):
            assert request.result() == model.generate(ids, **options)


def test_texts_of_transformers() -> None:
    model = gp.llm.load(TINY, "float32", device="cuda", max_length=256, max_batch=1)
    with gp.llm.Engine(model, max_batch=8) as engine:
        texts = golden()["greedy"]
        requests = [engine.submit(t["prompt"], max_new_tokens=64, stop_tokens=[]) for t in texts]
        for request, text in zip(requests, texts, strict=True):
            assert request.result() == text["text_float32"]


def test_graphs_and_eager_steps_agree(model: gp.llm.LanguageModel) -> None:
    cases = make_requests(24, seed=11)
    results = []
    for use_graph in (True, False):
        with gp.llm.Engine(model, max_batch=16, use_graph=use_graph) as engine:
            requests = [engine.submit(ids, **options) for ids, options in cases]
            results.append([request.result() for request in requests])
    assert results[0] == results[1]


def test_logprobs_beside_others(model: gp.llm.LanguageModel) -> None:
    cases = make_requests(8, seed=13)
    with gp.llm.Engine(model, max_batch=8) as engine:
        requests = [engine.submit(ids, **options, logprobs=2) for ids, options in cases]
        for request in requests:
            request.result()
    with gp.llm.Engine(model, max_batch=1) as engine:
        for (ids, options), request in zip(cases, requests, strict=True):
            alone = engine.submit(ids, **options, logprobs=2)
            assert alone.result() == request.result()
            assert alone.logprobs == request.logprobs


def test_first_token_under_load(
    model: gp.llm.LanguageModel, record_property: Callable[[str, object], None]
) -> None:
    """Printed and recorded; steps of a tiny model are all launches, so the bound is loose."""
    first = measure_first_token(model, load=64, prompt=256, samples=20)
    print(f"first token: {first}, ratio {first.ratio:.2f}")
    record_property("first_token_ratio", first.ratio)
    assert first.ratio < 5


def test_first_token_under_load_of_a_model_of_size(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """At most 1.5 times as long as alone: medians of 20, the best of three."""
    sizes = {"hidden": 1024, "inner": 3072, "heads": 16, "kv_heads": 8, "dim": 128}
    folder = write_model(tmp_path / "model", layers=14, vocab=4096, positions=2048, **sizes)
    model = gp.llm.load(folder, "bfloat16", device="cuda", max_length=2048, max_batch=1)
    ratios = []
    for seed in range(3):
        ratios.append(measure_first_token(model, load=64, prompt=1024, seed=seed).ratio)
        if ratios[-1] <= 1.5:
            break
    print("first token: ratios " + ", ".join(f"{ratio:.2f}" for ratio in ratios))
    record_property("first_token_ratio_of_size", min(ratios))
    assert min(ratios) <= 1.5


def test_throughput(
    model: gp.llm.LanguageModel, record_property: Callable[[str, object], None]
) -> None:
    rows = measure_throughput(model, (1, 8, 64), prompt=64, new=48)
    for row in rows:
        print(row)
        record_property(f"tokens_per_second_{row.concurrency}", row.tokens_per_second)
    assert rows[2].tokens_per_second > 2 * rows[0].tokens_per_second
