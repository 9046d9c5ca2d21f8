"""The memory pool on the GPU: quota, eviction, accounts, graphs, streams, other libraries."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native, memory

MIB = 1 << 20

SPIN = """
extern "C" __global__ void spin_then_add(long long cycles, int* x, int n, int value) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] += value;
}
"""


def device_free() -> int:
    """Free memory from cuMemGetInfo."""
    return int(_native.memory_info()[0])


@pytest.fixture
def limit() -> Iterator[Any]:
    """Sets the limit above what is in use; everything is as before at the end."""
    gp.synchronize()
    gc.collect()
    memory.trim()
    base = memory.stats()["reserved"]

    def set_limit(nbytes: int) -> int:
        memory.set_limit(base + nbytes)
        return base + nbytes

    yield set_limit
    gc.collect()
    memory.set_evictable_default(None)
    memory.set_limit(None)
    memory.trim()


def test_arrays_live_in_mapped_memory() -> None:
    before = memory.stats()
    x = gp.zeros(64 * MIB, "uint8")
    after = memory.stats()
    assert after["used"] - before["used"] == 64 * MIB
    assert after["used"] + after["cached"] == after["reserved"]
    assert int(x.sum(dtype="int64")) == 0


@pytest.mark.alone
def test_trim_and_the_drivers_figure() -> None:
    gp.synchronize()
    memory.trim()
    free = device_free()
    x = gp.zeros(512 * MIB, "uint8")
    assert free - device_free() >= 500 * MIB
    del x
    gp.synchronize()
    assert memory.trim() >= 512 * MIB
    assert device_free() >= free - 8 * MIB


@pytest.mark.alone
def test_a_refused_request_leaves_the_device_alone() -> None:
    free, total = _native.memory_info()
    memory.trim()
    with pytest.raises(gp.OutOfMemory) as info:
        gp.empty(2 * total, "uint8")
    assert info.value.asked == 2 * total
    assert info.value.device_free > 0
    assert device_free() >= free - 64 * MIB


@pytest.mark.alone
@pytest.mark.parametrize("order", ["lru", "random"])
def test_more_arrays_than_the_quota(limit: Any, order: str) -> None:
    """1.5 times the quota: all bytes right, the quota kept as the driver counts."""
    num, each = 24, 256 * MIB
    quota = num * each * 2 // 3
    free_at_start = device_free()
    limit(quota)
    memory.set_evictable_default(each)
    slack = 96 * MIB  # of the driver itself: page tables, pinned pages, kernels that are loaded
    lowest = free_at_start
    expected = list(range(num))
    arrays = []
    for i in range(num):
        arrays.append(gp.full(each // 4, i, "int32"))
        lowest = min(lowest, device_free())
    sequence = list(range(num)) * 2
    if order == "random":
        random.Random(5).shuffle(sequence)
    for step, i in enumerate(sequence):
        arrays[i] += step
        expected[i] += step
        lowest = min(lowest, device_free())
        assert memory.stats()["reserved"] <= memory.stats()["limit"]
    for i, array in enumerate(arrays):
        assert int(array.min()) == expected[i] == int(array.max()), i
    assert free_at_start - lowest <= quota + slack
    figures = memory.stats()
    assert figures["restores"] > 0
    assert figures["evictions"] > 0


def test_contents_survive_at_the_same_address(limit: Any) -> None:
    rng = np.random.default_rng(1)
    host = rng.integers(0, 2**32, 64 * MIB // 4, dtype=np.uint32)
    x = gp.from_numpy(host)
    y = x[1:]  # a view shares the memory
    where = [piece for piece in memory.snapshot() if piece["bytes"] == 64 * MIB]
    freed = memory.evict(x)
    assert 0 < freed <= 64 * MIB
    assert memory.is_evicted(x)
    assert memory.is_evicted(y)
    assert np.array_equal(y.to_numpy(), host[1:])
    assert not memory.is_evicted(x)
    assert [piece for piece in memory.snapshot() if piece["bytes"] == 64 * MIB] == where
    memory.evict(x)
    assert memory.prefetch(x)
    assert np.array_equal(x.to_numpy(), host)


def test_nothing_leaves_while_the_gpu_uses_it(limit: Any) -> None:
    kernel = gp.jit(SPIN, "spin_then_add")
    limit(256 * MIB)
    memory.set_evictable_default(64 * MIB)
    x = gp.zeros(64 * MIB // 4, "int32")
    others = [gp.zeros(64 * MIB // 4, "int32") for _ in range(3)]
    gp.synchronize()
    stream = gp.Stream()
    kernel(200_000_000, x, x.size, 5, grid=1, block=1024, stream=stream)  # about 0.1 s
    more = gp.full(64 * MIB // 4, 1, "int32")  # one of the others leaves, x is in use
    assert not memory.is_evicted(x)
    assert sum(memory.is_evicted(array) for array in others) == 1
    del more
    memory.evict(x)  # waits for the kernel
    assert int(x.sum(dtype="int64")) == 5 * x.size
    for array in others:
        assert int(array.sum(dtype="int64")) == 0


def test_two_streams_share_an_evicted_array(limit: Any) -> None:
    kernel = gp.jit(SPIN, "spin_then_add")
    n = 32 * MIB // 4
    x = gp.zeros(n, "int32")
    first, second = gp.Stream(), gp.Stream(priority="high")
    for round_ in range(8):
        assert memory.evict(x) > 0
        kernel(1_000_000, x, n, 1, grid=1, block=1024, stream=first)
        done = gp.CudaEvent()
        done.record(first)
        second.wait(done)
        kernel(0, x, n, 2, grid=1, block=1024, stream=second)
        second.synchronize()
        assert int(x[:4].sum()) == 4 * 3 * (round_ + 1)
    assert int(x.min()) == int(x.max()) == 24


def test_graphs_and_eviction(limit: Any) -> None:
    limit(512 * MIB)
    memory.set_evictable_default(64 * MIB)
    n = 64 * MIB // 4
    x, out = gp.full(n, 3, "int32"), gp.zeros(n, "int32")
    gp.add(x, x, out=out)  # compiled before the capture
    gp.multiply(out, 2, out=out)
    gp.synchronize()
    memory.evict(x)
    graph = gp.CudaGraph()
    with graph:
        scratch = x + x
        gp.multiply(scratch, 2, out=out)
        del scratch
    assert not memory.is_evicted(x)  # it came back for the capture, and stays
    with pytest.raises(RuntimeError, match="pinned"):
        memory.evict(x)
    for value in (3, 4):
        x[:] = value
        pressure = [gp.zeros(n, "int32") for _ in range(6)]
        graph.replay()
        assert int(out.min()) == int(out.max()) == 4 * value
        assert not memory.is_evicted(x)
        assert not memory.is_evicted(out)
        del pressure
    graph.reset()
    assert memory.evict(x) > 0
    assert int(x.sum(dtype="int64")) == 4 * n


def test_exported_arrays_stay(limit: Any) -> None:
    cupy = pytest.importorskip("cupy")
    torch = pytest.importorskip("torch")
    limit(320 * MIB)
    memory.set_evictable_default(64 * MIB)
    n = 64 * MIB // 4
    a, b = gp.full(n, 1, "int32"), gp.full(n, 2, "int32")
    tensor = torch.from_dlpack(a)
    view = cupy.asarray(b)  # __cuda_array_interface__
    pressure = [gp.full(n, 7, "int32") for _ in range(6)]
    assert not memory.is_evicted(a)
    assert not memory.is_evicted(b)
    assert int(tensor.sum()) == n
    assert int(view.sum()) == 2 * n
    tensor += 1
    torch.cuda.synchronize()
    assert int(a.sum(dtype="int64")) == 2 * n
    for array in pressure:
        assert int(array.max()) == 7
    with pytest.raises(RuntimeError, match="pinned"):
        memory.evict(a)
    del tensor
    gc.collect()
    assert memory.evict(a) > 0  # the consumer is gone
    with pytest.raises(RuntimeError, match="pinned"):
        memory.evict(b)  # its address is known for good
    assert int(a.sum(dtype="int64")) == 2 * n
    del view


def test_accounts_on_the_gpu(limit: Any) -> None:
    with memory.account("tenant", 128 * MIB) as tenant:
        x = gp.zeros(100 * MIB, "uint8")
        with pytest.raises(gp.OutOfMemory, match="account 'tenant' has used"):
            gp.zeros(100 * MIB, "uint8")
        with memory.account("neighbour", 128 * MIB):
            assert int(gp.ones(100 * MIB, "uint8").sum(dtype="int64")) == 100 * MIB
    assert tenant.used >= 100 * MIB
    assert tenant.refused == 1
    del x
    assert tenant.used == 0


def test_threads_allocate_and_evict(limit: Any) -> None:
    num_threads, rounds, each = 8, 40, 32 * MIB
    quota = limit(24 * each)
    memory.set_evictable_default(each)
    problems: list[str] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        held: list[tuple[gp.GPUArray, int]] = []
        try:
            with gp.Stream():
                for _ in range(rounds):
                    value = generator.randrange(1000)
                    held.append((gp.full(each // 4, value, "int32"), value))
                    small = [gp.empty(generator.randrange(1, 5000)) for _ in range(20)]
                    if len(held) > 4:
                        held.pop(generator.randrange(4))
                    array, want = generator.choice(held)
                    if not int(array.min()) == want == int(array.max()):
                        problems.append(f"thread {seed}: {want}")
                    del small
                    if memory.stats()["reserved"] > quota:
                        problems.append("the limit was passed")
        except Exception as error:
            problems.append(repr(error))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    gp.synchronize()
    assert memory.stats()["evictions"] > 0


def test_small_calls_touch_no_driver() -> None:
    gp.empty(1024)
    calls = memory.stats()["driver_calls"]
    for _ in range(1000):
        gp.empty(1024)
    assert memory.stats()["driver_calls"] == calls


def test_chunks_are_small_against_the_device() -> None:
    assert 2 * MIB <= memory.stats()["chunk"] <= 32 * MIB
