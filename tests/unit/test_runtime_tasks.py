"""submit(), TaskFuture and Scheduler."""

from __future__ import annotations

import asyncio
import threading

import pytest
from cases.tasks import WAIT, Gate, nothing_is_left

import pygpukit as gp
from pygpukit import scheduler
from pygpukit.scheduler import (
    MB,
    QosClass,
    Scheduler,
    TaskPolicy,
    TaskState,
)


def test_results_arguments_and_names(sched: Scheduler) -> None:
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


def test_each_task_has_its_own_stream(sched: Scheduler) -> None:
    gates = [Gate(), Gate()]
    streams: dict[int, gp.Stream] = {}

    def work(i: int) -> None:
        streams[i] = gp.current_stream()
        gates[i]()

    tasks = [sched.submit(work, i) for i in range(2)]
    for gate in gates:
        assert gate.entered.wait(WAIT)
    assert sched.native.streams_in_use == 2
    for gate in gates:
        gate.open()
    for task in tasks:
        task.result(WAIT)
    assert streams[0] is not streams[1]
    nothing_is_left(sched)


def test_dependencies_run_first(sched: Scheduler) -> None:
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
    with Scheduler() as other, pytest.raises(ValueError, match="another scheduler"):
        other.submit(int, after=[first])


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("fifo", "abcd"), ("priority", "bdca"), ("sjf", "cabd")],
)
def test_orders(policy: str, expected: str) -> None:
    with Scheduler(workers=1, policy=policy, aging_interval=0.0) as sched:
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
    with Scheduler(workers=1, policy="priority") as sched:
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


def test_bad_arguments(sched: Scheduler) -> None:
    with pytest.raises(ValueError, match="Scheduler\\(policy='sjf'\\)"):
        sched.submit(int, policy="sjf")
    with pytest.raises(ValueError, match="qos is 'best'"):
        sched.submit(int, qos="best")
    with pytest.raises(ValueError, match="two names"):
        sched.submit(int, qos="burstable", policy="burstable")
    with pytest.raises(ValueError, match="bandwidth"):
        sched.submit(int, bandwidth=2.0)
    with pytest.raises(ValueError, match="workers"):
        Scheduler(workers=0)
    with pytest.raises(ValueError, match="policy is 'other'"):
        Scheduler(policy="other")
    nothing_is_left(sched)


def test_memory_is_reserved_before_a_task_starts(sched: Scheduler) -> None:
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
    """A task's reservation is exclusive; memory freed by arrays lets the next one start."""
    from pygpukit import memory

    gate = Gate()
    base = memory.stats()["set_aside"]
    gp.synchronize()
    memory.trim()
    try:
        memory.set_limit(memory.stats()["reserved"] + 96 * MB)
        big = gp.empty(40 * MB, "uint8")
        with Scheduler(workers=2) as sched:

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


def test_more_memory_than_there_is_is_refused_at_once(sched: Scheduler) -> None:
    with pytest.raises(MemoryError, match="101"):
        sched.submit(int, memory=101 * MB)
    assert sched.submit(lambda: 1, memory=100 * MB).result(WAIT) == 1
    nothing_is_left(sched)


def test_await(sched: Scheduler) -> None:
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


def test_callbacks(sched: Scheduler) -> None:
    gate, ended = Gate(), threading.Event()
    task = sched.submit(gate)
    task.add_done_callback(lambda t: ended.set() if t.result(0) == "through" else None)
    assert not ended.is_set()
    gate.open()
    assert ended.wait(WAIT)
    late: list[str] = []
    task.add_done_callback(lambda t: late.append(t.result()))
    assert late == ["through"]


def test_tasks_may_wait_for_tasks(sched: Scheduler) -> None:
    def fib(n: int) -> int:
        if n < 2:
            return n
        parts = [sched.submit(fib, n - 1), sched.submit(fib, n - 2)]
        return sum(part.result(WAIT) for part in parts)

    assert sched.submit(fib, 7).result(WAIT) == 13  # far more waiting tasks than workers


def test_results_outlive_what_the_scheduler_remembers() -> None:
    with Scheduler(workers=2, max_ended_kept=4) as sched:
        tasks = [sched.submit(lambda i=i: i) for i in range(100)]
        assert [task.result(WAIT) for task in tasks] == list(range(100))
        assert all(task.state is TaskState.COMPLETED for task in tasks)


def test_current_task(sched: Scheduler) -> None:
    def look() -> tuple[int, bool]:
        me = scheduler.current_task()
        assert me is not None
        return me.id, me.cancel_requested

    task = sched.submit(look)
    assert task.result(WAIT) == (task.id, False)
    assert scheduler.current_task() is None


def test_snapshot_as_data_and_text(sched: Scheduler) -> None:
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
    scheduler.add_section("raises", lambda: 1 // 0)
    scheduler.add_section("wrong", lambda: 5)
    try:
        sections = sched.snapshot().sections
        assert sections["extra"] == {"answer": 42}
        assert "ZeroDivisionError" in sections["raises"]["error"]
        assert "expected a dict" in sections["wrong"]["error"]
        assert "ZeroDivisionError" in str(sched.snapshot())
    finally:
        from pygpukit.scheduler import inspection

        inspection._sources.clear()
    gate.open()
    waiting.result(WAIT)
