"""Partitions and classes on a GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native

SMID = """
extern "C" __global__ void smid(unsigned* seen) {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  long long start = clock64();
  while (clock64() - start < 20000) {}
  if (threadIdx.x == 0) seen[blockIdx.x] = id;
}
"""
BLOCKS = 4096

needs_jit = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="custom kernels need NVRTC")


@pytest.fixture
def pair() -> Iterator[tuple[Any, Any]]:
    a = gp.scheduler.partition("a", compute=0.75, qos="guaranteed")
    b = gp.scheduler.partition("b", compute=0.25)
    yield a, b
    a.close()
    b.close()


def used_sms(kernel: Any) -> set[int]:
    seen = gp.full(BLOCKS, 999, dtype="uint32")
    kernel(seen, grid=(BLOCKS,), block=(256,))
    return set(seen.to_numpy().tolist())


@pytest.mark.hardware("green contexts limit nothing")
@needs_jit
def test_kernels_stay_on_their_multiprocessors(pair: tuple[Any, Any]) -> None:
    kernel = gp.jit(SMID, "smid")
    everywhere = used_sms(kernel)
    found = []
    for part in pair:
        report = part.report()
        if report.compute.how != "green context":
            pytest.skip(f"no green contexts here: {report.compute.note}")
        with part:
            sms = used_sms(kernel)
        assert len(sms) == report.given_sms
        assert abs(report.compute.given - report.compute.asked) < 0.06
        found.append(sms)
    assert not found[0] & found[1]
    assert found[0] | found[1] <= everywhere
    assert used_sms(kernel) == everywhere  # outside again


@pytest.mark.hardware("green contexts limit nothing")
@needs_jit
def test_graphs_stay_there_too(pair: tuple[Any, Any]) -> None:
    small = pair[1]
    report = small.report()
    if report.compute.how != "green context":
        pytest.skip(report.compute.note)
    kernel = gp.jit(SMID, "smid")
    seen = gp.full(BLOCKS, 999, dtype="uint32")
    gp.synchronize()
    with small:
        graph = gp.CudaGraph()
        with graph:
            kernel(seen, grid=(BLOCKS,), block=(256,))
        graph.replay()
        graph.synchronize()
    assert len(set(seen.to_numpy().tolist())) <= report.given_sms
    del graph


def test_results_are_the_same_inside(pair: tuple[Any, Any]) -> None:
    rng = np.random.default_rng(3)
    host = rng.standard_normal((512, 512), dtype=np.float32)
    x = gp.from_numpy(host)

    def compute() -> list[np.ndarray[Any, Any]]:
        y = gp.matmul(x, x)
        return [
            y.to_numpy(),
            gp.exp(x).to_numpy(),
            x.sum(axis=0).to_numpy(),
            gp.sort(x.reshape(-1)).to_numpy(),
        ]

    expected = compute()
    gp.synchronize()
    for part in pair:
        with part:
            for got, want in zip(compute(), expected, strict=True):
                np.testing.assert_array_equal(got, want)


def test_memory_beyond_the_limit_is_refused() -> None:
    small = gp.scheduler.partition("small", memory="64MiB")
    other = gp.scheduler.partition("other", memory="256MiB")
    with small:
        x = gp.zeros(8 << 20)
        for _ in range(10):
            with pytest.raises(MemoryError):
                gp.zeros(16 << 20)
        with other:
            y = gp.ones(16 << 20)
    gp.synchronize()
    assert float(y.sum()) == 16 << 20
    assert small.report().memory_refused == 10
    del x, y
    small.close()
    other.close()


def test_best_effort_gives_way() -> None:
    front = gp.scheduler.partition("front", qos="guaranteed")
    back = gp.scheduler.partition("back", qos="best_effort")
    a = gp.full((2048, 2048), 1 / 2048)
    gp.matmul(a, a)
    gp.synchronize()
    stop = threading.Event()
    results = []

    def background() -> None:
        with back:
            while not stop.is_set():
                results[:] = [gp.matmul(a, a)]
            gp.current_stream().synchronize()

    thread = threading.Thread(target=background)
    thread.start()
    time.sleep(0.05)
    with front:
        for _ in range(50):
            y = gp.matmul(a, a)
            gp.current_stream().synchronize()
            time.sleep(0.001)
        expected = y.to_numpy()
    stop.set()
    thread.join()
    report = back.report()
    assert report.launches > 10
    assert report.launches_held > 0
    assert 1 <= report.window_limit <= 8
    assert front.report().launches_held == 0
    assert front.report().stream_priority < report.stream_priority
    np.testing.assert_array_equal(results[0].to_numpy(), expected)
    results.clear()
    del y
    front.close()
    back.close()


def test_long_elementwise_kernels_are_cut_without_a_change_of_bits() -> None:
    x = gp.random.default_rng(5).random(2**28, dtype="float32")  # 1 GiB
    expected = gp.sin(x) * 3.0
    gp.synchronize()
    part = gp.scheduler.partition("cut", qos="best_effort")
    with part:
        before = part.report().launches
        result = gp.sin(x) * 3.0
        gp.current_stream().synchronize()
        launches = part.report().launches - before
    assert launches > 2
    assert bool((result == expected).all())
    del result
    part.close()


def test_a_stream_of_a_partition_works_with_everything(pair: tuple[Any, Any]) -> None:
    part = pair[1]
    with part:
        stream = gp.current_stream()
        start, stop = gp.CudaEvent(), gp.CudaEvent()
        start.record(stream)
        x = gp.arange(1_000_000, dtype="float32")
        y = gp.concat([x, x]).reshape(2, -1).T
        stop.record(stream)
        stop.synchronize()
        assert gp.event_elapsed_ms(start, stop) > 0
        np.testing.assert_array_equal(y.to_numpy()[:, 1], np.arange(1_000_000, dtype=np.float32))
        pinned = gp.pinned_empty(1_000_000)
        x.to_numpy(out=pinned, blocking=False)
        stream.synchronize()
        np.testing.assert_array_equal(pinned, np.arange(1_000_000, dtype=np.float32))
        other = gp.Stream()
        other.wait(stream)
        assert stream.query()
    _native.synchronize()
    del x, y, stream
