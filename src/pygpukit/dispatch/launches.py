"""Launch gates: limits on the launches of a stream in flight, and their counters.

>>> stream = gp.Stream()
>>> gp.dispatch.limit(stream, 2)
>>> gp.dispatch.stats()[stream.handle].in_flight
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pygpukit import _native

if TYPE_CHECKING:
    from pygpukit._native import Stream


@dataclass(frozen=True)
class LaunchStats:
    """Counters of one stream. Kernels and copies both count as launches."""

    launches: int
    last_launch: float  # on the clock of time.monotonic(); 0.0: none yet
    limit: int  # 0: none
    in_flight: int
    max_in_flight: int  # high-water mark
    waits: int  # launches that had to wait for the limit
    wait_s: float
    held: int  # launches that yielded to the foreground (best effort only)
    held_s: float


def limit(stream: Stream, max_in_flight: int | None) -> None:
    """Limits the launches of a stream in flight; None: they are only counted.

    A launch beyond the limit blocks the host until the oldest is done. Call it before other threads
    use the stream. Streams of partitions have their own limits, and the default stream has none. On
    CPU simulation work is synchronous: nothing is limited or counted.
    """
    _native.limit_launches(stream, max_in_flight)


def stats(device: str | int | None = None) -> dict[int, LaunchStats]:
    """Every stream with a gate, by handle: those of partitions, and those given to limit()."""
    gates = _native.launch_stats(device)
    return {int(handle): LaunchStats(**facts) for handle, facts in gates.items()}


__all__ = ["LaunchStats", "limit", "stats"]
