"""KernelPacingEngine of 0.2: when a stream may launch again, by its share of a window.

A stream is a number, or a Stream, whose launches and waits are then those that its gate counted.
"""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pygpukit import _native, dispatch
from pygpukit._compat.common import Locked, check_fields, sum_shares
from pygpukit.core.arguments import amount, whole

AnyStream = int | _native.Stream


@dataclass(frozen=True)
class PacingConfig:
    """The numbers of the rule."""

    total_bandwidth: float = 1.0
    window_ms: float = 100.0
    min_interval_ms: float = 0.1
    adaptive: bool = True  # part of the signature; the rule has nothing that adapts

    def __post_init__(self) -> None:
        check_fields(self, total_bandwidth=1e-9, window_ms=0.0, min_interval_ms=0.0)


@dataclass(frozen=True)
class PacingDecision:
    """Whether a stream may launch now."""

    decision_type: str = "Launch"  # or "Wait", "Throttle"
    wait_ms: float = 0.0  # infinite when throttled

    can_launch = property(lambda self: self.decision_type == "Launch")
    is_throttled = property(lambda self: self.decision_type == "Throttle")


@dataclass
class StreamPacingStats:
    """Figures of one stream."""

    stream_id: int
    bandwidth_share: float
    launch_count: int = 0
    throttle_count: int = 0
    wait_count: int = 0
    total_wait_ms: float = 0.0
    launches_in_window: int = 0
    _stream: _native.Stream | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        gate = self._gate()
        self._seen = gate.launches if gate else 0  # at the last look
        self._recent: deque[float] = deque()  # launches, as many as can decide

    @property
    def _most(self) -> int:
        """Launches that a window may have."""
        return max(1, math.ceil(round(self.bandwidth_share * 100, 7)))

    def _gate(self) -> dispatch.LaunchStats | None:
        stream = self._stream
        return None if stream is None else dispatch.stats(stream.device).get(stream.handle)

    def _count(self, launches: int, at: float) -> None:
        self.launch_count += launches
        self._recent = deque([*self._recent, *[at] * min(launches, self._most)], self._most)


class PacingStats(NamedTuple):
    """Figures of all streams."""

    stream_count: int
    used_bandwidth: float
    available_bandwidth: float
    total_launches: int
    total_throttles: int
    total_waits: int


class KernelPacingEngine(Locked):
    """Paces launches by count and interval. Streams without a share are not paced."""

    def __init__(self, config: PacingConfig | None = None) -> None:
        self.config = config or PacingConfig()
        self._streams: dict[int, StreamPacingStats] = {}

    def allocate_stream(self, stream_id: AnyStream, share: float) -> bool:
        """False when the shares would pass the total. A Stream gets a gate that counts."""
        total = self.config.total_bandwidth
        share = amount("KernelPacingEngine", "share", share, high=total)
        number = _number(stream_id)
        others = [s.bandwidth_share for n, s in self._streams.items() if n != number]
        if sum_shares((*others, share)) > total:
            return False
        stream = self._streams.setdefault(number, StreamPacingStats(number, share))
        stream.bandwidth_share = share
        if isinstance(stream_id, _native.Stream) and stream._stream is None:
            dispatch.limit(stream_id, None)
            self._streams[number] = StreamPacingStats(number, share, _stream=stream_id)
        return True

    def release_stream(self, stream_id: AnyStream) -> bool:
        return self._streams.pop(_number(stream_id), None) is not None

    def should_launch(self, stream_id: AnyStream) -> PacingDecision:
        """Whether it may launch now; changes nothing."""
        stream = self._find(stream_id)
        if stream is None or not stream._recent:
            return PacingDecision()
        elapsed_ms = (time.monotonic() - stream._recent[-1]) * 1e3
        rest_ms = self.config.window_ms * (1 - stream.bandwidth_share)
        for interval_ms in (self.config.min_interval_ms, rest_ms):
            if elapsed_ms < interval_ms:
                return PacingDecision("Wait", interval_ms - elapsed_ms)
        if self._in_window(stream) >= stream._most:
            return PacingDecision("Throttle", math.inf)
        return PacingDecision()

    def record_launch(self, stream_id: AnyStream) -> None:
        """It has launched. Not needed where a gate counts."""
        stream = self._find(stream_id)
        if stream is not None and stream._gate() is None:
            stream._count(1, time.monotonic())

    def record_throttle(self, stream_id: AnyStream) -> None:
        if stream := self._find(stream_id):
            stream.throttle_count += 1

    def record_wait(self, stream_id: AnyStream, wait_ms: float = 0.0) -> None:
        wait_ms = amount("KernelPacingEngine.record_wait", "wait_ms", wait_ms)
        if stream := self._find(stream_id):
            stream.wait_count += 1
            stream.total_wait_ms += wait_ms

    def stream_stats(self, stream_id: AnyStream) -> StreamPacingStats | None:
        """Waits at the stream's gate count too."""
        stream = self._find(stream_id)
        if stream is None:
            return None
        now = replace(stream, launches_in_window=self._in_window(stream))
        if gate := stream._gate():
            now.wait_count += gate.waits + gate.held
            now.total_wait_ms += (gate.wait_s + gate.held_s) * 1e3
        return now

    def stats(self) -> PacingStats:
        every = [s for s in map(self.stream_stats, self._streams) if s is not None]
        used = sum_shares(s.bandwidth_share for s in every)
        return PacingStats(
            len(every),
            used,
            available_bandwidth=sum_shares((self.config.total_bandwidth, -used)),
            total_launches=sum(s.launch_count for s in every),
            total_throttles=sum(s.throttle_count for s in every),
            total_waits=sum(s.wait_count for s in every),
        )

    def reset(self) -> None:
        """Forgets launches; shares stay."""
        for number, old in self._streams.items():
            fresh = StreamPacingStats(number, old.bandwidth_share, _stream=old._stream)
            self._streams[number] = fresh

    def _find(self, stream_id: AnyStream) -> StreamPacingStats | None:
        """The stream, with what its gate has counted since the last look."""
        stream = self._streams.get(_number(stream_id))
        gate = stream._gate() if stream else None
        if stream and gate and gate.launches > stream._seen:
            stream._count(gate.launches - stream._seen, gate.last_launch)
            stream._seen = gate.launches
        return stream

    def _in_window(self, stream: StreamPacingStats) -> int:
        start = time.monotonic() - self.config.window_ms / 1e3
        return sum(at > start for at in stream._recent)


def _number(stream: AnyStream) -> int:
    handle = stream.handle if isinstance(stream, _native.Stream) else stream
    return whole("KernelPacingEngine", "stream_id", handle)
