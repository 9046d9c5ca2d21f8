"""Copies between host and device: in the background, by priority, with futures.

`submit_h2d` and `submit_d2h` copy; `AsyncTransferEngine` and the pinned memory classes are those of
version 0.2.
"""

from pygpukit.transfer.engine import (
    DirectionStats,
    TransferFuture,
    TransferResult,
    configure,
    stats,
    submit_d2h,
    submit_h2d,
)
from pygpukit.transfer.queue import (
    AsyncTransferEngine,
    PinnedBlock,
    PinnedMemoryManager,
    PinnedPoolConfig,
    PinnedStats,
    StreamType,
    TransferOp,
    TransferState,
    TransferStats,
    TransferType,
)

__all__ = [
    "AsyncTransferEngine",
    "DirectionStats",
    "PinnedBlock",
    "PinnedMemoryManager",
    "PinnedPoolConfig",
    "PinnedStats",
    "StreamType",
    "TransferFuture",
    "TransferOp",
    "TransferResult",
    "TransferState",
    "TransferStats",
    "TransferType",
    "configure",
    "stats",
    "submit_d2h",
    "submit_h2d",
]
