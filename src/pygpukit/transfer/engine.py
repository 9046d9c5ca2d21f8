"""The transfer engine: copies that run in the background.

>>> future = gp.transfer.submit_h2d(x, host, priority=1)
>>> future.wait()          # or: await future

A copy starts after the work submitted so far on the streams that used the array. Until it is done,
do not use the array or the host memory for anything else: later work does not wait for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pygpukit import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pygpukit._native import GPUArray, Stream


@dataclass(frozen=True)
class TransferResult:
    """The outcome of a copy. Seconds; `gb_s` is 10**9 bytes per second."""

    id: int
    type: str  # "h2d" or "d2h"
    state: str  # "Completed", "Failed" or "Cancelled"
    bytes: int
    priority: int
    wait_s: float  # from submission to the first chunk
    duration_s: float
    gb_s: float
    error: str


class TransferFuture:
    """A copy in the background. It can be awaited."""

    def __init__(self, native: _native.TransferFuture) -> None:
        self._native = native

    @property
    def id(self) -> int:
        """A unique id."""
        return self._native.id

    def done(self) -> bool:
        """True when it has ended: completed, failed or cancelled."""
        return self._native.done()

    def wait(self) -> None:
        """Waits until the copy is complete; raises its error."""
        self._native.wait()

    def result(self) -> TransferResult:
        """Waits, then returns the outcome."""
        self._native.wait()
        return TransferResult(**self._native.facts())

    def cancel(self) -> bool:
        """Stops it between chunks; True when it will not complete.

        The destination may then be written in part. False when it is too late.
        """
        return self._native.cancel()

    def __await__(self) -> Generator[Any, None, TransferResult]:
        import asyncio

        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def wake() -> None:
            if not ended.done():
                ended.set_result(None)

        def notify() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: there is no waiter
                loop.call_soon_threadsafe(wake)

        self._native.add_done_callback(notify)
        yield from ended
        return self.result()

    def __repr__(self) -> str:
        state = self._native.facts()["state"] if self.done() else "pending"
        return f"TransferFuture(id={self.id}, {state})"


@dataclass(frozen=True)
class DirectionStats:
    """Counters of one direction."""

    submitted: int
    completed: int
    failed: int
    cancelled: int
    chunks: int
    bytes: int
    staged_bytes: int  # of those, through pinned memory
    busy_s: float
    gb_s: float
    wait_s: float
    max_wait_s: float
    queue_depth: int
    max_queue_depth: int
    in_flight_bytes: int


def submit_h2d(
    array: GPUArray, host: NDArray[Any], *, priority: int = 0, stream: Stream | None = None
) -> TransferFuture:
    """Copies a NumPy array into `array`, of the same shape and dtype; both contiguous.

    Copies of higher priority go first, even past the rest of one in flight.
    """
    return TransferFuture(_native.submit_h2d(array, host, priority=priority, stream=stream))


def submit_d2h(
    array: GPUArray, host: NDArray[Any], *, priority: int = 0, stream: Stream | None = None
) -> TransferFuture:
    """Copies `array` into a NumPy array of the same shape and dtype; both contiguous."""
    return TransferFuture(_native.submit_d2h(array, host, priority=priority, stream=stream))


def submit_copy(
    type: str,
    dst_ptr: int,
    src_ptr: int,
    size_bytes: int,
    *,
    priority: int = 0,
    keep: object = None,
    stream: Stream | None = None,
    device: str | int | None = None,
) -> TransferFuture:
    """Copies between two addresses: `type` is "h2d", "d2h" or "d2d".

    It starts after the stream's work so far. Both sides stay valid until it is done; `keep` is held
    until then.
    """
    return TransferFuture(
        _native.submit_copy(
            type,
            dst_ptr,
            src_ptr,
            size_bytes,
            priority=priority,
            keep=keep,
            stream=stream,
            device=device,
        )
    )


def stats(device: str | int | None = None) -> dict[str, DirectionStats]:
    """Counters of a device's engine: "h2d", "d2h" and "d2d"."""
    return {name: DirectionStats(**facts) for name, facts in _native.transfer_stats(device).items()}


def configure(
    *,
    chunk_bytes: int = 0,
    max_in_flight_bytes: int = 0,
    copy_threads: int = 0,
    device: str | int | None = None,
) -> None:
    """Settings of a device's engine, before its first transfer; 0 keeps the default.

    An urgent copy waits for `max_in_flight_bytes` at most; `copy_threads` fill pinned memory.
    """
    _native.transfer_configure(chunk_bytes, max_in_flight_bytes, copy_threads, device)


__all__ = [
    "DirectionStats",
    "TransferFuture",
    "TransferResult",
    "configure",
    "stats",
    "submit_copy",
    "submit_d2h",
    "submit_h2d",
]
