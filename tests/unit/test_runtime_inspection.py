"""Transfers and partitions in snapshots."""

from __future__ import annotations

import json

import numpy as np

import pygpukit as gp
from pygpukit.scheduler.inspection import (
    PartitionSummary,
    Snapshot,
    TransferSummary,
    render,
)

COUNT = 700_001  # floats: above the engine's threshold


def transfers() -> dict[str, TransferSummary]:
    return {t.direction: t for t in gp.scheduler.stats().transfers}


def parts() -> dict[str, PartitionSummary]:
    return {p.name: p for p in gp.scheduler.stats().partitions}


def test_transfers_and_their_rate() -> None:
    host = np.arange(COUNT, dtype=np.float32)
    x = gp.zeros(COUNT)
    before = transfers().get("h2d")
    gp.transfer.submit_h2d(x, host).wait()
    now = transfers()["h2d"]
    copied = now.copied_bytes - (before.copied_bytes if before else 0)
    assert copied == host.nbytes
    assert now.completed_count == (before.completed_count if before else 0) + 1
    assert (now.queued_count, now.in_flight_bytes, now.failed_count) == (0, 0, 0)
    assert now.rate > 0
    np.testing.assert_allclose(now.rate * now.busy_time, now.copied_bytes, rtol=1e-6)
    text = str(gp.scheduler.stats())
    assert "transfers\n" in text
    assert "to the device" in text
    assert "GB/s" in text


def test_partitions() -> None:
    part = gp.scheduler.partition("inspected", memory="8MiB", bandwidth=0.5, qos="guaranteed")
    try:
        with part:
            x = gp.ones(2**20, "uint8")
        found = parts()["inspected"]
        assert (found.qos, found.memory_limit) == ("guaranteed", 8 * 2**20)
        assert found.memory_used >= 2**20
        assert found.bandwidth_share == 0.5
        text = str(gp.scheduler.stats())
        assert "partitions\n" in text
        assert "inspected" in text
        del x
    finally:
        part.close()
    assert "inspected" not in parts()


def test_looking_gives_out_no_share_of_compute() -> None:
    first = gp.scheduler.partition("first", compute=0.5)
    second = gp.scheduler.partition("second", compute=0.5)
    try:
        assert {"first", "second"} <= set(parts())
        assert first.facts()["compute_given"] == 0.0  # not used yet
        assert first.report().compute.given == 0.5
        assert parts()["second"].compute_share == 0.5
    finally:
        first.close()
        second.close()


def test_a_snapshot_survives_json_and_older_ones_are_read() -> None:
    part = gp.scheduler.partition("travels", memory="8MiB")
    try:
        taken = gp.scheduler.default_scheduler().stats()
        data = json.loads(json.dumps(taken.to_dict()))
        again = Snapshot.from_dict(data)
        assert again == taken
        assert render(again) == render(taken)
        del data["transfers"]
        del data["memory"]["evicted"]
        older = Snapshot.from_dict(data)
        assert older.transfers == []
    finally:
        part.close()


def test_evicted_memory_is_told() -> None:
    x = gp.ones(8 * 2**20, "uint8")
    gp.memory.evict(x)
    snapshot = gp.scheduler.stats()
    assert snapshot.memory.evicted > 0
    assert "evicted" in str(snapshot)
    assert int(x.sum(dtype="int64")) == 8 * 2**20
    assert "evicted" not in str(gp.scheduler.stats())
