"""Admission control, QoS and partitions of section 17, with the intended differences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _pygpukit_rust import (
    AdmissionConfig,
    AdmissionController,
    AdmissionDecision,
    PartitionConfig,
    PartitionLimits,
    PartitionManager,
    QosClass,
    QosPolicy,
    QosPolicyEvaluator,
    QosTaskMeta,
    RejectReason,
    ResourceRequirements,
)

MB = 2**20
GB = 2**30


def test_the_estimate_rule_that_old_tests_rely_on() -> None:
    controller = AdmissionController(AdmissionConfig(GB, 0.5, enable_best_effort=False))
    decision = controller.try_admit("a", 600 * MB, 0.0)
    assert decision.is_rejected()
    assert decision.reject_reason() == RejectReason.InsufficientBandwidth
    assert controller.stats().reserved_memory == 0


def test_decisions_and_their_effects() -> None:
    controller = AdmissionController(AdmissionConfig(GB, 1.0, 3))
    first = controller.try_admit("a", 512 * MB, 0.0)
    assert first.is_admitted()
    assert (first.reserved_memory, first.reserved_bandwidth) == (512 * MB, 0.5)
    second = controller.try_admit("b", 600 * MB, 0.1)
    assert second.is_queued()
    assert second.queue_position == 1
    assert second.estimated_wait_ms == pytest.approx(512 * MB / 100e6 * 1000)
    assert second.reject_reason() is None
    assert second.rejection_reason.reason_type == RejectReason.InsufficientMemory
    assert (second.rejection_reason.requested_memory, second.rejection_reason.available_memory) == (
        600 * MB,
        512 * MB,
    )
    assert controller.try_admit("c", MB, 0.0).is_admitted()
    full = controller.try_admit("d", MB, 0.0)
    assert full.reject_reason() == RejectReason.QueueFull
    assert "3" in str(full)
    stats = controller.stats()
    assert (stats.admitted_count, stats.queued_count, stats.rejected_count) == (2, 1, 1)
    assert stats.pending_count == 3
    assert stats.used_memory == stats.reserved_memory == 513 * MB
    for task in ("a", "b", "c"):
        controller.release(task)
    stats = controller.stats()
    assert (stats.reserved_memory, stats.reserved_bandwidth, stats.pending_count) == (0, 0.0, 0)
    with pytest.raises(ValueError, match="a"):
        controller.release("a")


def test_bandwidth_counts_and_what_was_reserved_comes_back() -> None:
    controller = AdmissionController(AdmissionConfig(GB, 1.0, enable_best_effort=False))
    assert controller.try_admit("a", MB, 0.75).is_admitted()
    refused = controller.try_admit("b", MB, 0.5)
    assert refused.reject_reason() == RejectReason.InsufficientBandwidth
    controller.release("a")
    assert controller.stats().available_bandwidth == 1.0
    with pytest.raises(ValueError, match="bandwidth"):
        controller.try_admit("c", MB, float("nan"))


def test_queued_tasks_are_promoted_in_order() -> None:
    controller = AdmissionController(AdmissionConfig(GB))
    controller.try_admit("a", GB, 0.0)
    assert [controller.try_admit(t, 400 * MB, 0.1).is_queued() for t in "bcd"] == [True] * 3
    assert controller.queued_ids() == ["b", "c", "d"]
    controller.release("a")
    assert [task for task, _ in controller.promote()] == ["b", "c"]


def test_decisions_made_by_hand() -> None:
    assert AdmissionDecision.Admitted().decision_type == "Admit"
    assert AdmissionDecision.Queued().is_queued()
    assert "AdmissionDecision" in repr(AdmissionDecision.Queued())


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdef"), st.integers(0, 2000), st.floats(0, 1.5), st.booleans()
        ),
        max_size=60,
    )
)
def test_random_admissions_never_pass_a_limit_and_end_at_zero(
    steps: list[tuple[str, int, float, bool]],
) -> None:
    controller = AdmissionController(AdmissionConfig(1000, 1.0, 4))
    held: dict[str, int] = {}
    for task, memory, bandwidth, release in steps:
        if task in held and release:
            controller.release(task)
            del held[task]
        elif task not in held:
            decision = controller.try_admit(task, memory, bandwidth)
            if not decision.is_rejected():
                held[task] = decision.reserved_memory
        stats = controller.stats()
        assert stats.reserved_memory <= 1000
        assert stats.reserved_bandwidth <= 1.0
        assert stats.pending_count == len(held) <= 4
    for task in held:
        controller.release(task)
    stats = controller.stats()
    assert (stats.reserved_memory, stats.reserved_bandwidth) == (0, 0.0)


# --- QoS ----------------------------------------------------------------------------------------


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
    with pytest.raises(ValueError, match="limit"):
        ResourceRequirements(2 * MB, MB)


def test_task_meta() -> None:
    task = QosTaskMeta.burstable("id", "name", MB, 2.0)
    assert (task.id, task.name, task.qos_class) == ("id", "name", QosClass.Burstable)
    assert (task.memory_request, task.memory_limit, task.burst_ratio) == (MB, 2 * MB, 2.0)
    assert task.effective_priority() == 50
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
    evaluator.release_evaluation(fits)
    assert evaluator.stats().available_memory == 10 * MB
    with pytest.raises(ValueError, match="release"):
        evaluator.release(QosClass.Guaranteed, 1, 0.0)
    evaluator.reset()


# --- partitions ---------------------------------------------------------------------------------


def test_limits_are_clamped_and_built() -> None:
    limits = PartitionLimits()
    assert (limits.memory_quota, limits.compute_share, limits.bandwidth_share) == (0, 1.0, 1.0)
    assert (limits.max_streams, limits.max_pending_kernels, limits.max_pending_transfers) == (
        16,
        1024,
        256,
    )
    built = limits.memory(MB).compute(2.0).bandwidth(-1.0)
    assert (built.memory_quota, built.compute_share, built.bandwidth_share) == (MB, 1.0, 0.0)
    assert PartitionLimits.with_memory(MB).memory_quota == MB
    assert PartitionLimits.with_compute(0.5).compute_share == 0.5


def test_partition_manager() -> None:
    manager = PartitionManager(PartitionConfig(total_memory=GB))
    assert manager.default_partition() is None
    half = PartitionLimits(512 * MB, 0.5, 0.5)
    manager.create_partition("a", "first", half)
    assert manager.default_partition() == "a"
    manager.create_partition("b", "second", half)
    assert manager.partition_ids() == ["a", "b"]
    with pytest.raises(ValueError, match="a"):
        manager.create_partition("a", "again", half)
    with pytest.raises(RuntimeError):
        manager.create_partition("c", "too much", PartitionLimits(MB, 0.0, 0.0))
    manager.assign_task("t", "b")
    assert manager.get_task_partition("t") == "b"
    assert manager.get("b").tasks == ["t"]
    assert manager.get_task_partition("other") == "a"
    assert manager.unassign_task("t")
    assert not manager.unassign_task("t")
    with pytest.raises(ValueError, match="nothing"):
        manager.assign_task("t", "nothing")
    stats = manager.stats()
    assert (stats.partition_count, stats.total_memory_allocated) == (2, GB)
    assert (stats.available_memory, stats.available_compute) == (0, 0.0)
    assert manager.delete_partition("a").name == "first"
    assert manager.default_partition() == "b"
    with pytest.raises(ValueError, match="a"):
        manager.delete_partition("a")
    assert manager.get("a") is None
    manager.set_default("b")
    manager.clear()
    assert manager.partition_ids() == []


def test_a_second_partition_with_default_bandwidth_is_refused() -> None:
    manager = PartitionManager()
    manager.create_partition("a", "a", PartitionLimits.with_memory(MB))
    with pytest.raises(RuntimeError):
        manager.create_partition("b", "b", PartitionLimits.with_memory(MB))


def test_overcommit() -> None:
    anything = PartitionManager(PartitionConfig(total_memory=MB, allow_overcommit=True))
    for name in ("a", "b"):
        anything.create_partition(name, name, PartitionLimits.with_memory(MB))
    assert anything.stats().available_memory == 0
    half_more = PartitionManager(PartitionConfig(1000, True, 1.5))
    half_more.create_partition("a", "a", PartitionLimits(900, 0.9, 0.9))
    half_more.create_partition("b", "b", PartitionLimits(600, 0.6, 0.6))
    with pytest.raises(RuntimeError, match="memory_quota is 1 bytes, 0 are left"):
        half_more.create_partition("c", "c", PartitionLimits(1, 0.0, 0.0))
    with pytest.raises(ValueError, match=r"overcommit_ratio is 0\.5"):
        PartitionManager(PartitionConfig(overcommit_ratio=0.5))


def test_tenths_add_up_to_one() -> None:
    manager = PartitionManager()
    for i in range(10):
        manager.create_partition(str(i), "", PartitionLimits(0, 0.1, 0.1))
    assert manager.stats().available_compute == 0.0
    with pytest.raises(RuntimeError, match=r"compute_share is 0\.001, 0\.0 is left"):
        manager.create_partition("more", "", PartitionLimits(0, 0.001, 0.0))
