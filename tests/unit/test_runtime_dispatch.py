"""Transfers, dispatch, pacing, slicing and kernel caches of section 17."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import pygpukit as gp
from _pygpukit_rust import (
    AsyncTransferEngine,
    CacheConfig,
    CompileOptions,
    KernelCache,
    KernelDispatcher,
    KernelPacingEngine,
    LaunchConfig,
    PacingConfig,
)
from _pygpukit_rust.dispatch import (
    ArchFingerprint,
    KernelState,
    PersistentCache,
    PersistentCacheConfig,
)
from _pygpukit_rust.transfer import StreamType, TransferState, TransferType

# --- transfers ----------------------------------------------------------------------------------


def test_transfers_come_by_direction_priority_and_order() -> None:
    engine = AsyncTransferEngine(max_concurrent=2)
    d2d = engine.enqueue_d2d(1, 2, 10)
    h2d = [engine.enqueue_h2d(1, 2, 100 + i) for i in range(3)]
    urgent = engine.enqueue_with_priority("h2d", 1, 2, 5, 9)
    d2h = engine.enqueue_d2h(3, 4, 7)
    assert d2d == 1
    assert engine.has_pending_work()
    ready = engine.get_ready_transfers(10)
    assert [op.id for op in ready] == [urgent, h2d[0], d2h, d2d]
    assert all(op.state == TransferState.InProgress for op in ready)
    assert engine.get_in_progress_for_stream(1) == sorted([urgent, h2d[0]])
    assert engine.get_in_progress_for_stream(StreamType.D2H) == [d2h]
    assert engine.complete(urgent)
    assert [op.id for op in engine.get_ready_transfers(10)] == [h2d[1]]
    op = engine.get_operation(d2h)
    assert (op.type, op.size, op.src_ptr, op.dst_ptr) == (TransferType.D2H, 7, 3, 4)
    assert engine.fail(d2h)
    assert engine.cancel(h2d[2])
    assert not engine.cancel(h2d[1])
    assert not engine.start(h2d[2])
    done = engine.get_operation(urgent)
    assert done.duration() >= 0
    assert done.bandwidth_gbps() >= 0
    stats = engine.stats()
    assert (stats.total_transfers, stats.completed_count) == (6, 1)
    assert (stats.failed_count, stats.cancelled_count, stats.h2d_bytes) == (1, 1, 5)
    assert engine.gc() == 3
    assert engine.get_operation(urgent) is None
    engine.clear()
    assert not engine.has_pending_work()
    with pytest.raises(ValueError, match="sideways"):
        engine.enqueue_with_priority("sideways", 1, 2, 3, 0)


# --- dispatch -----------------------------------------------------------------------------------


def test_launch_config() -> None:
    config = LaunchConfig((4, 2))
    assert (config.grid, config.block, config.shared_mem, config.stream_id) == (
        (4, 2, 1),
        (256, 1, 1),
        0,
        0,
    )
    assert LaunchConfig.linear(1000).grid == (4, 1, 1)
    assert LaunchConfig.linear(1000, 128).block == (128, 1, 1)
    assert LaunchConfig.grid_2d(100, 50).grid == (7, 4, 1)
    for bad in ((0,), (1, 1, 1, 1)):
        with pytest.raises(ValueError, match="grid"):
            LaunchConfig(bad)


def test_life_of_a_launch() -> None:
    dispatcher = KernelDispatcher(max_in_flight=2)
    config = LaunchConfig.linear(10)
    ids = [dispatcher.queue(0xABC, config, [1, 2], "job") for _ in range(3)]
    assert ids == [1, 2, 3]
    other = dispatcher.queue_for_task("job", 0xABC, LaunchConfig(1, stream_id=1))
    ready = dispatcher.get_ready(10)
    assert [r.id for r in ready] == [1, 2, other]
    assert [r.state for r in ready] == [KernelState.Queued] * 3
    assert dispatcher.mark_launched(1)
    assert dispatcher.mark_launched(2)
    assert dispatcher.get_in_flight(0) == [1, 2]
    assert [r.id for r in dispatcher.get_ready(10)] == [other]
    assert dispatcher.mark_completed(1)
    assert dispatcher.mark_failed(2, "broken")
    assert dispatcher.get_request(2).error == "broken"
    assert dispatcher.cancel(3)
    assert not dispatcher.cancel(2)
    assert dispatcher.get_requests_for_task("job") == [1, 2, 3, other]
    assert dispatcher.get_request(1).args == [1, 2]
    stats = dispatcher.stats()
    assert (stats.completed_count, stats.failed_count, stats.cancelled_count) == (1, 1, 1)
    assert stats.pending_count == 1
    assert dispatcher.gc() == 3
    dispatcher.clear()
    assert not dispatcher.has_pending_work()
    assert dispatcher.get_request(1) is None


def test_the_queue_pushes_back() -> None:
    dispatcher = KernelDispatcher(max_queued=1)
    dispatcher.queue(1, LaunchConfig(1))
    with pytest.raises(RuntimeError, match="full"):
        dispatcher.queue(1, LaunchConfig(1))
    assert dispatcher.stats().refused_count == 1


def test_a_dispatcher_with_streams_acts() -> None:
    dispatcher = KernelDispatcher(max_in_flight=1)
    stream = gp.Stream()
    dispatcher.attach_stream(0, stream)
    calls: list[tuple[int, ...]] = []

    def kernel(*args: int) -> None:
        assert gp.current_stream().handle == stream.handle
        calls.append(args)

    handle = dispatcher.add_function(kernel)
    first = dispatcher.queue(handle, LaunchConfig(1), [1, 2])
    second = dispatcher.queue(handle, LaunchConfig(1), [3])
    dispatcher.wait(second)
    assert calls == [(1, 2), (3,)]
    assert dispatcher.get_request(first).state == KernelState.Completed

    def bad() -> None:
        raise ValueError("boom")

    failing = dispatcher.queue(dispatcher.add_function(bad), LaunchConfig(1))
    with pytest.raises(ValueError, match="boom"):
        dispatcher.wait(failing)
    raw = dispatcher.queue(0x1000, LaunchConfig(1))
    with pytest.raises(gp.GpuUnavailable, match="CPU simulation"):
        dispatcher.wait(raw)
    nowhere = dispatcher.queue(handle, LaunchConfig(1, stream_id=7))
    dispatcher.drain()
    assert "attach_stream" in dispatcher.get_request(nowhere).error
    assert dispatcher.stats().failed_count == 3


# --- pacing and slicing -------------------------------------------------------------------------


def test_pacing_rule() -> None:
    engine = KernelPacingEngine(PacingConfig(window_ms=10_000.0))
    assert engine.should_launch(5).can_launch  # unknown
    assert engine.allocate_stream(1, 0.6)
    assert not engine.allocate_stream(2, 0.5)
    assert engine.should_launch(1).decision_type == "Launch"
    engine.record_launch(1)
    decision = engine.should_launch(1)
    assert (decision.decision_type, decision.can_launch) == ("Wait", False)
    assert 0 < decision.wait_ms <= 4000
    engine.record_wait(1, 2.0)
    engine.record_throttle(1)
    stats = engine.stream_stats(1)
    assert (stats.launch_count, stats.wait_count, stats.throttle_count) == (1, 1, 1)
    assert engine.stats().used_bandwidth == pytest.approx(0.6)
    assert engine.release_stream(1)
    assert not engine.release_stream(1)
    assert engine.stream_stats(1) is None


def test_throttle_is_for_the_window() -> None:
    engine = KernelPacingEngine(PacingConfig(window_ms=60_000.0, min_interval_ms=0.0))
    engine.allocate_stream(1, 1.0)
    for _ in range(100):
        engine.record_launch(1)
    decision = engine.should_launch(1)
    assert decision.is_throttled
    assert math.isinf(decision.wait_ms)
    engine.reset()
    assert engine.should_launch(1).can_launch


# --- caches -------------------------------------------------------------------------------------


def test_kernel_cache() -> None:
    options = CompileOptions("sm_90").flag("-O3").define("N", "4").include("/usr/include")
    assert (options.flags, options.defines) == (["-O3"], ["N=4"])
    key = KernelCache.compute_key("source", options)
    assert key == KernelCache.compute_key("source", options)
    assert key != KernelCache.compute_key("source")
    assert KernelCache.hash_source("a") != KernelCache.hash_source("b")
    cache = KernelCache(CacheConfig(max_entries=2))
    assert cache.insert("source", "f", "ptx", options) == key
    assert cache.contains(key)
    assert cache.get(key).ptx == "ptx"
    assert cache.get_by_name("f").key == key
    assert cache.get(1) is None
    assert cache.set_handles(key, 10, 20)
    assert cache.get(key).is_loaded
    cache.insert("b", "g", "ptx")
    cache.get(key)
    cache.insert("c", "h", "ptx")  # g is the least recently used
    assert cache.kernel_names() == ["f", "h"]
    stats = cache.stats()
    assert (stats.entries, stats.evictions, stats.loaded_count) == (2, 1, 1)
    assert stats.hit_rate() == pytest.approx(stats.hits / (stats.hits + stats.misses))
    assert cache.remove(key)
    assert (cache.len(), len(cache), cache.is_empty()) == (1, 1, False)
    assert cache.clear_expired() == 0
    cache.clear()
    assert cache.is_empty()


def test_persistent_cache(tmp_path: Path) -> None:
    config = PersistentCacheConfig(str(tmp_path / "kernels"))
    arch = ArchFingerprint(9, 0, 12, 4, 12, 4)
    cache = PersistentCache(config, arch)
    assert cache.insert(5, "f", b"\0binary")
    assert cache.get(5) == b"\0binary"
    assert cache.get(6) is None
    assert cache.get_entry(5).size == 7
    del cache
    again = PersistentCache(config, ArchFingerprint(9, 0, 12, 4, 13, 0))
    assert again.get(5) == b"\0binary"
    del again
    assert not arch.is_compatible(ArchFingerprint(8, 0, 12, 4))
    other = PersistentCache(config, ArchFingerprint(8, 0, 12, 4))
    assert other.get(5) is None
    assert other.is_empty()
    assert PersistentCacheConfig().cache_dir.endswith("cache")
