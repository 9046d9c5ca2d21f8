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

# Names of 0.2 and the modules that define them.
_COMPAT = {
    "pygpukit._compat.pinned": (
        *("PinnedBlock", "PinnedMemoryManager", "PinnedPoolConfig", "PinnedStats"),
    ),
    "pygpukit._compat.transfer": (
        *("AsyncTransferEngine", "StreamType", "TransferOp", "TransferState", "TransferStats"),
        "TransferType",
    ),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._compat.pinned import *  # noqa: F403
    from pygpukit._compat.transfer import *  # noqa: F403

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
if not TYPE_CHECKING:
    __getattr__ = lazy_names("pygpukit.transfer", _COMPAT)
    __all__ = sorted({*__all__, *(name for names in _COMPAT.values() for name in names)})
