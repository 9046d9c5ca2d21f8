"""Sections 16 and 17.1 of 0.2, and pinned memory of 17.6: blocks are real memory."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit.memory import KB, MB, MemoryPool, PinnedMemoryManager, PinnedPoolConfig

CLASSES = [256, KB, 4 * KB, 16 * KB, 64 * KB, 256 * KB, MB, 4 * MB, 16 * MB, 64 * MB, 256 * MB]


def test_size_classes_and_counters() -> None:
    pool = MemoryPool(64 * MB)
    assert CLASSES == pool.SIZE_CLASSES
    block = pool.allocate(1000)
    assert (block.id, block.size, block.on_gpu, block.on_host) == (0, 1024, True, False)
    assert block.device_ptr
    assert (pool.quota, pool.used, pool.cached) == (64 * MB, 1024, 0)
    assert pool.available == pool.quota - pool.used
    pool.free(block)
    assert (pool.used, pool.cached) == (0, 1024)
    again = pool.allocate(600)
    stats = pool.stats()
    assert stats["reuse_count"] == 1
    assert stats["cudamalloc_count"] == 1
    assert stats["allocation_count"] == 2
    assert stats["active_blocks"] == 1
    assert list(stats) == [
        *("quota", "used", "cached", "available", "allocation_count", "reuse_count"),
        *("eviction_count", "cudamalloc_count", "active_blocks", "free_blocks"),
    ]
    again.touch()
    assert again.is_available()
    assert not again.is_evicted()
    pool.free(again)
    with pytest.raises(ValueError, match="is not a live block"):
        pool.free(again)
    assert pool.allocate(300 * MB // 1024).size == MB
    assert pool._size_class(256 * MB + 1) == 257 * MB
    for bad in (0, -1):
        with pytest.raises(ValueError, match="size"):
            pool.allocate(bad)
        with pytest.raises(ValueError, match="quota"):
            MemoryPool(bad)
    with pytest.raises(TypeError, match="size is str 'x', expected int"):
        pool.allocate("x")  # type: ignore[arg-type]


def test_over_the_quota_is_a_memory_error_with_the_numbers() -> None:
    pool = MemoryPool(2 * KB)
    blocks = [pool.allocate(1024), pool.allocate(1024)]
    with pytest.raises(MemoryError, match="2048") as caught:
        pool.allocate(256)
    assert isinstance(caught.value, gp.OutOfMemory)
    pool.free(blocks[0])
    assert pool.allocate(256).size == 256  # the cached block makes room


def test_eviction_is_least_recently_used_and_keeps_the_bytes() -> None:
    pool = MemoryPool(3 * KB, enable_eviction=True)
    data = [np.arange(i, i + 256, dtype=np.float32) for i in range(4)]
    blocks = [pool.allocate(KB) for _ in range(3)]
    for block, array in zip(blocks, data, strict=False):
        pool.write(block, array)
    pool.touch(blocks[0])
    fourth = pool.allocate(KB)
    assert [b.on_gpu for b in blocks] == [True, False, True]
    assert blocks[1].on_host
    assert blocks[1].device_ptr is None
    assert pool.stats()["eviction_count"] == 1
    assert pool.used == 3 * KB
    pool.restore(blocks[1])
    assert blocks[1].on_gpu
    assert sum(b.on_gpu for b in [*blocks, fourth]) == 3
    for block, array in zip(blocks, data, strict=False):
        np.testing.assert_array_equal(pool.read(block, np.float32), array)


def test_write_evict_restore_read() -> None:
    pool = MemoryPool(MB, enable_eviction=True)
    block = pool.allocate(5000)
    data = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    pool.write(block, data)
    used = pool.used
    pool.evict(block)
    assert (block.on_gpu, block.on_host, pool.used) == (False, True, used - block.size)
    np.testing.assert_array_equal(pool.read(block, np.float32), data)  # also while evicted
    pool.restore(block)
    assert (block.on_gpu, block.on_host, pool.used) == (True, False, used)
    np.testing.assert_array_equal(pool.read(block, np.float32), data)


def test_the_memory_is_the_device_pools() -> None:
    before = gp.memory.stats()["used"]
    pool = MemoryPool(8 * MB, enable_eviction=True)
    block = pool.allocate(4 * MB)
    pool.write(block, np.arange(64, dtype=np.int32))
    there = (ctypes.c_int32 * 64).from_address(block.device_ptr)  # on CPU simulation
    assert list(there) == list(range(64))
    (name,) = (n for n, a in gp.memory.accounts().items() if a["limit"] == 8 * MB)
    assert name.startswith("MemoryPool")
    assert gp.memory.accounts()[name]["used"] == 4 * MB
    assert gp.memory.stats()["used"] == before + 4 * MB
    pool.evict(block)
    assert gp.memory.accounts()[name]["used"] == 0
    assert gp.memory.stats()["used"] == before
    pool.restore(block)
    assert gp.memory.accounts()[name]["used"] == 4 * MB
    pool.free(block)
    assert gp.memory.accounts()[name]["used"] == 4 * MB, "free blocks are kept"
    pool.clear()
    assert gp.memory.stats()["used"] == before


def test_a_write_that_does_not_fit_is_refused() -> None:
    pool = MemoryPool(MB)
    block = pool.allocate(256)
    with pytest.raises(ValueError, match="257 bytes for block 0 of 256"):
        pool.write(block, np.zeros(257, np.uint8))
    assert pool.read(block, np.float64).shape == (32,)


def test_eight_threads() -> None:
    pool = MemoryPool(64 * MB)
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(200):
                value = np.uint8(rng.integers(256))
                block = pool.allocate(int(rng.integers(1, 10000)))
                pool.write(block, np.full(16, value))
                assert (pool.read(block, np.uint8) == value).all()
                pool.free(block)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert pool.used == 0


def test_default_pool() -> None:
    from pygpukit.memory import get_default_pool, set_default_pool

    assert get_default_pool() is None
    pool = MemoryPool(MB)
    set_default_pool(pool)
    try:
        assert get_default_pool() is pool
    finally:
        set_default_pool(None)


def test_clear_forgets_everything() -> None:
    pool = MemoryPool(MB)
    block = pool.allocate(256)
    pool.clear()
    assert (pool.used, pool.cached, pool.stats()["active_blocks"]) == (0, 0, 0)
    assert not block.on_gpu
    with pytest.raises(ValueError, match="not a live block"):
        pool.touch(block)


def test_rust_pool() -> None:
    from _pygpukit_rust import MemoryPool as RustPool

    pool = RustPool(10 * KB, enable_eviction=True)
    block = pool.allocate(100)
    assert block == 0
    assert pool.get_block_size(block) == 256
    info = pool.get_block(block)
    assert info.is_available()
    assert not info.is_evicted()
    real = info.device_ptr
    pool.set_device_ptr(block, 0x1234)
    assert pool.get_block(block).device_ptr == 0x1234
    pool.set_host_data(block, b"abc")
    assert pool.get_host_data(block) == b"abc"
    pool.clear_host_data(block)
    assert pool.get_host_data(block) is None
    pool.touch(block)
    pool.evict(block)
    assert pool.get_block(block).is_evicted()
    assert not pool.is_block_on_gpu(block)
    assert pool.get_host_data(block)[:3] == b"abc"
    pool.restore(block)
    assert pool.is_block_on_gpu(block)
    assert bytes((ctypes.c_char * 3).from_address(pool.get_block(block).device_ptr)) == b"abc"
    assert (info.id, info.size, info.on_gpu, info.on_host) == (0, 256, True, False)
    assert info.last_access > 0
    assert real
    assert pool.get_block(7) is None
    for call in (pool.free, pool.touch, pool.evict, pool.restore, pool.get_block_size):
        with pytest.raises(ValueError, match="7"):
            call(7)
    with pytest.raises(ValueError, match="7"):
        pool.is_block_on_gpu(7)
    with pytest.raises(MemoryError):
        pool.allocate(MB)
    assert (pool.quota, pool.used, pool.cached, pool.available) == (10 * KB, 256, 0, 9984)
    pool.free(block)
    stats = pool.stats()
    assert (stats.quota, stats.used, stats.cached, stats.available) == (10 * KB, 0, 256, 10 * KB)
    assert (stats.allocation_count, stats.reuse_count, stats.cudamalloc_count) == (1, 0, 2)
    assert (stats.eviction_count, stats.active_blocks, stats.free_blocks) == (1, 0, 1)
    pool.clear()
    assert pool.cached == 0


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["allocate", "free", "evict", "restore"]), st.integers(0, 7)),
        max_size=40,
    )
)
def test_random_sequences_keep_every_byte_and_the_quota(steps: list[tuple[str, int]]) -> None:
    pool = MemoryPool(4 * KB, enable_eviction=True)
    live: list[tuple[object, int]] = []
    for number, (step, which) in enumerate(steps):
        if step == "allocate":
            block = pool.allocate((256, 1000)[which % 2])
            pool.write(block, np.full(256, number, np.uint8))
            live.append((block, number))
        elif live:
            block, value = live[which % len(live)]
            if step == "free":
                pool.free(block)
                live.remove((block, value))
            else:
                getattr(pool, step)(block)
        assert pool.used + pool.cached <= pool.quota
        assert pool.used == sum(b.size for b, _ in live if b.on_gpu)
    for block, value in live:
        assert (pool.read(block, np.uint8) == value).all()


# --- pinned memory ------------------------------------------------------------------------------


def test_pinned_blocks_are_pooled_and_belong_to_tasks() -> None:
    manager = PinnedMemoryManager(PinnedPoolConfig(max_size=MB))
    assert manager.config.alignment == 256
    number, size, reused = manager.allocate(5000)
    assert (size, reused) == (64 * KB, False)
    block = manager.get(number)
    assert block.host_ptr % 256 == 0
    (ctypes.c_uint8 * size).from_address(block.host_ptr)[size - 1] = 7
    manager.associate_task(number, "job")
    assert manager.get_blocks_for_task("job") == [number]
    assert manager.get(number).task_id == "job"
    manager.touch(number)
    freed = manager.free_task_blocks("job")
    assert len(freed) == 1
    assert manager.active_count == 0
    assert manager.allocate(5000)[1:] == (64 * KB, True)
    stats = manager.stats()
    assert (stats.allocation_count, stats.reuse_count, stats.active_blocks) == (2, 1, 1)
    assert not manager.can_allocate(2 * MB)
    with pytest.raises(MemoryError):
        manager.allocate(2 * MB)
    with pytest.raises(ValueError, match="99"):
        manager.free(99)
    manager.free(manager.allocate(1)[0])
    assert manager.stats().pooled_size == 4 * KB
    assert manager.clear_pool() == 4 * KB
    manager.clear()
    stats = manager.stats()
    assert (stats.current_used, stats.pooled_size, stats.active_blocks) == (0, 0, 0)
    assert stats.max_size == MB


def test_pinned_memory_beyond_the_limit_gives_up_the_pool() -> None:
    manager = PinnedMemoryManager(PinnedPoolConfig(max_size=68 * KB))
    manager.free(manager.allocate(60 * KB)[0])
    assert manager.stats().pooled_blocks == 1
    assert manager.allocate(10)[1:] == (4 * KB, False)
    assert manager.allocate(10)[1:] == (4 * KB, False)
    assert manager.stats().pooled_blocks == 0
    without = PinnedMemoryManager(PinnedPoolConfig(enable_pooling=False))
    without.free(without.allocate(10)[0])
    assert not without.allocate(10)[2]


def test_registered_memory_goes_back_to_its_owner() -> None:
    manager = PinnedMemoryManager()
    memory = ctypes.create_string_buffer(100)
    manager.register(42, ctypes.addressof(memory), 100)
    assert manager.get(42).is_registered
    assert manager.free(42) == (True, ctypes.addressof(memory))
    number = manager.allocate(10)[0]
    manager.register(number, ctypes.addressof(memory), 100)
    assert manager.get(number).host_ptr == ctypes.addressof(memory)
    with pytest.raises(ValueError, match="registered already"):
        manager.register(number, 1, 1)
    with pytest.raises(ValueError, match="power of two"):
        PinnedPoolConfig(alignment=3)
