"""The gates that launches pass: how many of a stream may be on the device, and what was counted.

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
    """The gate of one stream. Kernels and copies are launches."""

    launches: int
    last_launch: float  # on the clock of time.monotonic(); 0.0: none yet
    limit: int  # 0: none
    in_flight: int
    max_in_flight: int  # most at a time
    waits: int  # launches that found the limit reached
    wait_s: float
    held: int  # launches that gave way to the foreground (best effort only)
    held_s: float


def limit(stream: Stream, max_in_flight: int | None) -> None:
    """Lets at most so many launches of a stream be on the device; None: they are only counted.

    A launch past the limit waits on the host for the oldest. Call it before other threads use the
    stream. Streams of partitions have their own limits, and the default stream has none. On CPU
    simulation work is done when the call returns: nothing is limited or counted.
    """
    _native.limit_launches(stream, max_in_flight)


def stats(device: str | int | None = None) -> dict[int, LaunchStats]:
    """Every stream with a gate, by handle: those of partitions, and those given to limit()."""
    gates = _native.launch_stats(device)
    return {int(handle): LaunchStats(**facts) for handle, facts in gates.items()}


__all__ = ["LaunchStats", "limit", "stats"]
