"""Tasks, contexts and blocks on a real GPU."""

from __future__ import annotations

import ctypes
import json
import time
from pathlib import Path

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import scheduler
from pygpukit.scheduler import MB, Scheduler, TaskState

SPIN = """
extern "C" __global__ void spin(float* x, long long ns) {
    long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - start < ns);
    x[threadIdx.x] += 1.0f;
}
"""


@pytest.fixture(scope="module")
def spin() -> gp.JITKernel:
    kernel = gp.jit(SPIN, "spin", block_size=32)
    kernel(gp.zeros(32), 1, grid=1, block=32)
    gp.synchronize()
    return kernel


def test_a_task_ends_when_its_kernels_have(spin: gp.JITKernel) -> None:
    x = gp.zeros(32)
    gp.synchronize()
    with Scheduler(workers=1, memory=10 * MB) as sched:
        task = sched.submit(lambda: spin(x, 200_000_000, grid=1, block=32), memory=MB)
        other = sched.submit(lambda: gp.current_stream().handle)
        other.result(10)  # the worker is free long before
        assert task.state is TaskState.RUNNING
        assert sched.native.stats().reserved_memory == MB
        task.result(10)
        assert task.info().exec_time >= 0.19
        assert sched.native.stats().reserved_memory == 0
    assert (x.to_numpy() == 1.0).all()


def test_kernels_of_different_tasks_overlap(spin: gp.JITKernel) -> None:
    arrays = [gp.zeros(32) for _ in range(8)]
    gp.synchronize()
    with Scheduler(workers=4) as sched:
        start = time.perf_counter()
        tasks = [sched.submit(spin, x, 50_000_000, kwargs={"grid": 1, "block": 32}) for x in arrays]
        for task in tasks:
            task.result(10)
        spent = time.perf_counter() - start
    assert spent < 0.3  # 0.4 s one after the other
    assert all((x.to_numpy() == 1.0).all() for x in arrays)


def test_results_are_as_alone() -> None:
    rng = np.random.default_rng(0)
    hosts = [rng.standard_normal((128, 128)).astype(np.float32) for _ in range(12)]

    def work(host: np.ndarray) -> np.ndarray:
        a = gp.from_numpy(host)
        return ((a @ a) + gp.sqrt(gp.abs(a))).to_numpy()

    alone = [work(host) for host in hosts]
    with Scheduler(workers=4) as sched:
        tasks = [sched.submit(work, host) for host in hosts]
        for task, expected in zip(tasks, alone, strict=True):
            np.testing.assert_array_equal(task.result(30), expected)


def test_a_cancelled_task_holds_its_memory_until_its_kernel_ends(spin: gp.JITKernel) -> None:
    x = gp.zeros(32)
    gp.synchronize()
    with Scheduler(workers=1, memory=10 * MB) as sched:
        task = sched.submit(lambda: spin(x, 100_000_000, grid=1, block=32), memory=MB)
        while task.state is not TaskState.RUNNING:
            time.sleep(0.001)
        time.sleep(0.01)
        assert task.cancel()
        assert sched.native.stats().reserved_memory == MB
        with pytest.raises(scheduler.TaskCancelled):
            task.result(10)
        assert sched.native.stats().reserved_memory == 0


def test_a_kernel_that_faults_fails_its_task(run_python) -> None:  # type: ignore[no-untyped-def]
    done = run_python("""
import pygpukit as gp
bad = gp.jit('extern "C" __global__ void bad(float* x) { ((float*)8)[0] = 1.0f; }', "bad")
x = gp.ones(4)
gp.synchronize()
sched = gp.scheduler.Scheduler(workers=1, memory=1 << 20)
task = sched.submit(lambda: bad(x), memory=1000)
after = sched.submit(int, after=[task], memory=1000)
error = task.exception(20)
print(type(error).__name__, task.state.name, type(after.exception(20)).__name__)
print(sched.native.stats().reserved_memory)
""")
    assert done.stdout == "CudaError FAILED DependencyFailed\n0\n", done.stderr


def test_raw_functions_and_jit_kernels_in_a_context(spin: gp.JITKernel) -> None:
    cuda = ctypes.CDLL("libcuda.so.1")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    gp.ones(1)  # this thread has the context now
    source = 'extern "C" __global__ void set(float* x, int n) { x[threadIdx.x] = n; }'
    ptx = gp.jit(source, "set").ptx.encode()
    assert cuda.cuModuleLoadData(ctypes.byref(module), ptx) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"set") == 0
    x = gp.zeros(32)
    gp.synchronize()
    try:
        context = scheduler.create_context("test")
        request = scheduler.AsyncKernelRequest(function.value).with_block(32)
        first = context.dispatch_async(request.with_args([x.device_ptr, 7]))
        shape = scheduler.AsyncKernelRequest(spin).with_block(32)
        second = context.dispatch_async(shape.with_args([x, 20_000_000]))
        assert not second.is_ready
        assert first.wait().success
        result = second.wait()
        assert result.success
        assert 0.019 <= result.exec_time < 1.0
        assert (x.to_numpy() == 8.0).all()
    finally:
        scheduler.reset()
        cuda.cuModuleUnload(module)


@pytest.mark.alone
def test_blocks_keep_to_the_quota_and_survive_eviction() -> None:
    from pygpukit import _native

    pool = gp.memory.MemoryPool(256 * MB, enable_eviction=True)
    free = _native.memory_info()[0]
    blocks = [pool.allocate(64 * MB) for _ in range(6)]  # 1.5 times the quota
    for i, block in enumerate(blocks):
        pool.restore(block)
        pool.write(block, np.full(16 * MB, i, np.int32))
    assert free - _native.memory_info()[0] <= 256 * MB + 64 * MB
    for i, block in enumerate(blocks):
        assert (pool.read(block, np.int32) == i).all()
    assert pool.stats()["eviction_count"] >= 2
    pool.clear()
    gp.memory.trim()


def test_a_limit_holds_launches_back(spin: gp.JITKernel) -> None:
    stream = gp.Stream()
    gp.dispatch.limit(stream, 1)
    x = gp.zeros(32)
    gp.synchronize()
    begin = time.perf_counter()
    for _ in range(3):
        spin(x, 10_000_000, grid=1, block=32, stream=stream)
    assert time.perf_counter() - begin >= 0.019  # the third is submitted when the second has ended
    gate = gp.dispatch.stats()[stream.handle]
    assert (gate.launches, gate.limit, gate.max_in_flight, gate.waits) == (3, 1, 1, 2)
    stream.synchronize()
    assert gp.dispatch.stats()[stream.handle].in_flight == 0
    assert (x.to_numpy() == 3.0).all()


def test_names_of_0_2_act_on_the_gpu(spin: gp.JITKernel) -> None:
    x, host, back = gp.zeros(32), np.full(32, 2.0, np.float32), np.zeros(32, np.float32)
    transfers = gp.transfer.AsyncTransferEngine()
    up = transfers.enqueue_h2d(host.ctypes.data, x.device_ptr, 128)
    assert transfers.start(up)
    assert transfers.complete(up)
    dispatcher = gp.dispatch.KernelDispatcher(max_in_flight=2)
    for _ in range(3):
        dispatcher.queue(spin, gp.dispatch.LaunchConfig(1, 32), [x, 1_000_000])
    dispatcher.drain()
    assert dispatcher.stats().completed_count == 3
    down = transfers.enqueue_d2h(x.device_ptr, back.ctypes.data, 128)
    assert transfers.start(down)
    assert transfers.complete(down)
    assert (back == 5.0).all()
    found = gp.dispatch.KernelCache().get_by_name("spin")
    assert found is not None
    assert found.is_loaded
    assert ".entry spin" in found.ptx


def test_a_trace_of_tasks(spin: gp.JITKernel, tmp_path: Path) -> None:
    arrays = [gp.zeros(32) for _ in range(3)]
    gp.synchronize()
    path = tmp_path / "trace.json"
    with Scheduler(workers=3) as sched, gp.profiling.trace(path):
        for task in [
            sched.submit(spin, x, 10_000_000, name="spin", kwargs={"grid": 1, "block": 32})
            for x in arrays
        ]:
            task.result(10)
    spans = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "task"]
    assert len(spans) == 3
    assert all(span["dur"] >= 9000 for span in spans)


@pytest.mark.alone
def test_a_trace_of_kernels(spin: gp.JITKernel, tmp_path: Path) -> None:
    x, w = gp.zeros(32), gp.zeros(32)
    y = gp.ones(1000) + gp.ones(1000)  # compiled before
    gp.synchronize()
    path = tmp_path / "trace.json"
    with gp.profiling.trace(path):
        begin = time.perf_counter()
        for _ in range(3):
            spin(x, 2_000_000, grid=1, block=32)
        z = y + y
        with gp.Stream():
            spin(w, 3_000_000, grid=1, block=32)
        gp.synchronize()
        spent = time.perf_counter() - begin
    assert (z.to_numpy() == 4.0).all()
    assert (x.to_numpy() == 3.0).all()
    assert (w.to_numpy() == 1.0).all()
    events = json.loads(path.read_text())["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    spins = sorted(e["dur"] for e in kernels if e["name"] == "spin")
    assert len(spins) == 4
    assert all(1990 <= dur < 2500 for dur in spins[:3]), spins  # microseconds
    assert 2990 <= spins[3] < 3500
    assert len(kernels) == 5  # y + y too
    rows: dict[int, float] = {}
    for event in sorted(kernels, key=lambda e: e["ts"]):  # kernels of a stream follow one another
        assert event["ts"] >= rows.get(event["tid"], 0.0) - 1.0
        rows[event["tid"]] = event["ts"] + event["dur"]
    assert len(rows) == 2
    last = max(rows.values()) - min(e["ts"] for e in kernels)
    assert last <= spent * 1e6 + 100  # the two clocks agree
    # Off again: nothing more is recorded, and results are the same.
    spin(x, 1, grid=1, block=32)
    assert (x.to_numpy() == 4.0).all()
