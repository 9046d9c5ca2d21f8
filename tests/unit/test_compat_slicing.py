"""Slices of section 17.7 of the 0.2 API."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pygpukit.dispatch import SliceConfig, SliceScheduler


def test_config() -> None:
    config = SliceScheduler().config
    assert (config.max_items_per_slice, config.max_duration_ms) == (65536, 1.0)
    assert (config.min_slices, config.max_slices, config.adaptive) == (1, 256, True)
    for wrong in (
        {"max_items_per_slice": 0},
        {"min_slices": 3, "max_slices": 2},
        {"max_duration_ms": float("nan")},
    ):
        with pytest.raises(ValueError, match="SliceConfig"):
            SliceConfig(**wrong)  # type: ignore[arg-type]


def test_number_of_slices() -> None:
    scheduler = SliceScheduler(SliceConfig(max_items_per_slice=100, min_slices=2, max_slices=5))
    assert [scheduler.submit(1, items) for items in (1, 50, 399, 10_000)] == [1, 2, 3, 5]
    with pytest.raises(ValueError, match="total_items is 0"):
        scheduler.submit(1, 0)
    with pytest.raises(ValueError, match="block"):
        scheduler.submit(1, 1, (0, 1, 1))
    with pytest.raises(ValueError, match="ms"):
        scheduler.complete_slice(-1.0)


def test_slices_rotate() -> None:
    scheduler = SliceScheduler(SliceConfig(max_items_per_slice=100))
    assert scheduler.submit(1, 250, (32, 1, 1), 16) == 2
    assert scheduler.submit(2, 300) == 3
    assert (scheduler.pending_slices(), scheduler.pending_kernels()) == (5, 2)
    seen = []
    while (piece := scheduler.get_next_slice()) is not None:
        seen.append((piece.kernel_handle, piece.offset, piece.count))
        assert scheduler.complete_slice(0.1)
    assert seen == [(1, 0, 125), (2, 0, 100), (1, 125, 125), (2, 100, 100), (2, 200, 100)]
    assert not scheduler.complete_slice(0.1)
    stats = scheduler.stats()
    assert (stats.completed_kernels, stats.completed_slices, stats.pending_slices) == (2, 5, 0)
    assert stats.avg_slice_ms == pytest.approx(0.1)
    scheduler.submit(3, 100)
    scheduler.submit_for_task("urgent", 4, 100, priority=5)
    piece = scheduler.get_next_slice()
    assert (piece.kernel_handle, piece.task_id, piece.is_last) == (4, "urgent", True)
    assert (piece.grid, piece.block, piece.shared_mem) == ((1, 1, 1), (256, 1, 1), 0)
    scheduler.clear()
    assert scheduler.get_next_slice() is None
    assert scheduler.stats().total_kernels == 0


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(-2, 2)), max_size=12))
def test_every_item_is_handed_out_once_and_by_priority(kernels: list[tuple[int, int]]) -> None:
    scheduler = SliceScheduler(SliceConfig(max_items_per_slice=64))
    for handle, (items, priority) in enumerate(kernels):
        scheduler.submit_for_task(str(handle), handle, items, priority=priority)
    done = dict.fromkeys(range(len(kernels)), 0)
    last_priority = 3
    while (piece := scheduler.get_next_slice()) is not None:
        assert piece.offset == done[piece.kernel_handle]
        assert piece.priority <= last_priority
        last_priority = piece.priority
        done[piece.kernel_handle] += piece.count
        assert piece.grid[0] * 256 >= piece.count
        assert scheduler.complete_slice(0.5)
    assert done == {handle: items for handle, (items, _) in enumerate(kernels)}
    assert (scheduler.pending_slices(), scheduler.pending_kernels()) == (0, 0)
