"""Section 17.3 of the 0.2 API: admission control, with the intended differences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _pygpukit_rust import AdmissionConfig, AdmissionController, AdmissionDecision, RejectReason

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
    assert "600.00 MiB" in second.rejection_reason.message()
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


def test_a_queued_task_may_be_tried_again() -> None:
    controller = AdmissionController(AdmissionConfig(GB))
    controller.try_admit("a", GB, 0.0)
    with pytest.raises(ValueError, match="'a'"):
        controller.try_admit("a", MB, 0.0)
    assert [controller.try_admit("b", 400 * MB, 0.1).is_queued() for _ in range(2)] == [True, True]
    assert (controller.stats().queued_count, controller.stats().pending_count) == (1, 2)
    controller.release("a")
    assert controller.try_admit("b", 400 * MB, 0.1).is_admitted()
    assert controller.stats().reserved_memory == 400 * MB
    assert controller.try_admit("c", 2 * GB, 0.1).is_queued()  # more than there will ever be
    controller.release("c")
    assert controller.stats().pending_count == 1


def test_limits() -> None:
    config = AdmissionConfig(GB, 0.5)
    assert (config.max_memory, config.max_bandwidth) == (GB, 0.5)
    assert (config.max_pending_tasks, config.enable_best_effort) == (1000, True)
    stats = AdmissionController(config).stats()
    assert (stats.available_memory, stats.available_bandwidth) == (GB, 0.5)
    assert (stats.used_memory, stats.used_bandwidth) == (0, 0.0)
    with pytest.raises(ValueError, match="max_bandwidth"):
        AdmissionController(AdmissionConfig(GB, -1.0))


def test_decisions_made_by_hand() -> None:
    assert AdmissionDecision.Admitted().decision_type == "Admit"
    assert AdmissionDecision.Admitted().rejection_reason is None
    assert AdmissionDecision.Queued().is_queued()
    reasons = [
        RejectReason.InsufficientMemory,
        RejectReason.InsufficientBandwidth,
        RejectReason.QueueFull,
        RejectReason.UnsatisfiableDependencies,
        RejectReason.Custom,
    ]
    assert [int(reason) for reason in reasons] == [0, 1, 2, 3, 4]
    assert RejectReason.QueueFull == 2
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
