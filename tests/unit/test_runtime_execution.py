"""Execution contexts (section 15)."""

from __future__ import annotations

import asyncio
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
    with pytest.raises(ValueError, match="1"):
        a.track_deallocation(1)
    b.destroy()
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
    assert a.stats.state == "IDLE"


def test_requests() -> None:
    request = AsyncKernelRequest(5)
    assert (request.grid, request.block) == ((1, 1, 1), (256, 1, 1))
    assert request.with_grid(2, 3).with_block(64).with_shared_mem(128).with_args([1]) is request
    assert (request.grid, request.block, request.shared_mem) == ((2, 3, 1), (64, 1, 1), 128)
    assert AsyncKernelRequest.linear(5, 1000).grid == (4, 1, 1)


def test_a_callable_runs_on_the_contexts_stream() -> None:
    context = create_context("a")
    x = gp.ones(1000)

    def work(factor: float) -> gp.GPUArray:
        assert gp.current_stream().handle == context.stream.handle
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
    assert isinstance(future.exception(), ValueError)
    assert context.dispatch_async(AsyncKernelRequest(lambda: 1)).wait().output == 1
    with pytest.raises(gp.GpuUnavailable, match="CUfunction"):
        context.dispatch_async(AsyncKernelRequest(0x1234))
    with pytest.raises(TypeError, match="kernel_handle"):
        context.dispatch_async(AsyncKernelRequest("text"))
