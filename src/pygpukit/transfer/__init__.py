"""Transfers between host and device."""

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
