"""Section 15 of the 0.2 API: execution contexts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import scheduler
from pygpukit.scheduler import AsyncKernelRequest, create_context

GB = 2**30
SCALE = 'extern "C" __global__ void scale(float* x, float factor, int n) { x[n] *= factor; }'


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    scheduler.reset()
    yield
    scheduler.reset()


def test_snippet_of_the_old_readme() -> None:
    scheduler.initialize(device_id=0, device_total_memory=16 * GB, total_vram_budget=12 * GB)
    tts = scheduler.create_context("tts", max_vram=4 * GB)
    llm = scheduler.create_context("llm", max_vram=8 * GB)
    with scheduler.session():
        assert scheduler.is_session_active()
        assert tts.stats.state == llm.stats.state == "RUNNING"
    assert tts.stats.state == "IDLE"
    stats = scheduler.stats()
    assert (stats.initialized, stats.context_count) == (True, 2)
    assert (stats.total_vram_budget, stats.used_vram, stats.stream_pool_size) == (12 * GB, 0, 6)
    scheduler.destroy_context("tts")
    assert scheduler.list_contexts() == ["llm"]
    assert scheduler.HAS_MULTI_LLM is True


def test_stats_are_those_of_the_scheduler_too() -> None:
    stats = scheduler.stats()
    assert isinstance(stats, scheduler.SchedulerStats)
    assert isinstance(stats, scheduler.Snapshot)
    assert (stats.initialized, stats.device_id, stats.context_count) == (False, 0, 0)
    assert (stats.used_vram, stats.available_vram, stats.device_total_memory) == (0, 0, 0)
    assert stats.workers >= 0
    assert "order fifo" in str(stats)
    assert scheduler.Snapshot.from_dict(stats.to_dict()).policy == stats.policy
    assert scheduler.execution.stats is scheduler.stats is scheduler.snapshot


def test_defaults_and_ids() -> None:
    first = create_context("a")
    assert scheduler.stats().device_total_memory == 8 * GB
    scheduler.initialize(device_total_memory=GB)  # a second call is a no-op
    assert scheduler.stats().total_vram_budget == 8 * GB
    assert (first.stream_id, first.max_vram, first.llm_id) == (7, 0, "a")
    ids = [create_context(str(i)).stream_id for i in range(9)]
    assert ids == [6, 5, 4, 3, 2, 1, 0, 8, 9]
    with pytest.raises(RuntimeError, match="'a'"):
        create_context("a")
    assert scheduler.get_context("a") is first
    assert scheduler.get_context("nothing") is None
    first.destroy()
    assert first.stats is None
    assert not scheduler.destroy_context("a")
    assert create_context("again").stream_id == 7
    with pytest.raises(RuntimeError, match="destroyed"):
        first.dispatch_async(AsyncKernelRequest(lambda: None))


def test_budgets() -> None:
    scheduler.initialize(total_vram_budget=100, device_total_memory=1000)
    a, b = create_context("a", 60), create_context("b")
    assert a.track_allocation(1, 60)
    assert not a.track_allocation(2, 1)
    assert b.track_allocation(1, 40)
    assert not b.track_allocation(2, 1)  # the budget of all
    assert (a.stats.used_vram, a.stats.available_vram, a.stats.buffer_count) == (60, 0, 1)
    a.track_deallocation(1)
    assert scheduler.stats().used_vram == 40
    with pytest.raises(ValueError, match="is not tracked"):
        a.track_deallocation(1)
    with pytest.raises(ValueError, match="is tracked already"):
        b.track_allocation(1, 1)
    b.destroy()
    with pytest.raises(RuntimeError, match="destroyed"):
        b.track_allocation(3, 1)
    assert scheduler.stats().used_vram == 0


def test_context_sessions() -> None:
    a, b = create_context("a"), create_context("b")
    with scheduler.context_session(a) as inside:
        assert inside is a
        assert a.is_session_active()
        assert not b.is_session_active()
    assert not a.is_session_active()

    async def use() -> str:
        async with scheduler.context_session(b) as context:
            return context.stats.state

    assert asyncio.run(use()) == "RUNNING"
    assert b.stats.state == "IDLE"
    with pytest.raises(ZeroDivisionError), scheduler.session():
        1 / 0  # noqa: B018
    with scheduler.session(), scheduler.session():
        assert a.stats.state == "RUNNING"
    assert not scheduler.is_session_active()
    assert a.stats.state == "IDLE"


def test_requests() -> None:
    request = AsyncKernelRequest(5)
    assert (request.grid, request.block) == ((1, 1, 1), (256, 1, 1))
    assert request.with_grid(2, 3).with_block(64).with_shared_mem(128).with_args([1]) is request
    assert (request.grid, request.block, request.shared_mem) == ((2, 3, 1), (64, 1, 1), 128)
    assert request.args == [1]
    linear = AsyncKernelRequest.linear(5, 1000)
    assert (linear.kernel_handle, linear.grid, linear.block) == (5, (4, 1, 1), (256, 1, 1))
    assert AsyncKernelRequest.linear(5, 1000, block_size=100).grid == (10, 1, 1)


def test_a_callable_runs_as_a_task_of_the_context() -> None:
    context = create_context("a")
    x = gp.ones(1000)

    threads: set[int] = set()

    def work(factor: float) -> gp.GPUArray:
        threads.add(threading.get_ident())
        return x * factor

    first = context.dispatch_async(AsyncKernelRequest(work).with_args([3.0]))
    second = context.dispatch_async(AsyncKernelRequest(work).with_args([4.0]))
    assert second.id == first.id + 1
    assert (first.stream_id, first.context_id) == (7, "a")
    result = first.wait()
    assert result.success
    assert result.error is None
    assert result.exec_time >= 0
    np.testing.assert_array_equal(result.output.to_numpy(), np.full(1000, 3.0, np.float32))
    assert first.is_ready
    assert first.state == "COMPLETED"
    assert str(first.state) == "COMPLETED"
    assert first.try_get() == result
    assert first.exec_time == result.exec_time

    async def use() -> gp.GPUArray:
        return (await context.dispatch_async(AsyncKernelRequest(work).with_args([5.0]))).output

    assert float(asyncio.run(use())[0]) == 5.0
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_requests_of_a_context_run_in_order_and_are_waited_for() -> None:
    context = create_context("a")
    begin = threading.Event()
    ran: list[int] = []
    first = context.dispatch_async(AsyncKernelRequest(lambda: begin.wait(10.0)))
    rest = [context.dispatch_async(AsyncKernelRequest(ran.append).with_args([i])) for i in range(5)]
    assert rest[0].state == "PENDING"
    assert not rest[0].is_ready
    assert rest[0].try_get() is None
    assert rest[0].exec_time is None
    begin.set()
    assert scheduler.destroy_context("a")
    assert ran == list(range(5))
    assert first.wait().output is True
    assert all(future.state == "COMPLETED" for future in rest)


def test_a_jit_kernel_runs() -> None:
    def reference(x: np.ndarray, factor: float, n: int) -> None:
        x[:n] *= factor

    kernel = gp.jit(SCALE, "scale", reference=reference)
    x = gp.ones(10)
    request = AsyncKernelRequest.linear(kernel, 10).with_args([x, 2.0, 10])
    assert create_context("a").dispatch_async(request).wait().success
    assert x.to_numpy().tolist() == [2.0] * 10


def test_failures_are_in_the_result() -> None:
    def bad() -> None:
        raise ValueError("boom")

    context = create_context("a")
    future = context.dispatch_async(AsyncKernelRequest(bad))
    result = future.wait()
    assert not result.success
    assert result.error == "ValueError: boom"
    assert future.state == "FAILED"
    assert context.dispatch_async(AsyncKernelRequest(lambda: 1)).wait().output == 1
    on_cpu = context.dispatch_async(AsyncKernelRequest(0x1234)).wait()
    assert on_cpu.error.startswith("GpuUnavailable")
    with pytest.raises(TypeError, match="kernel_handle"):
        context.dispatch_async(AsyncKernelRequest("text"))
