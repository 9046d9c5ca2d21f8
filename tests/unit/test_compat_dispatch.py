"""Dispatch of section 17.7 of 0.2: the contract, and real launches."""

from __future__ import annotations

import pytest

import pygpukit as gp
from _pygpukit_rust import KernelDispatcher, LaunchConfig
from _pygpukit_rust.dispatch import KernelState
from pygpukit import _native

SCALE = 'extern "C" __global__ void scale_it(float* x, int n) { if (n) x[0] *= 2; }'


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
    for call, words in (
        (lambda: LaunchConfig.linear(0), "n is 0"),
        (lambda: LaunchConfig.grid_2d(0, 1), "width is 0"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="stream_id is str 'a', expected int"):
        LaunchConfig(1, stream_id="a")  # type: ignore[arg-type]


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


def test_higher_priorities_are_ready_first() -> None:
    dispatcher = KernelDispatcher(max_in_flight=2)
    ids = [dispatcher.queue(1, LaunchConfig(1), priority=p) for p in (0, 5, 1)]
    assert [r.id for r in dispatcher.get_ready(10)] == [ids[1], ids[2]]
    assert [r.id for r in dispatcher.get_ready()] == [ids[1]]
    assert dispatcher.stats().pending_count == 3


def test_a_request_knows_its_times() -> None:
    dispatcher = KernelDispatcher()
    number = dispatcher.queue(1, LaunchConfig(1))
    assert dispatcher.get_request(number).started_at is None
    dispatcher.mark_launched(number)
    dispatcher.mark_completed(number)
    request = dispatcher.get_request(number)
    assert request.queued_at <= request.started_at <= request.ended_at
    stats = dispatcher.stats()
    assert (stats.total_queued, stats.total_launched, stats.in_flight_count) == (1, 1, 0)


def test_functions_are_launched_by_the_dispatcher() -> None:
    dispatcher = KernelDispatcher(max_in_flight=1)
    stream = gp.Stream()
    dispatcher.attach_stream(0, stream)
    calls: list[tuple[int, ...]] = []

    def kernel(*args: int) -> None:
        assert gp.current_stream().handle == stream.handle
        calls.append(args)

    first = dispatcher.queue(kernel, LaunchConfig(1), [1, 2])
    second = dispatcher.queue(kernel, LaunchConfig(1), [3])
    dispatcher.wait(second)
    assert calls == [(1, 2), (3,)]
    assert dispatcher.get_request(first).state == KernelState.Completed

    def bad() -> None:
        raise ValueError("boom")

    failing = dispatcher.queue(bad, LaunchConfig(1, stream_id=7))
    with pytest.raises(ValueError, match="boom"):
        dispatcher.wait(failing)
    assert dispatcher.get_request(failing).error == "boom"
    raw = dispatcher.queue(0x1000, LaunchConfig(1))
    with pytest.raises(gp.GpuUnavailable, match="CPU simulation"):
        dispatcher.wait(raw)
    dispatcher.drain()
    assert dispatcher.stats().failed_count == 2
    with pytest.raises(ValueError, match="99 was not launched here"):
        dispatcher.wait(99)
    by_hand = KernelDispatcher()
    number = by_hand.queue(1, LaunchConfig(1))
    with pytest.raises(ValueError, match="1 was not launched here"):
        by_hand.wait(number)
    with pytest.raises(TypeError, match="expected a LaunchConfig"):
        by_hand.queue(1, (1, 1))  # type: ignore[arg-type]


@pytest.mark.skipif(not _native.nvrtc_info()["available"], reason="NVRTC is not installed")
def test_a_jit_kernel_runs() -> None:
    def double(x: gp.GPUArray, n: int) -> None:
        x *= 2

    kernel = gp.jit(SCALE, "scale_it", reference=double)
    x = gp.ones(10)
    dispatcher = KernelDispatcher()
    dispatcher.wait(dispatcher.queue(kernel, LaunchConfig(1, 32), [x, 10], task_id="job"))
    assert (x.to_numpy() == 2).all()
    assert dispatcher.stats().completed_count == 1


# --- the gates, by their own names --------------------------------------------------------------


def test_limits_on_cpu_simulation_do_nothing() -> None:
    stream = gp.Stream()
    gp.dispatch.limit(stream, 1)
    gp.dispatch.limit(stream, None)
    assert gp.dispatch.stats() == {}
    with pytest.raises(ValueError, match="max_in_flight is 0"):
        gp.dispatch.limit(stream, 0)
    with pytest.raises(TypeError, match="max_in_flight"):
        gp.dispatch.limit(stream, -1)


def test_the_spellings_of_0_2_give_the_same_classes() -> None:
    import _pygpukit_rust
    import _pygpukit_rust._pygpukit_rust as inner
    from pygpukit import dispatch, memory, transfer

    for home, module, names in (
        (dispatch, _pygpukit_rust.dispatch, "LaunchConfig KernelDispatcher DispatchStats"),
        (dispatch, _pygpukit_rust.dispatch, "PacingConfig KernelPacingEngine PacingDecision"),
        (dispatch, _pygpukit_rust.dispatch, "PacingStats KernelCache CacheConfig CacheStats"),
        (dispatch, _pygpukit_rust.dispatch, "CachedKernel CompileOptions"),
        (transfer, _pygpukit_rust.transfer, "AsyncTransferEngine TransferOp TransferStats"),
        (transfer, _pygpukit_rust.transfer, "PinnedMemoryManager PinnedPoolConfig PinnedBlock"),
        (transfer, _pygpukit_rust.transfer, "PinnedStats"),
    ):
        for name in names.split():
            classes = {getattr(where, name) for where in (home, module, _pygpukit_rust, inner)}
            assert len(classes) == 1, name
            assert classes.pop().__doc__
    assert _pygpukit_rust.MemoryPool is memory.RustMemoryPool is _pygpukit_rust.memory.MemoryPool
    assert memory.PinnedMemoryManager is transfer.PinnedMemoryManager
    for module, names in (
        (_pygpukit_rust.transfer, "TransferType TransferState StreamType"),
        (_pygpukit_rust.dispatch, "KernelState KernelLaunchRequest StreamPacingStats"),
        (_pygpukit_rust.dispatch, "ArchFingerprint PersistentCache PersistentCacheConfig"),
        (_pygpukit_rust.dispatch, "PersistentCacheStats PersistentCacheEntry"),
    ):
        for name in names.split():
            assert name in module.__all__
            assert name not in _pygpukit_rust.__all__, "only in the submodule"
    assert KernelState.Queued == 0
    assert repr(KernelState.Failed) == "<KernelState.Failed: 3>"
