"""Section 17.4 of the 0.2 API: classes of service and the evaluator of policies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _pygpukit_rust import (
    QosClass,
    QosPolicy,
    QosPolicyEvaluator,
    QosTaskMeta,
    ResourceRequirements,
)

MB = 2**20


def test_table_of_classes() -> None:
    rows = [
        (c.priority(), c.memory_overcommit_ratio(), c.bandwidth_ratio())
        for c in (QosClass.Guaranteed, QosClass.Burstable, QosClass.BestEffort)
    ]
    assert rows == [(100, 1.0, 1.0), (50, 1.5, 0.8), (0, 2.0, 0.5)]
    assert QosClass.Guaranteed.can_preempt(QosClass.Burstable)
    assert not QosClass.Burstable.can_preempt(QosClass.Burstable)


def test_requirements_and_policies() -> None:
    need = ResourceRequirements(MB)
    assert (need.memory_limit, need.bandwidth_request, need.bandwidth_limit) == (MB, 0.0, 1.0)
    assert ResourceRequirements.burstable(100, 1.5).memory_limit == 150
    assert ResourceRequirements.best_effort().memory_request == 0
    assert QosPolicy.guaranteed(MB).memory_to_reserve() == MB
    assert QosPolicy.burstable(MB, 2.0).memory_to_reserve() == MB
    assert QosPolicy.best_effort().memory_to_reserve() == 0
    assert QosPolicy.guaranteed(MB).qos_class == QosClass.Guaranteed == 0
    shares = [QosPolicy.guaranteed(MB), QosPolicy.burstable(MB, 2.0), QosPolicy.best_effort()]
    assert [policy.bandwidth_to_reserve() for policy in shares] == [1.0, 0.0, 0.0]
    assert ResourceRequirements.guaranteed(MB) == need
    with pytest.raises(ValueError, match="ratio"):
        ResourceRequirements.burstable(MB, 0.5)
    with pytest.raises(ValueError, match="limit"):
        ResourceRequirements(2 * MB, MB)


def test_task_meta() -> None:
    task = QosTaskMeta.burstable("id", "name", MB, 2.0)
    assert (task.id, task.name, task.qos_class) == ("id", "name", QosClass.Burstable)
    assert (task.memory_request, task.memory_limit, task.burst_ratio) == (MB, 2 * MB, 2.0)
    assert (task.bandwidth_request, task.effective_priority()) == (0.0, 50)
    task.priority = 7
    assert task.effective_priority() == 57


def test_evaluation_by_class() -> None:
    evaluator = QosPolicyEvaluator(10 * MB)
    burst = evaluator.evaluate(QosTaskMeta.burstable("b", "b", 8 * MB, 2.0))
    assert burst.decision_type == "Throttle"
    assert evaluator.evaluate(QosTaskMeta.burstable("b", "b", 11 * MB, 1.0)).is_rejected()
    fits = evaluator.evaluate(QosTaskMeta.burstable("b", "b", 4 * MB, 2.0))
    assert (fits.decision_type, fits.reserved_memory) == ("Admit", 4 * MB)
    evaluator.reserve(fits)
    first = evaluator.evaluate(QosTaskMeta.guaranteed("g", "g", 4 * MB))
    assert first.is_admitted()
    evaluator.reserve(first)
    stats = evaluator.stats()
    assert (stats.guaranteed_memory, stats.burstable_memory) == (4 * MB, 4 * MB)
    assert (stats.guaranteed_bandwidth, stats.available_memory) == (1.0, 2 * MB)
    waits = evaluator.evaluate(QosTaskMeta.best_effort("e", "e"))
    assert waits.is_queued()  # the guaranteed task uses up the bandwidth
    evaluator.reserve(waits)
    assert evaluator.stats().best_effort_queue == 1
    refused = evaluator.evaluate(QosTaskMeta.guaranteed("h", "h", 4 * MB))
    assert refused.is_rejected()
    assert refused.reject_reason
    assert first.reject_reason is None
    evaluator.release(QosClass.Guaranteed, 4 * MB, 1.0)
    evaluator.release(QosClass.Burstable, fits.reserved_memory)
    assert evaluator.stats().available_memory == 10 * MB
    assert evaluator.evaluate(QosTaskMeta.best_effort("e", "e")).is_admitted()
    evaluator.release(QosClass.BestEffort, 0, 0.0)
    assert evaluator.stats().best_effort_queue == 0
    with pytest.raises(ValueError, match="release"):
        evaluator.release(QosClass.Guaranteed, 1, 0.0)


def test_totals() -> None:
    evaluator = QosPolicyEvaluator(1000, 2.0)
    stats = evaluator.stats()
    assert (stats.total_memory, stats.total_bandwidth, stats.available_bandwidth) == (
        1000,
        2.0,
        2.0,
    )
    held = evaluator.evaluate(QosTaskMeta.guaranteed("a", "a", 600))
    stale = evaluator.evaluate(QosTaskMeta.guaranteed("b", "b", 600))
    evaluator.reserve(held)
    with pytest.raises(RuntimeError, match="now 400"):
        evaluator.reserve(stale)
    with pytest.raises(ValueError, match="holds 600"):
        evaluator.release(QosClass.Guaranteed, 600, 1.1)
    evaluator.reset()
    assert evaluator.stats() == stats
    with pytest.raises(ValueError, match="total_bandwidth"):
        QosPolicyEvaluator(1, -1.0)


def test_bandwidth_of_requests() -> None:
    evaluator = QosPolicyEvaluator(1000)
    evaluator.reserve(evaluator.evaluate(QosTaskMeta.guaranteed("a", "a", 10)))
    asking = QosTaskMeta.guaranteed("b", "b", 10)
    assert evaluator.evaluate(asking).is_admitted()  # asks for no bandwidth
    asking.bandwidth_request = 0.1
    assert "bandwidth" in evaluator.evaluate(asking).reject_reason
    assert evaluator.evaluate(QosTaskMeta.burstable("c", "c", 1, 1.0)).is_throttled()
    asking.bandwidth_request = -1.0
    with pytest.raises(ValueError, match="bandwidth_request"):
        evaluator.evaluate(asking)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["guaranteed", "burstable", "best_effort"]),
            st.integers(0, 3000),
            st.floats(1.0, 3.0),
            st.booleans(),
        ),
        max_size=60,
    )
)
def test_random_reservations_never_pass_the_totals_and_end_at_zero(
    steps: list[tuple[str, int, float, bool]],
) -> None:
    evaluator = QosPolicyEvaluator(10_000, 2.0)
    held = []
    for kind, memory, ratio, release in steps:
        if release and held:
            gone = held.pop()
            evaluator.release(gone.qos_class, gone.reserved_memory, gone.reserved_bandwidth)
        sizes = {"guaranteed": (memory,), "burstable": (memory, ratio), "best_effort": ()}[kind]
        evaluation = evaluator.evaluate(getattr(QosTaskMeta, kind)("t", "t", *sizes))
        evaluator.reserve(evaluation)
        if evaluation.is_admitted() and evaluation.qos_class != QosClass.BestEffort:
            held.append(evaluation)
        stats = evaluator.stats()
        total = sum(one.reserved_memory for one in held)
        assert stats.guaranteed_memory + stats.burstable_memory == total <= 10_000
        assert stats.guaranteed_bandwidth <= 2.0
    for gone in held:
        evaluator.release(gone.qos_class, gone.reserved_memory, gone.reserved_bandwidth)
    stats = evaluator.stats()
    assert (stats.available_memory, stats.available_bandwidth) == (10_000, 2.0)
