"""The transfer engine on a GPU: contents, order, priorities, captures."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest

import pygpukit as gp

COUNT = (64 << 20) // 4 + 7  # floats: many chunks, the last one short

SPIN_THEN_WRITE = """
extern "C" __global__ void spin_then_write(float* x, float value, long long cycles, int n) {
  long long start = clock64();
  while (clock64() - start < cycles) {}
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = value;
}
"""
CYCLES = 50_000_000  # about 30 ms

needs_jit = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="custom kernels need NVRTC")


def write_late(x: gp.GPUArray, value: float, stream: gp.Stream) -> None:
    kernel = gp.jit(SPIN_THEN_WRITE, "spin_then_write")
    kernel(x, value, CYCLES, x.size, grid=(1,), block=(1024,), stream=stream)


@pytest.mark.parametrize("nbytes", [2**20, 2**20 + 1, 3 * 2**20 - 1, 50_000_001])
def test_there_and_back(nbytes: int) -> None:
    host = np.random.default_rng(nbytes).integers(0, 256, nbytes, dtype=np.uint8)
    staged = gp.transfer.stats()["h2d"].staged_bytes
    x = gp.from_numpy(host)
    assert gp.transfer.stats()["h2d"].staged_bytes == staged + nbytes
    host_again = x.to_numpy()
    np.testing.assert_array_equal(host_again, host)
    back = np.zeros_like(host)
    assert gp.transfer.submit_d2h(x, back).result().state == "Completed"
    np.testing.assert_array_equal(back, host)
    pinned = gp.pinned_empty(nbytes, "uint8")
    pinned[:] = host[::-1]
    gp.transfer.submit_h2d(x, pinned).wait()
    np.testing.assert_array_equal(x.to_numpy(), host[::-1])


@needs_jit
def test_to_numpy_waits_for_the_arrays_work() -> None:
    x = gp.zeros(COUNT)
    gp.synchronize()
    stream = gp.Stream()
    write_late(x, 2.0, stream)
    assert (x.to_numpy() == 2.0).all()  # from another stream
    write_late(x, 3.0, stream)
    back = np.zeros(COUNT, np.float32)
    gp.transfer.submit_d2h(x, back).wait()
    assert (back == 3.0).all()


@needs_jit
def test_memory_that_is_used_again_is_not_overwritten_late() -> None:
    stream = gp.Stream()
    host = np.full(COUNT, 5, np.float32)
    with stream:
        for _ in range(3):
            x = gp.zeros(COUNT)
            write_late(x, 1.0, stream)
            del x  # its memory goes to the next array of this stream, while the kernel runs
            y = gp.from_numpy(host)
            stream.synchronize()
            assert (y.to_numpy() == 5.0).all()
            del y


@pytest.mark.alone
def test_an_urgent_copy_overtakes_a_large_one() -> None:
    large = gp.zeros(2**28)  # 1 GiB
    host = np.ones(2**28, np.float32)
    small = gp.zeros(1024)
    urgent = gp.pinned_empty(1024)
    urgent[:] = 7
    gp.transfer.submit_h2d(small, urgent, priority=9).wait()
    slow = gp.transfer.submit_h2d(large, host)
    time.sleep(0.002)
    start = time.perf_counter()
    gp.transfer.submit_h2d(small, urgent, priority=9).wait()
    taken = time.perf_counter() - start
    assert not slow.done()
    slow.wait()
    assert taken < 0.01
    assert bool((large == 1.0).all())
    assert (small.to_numpy() == 7).all()


def test_cancel() -> None:
    x = gp.zeros(2**28)
    host = np.ones(2**28, np.float32)
    future = gp.transfer.submit_h2d(x, host)
    assert future.cancel()
    with pytest.raises(RuntimeError, match="cancelled"):
        future.wait()
    gp.transfer.submit_h2d(x, host).wait()
    assert bool((x == 1.0).all())


def test_await() -> None:
    async def copies() -> None:
        x = gp.zeros(COUNT)
        result = await gp.transfer.submit_h2d(x, np.full(COUNT, 4, np.float32))
        assert result.gb_s > 0.01
        assert (x.to_numpy() == 4.0).all()

    asyncio.run(copies())


def test_transfers_beside_a_capture() -> None:
    """Copies of one thread leave another thread's capture alone."""
    x = gp.ones(1000)
    host = np.arange(COUNT, dtype=np.float32)
    stop = threading.Event()
    wrong: list[object] = []

    def copy() -> None:
        try:
            while not stop.is_set():
                if not np.array_equal(gp.from_numpy(host).to_numpy(), host):
                    wrong.append("bytes")
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        for _ in range(20):
            graph = gp.CudaGraph()
            with graph:
                y = x + 1
                y = y * 2
            graph.replay()
            graph.synchronize()
            assert (y.to_numpy() == 4.0).all()
    finally:
        stop.set()
        thread.join()
    assert not wrong
