"""submit(), TaskFuture and TaskScheduler; and what happens when things go wrong."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import scheduler
from pygpukit.scheduler import (
    MB,
    DeadlineMissed,
    DependencyFailed,
    PartitionConfig,
    PartitionLimits,
    PartitionManager,
    QosClass,
    TaskCancelled,
    TaskPolicy,
    TaskScheduler,
    TaskState,
)

WAIT = 20.0  # seconds; no test needs them


@pytest.fixture
def sched() -> Iterator[TaskScheduler]:
    with TaskScheduler(workers=2, memory=100 * MB) as made:
        yield made


class Gate:
    """A task that waits to be let through."""

    def __init__(self) -> None:
        self.entered, self._open = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.entered.set()
        assert self._open.wait(WAIT)
        return "through"

    def open(self) -> None:
        self._open.set()


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.001)


def nothing_is_left(sched: TaskScheduler) -> None:
    stats = sched.native.stats()
    assert stats.reserved_memory == 0
    assert stats.reserved_bandwidth == 0.0
    assert stats.pending_count + stats.running_count == 0
    assert sched.native.streams_in_use == 0


def test_results_arguments_and_names(sched: TaskScheduler) -> None:
    def add(a: int, b: int = 0) -> int:
        return a + b

    task = sched.submit(add, 1, kwargs={"b": 2}, memory=MB)
    assert task.result(WAIT) == 3
    assert (task.name, task.state, task.done()) == ("add", TaskState.COMPLETED, True)
    assert not task.running()
    assert task.exception() is None
    assert task.info().ended_at >= task.info().started_at
    assert sched.submit(lambda: (gp.ones(3) + 1).to_numpy().sum()).result(WAIT) == 6.0
    assert "completed" in repr(task)
    assert task.cancel() is False
    nothing_is_left(sched)


def test_module_functions_use_one_scheduler() -> None:
    try:
        assert scheduler.submit(lambda: 5, memory=MB).result(WAIT) == 5
        assert scheduler.default_scheduler() is scheduler.default_scheduler()
        made = scheduler.configure(policy="sjf", workers=1)
        assert scheduler.default_scheduler() is made
        assert scheduler.snapshot().policy == "sjf"
        gate = Gate()
        task = scheduler.submit(gate)
        with pytest.raises(RuntimeError, match="have not ended"):
            scheduler.configure(policy="fifo")
        gate.open()
        task.result(WAIT)
    finally:
        assert scheduler.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        made.submit(lambda: None)


def test_each_task_has_its_own_stream(sched: TaskScheduler) -> None:
    gates = [Gate(), Gate()]
    streams: dict[int, int] = {}

    def work(i: int) -> None:
        streams[i] = id(gp.current_stream())
        gates[i]()

    tasks = [sched.submit(work, i) for i in range(2)]
    for gate in gates:
        assert gate.entered.wait(WAIT)
    assert sched.native.streams_in_use == 2
    for gate in gates:
        gate.open()
    for task in tasks:
        task.result(WAIT)
    assert streams[0] != streams[1]
    nothing_is_left(sched)


def test_dependencies_run_first(sched: TaskScheduler) -> None:
    seen: list[str] = []
    gate = Gate()
    first = sched.submit(gate)
    second = sched.submit(lambda: seen.append("second"), after=[first])
    third = sched.submit(lambda: seen.append("third"), after=[first, second])
    assert third.state is TaskState.PENDING
    assert "dependencies" in third.reason
    gate.open()
    third.result(WAIT)
    assert seen == ["second", "third"]
    with TaskScheduler() as other, pytest.raises(ValueError, match="another scheduler"):
        other.submit(int, after=[first])


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("fifo", "abcd"), ("priority", "bdca"), ("sjf", "cabd")],
)
def test_orders(policy: str, expected: str) -> None:
    with TaskScheduler(workers=1, policy=policy, aging_interval=0.0) as sched:
        gate = Gate()
        sched.submit(gate, priority=1000)
        assert gate.entered.wait(WAIT)
        ran: list[str] = []
        rows = {"a": (0, 2.0), "b": (9, 3.0), "c": (1, 1.0), "d": (5, 4.0)}
        tasks = [
            sched.submit(ran.append, name, name=name, priority=priority, estimate=estimate)
            for name, (priority, estimate) in rows.items()
        ]
        gate.open()
        for task in tasks:
            task.result(WAIT)
        assert "".join(ran) == expected


def test_guaranteed_goes_before_best_effort_by_priority() -> None:
    with TaskScheduler(workers=1, policy="priority") as sched:
        gate = Gate()
        sched.submit(gate, qos="guaranteed", priority=1000)
        assert gate.entered.wait(WAIT)
        ran: list[str] = []
        tasks = [
            sched.submit(ran.append, "late"),
            sched.submit(ran.append, "middle", policy=TaskPolicy.BURSTABLE),
            sched.submit(ran.append, "first", qos=QosClass.Guaranteed),
        ]
        gate.open()
        for task in tasks:
            task.result(WAIT)
        assert ran == ["first", "middle", "late"]


def test_bad_arguments(sched: TaskScheduler) -> None:
    with pytest.raises(ValueError, match="TaskScheduler\\(policy='sjf'\\)"):
        sched.submit(int, policy="sjf")
    with pytest.raises(ValueError, match="qos is 'best'"):
        sched.submit(int, qos="best")
    with pytest.raises(ValueError, match="two names"):
        sched.submit(int, qos="burstable", policy="burstable")
    with pytest.raises(ValueError, match="bandwidth"):
        sched.submit(int, bandwidth=2.0)
    with pytest.raises(ValueError, match="workers"):
        TaskScheduler(workers=0)
    with pytest.raises(ValueError, match="policy is 'other'"):
        TaskScheduler(policy="other")
    nothing_is_left(sched)


def test_memory_is_reserved_before_a_task_starts(sched: TaskScheduler) -> None:
    gate = Gate()
    first = sched.submit(gate, memory=80 * MB)
    assert gate.entered.wait(WAIT)
    second = sched.submit(lambda: "second", memory=40 * MB)
    small = sched.submit(lambda: "small", memory=10 * MB)
    assert small.result(WAIT) == "small"  # fits beside the first
    assert second.state is TaskState.QUEUED
    assert second.reason == "device memory"
    snapshot = sched.snapshot()
    assert snapshot.reserved_memory == 80 * MB
    (waits,) = [t for t in snapshot.tasks if t.id == second.id]
    assert "40.00 MiB" in waits.reason
    decision = sched.evaluate_admission(memory=30 * MB)
    assert decision.is_queued()
    assert "memory" in str(decision)
    gate.open()
    assert first.result(WAIT) == "through"
    assert second.result(WAIT) == "second"
    nothing_is_left(sched)


def test_reservations_are_held_in_the_pool() -> None:
    """What one task reserved nobody else gets; memory that arrays free lets the next one start."""
    from pygpukit import memory

    gate = Gate()
    base = memory.stats()["set_aside"]
    gp.synchronize()
    memory.trim()
    try:
        memory.set_limit(memory.stats()["reserved"] + 96 * MB)
        big = gp.empty(40 * MB, "uint8")
        with TaskScheduler(workers=2) as sched:

            def work() -> int:
                x = gp.ones(8 * MB, "uint8")
                gate()
                return int(x.sum(dtype="int64"))

            first = sched.submit(work, memory=32 * MB)
            assert gate.entered.wait(WAIT)
            assert memory.stats()["set_aside"] - base >= 24 * MB  # 8 of the 32 are an array
            with pytest.raises(MemoryError):
                gp.empty(48 * MB, "uint8")
            second = sched.submit(lambda: 2, memory=88 * MB)
            gate.open()
            assert first.result(WAIT) == 8 * MB
            assert second.state is TaskState.QUEUED
            del big
            assert second.result(WAIT) == 2
            nothing_is_left(sched)
    finally:
        memory.set_limit(None)
    assert memory.stats()["set_aside"] == base


def test_more_memory_than_there_is_is_refused_at_once(sched: TaskScheduler) -> None:
    with pytest.raises(MemoryError, match="101"):
        sched.submit(int, memory=101 * MB)
    assert sched.submit(lambda: 1, memory=100 * MB).result(WAIT) == 1
    nothing_is_left(sched)


def test_partitions_have_their_own_memory() -> None:
    manager = PartitionManager(PartitionConfig(total_memory=100 * MB))
    for name in ("a", "b"):
        manager.create_partition(name, name, PartitionLimits(50 * MB, 0.5, 0.5))
    with TaskScheduler(workers=2, partitions=manager) as sched:
        assert sched.partitions is manager
        gate = Gate()
        first = sched.submit(gate, memory=50 * MB, partition="a")
        assert gate.entered.wait(WAIT)
        waits = sched.submit(int, memory=MB, partition="a")
        assert sched.submit(lambda: 7, memory=50 * MB, partition="b").result(WAIT) == 7
        assert waits.state is TaskState.QUEUED
        with pytest.raises(MemoryError, match="'a'"):
            sched.submit(int, memory=51 * MB)  # a is the default
        with pytest.raises(ValueError, match="partition is 'c'"):
            sched.submit(int, partition="c")
        text = str(sched.snapshot())
        assert "partitions" in text
        assert "50.0 MiB / 50.0 MiB" in text
        gate.open()
        first.result(WAIT)
        waits.result(WAIT)
        nothing_is_left(sched)
    assert manager.stats().memory_used == 0


def test_await(sched: TaskScheduler) -> None:
    async def main() -> list[int]:
        tasks = [sched.submit(lambda i=i: i * i) for i in range(20)]
        return [await task for task in tasks]

    assert asyncio.run(main()) == [i * i for i in range(20)]

    async def failing() -> None:
        await sched.submit(lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(failing())

    gate = Gate()
    blocker = [sched.submit(gate), sched.submit(gate)]
    queued = sched.submit(int)

    async def given_up() -> None:
        waiting = asyncio.ensure_future(_waits(queued))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(given_up())
    assert queued.cancelled()
    gate.open()
    for task in blocker:
        task.result(WAIT)


async def _waits(task: scheduler.TaskFuture[int]) -> int:
    return await task


def test_callbacks(sched: TaskScheduler) -> None:
    gate, ended = Gate(), threading.Event()
    task = sched.submit(gate)
    task.add_done_callback(lambda t: ended.set() if t.result(0) == "through" else None)
    assert not ended.is_set()
    gate.open()
    assert ended.wait(WAIT)
    late: list[str] = []
    task.add_done_callback(lambda t: late.append(t.result()))
    assert late == ["through"]


def test_tasks_may_wait_for_tasks(sched: TaskScheduler) -> None:
    def fib(n: int) -> int:
        if n < 2:
            return n
        parts = [sched.submit(fib, n - 1), sched.submit(fib, n - 2)]
        return sum(part.result(WAIT) for part in parts)

    assert sched.submit(fib, 7).result(WAIT) == 13  # far more waiting tasks than workers


def test_results_outlive_what_the_scheduler_remembers() -> None:
    with TaskScheduler(workers=2, max_ended_kept=4) as sched:
        tasks = [sched.submit(lambda i=i: i) for i in range(100)]
        assert [task.result(WAIT) for task in tasks] == list(range(100))
        assert all(task.state is TaskState.COMPLETED for task in tasks)


def test_current_task(sched: TaskScheduler) -> None:
    def look() -> tuple[int, bool]:
        me = scheduler.current_task()
        assert me is not None
        return me.id, me.cancel_requested

    task = sched.submit(look)
    assert task.result(WAIT) == (task.id, False)
    assert scheduler.current_task() is None


def test_snapshot_as_data_and_text(sched: TaskScheduler) -> None:
    gate = Gate()
    running = sched.submit(gate, name="train", memory=MB, qos="guaranteed", priority=3)
    waiting = sched.submit(int, after=[running], name="report")
    assert gate.entered.wait(WAIT)
    snapshot = sched.snapshot()
    assert [(t.name, t.state) for t in snapshot.tasks] == [
        ("train", "running"),
        ("report", "pending"),
    ]
    assert snapshot.counts == {
        **dict.fromkeys(["queued", "admitted", "completed", "failed", "cancelled"], 0),
        "pending": 1,
        "running": 1,
    }
    assert (snapshot.streams_in_use, snapshot.workers, snapshot.device) == (1, 2, "cpu")
    data = snapshot.to_dict()
    assert scheduler.Snapshot.from_dict(data) == snapshot
    assert data["tasks"][0]["qos"] == "Guaranteed"
    text = str(snapshot)
    assert "train" in text
    assert "waits for task" in text
    scheduler.add_section("extra", lambda: {"answer": 42})
    try:
        assert sched.snapshot().sections["extra"] == {"answer": 42}
    finally:
        from pygpukit.scheduler import inspection

        inspection._sources.clear()
    gate.open()
    waiting.result(WAIT)


# --- faults -------------------------------------------------------------------------------------


def test_a_task_that_throws(sched: TaskScheduler) -> None:
    class Special(Exception):
        pass

    def bad() -> None:
        raise Special("text")

    task = sched.submit(bad, memory=MB)
    later = sched.submit(int, after=[task], memory=MB)
    last = sched.submit(int, after=[later], memory=MB)
    other = sched.submit(lambda: "fine", memory=MB)
    for _ in range(2):  # the same exception to every waiter
        with pytest.raises(Special, match="text") as caught:
            task.result(WAIT)
    assert caught.value is task.exception()
    assert any(frame.name == "bad" for frame in caught.traceback)
    assert task.reason == "Special: text"
    for dependent in (later, last):
        with pytest.raises(DependencyFailed, match="Special: text") as failed:
            dependent.result(WAIT)
        assert failed.value.__cause__ is caught.value
        assert dependent.state is TaskState.FAILED
    assert other.result(WAIT) == "fine"
    nothing_is_left(sched)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError, StopIteration])
def test_any_exception_is_kept(sched: TaskScheduler, error: type[BaseException]) -> None:
    def bad() -> None:
        raise error("kept")

    with pytest.raises(error, match="kept"):
        sched.submit(bad).result(WAIT)
    assert sched.submit(lambda: 1).result(WAIT) == 1
    nothing_is_left(sched)


def test_an_exception_whose_text_raises(sched: TaskScheduler) -> None:
    class Mean(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def bad() -> None:
        raise Mean

    task = sched.submit(bad)
    assert isinstance(task.exception(WAIT), Mean)
    assert task.reason == "Mean"
    nothing_is_left(sched)


def test_cancel_in_every_state(sched: TaskScheduler) -> None:
    gates = [Gate(), Gate()]
    running = [sched.submit(gate, memory=40 * MB) for gate in gates]
    for gate in gates:
        assert gate.entered.wait(WAIT)
    admitted = sched.submit(int, memory=MB)  # no worker is free
    queued = sched.submit(int, memory=50 * MB)
    pending = sched.submit(int, after=[running[0]])
    dependent = sched.submit(int, after=[queued])
    assert [t.state for t in (admitted, queued, pending)] == [
        TaskState.ADMITTED,
        TaskState.QUEUED,
        TaskState.PENDING,
    ]
    for task in (admitted, queued, pending):
        assert task.cancel("not needed")
        assert task.state is TaskState.CANCELLED
        with pytest.raises(TaskCancelled, match="not needed"):
            task.result(0)
        assert not task.cancel()
    with pytest.raises(DependencyFailed, match="not needed"):
        dependent.result(0)
    assert running[0].cancel("stop")
    assert running[0].state is TaskState.RUNNING  # its function still runs
    assert running[0].cancel_requested
    for gate in gates:
        gate.open()
    with pytest.raises(TaskCancelled, match="stop"):
        running[0].result(WAIT)
    assert running[1].result(WAIT) == "through"
    assert not running[1].cancel()  # completed
    failed = sched.submit(lambda: 1 / 0)
    failed.exception(WAIT)
    assert not failed.cancel()
    nothing_is_left(sched)


def test_a_cancelled_task_that_then_throws_is_cancelled(sched: TaskScheduler) -> None:
    gate = Gate()

    def work() -> None:
        gate()
        raise ValueError("late")

    task = sched.submit(work, memory=MB)
    assert gate.entered.wait(WAIT)
    task.cancel("stop")
    gate.open()
    with pytest.raises(TaskCancelled):
        task.result(WAIT)
    nothing_is_left(sched)


def test_a_long_function_looks_for_a_cancel(sched: TaskScheduler) -> None:
    entered = threading.Event()

    def work() -> None:
        me = scheduler.current_task()
        assert me is not None
        entered.set()
        until(lambda: me.cancel_requested)

    task = sched.submit(work)
    assert entered.wait(WAIT)
    task.cancel()
    with pytest.raises(TaskCancelled):
        task.result(WAIT)


def test_deadlines(sched: TaskScheduler) -> None:
    gates = [Gate(), Gate()]
    running = [sched.submit(gate, deadline=0.05) for gate in gates]
    for gate in gates:
        assert gate.entered.wait(WAIT)
    late = sched.submit(int, deadline=0.01, memory=MB)
    with pytest.raises(DeadlineMissed, match="deadline passed"):
        late.result(WAIT)
    time.sleep(0.06)
    for gate in gates:
        gate.open()
    assert [task.result(WAIT) for task in running] == ["through"] * 2  # those that run go on
    assert running[0].info().missed_deadline
    assert sched.snapshot().missed_deadlines >= 2
    nothing_is_left(sched)


def test_timeouts(sched: TaskScheduler) -> None:
    gate = Gate()
    task = sched.submit(gate)
    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        task.result(0.01)
    assert not task.wait(0.0)
    gate.open()
    assert task.wait(WAIT)


def test_out_of_memory_in_a_task_is_its_own(sched: TaskScheduler) -> None:
    def greedy() -> None:
        pool = gp.memory.MemoryPool(MB)
        pool.allocate(2 * MB)

    with pytest.raises(MemoryError, match="quota"):
        sched.submit(greedy, memory=MB).result(WAIT)
    nothing_is_left(sched)


def test_a_client_thread_that_dies_leaves_nothing_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[object] = []  # the traceback, and with it the client
    monkeypatch.setattr(threading, "excepthook", kept.append)
    made = scheduler.configure(workers=1, memory=100 * MB)
    try:
        gate = Gate()
        blocker = scheduler.submit(gate)
        assert gate.entered.wait(WAIT)
        tasks: list[scheduler.TaskFuture[int]] = []

        def client() -> None:
            mine = scheduler.thread_client()
            tasks.append(mine.submit(int, memory=90 * MB))
            tasks.append(mine.submit(int, after=tasks[:1], memory=MB))
            raise ValueError("the thread dies")

        thread = threading.Thread(target=client)
        thread.start()
        thread.join(WAIT)
        gc.collect()
        until(lambda: len(tasks) == 2 and all(task.done() for task in tasks))
        assert len(kept) == 1
        assert [task.state for task in tasks] == [TaskState.CANCELLED] * 2
        assert "owner is gone" in tasks[0].reason
        other = scheduler.submit(lambda: "goes on", memory=95 * MB)
        gate.open()
        assert other.result(WAIT) == "goes on"
        blocker.result(WAIT)
        nothing_is_left(made)
    finally:
        scheduler.shutdown()


def test_clients_are_cancelled_together(sched: TaskScheduler) -> None:
    gates = [Gate(), Gate()]
    running = [sched.submit(gate) for gate in gates]
    client = scheduler.Client(sched)
    task = client.submit(int)
    with pytest.raises(ZeroDivisionError), client:
        raise ZeroDivisionError
    assert task.cancelled()
    assert "ZeroDivisionError" in task.reason
    with pytest.raises(RuntimeError, match="closed"):
        client.submit(int)
    with scheduler.Client(sched) as kept:
        lives = kept.submit(lambda: 3)
    del kept
    gc.collect()
    dropped = scheduler.Client(sched)
    goes = dropped.submit(int)
    del dropped
    gc.collect()
    assert goes.cancelled()
    for gate in gates:
        gate.open()
    assert lives.result(WAIT) == 3
    for task in running:
        task.result(WAIT)
    nothing_is_left(sched)


def test_exhausted_streams_make_tasks_wait() -> None:
    with TaskScheduler(workers=3, max_streams=1) as sched:
        gate = Gate()
        first = sched.submit(gate)
        assert gate.entered.wait(WAIT)
        others = [sched.submit(lambda i=i: i) for i in range(5)]
        time.sleep(0.02)
        assert sched.native.streams_in_use == 1
        assert not any(task.done() for task in others)
        gate.open()
        assert [task.result(WAIT) for task in others] == list(range(5))
        first.result(WAIT)
        nothing_is_left(sched)


def test_shutdown_cancels_what_waits(sched: TaskScheduler) -> None:
    gates = [Gate(), Gate()]
    running = [sched.submit(gate) for gate in gates]
    waiting = [sched.submit(int, memory=MB) for _ in range(5)]
    for gate in gates:
        assert gate.entered.wait(WAIT)
        threading.Timer(0.01, gate.open).start()
    assert sched.shutdown(cancel=True)
    assert all(task.cancelled() for task in [*running, *waiting])
    nothing_is_left(sched)


def test_many_threads_and_random_ends() -> None:
    rng = random.Random(7)
    with TaskScheduler(workers=4, memory=100 * MB, policy="priority") as sched:

        def client(seed: int) -> None:
            mine = random.Random(seed)
            tasks: list[scheduler.TaskFuture[int]] = []
            for i in range(60):
                fails = mine.random() < 0.1
                task = sched.submit(
                    (lambda: 1 // 0) if fails else (lambda i=i: i),
                    memory=mine.randrange(60) * MB,
                    priority=mine.randrange(5),
                    qos=mine.choice(["guaranteed", "burstable", "best_effort"]),
                    after=mine.sample(tasks, k=min(len(tasks), mine.randrange(3))),
                )
                tasks.append(task)
                if mine.random() < 0.1:
                    mine.choice(tasks).cancel()
            for task in tasks:
                task.exception(WAIT)

        threads = [threading.Thread(target=client, args=(rng.random(),)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
            assert not thread.is_alive()
        nothing_is_left(sched)
        counts = sched.snapshot().counts
        assert sum(counts.values()) == 360
        assert counts["completed"] > 0
        assert counts["failed"] > 0


def test_arrays_of_concurrent_tasks_are_right(sched: TaskScheduler) -> None:
    def work(i: int) -> np.ndarray:
        x = gp.full((100,), float(i))
        for _ in range(5):
            x = x + 1.0
        return x.to_numpy()

    tasks = [sched.submit(work, i) for i in range(40)]
    for i, task in enumerate(tasks):
        np.testing.assert_array_equal(task.result(WAIT), np.full(100, i + 5, np.float32))


def test_a_dropped_scheduler_ends_its_threads() -> None:
    before = threading.active_count()
    sched = TaskScheduler(workers=3)
    assert sched.submit(lambda: 1).result(WAIT) == 1
    assert threading.active_count() == before + 3
    del sched
    gc.collect()
    until(lambda: threading.active_count() == before)


def test_exit_with_tasks_in_every_state(run_python) -> None:  # type: ignore[no-untyped-def]
    done = run_python(
        "import time, pygpukit as gp\n"
        "s = gp.scheduler\n"
        "a = s.submit(time.sleep, 0.2); b = s.submit(int, after=[a])\n"
        "c = [s.submit(time.sleep, 0.05) for _ in range(20)]; s.submit(lambda: 1 / 0)\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_child_starts_anew(run_python) -> None:  # type: ignore[no-untyped-def]
    done = run_python(
        "import os, warnings, pygpukit as gp\n"
        "warnings.simplefilter('ignore')\n"
        "assert gp.scheduler.submit(lambda: 1).result() == 1\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(gp.scheduler.submit(lambda: 7).result(20))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert done.stdout == "7\n", done.stderr
