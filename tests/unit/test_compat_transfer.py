"""Transfers of section 17.6 of 0.2: the contract, and that the bytes move."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp
from _pygpukit_rust import AsyncTransferEngine
from _pygpukit_rust.transfer import StreamType, TransferState, TransferType


def test_transfers_come_by_direction_priority_and_order() -> None:
    engine = AsyncTransferEngine(max_concurrent=2)
    d2d = engine.enqueue_d2d(1, 2, 10)
    h2d = [engine.enqueue_h2d(1, 2, 100 + i) for i in range(3)]
    urgent = engine.enqueue_with_priority("h2d", 1, 2, 5, 9)
    d2h = engine.enqueue_d2h(3, 4, 7)
    assert d2d == 1
    assert engine.has_pending_work()
    ready = engine.get_ready_transfers(10)
    assert [op.id for op in ready] == [urgent, h2d[0], d2h, d2d]
    assert all(op.state == TransferState.InProgress == 1 for op in ready)
    assert engine.get_in_progress_for_stream(1) == sorted([urgent, h2d[0]])
    assert engine.get_in_progress_for_stream(StreamType.D2H) == [d2h]
    assert engine.complete(urgent)
    assert [op.id for op in engine.get_ready_transfers(10)] == [h2d[1]]
    op = engine.get_operation(d2h)
    assert (op.type, op.size, op.src_ptr, op.dst_ptr) == (TransferType.D2H, 7, 3, 4)
    assert engine.fail(d2h)
    assert engine.cancel(h2d[2])
    assert not engine.cancel(h2d[1])
    assert not engine.start(h2d[2])
    done = engine.get_operation(urgent)
    assert (done.state, done.priority) == (TransferState.Completed, 9)
    assert done.wait_time() > 0
    assert done.bandwidth_gbps() == pytest.approx(5 / done.duration() / 1e9)
    stats = engine.stats()
    assert (stats.total_transfers, stats.completed_count) == (6, 1)
    assert (stats.failed_count, stats.cancelled_count, stats.h2d_bytes) == (1, 1, 5)
    assert (stats.pending_count, stats.in_progress_count, stats.total_bytes) == (0, 3, 5)
    assert engine.gc() == 3
    assert engine.get_operation(urgent) is None
    assert engine.stats().completed_count == 1
    engine.clear()
    assert not engine.has_pending_work()
    assert engine.enqueue_h2d(1, 2, 3) == 7, "ids are not used again"


def test_get_ready_takes_as_many_as_asked() -> None:
    engine = AsyncTransferEngine()
    ids = [engine.enqueue_h2d(1, 2, 3) for _ in range(6)]
    assert [op.id for op in engine.get_ready_transfers()] == ids[:1]
    assert [op.id for op in engine.get_ready_transfers(9)] == ids[1:4]
    assert engine.start(ids[5]), "start() takes no notice of the limit"


def test_wrong_arguments() -> None:
    engine = AsyncTransferEngine()
    with pytest.raises(ValueError, match="sideways"):
        engine.enqueue_with_priority("sideways", 1, 2, 3, 0)
    with pytest.raises(ValueError, match="max_concurrent"):
        AsyncTransferEngine(0)
    with pytest.raises(ValueError, match="stream is 3, expected 0 to 2"):
        engine.get_in_progress_for_stream(3)
    with pytest.raises(TypeError, match=r"size is float 1\.5, expected int"):
        engine.enqueue_h2d(1, 2, 1.5)
    with pytest.raises(TypeError, match=r"dst_ptr is GPUArray .*, expected int"):
        engine.enqueue_h2d(1, gp.zeros(4), 16)  # type: ignore[arg-type]
    assert not any([engine.start(9), engine.complete(9), engine.fail(9), engine.cancel(9)])


def test_the_transfer_engine_moves_the_bytes() -> None:
    engine = AsyncTransferEngine()
    host, back = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    x, y = gp.zeros(1000), gp.zeros(1000)

    def address(memory: object) -> int:
        return memory.device_ptr if isinstance(memory, gp.GPUArray) else memory.ctypes.data  # type: ignore[attr-defined]

    before = gp.transfer.stats()["h2d"].bytes
    up = engine.enqueue_h2d(address(host), address(x), 4000)
    assert engine.stats().pending_count == 1
    assert (x.to_numpy() == 0).all(), "nothing moves before it starts"
    for enqueue, src, dst in (
        (None, host, x),
        (engine.enqueue_d2d, x, y),
        (engine.enqueue_d2h, y, back),
    ):
        number = up if enqueue is None else enqueue(address(src), address(dst), 4000)
        (op,) = engine.get_ready_transfers()
        assert op.id == number
        assert engine.complete(number)
    np.testing.assert_array_equal(x.to_numpy(), host)
    np.testing.assert_array_equal(back, host)
    assert gp.transfer.stats()["h2d"].bytes == before + 4000
    stats = engine.stats()
    assert (stats.h2d_bytes, stats.d2d_bytes, stats.d2h_bytes) == (4000, 4000, 4000)


def test_submit_copy() -> None:
    host, x = np.arange(10, dtype=np.int32), gp.zeros(10, "int32")
    future = gp.transfer.submit_copy("h2d", x.device_ptr, host.ctypes.data, 40, priority=2)
    result = future.result()
    assert (result.type, result.bytes, result.priority) == ("h2d", 40, 2)
    np.testing.assert_array_equal(x.to_numpy(), host)
    with pytest.raises(ValueError, match="type is 'up', expected 'h2d', 'd2h' or 'd2d'"):
        gp.transfer.submit_copy("up", 1, 1, 1)
    with pytest.raises(ValueError, match="src_ptr is 0"):
        gp.transfer.submit_copy("h2d", 1, 0, 1)
