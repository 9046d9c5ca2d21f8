"""The transfer queue of version 0.2: it orders and counts, the caller moves the bytes."""

from pygpukit._runtime import (
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
    "PinnedBlock",
    "PinnedMemoryManager",
    "PinnedPoolConfig",
    "PinnedStats",
    "StreamType",
    "TransferOp",
    "TransferState",
    "TransferStats",
    "TransferType",
]
