"""AsyncTransferEngine of 0.2: transfers by direction and priority, moved by the transfer engine.

The caller decides when a transfer starts and ends. Between the two the bytes move: where arrays
were given, or addresses of which the device's lies in its memory pool. Transfers of other numbers
are only counted.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

from pygpukit import _native
from pygpukit._compat.common import forward
from pygpukit._compat.lifecycle import COMPLETED, Request, Requests, RequestStats
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.transfer.engine import TransferFuture, submit_copy

TransferType = IntEnum("TransferType", "H2D D2H D2D", start=0)
TransferState = IntEnum("TransferState", "Queued InProgress Completed Failed Cancelled", start=0)
StreamType = IntEnum("StreamType", "D2D H2D D2H", start=0)  # of a direction


@dataclass(kw_only=True)
class TransferOp(Request):
    """A transfer as it was when asked for."""

    type: TransferType
    src_ptr: int
    dst_ptr: int
    size: int
    _keep: tuple[object, object] | None = field(default=None, repr=False)  # None: only counted
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

    def enqueue_h2d(self, host_ptr: Any, device_ptr: Any, size: int) -> int:
        return self._enqueue(TransferType.H2D, host_ptr, device_ptr, size)

    def enqueue_d2h(self, device_ptr: Any, host_ptr: Any, size: int) -> int:
        return self._enqueue(TransferType.D2H, device_ptr, host_ptr, size)

    def enqueue_d2d(self, src_ptr: Any, dst_ptr: Any, size: int) -> int:
        return self._enqueue(TransferType.D2D, src_ptr, dst_ptr, size)

    def enqueue_with_priority(
        self, transfer_type: str, src_ptr: Any, dst_ptr: Any, size: int, priority: int
    ) -> int:
        """For "h2d", "d2h" or "d2d"; higher priorities start first."""
        if transfer_type not in ("h2d", "d2h", "d2d"):
            raise InvalidValueError(
                f"AsyncTransferEngine: transfer_type is {_native.safe_repr(transfer_type)}, "
                "expected 'h2d', 'd2h' or 'd2d'"
            )
        return self._enqueue(TransferType[transfer_type.upper()], src_ptr, dst_ptr, size, priority)

    def get_ready_transfers(self, max_transfers: int = 1) -> list[TransferOp]:
        """Those that may start, H2D, D2H, D2D; they are in progress afterwards."""
        ready = sorted(self._ready(), key=lambda op: op.type)[:max_transfers]
        for op in ready:
            self.start(op.id)
        return [replace(op) for op in ready]

    def start(self, id: int) -> bool:
        """Queued to in progress: the bytes begin to move."""
        started = super().start(id)
        op = self._live.get(id)
        if started and op is not None and op._keep is not None:
            way = op.type.name.lower(), op.dst_ptr, op.src_ptr, op.size
            op._future = submit_copy(*way, priority=op.priority, keep=op._keep)
        return started

    def complete(self, id: int) -> bool:
        """In progress to completed, when the bytes have arrived; raises what the copy raises."""
        op = self._live.get(id)
        if op is None:
            return False
        if op._future is not None:
            try:
                op._future.wait()
            except Exception as error:
                super().fail(id, str(error))
                raise
        completed = super().complete(id)
        if completed:
            self._bytes[op.type] += op.size
            op._keep = None
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

    def _enqueue(self, kind: TransferType, src: Any, dst: Any, size: int, priority: int = 0) -> int:
        op = f"AsyncTransferEngine.enqueue_{kind.name.lower()}"
        size = whole(op, "size", size)
        src_ptr, dst_ptr = _address(op, "src_ptr", src, size), _address(op, "dst_ptr", dst, size)
        on_device = dst_ptr if kind == TransferType.H2D else src_ptr
        given = isinstance(src, int) and isinstance(dst, int)
        keep = (src, dst) if not given or _in_pool(on_device, size) else None
        where = {"src_ptr": src_ptr, "dst_ptr": dst_ptr, "size": size}
        return self._add(op, priority, type=kind, **where, _keep=keep).id


def _stop(op: TransferOp) -> None:
    """Returns when no more bytes of it move."""
    if op._future is not None:
        op._future.cancel()
        with contextlib.suppress(Exception):  # the caller has given it up
            op._future.wait()


def _address(op: str, name: str, memory: Any, size: int) -> int:
    """The address of an array of at least `size` bytes, or the number that was given."""
    if isinstance(memory, _native.GPUArray):
        address, flat = memory.device_ptr, memory.is_contiguous()
    elif hasattr(memory, "__array_interface__"):
        address, flat = memory.__array_interface__["data"][0], memory.flags.c_contiguous
    else:
        return whole(op, name, memory)
    if memory.nbytes < size or not flat:
        raise InvalidValueError(
            f"{op}: {name} has {memory.nbytes} bytes, {'' if flat else 'not '}contiguous, "
            f"expected {size} contiguous bytes"
        )
    return int(address or 0)


def _in_pool(address: int, size: int) -> bool:
    return any(
        piece["kind"] == "used" and 0 <= address - piece["address"] <= piece["bytes"] - size
        for piece in _native.memory_snapshot()
    )
