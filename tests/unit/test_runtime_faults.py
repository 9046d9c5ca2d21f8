"""Tasks that throw, are cancelled, run out of memory or time, or lose their client or scheduler."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time

import numpy as np
import pytest
from cases.tasks import WAIT, Gate, nothing_is_left, until

import pygpukit as gp
from pygpukit import scheduler
from pygpukit.scheduler import (
    MB,
    DeadlineMissed,
    DependencyFailed,
    Scheduler,
    TaskCancelled,
    TaskState,
)


def test_a_task_that_throws(sched: Scheduler) -> None:
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
def test_any_exception_is_kept(sched: Scheduler, error: type[BaseException]) -> None:
    def bad() -> None:
        raise error("kept")

    with pytest.raises(error, match="kept"):
        sched.submit(bad).result(WAIT)
    assert sched.submit(lambda: 1).result(WAIT) == 1
    nothing_is_left(sched)


def test_an_exception_whose_text_raises(sched: Scheduler) -> None:
    class Mean(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def bad() -> None:
        raise Mean

    task = sched.submit(bad)
    assert isinstance(task.exception(WAIT), Mean)
    assert task.reason == "Mean"
    nothing_is_left(sched)


def test_cancel_in_every_state(sched: Scheduler) -> None:
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


def test_a_cancelled_task_that_then_throws_is_cancelled(sched: Scheduler) -> None:
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


def test_a_long_function_looks_for_a_cancel(sched: Scheduler) -> None:
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


def test_deadlines(sched: Scheduler) -> None:
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
    assert [task.result(WAIT) for task in running] == ["through"] * 2  # running ones continue
    assert running[0].info().missed_deadline
    assert sched.stats().missed_deadlines >= 2
    nothing_is_left(sched)


def test_timeouts(sched: Scheduler) -> None:
    gate = Gate()
    task = sched.submit(gate)
    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        task.result(0.01)
    assert not task.wait(0.0)
    gate.open()
    assert task.wait(WAIT)


def test_out_of_memory_in_a_task_is_its_own(sched: Scheduler) -> None:
    def greedy() -> None:
        pool = gp.memory.MemoryPool(MB)
        pool.allocate(2 * MB)

    with pytest.raises(MemoryError, match="limit"):
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


def test_clients_are_cancelled_together(sched: Scheduler) -> None:
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
    with Scheduler(workers=3, max_streams=1) as sched:
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


def test_shutdown_cancels_what_waits(sched: Scheduler) -> None:
    gates = [Gate(), Gate()]
    running = [sched.submit(gate) for gate in gates]
    waiting = [sched.submit(int, memory=MB) for _ in range(5)]
    for gate in gates:
        assert gate.entered.wait(WAIT)
    assert not sched.shutdown(cancel=True, timeout=0.0)  # both still run
    for gate in gates:
        gate.open()
    until(lambda: all(task.cancelled() for task in [*running, *waiting]))
    nothing_is_left(sched)


def test_many_threads_and_random_ends() -> None:
    rng = random.Random(7)
    with Scheduler(workers=4, memory=100 * MB, policy="priority") as sched:

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
        counts = sched.stats().counts
        assert sum(counts.values()) == 360
        assert counts["completed"] > 0
        assert counts["failed"] > 0


def test_arrays_of_concurrent_tasks_are_right(sched: Scheduler) -> None:
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
    sched = Scheduler(workers=3)
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


def test_tasks_keep_a_dropped_scheduler_until_they_end() -> None:
    before = threading.active_count()

    def start() -> list[scheduler.TaskFuture[int]]:
        sched = Scheduler(workers=1)
        return [sched.submit(lambda i=i: time.sleep(0.001) or i) for i in range(20)]

    for _ in range(20):
        assert [task.result(WAIT) for task in start()] == list(range(20))
    until(lambda: threading.active_count() == before)


def test_a_task_may_shut_its_scheduler_down() -> None:
    sched = Scheduler(workers=2)
    assert not sched.submit(sched.shutdown).result(WAIT)  # its own worker has not ended
    with pytest.raises(RuntimeError, match="was shut down"):
        sched.submit(int)
    assert sched.shutdown(timeout=WAIT)


def test_a_callback_that_raises_stops_no_other(
    sched: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: reported.append(error.exc_value))
    gate, called = Gate(), list[int]()
    task = sched.submit(gate)
    task.add_done_callback(lambda _: called.append(1))
    task.add_done_callback(lambda _: 1 // 0)
    task.add_done_callback(lambda _: called.append(2))
    gate.open()
    until(lambda: called == [1, 2] and len(reported) == 1)
    assert isinstance(reported[0], ZeroDivisionError)
