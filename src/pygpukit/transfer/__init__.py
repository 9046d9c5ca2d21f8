"""Copies between host and device: in the background, by priority, with futures."""

from pygpukit._lazy import lazy_names
from pygpukit.transfer.engine import (
    DirectionStats,
    TransferFuture,
    TransferResult,
    configure,
    stats,
    submit_copy,
    submit_d2h,
    submit_h2d,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._compat.pinned import (
        PinnedBlock,
        PinnedMemoryManager,
        PinnedPoolConfig,
        PinnedStats,
    )
    from pygpukit._compat.transfer import (
        AsyncTransferEngine,
        StreamType,
        TransferOp,
        TransferState,
        TransferStats,
        TransferType,
    )
else:
    __getattr__ = lazy_names(
        "pygpukit.transfer",
        {
            "pygpukit._compat.pinned": (
                "PinnedBlock",
                "PinnedMemoryManager",
                "PinnedPoolConfig",
                "PinnedStats",
            ),
            "pygpukit._compat.transfer": (
                "AsyncTransferEngine",
                "StreamType",
                "TransferOp",
                "TransferState",
                "TransferStats",
                "TransferType",
            ),
        },
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
    "submit_copy",
    "submit_d2h",
    "submit_h2d",
]
