"""The memory pool on CPU simulation: limits, eviction, accounts, errors, threads."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import memory

CHUNK = 2 << 20
MIB = 1 << 20


@pytest.fixture
def limit() -> Iterator[Any]:
    """Sets the limit above current use; resets it and the evictable default at the end."""
    before = -1
    while before != (before := memory.stats()["reserved"]):  # threads of other tests free memory
        gc.collect()
        memory.trim()
        time.sleep(0.02)
    plugs = []  # for holes between arrays of other tests
    while memory.stats()["largest_free"] >= CHUNK:
        plugs.append(gp.empty(memory.stats()["largest_free"], "uint8"))
    base = memory.stats()["reserved"]

    def set_limit(nbytes: int) -> int:
        memory.set_limit(base + nbytes)
        return base + nbytes

    yield set_limit
    plugs.clear()
    memory.set_evictable_default(None)
    memory.set_limit(None)
    memory.trim()


def filled(value: int, nbytes: int = 4 * MIB) -> gp.GPUArray:
    return gp.full(nbytes // 4, value, "int32")


def test_figures_add_up() -> None:
    x = gp.zeros(3 * MIB, "uint8")
    figures = memory.stats()
    assert figures["used"] + figures["cached"] == figures["reserved"]
    assert figures["used"] >= 3 * MIB
    assert figures["peak_used"] >= figures["used"]
    assert all(isinstance(value, int) for value in figures.values())
    assert figures["blocks"] >= 1
    assert figures["allocations"] >= figures["blocks"]
    kinds = {piece["kind"] for piece in memory.snapshot()}
    assert "used" in kinds
    assert kinds <= {"used", "pending", "cached", "evicted", "free"}
    del x
    assert memory.stats()["used"] <= figures["used"] - 3 * MIB


def test_trim_gives_memory_back(limit: Any) -> None:
    x = gp.zeros(64 * MIB, "uint8")
    held = memory.stats()["reserved"]
    del x
    assert memory.trim() >= 64 * MIB
    assert memory.stats()["reserved"] <= held - 64 * MIB


def test_freed_memory_is_used_again() -> None:
    a = gp.empty(5 * MIB, "uint8")
    address = a.device_ptr
    del a
    reuses = memory.stats()["reuses"]
    b = gp.empty(5 * MIB, "uint8")
    assert b.device_ptr == address
    assert memory.stats()["reuses"] == reuses + 1


def test_frozen_memory_is_not_written() -> None:
    x = gp.ones((4, 4))
    part = x[1]
    assert not memory.is_frozen(x)
    memory.freeze(x)
    assert memory.is_frozen(x)
    assert memory.is_frozen(part)  # the same memory
    for write in (
        lambda: gp.add(part, part, out=part),
        lambda: x.__setitem__(0, 2.0),
        lambda: x.__iadd__(1.0),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    assert (x.to_numpy() == 1).all()
    assert not memory.is_frozen(x.copy())
    assert ((x @ x).to_numpy() == 4).all()
    graph = gp.CudaGraph()
    with pytest.raises(RuntimeError, match=r"memory\.freeze"), graph:
        memory.freeze(x)
    with pytest.raises(TypeError):
        memory.freeze(np.ones(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("amount", ["1GiB", "1G", "1024M", 1 << 30])
def test_limit_in_bytes(limit: Any, amount: Any) -> None:
    memory.set_limit(amount)
    assert memory.stats()["limit"] == 1 << 30


def test_limit_in_percent(limit: Any) -> None:
    memory.set_limit("50%")
    assert memory.stats()["limit"] == gp.core.get_memory_info()[1] // 2
    memory.set_limit(0)
    assert memory.stats()["limit"] == 0


@pytest.mark.parametrize("amount", ["", "12 apples", "0%", "101%", -1, 1.5, "nan", 100, 2**70])
def test_bad_limits(amount: Any) -> None:
    with pytest.raises(ValueError, match=r"^memory\.set_limit: limit is "):
        memory.set_limit(amount)
    assert memory.stats()["limit"] == 0


def test_past_the_limit(limit: Any) -> None:
    # Large: holes that other tests left in mapped memory do not count.
    quota = limit(256 * MIB)
    x = gp.empty(200 * MIB, "uint8")
    with pytest.raises(
        gp.OutOfMemory, match=r"allocate: out of memory: asked 100.00 MiB \(104857603 bytes"
    ) as info:
        gp.empty(100 * MIB + 3, "uint8")
    error = info.value
    assert isinstance(error, MemoryError)
    assert error.asked == 100 * MIB + 3
    assert error.limit == quota
    assert error.account == ""
    assert error.used >= 200 * MIB
    assert error.device_free > 0
    assert memory.stats()["reserved"] <= quota
    y = gp.empty(MIB, "uint8")  # what fits still does
    with pytest.raises(gp.OutOfMemory, match=r"memory\.set_limit"):
        memory.set_limit(CHUNK)
    assert memory.stats()["limit"] == quota
    del x, y


def test_absurd_sizes_are_out_of_memory() -> None:
    reserved = memory.stats()["reserved"]
    for elements in (2**45, 2**58):
        with pytest.raises(gp.OutOfMemory):
            gp.empty(elements, "uint8")
    assert memory.stats()["reserved"] <= reserved + CHUNK


def test_garbage_is_collected_before_giving_up(limit: Any) -> None:
    limit(16 * MIB)

    class Node:
        pass

    gc.disable()
    try:
        node: Any = Node()
        node.itself = node
        node.array = gp.empty(12 * MIB, "uint8")
        del node
        assert gp.empty(12 * MIB, "uint8").nbytes == 12 * MIB
    finally:
        gc.enable()


def test_explicit_eviction() -> None:
    x = filled(7)
    address = x.device_ptr  # also: its address is known now
    with pytest.raises(RuntimeError, match="pinned"):
        memory.evict(x)
    x = filled(7)
    before = memory.stats()
    freed = memory.evict(x)
    assert freed >= CHUNK
    assert memory.is_evicted(x)
    after = memory.stats()
    assert after["evicted"] - before["evicted"] == freed
    assert after["evictions"] == before["evictions"] + 1
    assert after["used"] == before["used"] - freed
    assert memory.evict(x) == 0
    assert int((x == 7).sum()) == x.size  # any op brings it back
    assert not memory.is_evicted(x)
    assert memory.stats()["restores"] == before["restores"] + 1
    memory.evict(x)
    memory.restore(x)
    assert not memory.is_evicted(x)
    memory.evict(x)
    assert memory.prefetch(x)
    assert not memory.is_evicted(x)
    memory.pin(x)
    with pytest.raises(RuntimeError, match="pinned"):
        memory.evict(x)
    memory.unpin(x)
    assert memory.evict(x) == freed
    assert x.to_numpy().tolist()[:3] == [7, 7, 7]
    assert address != 0


def test_every_way_to_read_brings_it_back() -> None:
    want = np.arange(MIB, dtype=np.int32)
    x = gp.from_numpy(want)
    out = np.empty_like(want)
    for read in (
        lambda: x.to_numpy(),
        lambda: np.from_dlpack(x),
        lambda: gp.copy(x).to_numpy(),
        lambda: x[3:].to_numpy(),
        lambda: (x + 0).to_numpy(),
        lambda: x.to_numpy(out=out),
    ):
        assert memory.evict(x) > 0
        got = read()
        assert np.array_equal(got, want[len(want) - len(got) :])
        del got
        gc.collect()
    memory.evict(x)
    x[:] = 5
    assert int(x.sum()) == 5 * x.size


def test_exported_memory_stays_while_the_consumer_has_it(limit: Any) -> None:
    limit(24 * MIB)
    x = filled(3, 8 * MIB)
    assert memory.evictable(x)
    view = np.from_dlpack(x)
    with pytest.raises(RuntimeError, match="pinned"):
        memory.evict(x)
    with pytest.raises(gp.OutOfMemory):
        gp.empty(20 * MIB, "uint8")
    assert view[0] == 3
    assert not memory.is_evicted(x)
    del view
    gc.collect()
    y = gp.empty(20 * MIB, "uint8")
    assert memory.is_evicted(x)
    del y
    assert int(x.sum()) == 3 * x.size


@pytest.mark.parametrize("order", ["lru", "random"])
def test_more_arrays_than_the_limit(limit: Any, order: str) -> None:
    num, each = 24, 4 * MIB
    quota = limit(num * each * 2 // 3)
    memory.set_evictable_default(each)
    arrays = []
    for i in range(num):
        arrays.append(gp.full(each // 4, i, "int32"))
        assert memory.stats()["reserved"] <= quota
    assert memory.stats()["evicted"] > 0
    addresses = {}
    generator = random.Random(5)
    sequence = list(range(num)) * 3
    if order == "random":
        generator.shuffle(sequence)
    for step, i in enumerate(sequence):
        arrays[i] += 1 if step % 2 else 0
        host = arrays[i].to_numpy()
        expected = addresses.setdefault(i, [i])
        expected[0] += step % 2
        assert (host == expected[0]).all()
        assert memory.stats()["reserved"] <= quota
    figures = memory.stats()
    assert figures["restores"] > num // 2
    assert figures["host"] >= figures["evicted"]
    if order == "lru":  # the one not used for longest is away, the newest are here
        assert memory.is_evicted(arrays[0])
        assert not memory.is_evicted(arrays[num - 1])


def test_least_recently_used_leaves_first(limit: Any) -> None:
    limit(18 * MIB)
    arrays = [filled(i) for i in range(4)]
    for array in arrays:
        memory.evictable(array)
    memory.touch(arrays[0])
    more = filled(9)
    assert [memory.is_evicted(array) for array in arrays] == [False, True, False, False]
    assert memory.evictable(arrays[2], False)
    for array in arrays[3], arrays[0]:
        memory.touch(array)
    again = filled(9)
    assert not memory.is_evicted(arrays[2])
    assert memory.is_evicted(arrays[3])
    del more, again


def test_small_and_foreign_memory() -> None:
    small = gp.zeros(10)
    assert memory.evictable(small) is False
    assert memory.evict(small) == 0
    assert not memory.is_evicted(small)
    memory.pin(small)
    memory.unpin(small)
    foreign = gp.from_dlpack(np.zeros(MIB))
    for call in (memory.evict, memory.evictable, memory.pin, memory.touch, memory.restore):
        with pytest.raises(ValueError, match=r"^memory\.\w+: the array is empty, or its memory"):
            call(foreign)
    with pytest.raises(ValueError, match=r"^memory\.unpin: the array is not pinned"):
        memory.unpin(small)


def test_graphs_and_eviction() -> None:
    x = filled(1)
    graph = gp.CudaGraph()
    memory.evict(x)
    out = gp.zeros_like(x)
    with graph:
        gp.add(x, 1, out=out)
        with pytest.raises(RuntimeError, match="captured"):
            memory.evict(x)
    memory.evict(x)
    graph.replay()
    assert int(out.sum()) == 2 * x.size


def test_account(limit: Any) -> None:
    with memory.account("tenant", 8 * MIB) as tenant:
        x = gp.empty(6 * MIB, "uint8")
        with pytest.raises(
            gp.OutOfMemory, match=r"account .tenant. has used 6.00 MiB of its limit of 8.00 MiB"
        ) as info:
            gp.empty(4 * MIB, "uint8")
        assert (info.value.account, info.value.account_limit) == ("tenant", 8 * MIB)
        with memory.account("neighbour", "8MiB") as neighbour:
            y = gp.empty(4 * MIB, "uint8")
        assert memory.accounts()["neighbour"]["used"] == neighbour.used == 4 * MIB
        tenant.set_limit("1GiB")
        z = gp.empty(4 * MIB, "uint8")
    assert gp.empty(16 * MIB, "uint8").nbytes == 16 * MIB  # no account is charged
    assert tenant.used == 10 * MIB
    assert tenant.refused == 1
    assert tenant.peak == 10 * MIB
    assert "tenant" in repr(tenant)
    assert tenant.limit == 1 << 30
    del x
    assert tenant.used == 4 * MIB
    assert memory.account("tenant").limit == 1 << 30  # the same one
    del y, z, tenant, neighbour, info
    gc.collect()
    assert not {"tenant", "neighbour"} & set(memory.accounts())


def test_account_errors() -> None:
    with pytest.raises(ValueError, match=r"^memory\.account: name is empty"):
        memory.account("")
    with pytest.raises(ValueError, match=r"^memory\.account: evict_class is 'vip'"):
        memory.account("a", evict_class="vip")
    with pytest.raises(ValueError, match=r"^memory\.account: limit is "):
        memory.account("a", "many")
    a, b = memory.account("a"), memory.account("b")
    with a, b, pytest.raises(RuntimeError, match="'a' is exited, but it was not the last"):
        a.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="'a' is exited"):
        a.__exit__(None, None, None)


def test_accounts_are_per_thread() -> None:
    seen = []

    def work() -> None:
        with memory.account("worker") as worker:
            x = gp.empty(5 * MIB, "uint8")
            seen.append(worker.used)
            del x

    with memory.account("main") as main:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert main.used == 0
    assert seen == [5 * MIB]


def test_threads_under_pressure(limit: Any) -> None:
    num_threads, rounds = 6, 25
    quota = limit(48 * MIB)
    memory.set_evictable_default(MIB)
    shared = [filled(i) for i in range(8)]
    problems: list[str] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        held: list[tuple[gp.GPUArray, int]] = []
        try:
            for _ in range(rounds):
                value = generator.randrange(1000)
                held.append((filled(value, generator.choice([2, 4]) * MIB), value))
                if len(held) > 2:
                    held.pop(0)
                array, expected = generator.choice(held)
                i = generator.randrange(len(shared))
                for x, want in ((array, expected), (shared[i], i)):
                    if not (x.to_numpy() == want).all():
                        problems.append(f"thread {seed}: {want}")
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
    assert memory.stats()["evictions"] > 0


def test_limit_from_the_environment() -> None:
    code = (
        "import pygpukit as gp\n"
        "assert gp.memory.stats()['limit'] == 16 << 20\n"
        "try:\n    gp.empty(17 << 20, 'uint8')\n"
        "except gp.OutOfMemory as error:\n    print(error.limit)\n"
    )
    env = {
        "PYGPUKIT_DEVICE": "cpu",
        "PYGPUKIT_MEMORY_LIMIT": "16M",
        "PYTHONPATH": ":".join(sys.path),
    }
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == str(16 << 20), done.stderr
