"""Slicing of section 17."""

from __future__ import annotations

from _pygpukit_rust import SliceConfig, SliceScheduler


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
    assert scheduler.stats().completed_kernels == 2
    scheduler.submit(3, 100)
    scheduler.submit_for_task("urgent", 4, 100, priority=5)
    piece = scheduler.get_next_slice()
    assert (piece.kernel_handle, piece.task_id, piece.is_last) == (4, "urgent", True)
    scheduler.clear()
    assert scheduler.config.max_slices == 256
