"""Launches: limits per stream, and what the gates of streams have counted."""

from pygpukit._lazy import lazy_names
from pygpukit.dispatch.launches import LaunchStats, limit, stats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._compat.dispatch import (
        DispatchStats,
        KernelDispatcher,
        KernelLaunchRequest,
        KernelState,
        LaunchConfig,
    )
    from pygpukit._compat.kernel_cache import (
        CacheConfig,
        CachedKernel,
        CacheStats,
        CompileOptions,
        KernelCache,
    )
    from pygpukit._compat.pacing import (
        KernelPacingEngine,
        PacingConfig,
        PacingDecision,
        PacingStats,
        StreamPacingStats,
    )
    from pygpukit._compat.persistent_cache import (
        ArchFingerprint,
        PersistentCache,
        PersistentCacheConfig,
        PersistentCacheEntry,
        PersistentCacheStats,
    )
    from pygpukit._runtime import SliceConfig, SliceInfo, SliceScheduler, SliceStats
else:
    __getattr__ = lazy_names(
        "pygpukit.dispatch",
        {
            "pygpukit._compat.dispatch": (
                "DispatchStats",
                "KernelDispatcher",
                "KernelLaunchRequest",
                "KernelState",
                "LaunchConfig",
            ),
            "pygpukit._compat.kernel_cache": (
                "CacheConfig",
                "CacheStats",
                "CachedKernel",
                "CompileOptions",
                "KernelCache",
            ),
            "pygpukit._compat.pacing": (
                "KernelPacingEngine",
                "PacingConfig",
                "PacingDecision",
                "PacingStats",
                "StreamPacingStats",
            ),
            "pygpukit._compat.persistent_cache": (
                "ArchFingerprint",
                "PersistentCache",
                "PersistentCacheConfig",
                "PersistentCacheEntry",
                "PersistentCacheStats",
            ),
            "pygpukit._runtime": ("SliceConfig", "SliceInfo", "SliceScheduler", "SliceStats"),
        },
    )

__all__ = [
    "ArchFingerprint",
    "CacheConfig",
    "CacheStats",
    "CachedKernel",
    "CompileOptions",
    "DispatchStats",
    "KernelCache",
    "KernelDispatcher",
    "KernelLaunchRequest",
    "KernelPacingEngine",
    "KernelState",
    "LaunchConfig",
    "LaunchStats",
    "PacingConfig",
    "PacingDecision",
    "PacingStats",
    "PersistentCache",
    "PersistentCacheConfig",
    "PersistentCacheEntry",
    "PersistentCacheStats",
    "SliceConfig",
    "SliceInfo",
    "SliceScheduler",
    "SliceStats",
    "StreamPacingStats",
    "limit",
    "stats",
]
