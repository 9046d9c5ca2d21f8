"""Launches: limits and counters per stream."""

from pygpukit._lazy import lazy_names
from pygpukit.dispatch.launches import LaunchStats, limit, stats

# Names of 0.2 and the modules that define them.
_COMPAT = {
    "pygpukit._compat.dispatch": (
        *("DispatchStats", "KernelDispatcher", "KernelLaunchRequest", "KernelState"),
        "LaunchConfig",
    ),
    "pygpukit._compat.kernel_cache": (
        *("CacheConfig", "CacheStats", "CachedKernel", "CompileOptions", "KernelCache"),
    ),
    "pygpukit._compat.pacing": (
        *("KernelPacingEngine", "PacingConfig", "PacingDecision", "PacingStats"),
        "StreamPacingStats",
    ),
    "pygpukit._compat.persistent_cache": (
        *("ArchFingerprint", "PersistentCache", "PersistentCacheConfig"),
        *("PersistentCacheEntry", "PersistentCacheStats"),
    ),
    "pygpukit._compat.slicing": ("SliceConfig", "SliceInfo", "SliceScheduler", "SliceStats"),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._compat.dispatch import *  # noqa: F403
    from pygpukit._compat.kernel_cache import *  # noqa: F403
    from pygpukit._compat.pacing import *  # noqa: F403
    from pygpukit._compat.persistent_cache import *  # noqa: F403
    from pygpukit._compat.slicing import *  # noqa: F403

__all__ = ["LaunchStats", "limit", "stats"]
if not TYPE_CHECKING:
    __getattr__ = lazy_names("pygpukit.dispatch", _COMPAT)
    __all__ = sorted({*__all__, *(name for names in _COMPAT.values() for name in names)})
