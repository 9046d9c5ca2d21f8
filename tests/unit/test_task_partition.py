"""Tasks in partitions, and tasks that use more than one stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cases.tasks import WAIT, Gate, nothing_is_left, until

import pygpukit as gp
from pygpukit import _native
from pygpukit.scheduler import MB, TaskState

# --- On CPU simulation ---------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[tuple[Any, Any]]:
    a = gp.scheduler.partition("a", memory=50 * MB, compute=0.5)
    b = gp.scheduler.partition("b", memory=50 * MB, compute=0.5, qos="guaranteed")
    yield a, b
    a.close()
    b.close()


def test_a_task_works_in_its_partition(sched: Any, pair: tuple[Any, Any]) -> None:
    def work() -> tuple[int, int]:
        x = gp.ones(MB, "uint8")
        return gp.current_stream().handle, int(x.sum(dtype="int64"))

    for part in pair:
        task = sched.submit(work, partition=part.name)
        handle, total = task.result(WAIT)
        assert total == MB
        with part:
            assert gp.current_stream().handle == handle
        assert task.info().account == part.name
        assert part.report().memory_peak >= MB
        assert part.report().memory.used == 0
    assert sched.submit(lambda: 5, partition=pair[0]).result(WAIT) == 5  # the object will do
    for qos, name in ((None, "Guaranteed"), ("burstable", "Burstable")):
        task = sched.submit(int, partition="b", qos=qos)
        task.result(WAIT)
        assert task.info().qos.name == name
    nothing_is_left(sched)


def test_a_full_partition_makes_its_own_tasks_wait(sched: Any, pair: tuple[Any, Any]) -> None:
    gate = Gate()
    first = sched.submit(gate, memory=50 * MB, partition="a")
    assert gate.entered.wait(WAIT)
    assert pair[0].report().memory.used == 50 * MB
    waits = sched.submit(int, memory=MB, partition="a")
    assert sched.submit(lambda: 7, memory=50 * MB, partition="b").result(WAIT) == 7
    assert waits.state is TaskState.QUEUED
    assert waits.reason == "account memory"
    with pytest.raises(RuntimeError, match="'a' is in use"):
        pair[0].close()
    with pytest.raises(MemoryError, match="'a'"):
        sched.submit(int, memory=51 * MB, partition="a")
    decision = sched.evaluate_admission(memory=MB, partition="a")
    assert not decision.is_admitted()
    text = str(sched.snapshot())
    assert "partitions\n" in text
    assert "50.0 MiB / 50.0 MiB" in text
    gate.open()
    first.result(WAIT)
    waits.result(WAIT)
    nothing_is_left(sched)


def test_arrays_of_the_partition_count_for_its_tasks(sched: Any, pair: tuple[Any, Any]) -> None:
    with pair[0]:
        kept = gp.zeros(30 * MB, "uint8")
    waits = sched.submit(lambda: "in", memory=30 * MB, partition="a")
    assert waits.state is TaskState.QUEUED
    assert sched.submit(lambda: "fits", memory=16 * MB, partition="a").result(WAIT) == "fits"
    del kept
    assert waits.result(WAIT) == "in"


def test_a_task_uses_what_it_reserved(sched: Any, pair: tuple[Any, Any]) -> None:
    def work() -> Any:
        for _ in range(3):
            gp.zeros(40 * MB, "uint8")
        with pair[0]:  # inside already: still the reservation
            kept = gp.zeros(40 * MB, "uint8")
        with pytest.raises(MemoryError, match="partition a"):
            gp.zeros(40 * MB, "uint8")
        return kept

    result = sched.submit(work, memory=40 * MB, partition="a").result(WAIT)
    assert 40 * MB <= pair[0].report().memory.used < 41 * MB  # the array it returned
    del result
    until(lambda: pair[0].report().memory.used == 0)  # the worker may still hold the task


def test_a_task_run_by_a_waiting_one_is_not_in_its_partition(
    sched: Any, pair: tuple[Any, Any]
) -> None:
    def inner() -> int:
        x = gp.zeros(10 * MB, "uint8")
        return int(pair[0].report().memory.used) + x.size - 10 * MB

    def outer() -> int:
        return int(sched.submit(inner).result(WAIT))

    with gp.scheduler.Scheduler(workers=1) as one:
        sched = one
        assert one.submit(outer, partition="a").result(WAIT) == 0
        assert one.submit(outer, memory=5 * MB, partition="a").result(WAIT) == 5 * MB


def test_more_tasks_than_streams_share_them(sched: Any) -> None:
    part = gp.scheduler.partition("narrow", max_streams=1)
    gate = Gate()

    def work() -> int:
        gate()
        return int(gp.current_stream().handle)

    tasks = [sched.submit(work, partition="narrow") for _ in range(2)]
    until(lambda: all(task.running() for task in tasks))
    gate.open()
    assert len({task.result(WAIT) for task in tasks}) == 1
    assert part.report().streams.used == 1
    part.close()


def test_names_that_are_not_open(sched: Any, pair: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match="submit: partition is 'c', open on cpu: a, b"):
        sched.submit(int, partition="c")
    with pytest.raises(ValueError, match="evaluate_admission: partition is 'c'"):
        sched.evaluate_admission(partition="c")
    closed = gp.scheduler.partition("closed")
    closed.close()
    with pytest.raises(ValueError, match="'closed', device='cpu', closed\\), open on cpu: a, b"):
        sched.submit(int, partition=closed)


def test_a_partition_closed_before_its_task_starts() -> None:
    part = gp.scheduler.partition("gone")
    with gp.scheduler.Scheduler(workers=1) as sched:
        gate = Gate()
        sched.submit(gate)
        assert gate.entered.wait(WAIT)
        task = sched.submit(int, partition="gone")
        part.close()
        gate.open()
        with pytest.raises(RuntimeError, match="partition: 'gone' is closed"):
            task.result(WAIT)


def test_a_task_keeps_its_partition() -> None:
    with gp.scheduler.Scheduler(workers=1) as sched:
        gate = Gate()
        sched.submit(gate)
        part = gp.scheduler.partition("dropped", memory=MB)
        task = sched.submit(lambda: gp.zeros(2 * MB, "uint8"), partition="dropped")
        del part
        gate.open()
        with pytest.raises(MemoryError, match="partition dropped"):
            task.result(WAIT)


def test_transfers_of_a_task_end_before_it(sched: Any) -> None:
    host = np.arange(4 * MB, dtype=np.uint8)
    x = gp.zeros(4 * MB, "uint8")
    task = sched.submit(lambda: gp.transfer.submit_h2d(x, host))
    future = task.result(WAIT)
    assert future.done()
    np.testing.assert_array_equal(x.to_numpy(), host)


def test_the_old_manager_opens_partitions_that_are_enforced(sched: Any) -> None:
    limits = gp.scheduler.PartitionLimits(8 * MB, 0.5, 0.5, max_streams=3)
    manager = gp.scheduler.PartitionManager()
    manager.create_partition("batch", "Batch jobs", limits)
    with pytest.raises(ValueError, match="open on cpu: none"):
        sched.submit(int, partition="batch")
    part = manager.open("batch", qos="best_effort")
    assert manager.open("batch") is part
    report = part.report()
    assert (report.qos, report.memory.asked, report.streams.asked) == ("best_effort", 8 * MB, 3)
    assert (report.compute.asked, report.bandwidth.asked) == (0.5, 0.5)
    x = sched.submit(lambda: gp.zeros(4 * MB, "uint8"), partition="batch").result(WAIT)
    assert manager.get("batch").usage.memory_used >= 4 * MB
    assert manager.get("batch").memory_utilization() >= 0.5
    assert manager.get("batch").usage.active_streams == 1
    with pytest.raises(RuntimeError, match="in use"):
        manager.delete_partition("batch")
    assert manager.partition_ids() == ["batch"]
    del x
    until(lambda: manager.get("batch").usage.memory_used == 0)
    assert manager.delete_partition("batch").name == "Batch jobs"
    assert part.closed
    with pytest.raises(ValueError, match="open: partition 'batch' does not exist, there is none"):
        manager.open("batch")


# --- On the fake driver --------------------------------------------------------------------------

PRELUDE = """
MB = 2**20
sched = gp.scheduler.configure(workers=2, memory=10 * MB)
gp.zeros(1)

def holds_until_idle(work):
    '''`work` submits, makes the stream it used busy and returns its handle.'''
    used = []
    task = sched.submit(lambda: used.append(work()), memory=6 * MB)
    until(lambda: used)
    sched.submit(int).result(20)   # its own stream is idle by now
    time.sleep(0.02)
    print(task.state.name, sched.native.stats().reserved_memory // MB, end=" ")
    later = sched.submit(lambda: "later", memory=6 * MB)
    print(later.state.name, end=" ")
    fake.gpk_fake_set_busy(used[0], 0)
    task.result(20)
    print(task.state.name, later.result(20))
"""
HELD = "RUNNING 6 QUEUED COMPLETED later\n"


@pytest.fixture
def run(run_on_fake: Any) -> Any:
    return lambda program: run_on_fake(PRELUDE + program)


def test_work_in_a_partition_holds_the_reservation(run: Any) -> None:
    out = run("""
part = gp.scheduler.partition("p", compute=0.5)
def work():
    with part:
        gp.zeros(10)
        handle = gp.current_stream().handle
        fake.gpk_fake_set_busy(handle, 1)
    return handle
holds_until_idle(work)
""")
    assert out == HELD


def test_work_on_another_stream_holds_the_reservation(run: Any) -> None:
    out = run("""
def work():
    with gp.Stream() as stream:
        gp.zeros(10)
        fake.gpk_fake_set_busy(stream.handle, 1)
    return stream.handle
holds_until_idle(work)
def forgotten():
    with gp.Stream():
        gp.zeros(10)
        handle = gp.current_stream().handle
        fake.gpk_fake_set_busy(handle, 1)
    return handle
holds_until_idle(forgotten)
""")
    assert out == 2 * HELD


@pytest.mark.skipif(not _native.nvrtc_info()["available"], reason="NVRTC is not installed")
def test_a_kernel_sent_to_another_stream_holds_the_reservation(run: Any) -> None:
    out = run("""
fake.gpk_fake_set_param_sizes(b"scale", (ctypes.c_size_t * 3)(8, 4, 4), 3)
source = 'extern "C" __global__ void scale(float* x, float f, int n) { x[n] *= f; }'
kernel = gp.jit(source, "scale")
x, q = gp.ones(4), gp.Stream()
def work():
    kernel(x, 2.0, 4, grid=1, block=32, stream=q)
    fake.gpk_fake_set_busy(q.handle, 1)
    return q.handle
holds_until_idle(work)
""")
    assert out == HELD


def test_a_replay_and_a_transfer_hold_the_reservation(run: Any) -> None:
    out = run("""
x = gp.zeros(3 * MB, "uint8")
host = np.ones(3 * MB, np.uint8)
graph = gp.CudaGraph()
with graph:
    x += 1
q = gp.Stream()
def replays():
    graph.replay(stream=q)
    fake.gpk_fake_set_busy(q.handle, 1)
    return q.handle
holds_until_idle(replays)
blocker = gp.Stream()
fake.gpk_fake_set_busy(blocker.handle, 1)
def copies():
    gp.transfer.submit_h2d(x, host, stream=blocker)   # starts when the stream is idle
    return blocker.handle
holds_until_idle(copies)
print((x.to_numpy() == 1).all())
""")
    assert out == 2 * HELD + "True\n"


def test_a_task_of_a_partition_on_the_gpu(run: Any) -> None:
    out = run("""
serve = gp.scheduler.partition("serve", compute=0.75, qos="guaranteed")
batch = gp.scheduler.partition("batch", compute=0.25, memory=8 * MB, qos="best_effort")
def where():
    handle = gp.current_stream().handle
    gp.zeros(10)
    return handle, fake.gpk_fake_stream_sms(handle), fake.gpk_fake_stream_priority(handle)
for name in ("serve", "batch"):
    print(*sched.submit(where, partition=name).result(20)[1:])
used = []
def work():
    gp.zeros(10)
    used.append(gp.current_stream().handle)
    fake.gpk_fake_set_busy(used[0], 1)
task = sched.submit(work, memory=6 * MB, partition="batch")
until(lambda: used)
time.sleep(0.02)
print(task.state.name, batch.report().memory.used // MB)
try:
    batch.close()
except RuntimeError as error:
    print("'batch' is in use: 1 of its streams" in str(error))
fake.gpk_fake_set_busy(used[0], 0)
task.result(20)
until(lambda: batch.report().memory.used == 0)
batch.close()
serve.close()
""")
    assert out == "100 -5\n32 0\nRUNNING 6\nTrue\n"


def test_classes_of_tasks_and_partitions_are_alike(run: Any) -> None:
    out = run("""
def priority():
    return fake.gpk_fake_stream_priority(gp.current_stream().handle)
for qos in ("guaranteed", "burstable", "best_effort"):
    with gp.scheduler.partition("p", qos=qos) as part:
        inside = priority()
    print(qos, inside, sched.submit(priority, qos=qos).result(20), part.report().stream_priority)
    part.close()
print(sched.submit(priority).result(20))
""")
    assert out == "guaranteed -5 -5 -5\nburstable -2 -2 -2\nbest_effort 0 0 0\n0\n"
