"""Pacing of section 17.7 of 0.2: the rule, by a clock that only the test moves."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from _pygpukit_rust import KernelPacingEngine, PacingConfig


class Clock:
    """In milliseconds."""

    now = 5000.0

    def pass_ms(self, ms: float) -> None:
        self.now += ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    fake = SimpleNamespace(monotonic=lambda: clock.now / 1e3)
    monkeypatch.setattr("pygpukit._compat.pacing.time", fake)
    return clock


def test_waits_for_the_interval_then_for_the_rest_of_the_window(clock: Clock) -> None:
    engine = KernelPacingEngine()
    assert engine.should_launch(5).can_launch, "unknown"
    assert engine.allocate_stream(1, 0.25)
    assert engine.should_launch(1).can_launch, "the first one"
    engine.record_launch(1)
    decision = engine.should_launch(1)
    assert (decision.decision_type, decision.can_launch) == ("Wait", False)
    assert decision.wait_ms == pytest.approx(0.1)
    clock.pass_ms(25)
    assert engine.should_launch(1).wait_ms == pytest.approx(50), "100 * (1 - 0.25) - 25"
    clock.pass_ms(50.001)
    assert engine.should_launch(1).decision_type == "Launch"


def test_a_share_of_zero_waits_a_whole_window(clock: Clock) -> None:
    engine = KernelPacingEngine()
    assert engine.allocate_stream(1, 0.0)
    engine.record_launch(1)
    clock.pass_ms(99)
    assert not engine.should_launch(1).can_launch
    clock.pass_ms(1.001)
    assert engine.should_launch(1).can_launch


def test_throttles_at_the_count_of_the_window(clock: Clock) -> None:
    engine = KernelPacingEngine()
    assert engine.allocate_stream(1, 1.0)
    for _ in range(100):
        assert engine.should_launch(1).can_launch
        engine.record_launch(1)
        clock.pass_ms(0.2)
    decision = engine.should_launch(1)
    assert (decision.is_throttled, decision.decision_type) == (True, "Throttle")
    assert math.isinf(decision.wait_ms)
    assert engine.stream_stats(1).launches_in_window == 100
    clock.pass_ms(80.001)  # the first one leaves the window
    assert engine.should_launch(1).can_launch
    engine.reset()
    assert engine.stream_stats(1).launch_count == 0


def test_shares_and_stats(clock: Clock) -> None:
    engine = KernelPacingEngine()
    for stream, share, given in (
        (1, 0.5, True),
        (2, 0.3, True),
        (3, 0.2, True),
        (4, 0.01, False),
        (3, 0.3, False),  # its own share counts once
        (3, 0.1, True),
    ):
        assert engine.allocate_stream(stream, share) is given
    assert engine.release_stream(1)
    assert not engine.release_stream(1)
    assert engine.stream_stats(1) is None
    engine.record_launch(2)
    engine.record_throttle(2)
    engine.record_wait(2, 1.5)
    engine.record_launch(9)  # unknown: nothing is recorded
    one = engine.stream_stats(2)
    assert (one.stream_id, one.launch_count, one.throttle_count, one.wait_count) == (2, 1, 1, 1)
    assert (one.bandwidth_share, one.total_wait_ms) == (0.3, 1.5)
    stats = engine.stats()
    assert (stats.stream_count, stats.total_launches) == (2, 1)
    assert (stats.total_throttles, stats.total_waits) == (1, 1)
    assert stats.used_bandwidth == pytest.approx(0.4)
    assert stats.available_bandwidth == pytest.approx(0.6)


def test_numbers_are_checked() -> None:
    for words, call in (
        ("total_bandwidth", lambda: PacingConfig(total_bandwidth=0.0)),
        ("window_ms", lambda: PacingConfig(window_ms=-1.0)),
        ("min_interval_ms", lambda: PacingConfig(min_interval_ms=math.nan)),
        ("share", lambda: KernelPacingEngine().allocate_stream(1, 1.5)),
        ("stream_id", lambda: KernelPacingEngine().allocate_stream(-1, 0.5)),
        ("wait_ms", lambda: KernelPacingEngine().record_wait(1, math.inf)),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert KernelPacingEngine().config == PacingConfig(1.0, 100.0, 0.1, True)
