"""Requests that are queued, started and ended: what transfers and launches have in common."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Generic, TypeVar

from pygpukit._compat.common import Locked
from pygpukit.core.arguments import whole

QUEUED, STARTED, COMPLETED, FAILED, CANCELLED = range(5)  # the states of both, by number


@dataclass(kw_only=True)
class Request:
    """What was asked for and how far it got."""

    id: int
    priority: int = 0
    state: IntEnum
    error: str | None = None
    queued_at: float = field(default_factory=time.monotonic, repr=False)
    started_at: float | None = field(default=None, repr=False)
    ended_at: float | None = field(default=None, repr=False)


@dataclass(frozen=True)
class RequestStats:
    """How many requests entered a state, and how many are in one."""

    total_count: int
    started_count: int
    completed_count: int
    failed_count: int
    cancelled_count: int
    pending_count: int
    active_count: int


R = TypeVar("R", bound=Request)


class Requests(Locked, Generic[R]):
    """Requests by id, from 1. Changes return False when the request is in another state."""

    _kind: type[R]
    _states: type[IntEnum]
    _fails_from: ClassVar[tuple[int, ...]] = (STARTED,)

    def __init__(self, max_per_stream: int) -> None:
        self._max_per_stream, self._next_id = max_per_stream, 1
        self.clear()

    def clear(self) -> None:
        """Forgets everything. Ids are not used again."""
        self._all: dict[int, R] = {}
        self._live: dict[int, R] = {}  # queued or started, in the order they were queued
        self._counts = [0] * 5  # how many ever entered a state

    @abstractmethod
    def _stream(self, request: R) -> int:
        """The number of its stream."""

    def _settle(self) -> None:
        """Completes what has ended by itself."""

    def _add(self, op: str, priority: int, **fields: Any) -> R:
        fields["priority"] = whole(op, "priority", priority, -(2**31), 2**31 - 1)
        with self._lock:
            request = self._kind(id=self._next_id, state=self._states(QUEUED), **fields)
            self._all[request.id] = self._live[request.id] = request
            self._counts[QUEUED] += 1
            self._next_id += 1
        return request

    def start(self, id: int) -> bool:
        return self._change(id, STARTED, (QUEUED,))

    def complete(self, id: int) -> bool:
        return self._change(id, COMPLETED, (STARTED,))

    def fail(self, id: int, error: str = "") -> bool:
        return self._change(id, FAILED, self._fails_from, error)

    def cancel(self, id: int) -> bool:
        """Only what is still queued."""
        return self._change(id, CANCELLED, (QUEUED,))

    def _change(self, id: int, to: int, before: tuple[int, ...], error: str = "") -> bool:
        request = self._live.get(id)
        if request is None or request.state not in before:
            return False
        request.state, request.error = self._states(to), error or None
        self._counts[to] += 1
        if to == STARTED:
            request.started_at = time.monotonic()
        else:
            request.ended_at = time.monotonic()
            del self._live[id]
        return True

    def _ready(self) -> list[R]:
        """Those that may start: by priority, then first come, as many as their stream takes."""
        room: dict[int, int] = {}
        ready = []
        for request in sorted(self._live.values(), key=lambda r: (-r.state, -r.priority, r.id)):
            stream = self._stream(request)
            room[stream] = room.get(stream, self._max_per_stream) - 1
            if request.state == QUEUED and room[stream] >= 0:
                ready.append(request)
        return ready

    def _active(self, stream: int) -> list[int]:
        self._settle()
        started = [request for request in self._live.values() if request.state == STARTED]
        return [request.id for request in started if self._stream(request) == stream]

    def _get(self, id: int) -> R | None:
        self._settle()
        return self._all.get(id)

    def _figures(self) -> tuple[int, ...]:
        """The fields of RequestStats."""
        self._settle()
        queued = sum(request.state == QUEUED for request in self._live.values())
        return *self._counts, queued, len(self._live) - queued

    def has_pending_work(self) -> bool:
        """Something is queued or started."""
        self._settle()
        return bool(self._live)

    def gc(self) -> int:
        """Forgets what has ended; how many."""
        before = len(self._all)
        self._all = dict(self._live)
        return before - len(self._all)
