"""Simulation: the same scheduler on a simulated device and clock."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit import scheduler
from pygpukit.scheduler import QosClass, SimDevice, SimTask, simulate

GB = 2**30


def test_two_tasks_share_the_device() -> None:
    result = simulate([SimTask("a", duration=1.0), SimTask("b", duration=1.0)])
    assert [t.state for t in result.tasks] == ["completed"] * 2
    assert result.makespan == pytest.approx(2.0)
    assert result.tasks[0].ended == pytest.approx(2.0)  # each at half the speed
    assert result.compute_utilisation == pytest.approx(1.0)
    one = simulate([{"duration": 1.0}, {"duration": 1.0}], SimDevice(streams=1))
    assert [t.wait for t in one.tasks] == [0.0, pytest.approx(1.0)]


def test_memory_makes_tasks_wait_and_too_much_is_rejected() -> None:
    device = SimDevice(GB)
    tasks = [
        SimTask("a", duration=1.0, memory=GB),
        SimTask("b", duration=1.0, memory=GB),
        SimTask("c", duration=1.0, memory=2 * GB),
    ]
    result = simulate(tasks, device)
    assert [t.started for t in result.tasks] == [0.0, pytest.approx(1.0), None]
    assert result.tasks[2].rejected
    assert (result.completed_count, result.rejected_count) == (2, 1)
    assert "memory" in result.tasks[2].reason


def test_names_may_stand_for_dependencies() -> None:
    tasks = [SimTask("load", duration=1.0), SimTask("run", duration=1.0, after=["load"])]
    result = simulate(tasks)
    assert result.tasks[1].started == pytest.approx(1.0)
    with pytest.raises(ValueError, match="'nothing'"):
        simulate([SimTask("a", after=["nothing"])])
    with pytest.raises(ValueError, match="dependency"):
        simulate([SimTask("a", after=[5])])


def test_guaranteed_is_served_first() -> None:
    tasks = [
        SimTask("background", duration=1.0),
        SimTask("urgent", duration=1.0, qos="guaranteed", arrival=0.1),
    ]
    result = simulate(tasks, policy="priority")
    assert result.tasks[1].ended == pytest.approx(1.1)  # as if alone
    assert result.tasks[0].ended == pytest.approx(2.0)
    assert result.waits_by_class[QosClass.Guaranteed].count == 1
    assert result.waits.count == 2


def test_thousands_of_tasks_in_seconds_and_always_the_same() -> None:
    tasks = [
        SimTask(
            str(i),
            arrival=i * 1e-3,
            duration=0.001 + (i * 7919 % 97) * 1e-4,
            memory=(i * 31 % 50) * 2**20,
            compute=0.25,
            priority=i % 7,
            qos=("best_effort", "burstable", "guaranteed")[i % 3],
            after=[i - 5] if i % 11 == 0 and i >= 5 else [],
        )
        for i in range(5000)
    ]
    start = time.perf_counter()
    first = simulate(tasks, policy="priority")
    assert time.perf_counter() - start < 5.0
    second = simulate(tasks, policy="priority")
    assert [t.ended for t in first.tasks] == [t.ended for t in second.tasks]
    assert first.text() == second.text() == str(first)
    assert first.completed_count == 5000
    assert first.waits.p50 <= first.waits.p99 <= first.waits.max


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.builds(
            SimTask,
            arrival=st.floats(0, 2),
            duration=st.floats(0, 1),
            memory=st.integers(0, 120),
            compute=st.floats(0.1, 1),
            qos=st.sampled_from(["best_effort", "burstable", "guaranteed"]),
            priority=st.integers(-3, 3),
        ),
        max_size=30,
    ),
    st.sampled_from(["fifo", "sjf", "priority"]),
)
def test_random_traces_keep_the_limits(tasks: list[SimTask], policy: str) -> None:
    result = simulate(tasks, SimDevice(100, streams=4), policy=policy)
    for sample in result.timeline:
        assert sample.reserved_memory <= 100
        assert sample.running <= 4
        assert sample.compute <= 1.0 + 1e-9
    assert result.completed_count + result.rejected_count == len(tasks)
    for task, got in zip(tasks, result.tasks, strict=True):
        assert got.rejected == (task.memory > 100)
        if got.started is not None and got.ended is not None:
            assert got.started >= task.arrival - 1e-6
            assert got.ended - got.started >= task.duration - 1e-6


def test_it_is_reached_from_the_package() -> None:
    assert scheduler.simulate is simulate


@pytest.mark.parametrize("row", [3, {"nme": "a"}, None])
def test_rows_that_are_no_tasks(row: Any) -> None:
    with pytest.raises(gp.InvalidArgument, match=r"simulate: task 1 is .*expected a SimTask"):
        simulate([SimTask("a"), row])
    with pytest.raises(gp.InvalidArgument, match="simulate: trace is int 5"):
        simulate(5)
