"""The engine on CPU simulation: every request gets the tokens that it gets alone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from cases.llm import TINY, golden

import pygpukit as gp
from pygpukit.benchmark.serving import measure_first_token, measure_throughput

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

PAGE = 2 * 4 * 16 * 2 * 32 * 4  # keys and values, layers, tokens, heads, dim, bytes


@pytest.fixture(scope="module")
def model() -> gp.llm.LanguageModel:
    return gp.llm.load(TINY, "float32", device="cpu", max_length=256, max_batch=1)


@pytest.fixture(scope="module")
def engine(model: gp.llm.LanguageModel) -> Iterator[gp.llm.Engine]:
    with gp.llm.Engine(model, max_batch=4, page=16, kv_memory=32 * PAGE) as engine:
        yield engine


def stepped(model: gp.llm.LanguageModel, pages: int, **options: Any) -> gp.llm.Engine:
    """An engine that works in step() only."""
    options = {"max_batch": 4, "page": 16, "kv_memory": pages * PAGE, **options}
    return gp.llm.Engine(model, start=False, **options)


def finish(engine: gp.llm.Engine) -> None:
    for _ in range(10000):
        if not engine.step():
            return
    raise AssertionError("the engine does not come to an end")


def check_nothing_held(engine: gp.llm.Engine) -> None:
    m = engine.metrics()
    assert m.free_pages + m.idle_pages == m.pages
    assert m.idle_pages == m.cached_pages
    assert (m.waiting, m.prefilling, m.running, m.swapped, m.host_pages_used) == (0, 0, 0, 0, 0)
    assert m.submitted == m.finished + m.cancelled + m.failed


def prompts(count: int, seed: int = 0) -> list[list[int]]:
    """Random ids; some begin alike."""
    rng = random.Random(seed)
    shared = [rng.randrange(1, 4096) for _ in range(40)]
    return [
        shared[: rng.choice((0, 0, 20, 40))]
        + [rng.randrange(1, 4096) for _ in range(rng.randint(1, 30))]
        for _ in range(count)
    ]


def test_texts_of_transformers(engine: gp.llm.Engine) -> None:
    texts = golden()["greedy"]
    requests = [engine.submit(text["prompt"], max_new_tokens=32, stop_tokens=[]) for text in texts]
    for request, text in zip(requests, texts, strict=True):
        assert request.result(60) == "".join(request)
        assert request.tokens == text["float32"][:32]
        assert request.prompt_ids == tuple(text["prompt_ids"])
        assert request.finish_reason == "length"
        assert request.done
        assert request.time_to_first_token is not None
        assert request.time_to_first_token > 0


def test_random_requests_equal_alone(model: gp.llm.LanguageModel) -> None:
    """Few pages, priorities, classes, cancels: the same tokens, and no page is lost."""
    rng = random.Random(1)
    engine = stepped(model, 7)
    cases = []
    for ids in prompts(12):
        options: dict[str, Any] = {
            "max_new_tokens": rng.randint(1, 24),
            "temperature": rng.choice((0.0, 0.0, 0.0, 1.0)),
            "repetition_penalty": rng.choice((1.0, 1.0, 1.2)),
            "seed": rng.randrange(100),
            "stop_tokens": [],
        }
        request = engine.submit(
            ids,
            **options,
            priority=rng.randrange(3),
            qos=rng.choice(("guaranteed", "burstable", "best_effort")),
        )
        cases.append((ids, options, request))
        for _ in range(rng.randrange(4)):
            engine.step()
        if rng.randrange(6) == 0:
            request.cancel()
    finish(engine)
    assert engine.metrics().preemptions > 0
    assert engine.metrics().preemptions == engine.metrics().restores
    for ids, options, request in cases:
        alone = model.generate(ids, **options)
        if request.finish_reason == "cancelled":
            assert request.tokens == alone[: len(request.tokens)]
        else:
            assert request.finish_reason == "length"
            assert request.result() == alone
    check_nothing_held(engine)


def test_a_prefix_is_computed_once(model: gp.llm.LanguageModel) -> None:
    engine = stepped(model, 32)
    ids = prompts(1, seed=3)[0] + list(range(100, 160))
    first = engine.submit(ids, max_new_tokens=5, stop_tokens=[])
    finish(engine)
    computed = engine.metrics().prompt_tokens
    assert computed == len(ids)
    second = engine.submit(ids, max_new_tokens=5, stop_tokens=[])
    third = engine.submit([*ids[:25], 7, 8, 9], max_new_tokens=5, stop_tokens=[])
    finish(engine)
    assert second.result() == first.result()
    assert third.result() == model.generate([*ids[:25], 7, 8, 9], max_new_tokens=5, stop_tokens=[])
    assert engine.metrics().prompt_tokens - computed < 16 + 2 + 3  # of 25, 9 in a copied page
    assert engine.metrics().prefix_hit_rate > 0.5
    check_nothing_held(engine)


def test_a_high_priority_goes_first(model: gp.llm.LanguageModel) -> None:
    engine = stepped(model, 10)
    low = [engine.submit(ids, max_new_tokens=20, stop_tokens=[]) for ids in prompts(6, seed=5)]
    for _ in range(8):
        engine.step()
    ids = list(range(50, 120))
    high = engine.submit(ids, max_new_tokens=4, stop_tokens=[], qos="guaranteed")
    engine.step()
    assert len(high.tokens) == 1
    finish(engine)
    assert high.result() == model.generate(ids, max_new_tokens=4, stop_tokens=[])
    assert all(request.finish_reason == "length" for request in low)
    check_nothing_held(engine)


def test_cancel(model: gp.llm.LanguageModel) -> None:
    engine = stepped(model, 32)
    request = engine.submit([5, 6, 7], max_new_tokens=100, stop_tokens=[])
    for _ in range(5):
        engine.step()
    request.cancel()
    assert not engine.step()
    assert request.finish_reason == "cancelled"
    assert list(request) == request.tokens  # iterating ends, a result there is not
    with pytest.raises(gp.scheduler.TaskCancelled, match="cancelled after"):
        request.result()
    request.cancel()  # of one that has ended: nothing
    check_nothing_held(engine)


def test_deadline(model: gp.llm.LanguageModel) -> None:
    engine = stepped(model, 32)
    request = engine.submit([5, 6, 7], max_new_tokens=100, deadline=1e-6, stop_tokens=[])
    finish(engine)
    assert request.finish_reason == "deadline"
    with pytest.raises(gp.scheduler.DeadlineMissed, match="deadline passed"):
        request.result()
    check_nothing_held(engine)


def test_texts_that_grow_together_beyond_the_cache(model: gp.llm.LanguageModel) -> None:
    """They swap out more than the cache holds: all end, with the tokens they have alone."""
    engine = stepped(model, 9, max_batch=6, max_length=128, prefix_cache=False)
    given = [[5 + i, 6, 7] for i in range(6)]
    requests = [engine.submit(p, max_new_tokens=120, stop_tokens=[]) for p in given]
    finish(engine)
    for prompt, request in zip(given, requests, strict=True):
        assert request.result() == model.generate(prompt, max_new_tokens=120, stop_tokens=[])
    check_nothing_held(engine)


def test_without_host_memory(model: gp.llm.LanguageModel) -> None:
    engine = stepped(model, 6, host_memory=0)
    first = engine.submit(list(range(1, 40)), max_new_tokens=50, stop_tokens=[])
    second = engine.submit(list(range(50, 80)), max_new_tokens=60, stop_tokens=[])
    finish(engine)
    assert first.result() == model.generate(list(range(1, 40)), max_new_tokens=50, stop_tokens=[])
    with pytest.raises(gp.scheduler.TaskError, match="neither the cache nor host memory"):
        second.result()
    check_nothing_held(engine)


def test_stop_strings(engine: gp.llm.Engine) -> None:
    text = golden()["greedy"][0]
    whole = engine.submit(text["prompt"], max_new_tokens=64, stop_tokens=[]).result(60)
    assert isinstance(whole, str)
    word = whole[10:16]
    request = engine.submit(text["prompt"], max_new_tokens=64, stop_tokens=[], stop=word)
    assert request.result(60) == whole.split(word)[0]
    assert request.finish_reason == "stop"
    assert len(request.tokens) < 64


def test_stop_tokens(engine: gp.llm.Engine) -> None:
    text = golden()["greedy"][0]
    end = text["float32"][5]
    request = engine.submit(text["prompt_ids"], max_new_tokens=64, stop_tokens=[end])
    assert request.result(60) == text["float32"][: text["float32"].index(end) + 1]
    assert request.finish_reason == "stop"


def test_logprobs(model: gp.llm.LanguageModel, engine: gp.llm.Engine) -> None:
    import numpy as np

    more = engine.submit([9, 10], max_new_tokens=20, logprobs=5, stop_tokens=[])
    request = engine.submit([9, 10, 11], max_new_tokens=4, logprobs=3, stop_tokens=[])
    tokens = request.result(60)
    more.result(60)
    assert {len(score.top) for score in more.logprobs} == {5}
    logits = model.logits([9, 10, 11, *tokens[:-1]]).to_numpy()[2:].astype(np.float64)  # type: ignore[list-item]
    wanted = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    assert len(request.logprobs) == 4
    for row, score, token in zip(wanted, request.logprobs, tokens, strict=True):
        assert score.token == token == score.top[0][0]
        assert abs(score.logprob - row[score.token]) < 1e-3
        assert [i for i, _ in score.top] == np.argsort(-row)[:3].tolist()


def test_seeds(engine: gp.llm.Engine) -> None:
    def draw(seed: int) -> Any:
        return engine.submit(
            [3, 888], max_new_tokens=20, temperature=1.0, seed=seed, stop_tokens=[]
        )

    one, same, other = draw(1), draw(1), draw(2)
    assert one.result(60) == same.result(60) != other.result(60)


def test_asyncio(engine: gp.llm.Engine) -> None:
    text = golden()["greedy"][0]

    async def read(count: int) -> list[Any]:
        request = engine.submit(text["prompt_ids"], max_new_tokens=count, stop_tokens=[])
        pieces = [piece async for piece in request]
        assert await request == pieces
        return pieces

    async def main() -> None:
        results = await asyncio.gather(*(read(count) for count in range(1, 12)))
        for count, pieces in enumerate(results, 1):
            assert pieces == text["float32"][:count]
        request = engine.submit(text["prompt_ids"], max_new_tokens=200, stop_tokens=[])
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(request, 0.01)
        request.cancel()
        with pytest.raises(gp.scheduler.TaskCancelled):
            await request

    asyncio.run(main())


def test_threads(model: gp.llm.LanguageModel, engine: gp.llm.Engine) -> None:
    wanted = model.generate([3, 4, 5], max_new_tokens=10, stop_tokens=[])
    got: list[Any] = []

    def read() -> None:
        got.append(list(engine.submit([3, 4, 5], max_new_tokens=10, stop_tokens=[])))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [wanted] * 8


def test_chat(model: gp.llm.LanguageModel, engine: gp.llm.Engine) -> None:
    messages = [{"role": "user", "content": "Who is there?"}]
    assert engine.submit_chat(messages, max_new_tokens=8).result(60) == "".join(
        model.chat(messages, max_new_tokens=8)
    )


def test_benchmark(model: gp.llm.LanguageModel) -> None:
    rows = measure_throughput(model, (1, 2), prompt=6, new=4)
    assert [(row.concurrency, row.requests) for row in rows] == [(1, 3), (2, 6)]
    assert all(row.tokens_per_second > 0 for row in rows)
    first = measure_first_token(model, load=2, prompt=8, samples=1)
    assert first.ratio == first.loaded / first.alone > 0


# --- grammars ------------------------------------------------------------------------------------


def test_grammars(engine: gp.llm.Engine) -> None:
    pytest.importorskip("llguidance")
    number = engine.submit("The", grammar=gp.llm.Grammar.regex("[0-9]{3}"), max_new_tokens=20)
    word = engine.submit(
        "The", grammar=gp.llm.Grammar.lark('start: "ab" | "cd"'), max_new_tokens=20
    )
    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["x"]}},
        "required": ["a"],
        "additionalProperties": False,
        "x-guidance": {"whitespace_flexible": False},
    }
    value = engine.submit("The", grammar=schema, max_new_tokens=40)
    text = number.result(60)
    assert isinstance(text, str)
    assert text.isdigit()
    assert len(text) == 3
    assert number.finish_reason == "stop"
    assert word.result(60) in ("ab", "cd")
    assert str(value.result(60)).replace(" ", "") == '{"a":"x"}'
    with pytest.raises(ValueError, match="grammar: "):
        engine.submit("The", grammar=gp.llm.Grammar.regex("("))


def test_grammars_need_a_package(
    model: gp.llm.LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    engine = stepped(model, 8)
    with pytest.raises(ImportError, match=r"pygpukit\[grammar\]"):
        engine.submit("The", grammar={"type": "integer"})


# --- errors --------------------------------------------------------------------------------------


def test_bad_requests(engine: gp.llm.Engine) -> None:
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        ([], {}, ValueError, "prompt has no tokens"),
        ([4096], {}, ValueError, "token 4096, expected 0 to 4095"),
        (7, {}, TypeError, "prompt is of type int"),
        (["a"], {}, TypeError, "a token id"),
        ([1] * 300, {"max_new_tokens": 1}, ValueError, "at most 256 together"),
        ([1], {"max_new_tokens": 0}, ValueError, "max_new_tokens is 0"),
        ([1], {"max_new_tokens": 300}, ValueError, "max_new_tokens is 300"),
        ([1], {"temperature": -1.0}, ValueError, "temperature is -1"),
        ([1], {"top_p": 0.0}, ValueError, "top_p is 0"),
        ([1], {"top_p": "much"}, TypeError, "top_p is str"),
        ([1], {"seed": -1}, ValueError, "seed is -1"),
        ([1], {"logprobs": 1000}, ValueError, "logprobs is 1000"),
        ([1], {"priority": 2**30}, ValueError, "priority is 1073741824"),
        ([1], {"qos": "gold"}, ValueError, "qos is 'gold'"),
        ([1], {"deadline": 0.0}, ValueError, "deadline is 0.0"),
        ([1], {"stop": "x"}, ValueError, "stop is given for ids"),
        ([1], {"grammar": 5}, TypeError, "grammar is of type int"),
        ("x", {"stop": [""]}, ValueError, "empty string"),
    ]
    for prompt, options, kind, words in cases:
        with pytest.raises(kind, match=words):
            engine.submit(prompt, **options)
    with pytest.raises(TypeError, match="beams"):
        engine.submit([1], beams=3)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="the prompt was token ids"):
        _ = engine.submit([1, 2], max_new_tokens=1).text
    with pytest.raises(TypeError, match="pattern is of type int"):
        gp.llm.Grammar.regex(5)  # type: ignore[arg-type]


def test_bad_engines(model: gp.llm.LanguageModel) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"max_batch": 0}, "max_batch is 0"),
        ({"kv_memory": 10}, "kv_memory is 10 bytes"),
        ({"page": 17}, "page is 17"),
        ({"chunk": 1}, "chunk is 1"),
        ({"max_length": 10**9}, "max_length is 1000000000"),
        ({"max_waiting": 0}, "max_waiting is 0"),
        ({"aging": -1.0}, "aging is -1"),
    ]
    for options, words in cases:
        with pytest.raises(ValueError, match=words):
            gp.llm.Engine(model, **options)
    with pytest.raises(TypeError, match="model is of type str"):
        gp.llm.Engine("models/x")  # type: ignore[arg-type]


def test_without_a_tokenizer(model: gp.llm.LanguageModel) -> None:
    with gp.llm.Engine(model._model, max_batch=2, kv_memory=2**20, max_length=64) as engine:
        wanted = model.generate([3, 4, 5], max_new_tokens=5, stop_tokens=[])
        assert engine.submit([3, 4, 5], max_new_tokens=5).result(60) == wanted
        with pytest.raises(ValueError, match="no tokenizer"):
            engine.submit("text")
        with pytest.raises(ValueError, match="without a tokenizer"):
            engine.submit_chat([])


def test_a_tokenizer_that_fails(
    model: gp.llm.LanguageModel, engine: gp.llm.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, token: int) -> str:
        raise KeyError("no such token")

    with monkeypatch.context() as patch:
        patch.setattr(gp.llm.Detokenizer, "push", fail)
        request = engine.submit("In the beginning", max_new_tokens=50, stop_tokens=[])
        with pytest.raises(gp.scheduler.TaskError, match="no such token"):
            request.result(60)
    wanted = model.generate("In the beginning", max_new_tokens=4)
    assert engine.submit("In the beginning", max_new_tokens=4).result(60) == wanted


def test_an_interrupted_submit_is_dropped(
    model: gp.llm.LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gp.llm.Engine(model, max_batch=2, page=16, kv_memory=32 * PAGE) as engine:
        native = engine._native

        class Interrupted:
            max_length = native.max_length

            def submit(self, *args: Any, **options: Any) -> int:
                native.submit(*args, **options)
                raise KeyboardInterrupt  # as Ctrl-C would, once the engine has the request

        with monkeypatch.context() as patched:
            patched.setattr(engine, "_native", Interrupted())
            with pytest.raises(KeyboardInterrupt):
                engine.submit([1, 2, 3], max_new_tokens=200, stop_tokens=[])
        options: dict[str, Any] = {"max_new_tokens": 20, "stop_tokens": []}
        request = engine.submit([888, 262], **options)
        assert request.result(timeout=60) == model.generate([888, 262], **options)
    m = native.metrics()
    assert (m["submitted"], m["finished"], m["cancelled"]) == (2, 1, 1)


@pytest.mark.parametrize("runs", [False, True])
def test_an_interrupted_engine_leaves_no_thread(
    model: gp.llm.LanguageModel, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        started.append(thread)
        if runs:
            start(thread)
        raise KeyboardInterrupt

    gc.collect()
    used = gp.memory.stats("cpu")["used"]
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with contextlib.suppress(KeyboardInterrupt):
            gp.llm.Engine(model, max_batch=2, page=16, kv_memory=32 * PAGE)
    gc.collect()
    (thread,) = started
    if runs:
        thread.join(timeout=60)
    assert not thread.is_alive()
    del thread
    started.clear()
    assert gp.memory.stats("cpu")["used"] <= used


def test_an_interrupted_close_can_be_repeated(
    model: gp.llm.LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = gp.llm.Engine(model, max_batch=2, page=16, kv_memory=32 * PAGE)
    request = engine.submit([1, 2, 3], max_new_tokens=200, stop_tokens=[])

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pygpukit.llm.engine._close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.close()
    engine.close()
    assert request.finish_reason == "cancelled"
    engine.close()


def test_too_many_wait(model: gp.llm.LanguageModel) -> None:
    engine = stepped(model, 8, max_waiting=1)
    engine.submit([1, 2], max_new_tokens=1)
    with pytest.raises(MemoryError, match="1 requests are waiting"):
        engine.submit([1, 2], max_new_tokens=1)


def test_close(model: gp.llm.LanguageModel) -> None:
    engine = gp.llm.Engine(model, max_batch=2, kv_memory=2**21)
    running = engine.submit([5, 6, 7], max_new_tokens=200, stop_tokens=[])
    next(iter(running))
    engine.close()
    engine.close()
    assert running.finish_reason == "cancelled"
    with pytest.raises(RuntimeError, match="the engine is closed"):
        engine.submit([1], max_new_tokens=1)
    check_nothing_held(engine)


def test_an_engine_lives_as_long_as_its_requests(model: gp.llm.LanguageModel) -> None:
    engine = gp.llm.Engine(model, max_batch=2, kv_memory=2**21)
    alive = weakref.ref(engine)
    request = engine.submit([5, 6, 7], max_new_tokens=20, stop_tokens=[])
    del engine
    assert request.result(60) == model.generate([5, 6, 7], max_new_tokens=20, stop_tokens=[])
    del request
    gc.collect()
    assert alive() is None


def test_the_process_ends_while_requests_run() -> None:
    code = f"""
import pygpukit as gp
model = gp.llm.load({str(TINY)!r}, "float32", device="cpu", max_length=256, max_batch=1)
engine = gp.llm.Engine(model, max_batch=2, kv_memory=2**21)
requests = [engine.submit([5, 6, 7], max_new_tokens=200, stop_tokens=[]) for _ in range(4)]
print(next(iter(requests[0])))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().isdigit()
