"""AsyncTransferEngine of 0.2: transfers by direction and priority, moved by the transfer engine.

The caller decides when a transfer starts and ends. Between the two the bytes move where the
device's address lies in its memory pool. Transfers of other numbers are only counted.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from enum import IntEnum

from pygpukit import _native
from pygpukit._compat.common import forward
from pygpukit._compat.dispatch import COMPLETED, Request, Requests, RequestStats
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.transfer.engine import TransferFuture, submit_copy

TransferType = IntEnum("TransferType", "H2D D2H D2D", start=0)
TransferState = IntEnum("TransferState", "Queued InProgress Completed Failed Cancelled", start=0)
StreamType = IntEnum("StreamType", "D2D H2D D2H", start=0)  # of a direction


@dataclass(kw_only=True)
class TransferOp(Request):
    """A transfer: what was asked for and how far it got."""

    type: TransferType
    src_ptr: int
    dst_ptr: int
    size: int
    _future: TransferFuture | None = field(default=None, repr=False)

    def wait_time(self) -> float:
        """Seconds from enqueue to start; 0 while not known."""
        return 0.0 if self.started_at is None else self.started_at - self.queued_at

    def duration(self) -> float:
        """Seconds from start to end; 0 while not known."""
        if self.started_at is None or self.ended_at is None:
            return 0.0
        return self.ended_at - self.started_at

    def bandwidth_gbps(self) -> float:
        """10**9 bytes per second; 0 while not known."""
        done = self.state == COMPLETED and self.duration() > 0
        return self.size / self.duration() / 1e9 if done else 0.0


@dataclass(frozen=True)
class TransferStats(RequestStats):
    """Figures of an AsyncTransferEngine; bytes are those of completed transfers."""

    h2d_bytes: int
    d2h_bytes: int
    d2d_bytes: int

    total_transfers = forward("total_count")
    in_progress_count = forward("active_count")
    total_bytes = property(lambda self: self.h2d_bytes + self.d2h_bytes + self.d2d_bytes)


class AsyncTransferEngine(Requests[TransferOp]):
    """Transfers in order, at most `max_concurrent` in progress per stream."""

    _kind, _states = TransferOp, TransferState

    def __init__(self, max_concurrent: int = 4) -> None:
        super().__init__(whole("AsyncTransferEngine", "max_concurrent", max_concurrent, 1))

    max_concurrent = forward("_max_per_stream")

    def _stream(self, request: TransferOp) -> int:
        return StreamType[request.type.name]

    def clear(self) -> None:
        for op in getattr(self, "_live", {}).values():
            _stop(op)
        super().clear()
        self._bytes = dict.fromkeys(TransferType, 0)

    def enqueue_h2d(self, host_ptr: int, device_ptr: int, size: int) -> int:
        return self.enqueue_with_priority("h2d", host_ptr, device_ptr, size, 0)

    def enqueue_d2h(self, device_ptr: int, host_ptr: int, size: int) -> int:
        return self.enqueue_with_priority("d2h", device_ptr, host_ptr, size, 0)

    def enqueue_d2d(self, src_ptr: int, dst_ptr: int, size: int) -> int:
        return self.enqueue_with_priority("d2d", src_ptr, dst_ptr, size, 0)

    def enqueue_with_priority(
        self, transfer_type: str, src_ptr: int, dst_ptr: int, size: int, priority: int
    ) -> int:
        """For "h2d", "d2h" or "d2d"; higher priorities start first."""
        op = "AsyncTransferEngine.enqueue"
        if transfer_type not in ("h2d", "d2h", "d2d"):
            raise InvalidValueError(
                f"{op}: transfer_type is {_native.safe_repr(transfer_type)}, "
                "expected 'h2d', 'd2h' or 'd2d'"
            )
        numbers = {"src_ptr": src_ptr, "dst_ptr": dst_ptr, "size": size}
        checked = {name: whole(op, name, value) for name, value in numbers.items()}
        return self._add(op, priority, type=TransferType[transfer_type.upper()], **checked).id

    def get_ready_transfers(self, max_transfers: int = 1) -> list[TransferOp]:
        """Those that may start, H2D, D2H, D2D; they are in progress afterwards."""
        ready = sorted(self._ready(), key=lambda op: op.type)[:max_transfers]
        for op in ready:
            self.start(op.id)
        return ready

    def start(self, id: int) -> bool:
        """Queued to in progress: the bytes begin to move."""
        started = super().start(id)
        op = self._live.get(id)
        if started and op is not None and _in_pool(op):
            way = op.type.name.lower(), op.dst_ptr, op.src_ptr, op.size
            op._future = submit_copy(*way, priority=op.priority)
        return started

    def complete(self, id: int) -> bool:
        """In progress to completed, when the bytes have arrived; raises what the copy raises."""
        op = self._live.get(id)
        if op is not None and op._future is not None:
            try:
                op._future.wait()
            except Exception as error:
                super().fail(id, str(error))
                raise
        completed = super().complete(id)
        if completed and op is not None:
            self._bytes[op.type] += op.size
        return completed

    def fail(self, id: int, error: str = "") -> bool:
        """In progress to failed; what has not moved yet does not."""
        op = self._live.get(id)
        failed = super().fail(id, error)
        if failed and op is not None:
            _stop(op)
        return failed

    start_transfer, complete_transfer = start, complete
    fail_transfer, cancel_transfer = fail, Requests.cancel
    get_operation = Requests._get

    def get_in_progress_for_stream(self, stream: int) -> list[int]:
        """Ids in progress: D2D 0, H2D 1, D2H 2."""
        return self._active(whole("AsyncTransferEngine", "stream", stream, 0, 2))

    def stats(self) -> TransferStats:
        return TransferStats(*self._figures(), *self._bytes.values())


def _stop(op: TransferOp) -> None:
    """Returns when no more bytes of it move."""
    if op._future is not None:
        op._future.cancel()
        with contextlib.suppress(Exception):  # the caller has given it up
            op._future.wait()


def _in_pool(op: TransferOp) -> bool:
    """The device's side lies in memory of the pool."""
    address = op.dst_ptr if op.type == TransferType.H2D else op.src_ptr
    return any(
        block["kind"] == "used" and 0 <= address - block["address"] <= block["bytes"] - op.size
        for block in _native.memory_snapshot()
    )
