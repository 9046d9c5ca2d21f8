"""Models that several threads use at the same time say what they say to one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pygpukit as gp
from pygpukit import _native
from pygpukit.core.model_lock import LockedIterator, ModelLock

DATA = Path(__file__).parents[1] / "data"
PROMPTS = ("In the beginning", "KING RICHARD:\n")


@pytest.fixture(scope="module")
def model() -> gp.llm.LanguageModel:
    pytest.importorskip("tokenizers")
    return gp.llm.load(DATA / "tiny-qwen3-1m", "float32", device="cpu", max_length=128)


def test_texts_of_threads(model: gp.llm.LanguageModel) -> None:
    def text(i: int) -> str:
        return str(model.generate(PROMPTS[i % 2], max_new_tokens=10))

    alone = [text(0), text(1)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(text, range(12))) == alone * 6
    assert model.free_tokens == 8 * 128


def test_strategies_and_logits_of_threads(model: gp.llm.LanguageModel) -> None:
    def text(i: int) -> object:
        if i % 3 == 0:
            return model.logits(PROMPTS[0]).tolist()
        strategy = gp.llm.DraftModel(model) if i % 3 == 1 else None
        return model.generate(PROMPTS[1], max_new_tokens=10, strategy=strategy)

    alone = [text(i) for i in range(3)]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(text, range(9))) == alone * 3


def test_streams_that_alternate_and_are_dropped(model: gp.llm.LanguageModel) -> None:
    streams = [model.generate_stream(prompt, max_new_tokens=20) for prompt in PROMPTS]
    assert [next(stream) for stream in streams] == [
        next(iter(model.generate_stream(prompt, max_new_tokens=20))) for prompt in PROMPTS
    ]
    del streams
    unused = model.generate_stream(PROMPTS[0], max_new_tokens=20)
    assert model.free_tokens < 8 * 128
    del unused
    assert model.free_tokens == 8 * 128


def test_transcripts_of_threads() -> None:
    pytest.importorskip("tokenizers")
    folder = DATA / "tiny-whisper-words"
    model = gp.asr.WhisperModel.from_pretrained(folder, device="cpu", max_batch=1, max_beams=1)

    def text(i: int) -> str:
        method = "batched" if i % 2 else "sequential"
        return model.transcribe(folder / f"clip{3 + i % 2}.wav", method=method).text

    alone = [text(0), text(1)]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(text, range(4))) == alone * 2


def test_no_tokens_and_too_many_are_named(model: gp.llm.LanguageModel) -> None:
    with pytest.raises(ValueError, match=r"^logits: a prompt has no tokens"):
        model.logits([])
    for op, call in (("logits", model.logits), ("perplexity", model.perplexity)):
        with pytest.raises(ValueError, match=rf"^{op}: the text has [0-9]+ tokens, expected"):
            call([1] * 200)
    with pytest.raises(TypeError, match=r"^generate_batch: prompts is of type str"):
        model.generate_batch("In the beginning")


def test_a_dropped_text_never_waits(model: gp.llm.LanguageModel) -> None:
    stream = model.generate_stream(PROMPTS[0], max_new_tokens=20)
    room = model.free_tokens
    with ThreadPoolExecutor(1) as pool, model._lock:
        holder = [stream]
        del stream
        pool.submit(holder.clear).result(timeout=30)
        assert model.free_tokens == room  # whoever has the turn frees it
    assert model.free_tokens == 8 * 128 > room


def is_free(lock: ModelLock) -> bool:
    """For another thread."""

    def take() -> bool:
        taken = lock._try()
        if taken:
            lock._lock.release()
        return taken

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(take).result(timeout=30)


def test_a_dropped_text_waits_for_both_models(model: gp.llm.LanguageModel) -> None:
    small = gp.llm.load(DATA / "tiny-qwen3-1m", "float32", device="cpu", max_length=192)
    room = model.free_tokens, small.free_tokens
    for lock in (model._lock, small._lock):
        strategy = gp.llm.DraftModel(small)
        holder = [model.generate_stream(PROMPTS[0], max_new_tokens=20, strategy=strategy)]
        for _ in range(3):  # the small one computes from the second step on
            next(holder[0])
        taken = model.free_tokens, small.free_tokens
        assert taken[0] < room[0]
        assert taken[1] < room[1]
        with ThreadPoolExecutor(1) as pool, lock:
            pool.submit(holder.clear).result(timeout=30)
            assert (model.free_tokens, small.free_tokens) == taken
        assert (model.free_tokens, small.free_tokens) == room


def test_what_is_dropped_behind_the_holders_back_is_freed() -> None:
    """The holder has looked for it, but has not released the lock yet."""
    lock, dropped = ModelLock("cpu"), [1]
    release = lock._lock.release

    class Late:
        def __getattr__(self, name: str) -> object:
            return getattr(lock_of_rlock, name)

        def release(self) -> None:
            lock._deferred.append(dropped.clear)
            self.release = release  # type: ignore[method-assign]
            release()

    lock_of_rlock = lock._lock
    lock._lock = Late()  # type: ignore[assignment]
    with lock:
        pass
    assert dropped == []
    assert is_free(lock)


def test_an_interrupted_wait_leaves_no_lock_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    locks = sorted((ModelLock("cpu"), ModelLock("cpu")), key=id)
    steps = LockedIterator(locks, lambda: iter([1, 2]))
    assert next(steps) == 1

    def interrupt(self: ModelLock) -> None:
        if self is locks[1]:
            raise KeyboardInterrupt

    monkeypatch.setattr(ModelLock, "_follow_last_holder", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(steps)
    assert all(is_free(lock) for lock in locks)


def test_errors_that_are_kept_keep_no_pages(model: gp.llm.LanguageModel) -> None:
    room = model.free_tokens
    with pytest.raises(gp.PyGPUkitError) as of_logits:
        model.logits([1] * 16 + [10**6])
    assert model.free_tokens == room
    text = model.generate_stream(PROMPTS[0], max_new_tokens=20)
    next(text)
    text.close()
    assert model.free_tokens == room
    assert list(text) == []
    ids = model.generate_stream([1, 2, 3], max_new_tokens=20)
    next(ids)
    ids.close()
    ids.close()
    assert model.free_tokens == room
    assert list(ids) == []
    assert of_logits.value is not None


def test_a_transcript_that_failed_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    folder = DATA / "tiny-whisper-words"
    model = gp.asr.WhisperModel.from_pretrained(folder, device="cpu", max_batch=1, max_beams=1)
    wanted = model.transcribe(folder / "clip3.wav", language="en").text
    for method in ("sequential", "batched"):
        with monkeypatch.context() as patch:
            patch.setattr(type(model._windows), "_judged", interrupt_step)
            with pytest.raises(KeyboardInterrupt) as kept:
                model.transcribe(folder / "clip3.wav", language="en", method=method)
        assert model.transcribe(folder / "clip3.wav", language="en", method=method).text == wanted
        assert kept.value is not None


def interrupt_step(*args: object) -> None:
    raise KeyboardInterrupt


class Queue:
    """What a ModelLock asks of a stream."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.waited: list[int] = []

    def wait(self, other: Queue) -> None:
        self.waited.append(other.handle)


def test_holders_on_other_streams_wait_for_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = [Queue(7), Queue(8)]
    current = [queues[0]]
    monkeypatch.setattr(_native, "current_stream", lambda device: current[0])
    lock = ModelLock("cuda:0")
    for index in (0, 0, 1, 0):
        current[0] = queues[index]
        with lock, lock:
            pass
    assert [queue.waited for queue in queues] == [[8], [7]]


def test_one_order_of_locks() -> None:
    """Threads that need the same two models never wait for each other in a circle."""
    locks = [ModelLock("cpu"), ModelLock("cpu")]
    start = threading.Barrier(2)

    def steps(order: list[ModelLock]) -> int:
        def make() -> Iterator[int]:
            return iter(range(2000))

        numbers = LockedIterator(order, make)
        start.wait(timeout=30)
        return sum(numbers)

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(steps, order) for order in (locks, locks[::-1])]
        assert [f.result(timeout=60) for f in found] == [sum(range(2000))] * 2
