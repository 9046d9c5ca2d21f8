"""Partitions of section 17.5, with the intended differences."""

from __future__ import annotations

import pytest

from _pygpukit_rust import (
    PartitionConfig,
    PartitionLimits,
    PartitionManager,
)

MB = 2**20
GB = 2**30


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
