"""KernelPacingEngine of 0.2: when a stream may launch again, by its share of a window.

A stream is a number, or a Stream, whose launches are then those that its gate has counted.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from pygpukit import _native, dispatch
from pygpukit._compat.arguments import amount, whole
from pygpukit.core.errors import InvalidValueError

_ROUNDING = 1e-9  # 0.5 + 0.3 + 0.2 is not 1.0


@dataclass(frozen=True)
class PacingConfig:
    """The numbers of the rule."""

    total_bandwidth: float = 1.0
    window_ms: float = 100.0
    min_interval_ms: float = 0.1
    adaptive: bool = True  # part of the signature; the rule has nothing that adapts

    def __post_init__(self) -> None:
        for name in ("total_bandwidth", "window_ms", "min_interval_ms"):
            amount("PacingConfig", name, getattr(self, name))
        if self.total_bandwidth == 0:
            raise InvalidValueError("PacingConfig: total_bandwidth is 0, expected more")


@dataclass(frozen=True)
class PacingDecision:
    """Whether a stream may launch now."""

    decision_type: str = "Launch"  # or "Wait", "Throttle"
    wait_ms: float = 0.0  # infinite when throttled

    can_launch = property(lambda self: self.decision_type == "Launch")
    is_throttled = property(lambda self: self.decision_type == "Throttle")


@dataclass(frozen=True)
class StreamPacingStats:
    """Figures of one stream."""

    stream_id: int
    bandwidth_share: float
    launch_count: int
    throttle_count: int
    wait_count: int
    total_wait_ms: float
    launches_in_window: int


@dataclass(frozen=True)
class PacingStats:
    """Figures of all streams."""

    stream_count: int
    used_bandwidth: float
    available_bandwidth: float
    total_launches: int
    total_throttles: int
    total_waits: int


@dataclass
class _Paced:
    share: float
    stream: _native.Stream | None = None
    seen: int = 0  # launches that the gate had counted at the last look
    recent: deque[float] = field(default_factory=deque)  # as many as can decide
    launches: int = 0
    throttles: int = 0
    waits: int = 0
    wait_ms: float = 0.0

    @property
    def most(self) -> int:
        """Launches that a window may have."""
        return max(1, math.ceil(self.share * 100 - _ROUNDING))

    def count(self, launches: int, at: float) -> None:
        self.launches += launches
        self.recent.extend([at] * min(launches, self.most))
        while len(self.recent) > self.most:
            self.recent.popleft()


class KernelPacingEngine:
    """Paces launches by count and interval. Streams without a share are not paced."""

    def __init__(self, config: PacingConfig | None = None) -> None:
        self.config = config or PacingConfig()
        self._lock = threading.RLock()
        self._streams: dict[int, _Paced] = {}

    def allocate_stream(self, stream_id: int | _native.Stream, share: float) -> bool:
        """False when the shares would pass the total. The gate of a Stream counts its launches."""
        total = self.config.total_bandwidth
        share = amount("KernelPacingEngine", "share", share, total)
        number = _number(stream_id)
        with self._lock:
            others = sum(s.share for n, s in self._streams.items() if n != number)
            if others + share > total + _ROUNDING:
                return False
            paced = self._streams.setdefault(number, _Paced(share))
            paced.share = share
            if isinstance(stream_id, _native.Stream) and paced.stream is None:
                dispatch.limit(stream_id, None)
                paced.stream = stream_id
                paced.seen = self._counted(paced)
            return True

    def release_stream(self, stream_id: int | _native.Stream) -> bool:
        with self._lock:
            return self._streams.pop(_number(stream_id), None) is not None

    def should_launch(self, stream_id: int | _native.Stream) -> PacingDecision:
        """Whether it may launch now; changes nothing."""
        with self._lock:
            paced = self._find(stream_id)
            if paced is None or not paced.recent:
                return PacingDecision()
            elapsed_ms = (time.monotonic() - paced.recent[-1]) * 1e3
            for interval_ms in (
                self.config.min_interval_ms,
                self.config.window_ms * (1 - paced.share),
            ):
                if elapsed_ms < interval_ms:
                    return PacingDecision("Wait", interval_ms - elapsed_ms)
            if self._in_window(paced) >= paced.most:
                return PacingDecision("Throttle", math.inf)
            return PacingDecision()

    def record_launch(self, stream_id: int | _native.Stream) -> None:
        """It has launched. Not needed where a gate counts."""
        with self._lock:
            paced = self._find(stream_id)
            if paced is not None and not self._gate(paced):
                paced.count(1, time.monotonic())

    def record_throttle(self, stream_id: int | _native.Stream) -> None:
        with self._lock:
            if paced := self._find(stream_id):
                paced.throttles += 1

    def record_wait(self, stream_id: int | _native.Stream, wait_ms: float = 0.0) -> None:
        wait_ms = amount("KernelPacingEngine.record_wait", "wait_ms", wait_ms)
        with self._lock:
            if paced := self._find(stream_id):
                paced.waits += 1
                paced.wait_ms += wait_ms

    def stream_stats(self, stream_id: int | _native.Stream) -> StreamPacingStats | None:
        """Figures of a stream, or None. Waits at the stream's gate count too."""
        with self._lock:
            paced = self._find(stream_id)
            if paced is None:
                return None
            gate = self._gate(paced)
            return StreamPacingStats(
                stream_id=_number(stream_id),
                bandwidth_share=paced.share,
                launch_count=paced.launches,
                throttle_count=paced.throttles,
                wait_count=paced.waits + (gate.waits + gate.held if gate else 0),
                total_wait_ms=paced.wait_ms + ((gate.wait_s + gate.held_s) * 1e3 if gate else 0),
                launches_in_window=self._in_window(paced),
            )

    def stats(self) -> PacingStats:
        with self._lock:
            every = [s for s in map(self.stream_stats, list(self._streams)) if s is not None]
            used = sum(s.bandwidth_share for s in every)
            return PacingStats(
                stream_count=len(every),
                used_bandwidth=used,
                available_bandwidth=max(0.0, self.config.total_bandwidth - used),
                total_launches=sum(s.launch_count for s in every),
                total_throttles=sum(s.throttle_count for s in every),
                total_waits=sum(s.wait_count for s in every),
            )

    def reset(self) -> None:
        """Forgets launches; shares stay."""
        with self._lock:
            for number, paced in self._streams.items():
                self._streams[number] = _Paced(paced.share, paced.stream, self._counted(paced))

    def _find(self, stream_id: int | _native.Stream) -> _Paced | None:
        """The stream, with what its gate has counted since the last look."""
        paced = self._streams.get(_number(stream_id))
        gate = self._gate(paced) if paced else None
        if paced and gate and gate.launches > paced.seen:
            paced.count(gate.launches - paced.seen, gate.last_launch)
            paced.seen = gate.launches
        return paced

    def _counted(self, paced: _Paced) -> int:
        gate = self._gate(paced)
        return gate.launches if gate else 0

    @staticmethod
    def _gate(paced: _Paced) -> dispatch.LaunchStats | None:
        if paced.stream is None:
            return None
        return dispatch.stats(paced.stream.device).get(paced.stream.handle)

    def _in_window(self, paced: _Paced) -> int:
        start = time.monotonic() - self.config.window_ms / 1e3
        return sum(at > start for at in paced.recent)


def _number(stream: int | _native.Stream) -> int:
    handle = stream.handle if isinstance(stream, _native.Stream) else stream
    return whole("KernelPacingEngine", "stream_id", handle)
