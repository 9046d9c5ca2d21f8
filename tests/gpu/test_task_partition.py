"""Tasks that use a partition or more than one stream: their memory is held to the last kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.scheduler import MB, Scheduler, TaskState

# Runs until the host writes to `flag`, pinned memory; 20 s at most, should a test fail.
WAIT_FOR = """
extern "C" __global__ void wait_for(long long flag, float* x) {
    long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (*(volatile int*)flag == 0 && now - start < 20000000000LL);
    x[threadIdx.x] += 1.0f;
}
"""

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="custom kernels need NVRTC")


class Blocker:
    """A kernel that runs until it is released."""

    def __init__(self) -> None:
        self.kernel = gp.jit(WAIT_FOR, "wait_for", block_size=32)
        self.flag = gp.pinned_empty(1, "int32")
        self.x = gp.zeros(32)
        self.flag[0] = 1
        self()  # compiled and loaded
        gp.synchronize()
        self.flag[0] = 0

    def __call__(self, stream: Any = None) -> None:
        self.kernel(self.flag.ctypes.data, self.x, grid=1, block=32, stream=stream)

    def release(self) -> None:
        self.flag[0] = 1


@pytest.fixture
def blocker() -> Iterator[Blocker]:
    made = Blocker()
    yield made
    made.release()
    gp.synchronize()


def small_work() -> Any:
    return gp.zeros(1) + 1


@pytest.fixture
def part() -> Iterator[Any]:
    made = gp.scheduler.partition("part", compute=0.25, memory=64 * MB)
    with made:
        small_work()
    yield made
    made.close()


def holds_until_released(blocker: Blocker, work: Callable[[], object], **where: Any) -> None:
    """A task of `work`, whose kernel waits, holds its memory until that kernel has ended."""
    submitted = threading.Event()

    def body() -> None:
        work()
        submitted.set()

    with Scheduler(workers=2, memory=16 * MB) as sched:
        try:
            sched.submit(small_work).result(30)
            task = sched.submit(body, memory=10 * MB, **where)
            assert submitted.wait(30)
            for _ in range(3):  # ends are seen in order: that of the task would be by now
                sched.submit(small_work).result(30)
            later = sched.submit(lambda: "later", memory=10 * MB)
            assert task.state is TaskState.RUNNING
            assert sched.native.stats().reserved_memory == 10 * MB
            assert later.state is TaskState.QUEUED
        finally:
            blocker.release()
        task.result(30)
        assert later.result(30) == "later"
        assert sched.native.stats().reserved_memory == 0
    assert (blocker.x.to_numpy() == 2.0).all()


def test_a_task_that_uses_a_partition(blocker: Blocker, part: Any) -> None:
    def work() -> None:
        gp.zeros(1)
        with part:
            blocker()

    holds_until_released(blocker, work)


def test_a_task_that_runs_in_a_partition(blocker: Blocker, part: Any) -> None:
    holds_until_released(blocker, blocker, partition="part")


def test_a_task_that_launches_on_two_streams(blocker: Blocker) -> None:
    side = gp.Stream()

    def work() -> None:
        gp.zeros(1)
        blocker(side)

    holds_until_released(blocker, work)


def test_a_task_that_drops_the_stream_it_used(blocker: Blocker) -> None:
    def work() -> None:
        with gp.Stream():
            blocker()

    holds_until_released(blocker, work)


def test_a_task_that_replays_a_graph_elsewhere(blocker: Blocker) -> None:
    graph = gp.CudaGraph()
    with graph:
        blocker()
    side = gp.Stream()
    holds_until_released(blocker, lambda: graph.replay(stream=side))


def test_a_task_that_starts_a_transfer(blocker: Blocker) -> None:
    host = np.ones(8 * MB, np.uint8)
    x = gp.zeros(8 * MB, "uint8")
    # What waits for running kernels comes first: pinned memory of the engine, modules of kernels.
    gp.transfer.submit_h2d(x, host).wait()
    small_work()
    x[:] = 0
    gp.synchronize()
    side = gp.Stream()
    blocker(side)  # the copy starts after it; the task launches nothing
    holds_until_released(blocker, lambda: gp.transfer.submit_h2d(x, host, stream=side))
    np.testing.assert_array_equal(x.to_numpy(), host)


@pytest.mark.hardware("green contexts limit nothing")
def test_tasks_of_a_partition_stay_on_its_multiprocessors(part: Any) -> None:
    if part.report().compute.how != "green context":
        pytest.skip(part.report().compute.note)
    kernel = gp.jit(
        """
extern "C" __global__ void smid(unsigned* seen) {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  long long start = clock64();
  while (clock64() - start < 20000) {}
  if (threadIdx.x == 0) seen[blockIdx.x] = id;
}
""",
        "smid",
    )

    def work() -> set[int]:
        seen = gp.full(4096, 999, dtype="uint32")
        kernel(seen, grid=4096, block=256)
        return set(seen.to_numpy().tolist())

    with Scheduler(workers=2) as sched:
        assert len(sched.submit(work, partition="part").result(30)) == part.report().given_sms
        assert len(sched.submit(work).result(30)) > part.report().given_sms
