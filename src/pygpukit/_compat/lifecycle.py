"""Requests that are queued, started and ended: what transfers and launches have in common."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from pygpukit._compat.arguments import NumberEnum, whole

QUEUED, STARTED, COMPLETED, FAILED, CANCELLED = range(5)  # the states of both, by number


@dataclass(kw_only=True)
class Request:
    """A request as it was when asked for."""

    id: int
    priority: int = 0
    state: NumberEnum
    error: str | None = None
    queued_at: float = field(default_factory=time.monotonic, repr=False)
    started_at: float | None = field(default=None, repr=False)
    ended_at: float | None = field(default=None, repr=False)


@dataclass(frozen=True)
class RequestStats:
    """How many requests entered a state, how many are in one, and seconds in total."""

    total_count: int
    started_count: int
    completed_count: int
    failed_count: int
    cancelled_count: int
    pending_count: int
    active_count: int
    wait_s: float
    run_s: float


R = TypeVar("R", bound=Request)


class Requests(Generic[R]):
    """Requests by id, from 1. Changes return False when the request is in another state."""

    _kind: type[R]
    _states: type[NumberEnum]
    _fails_from: ClassVar[tuple[int, ...]] = (STARTED,)

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._next_id = 1
        self._forget()

    def _forget(self) -> None:
        self._all: dict[int, R] = {}
        self._live: dict[int, R] = {}  # queued or started, in the order they were queued
        self._counts = [0] * 5  # how many ever entered a state
        self._wait_s = self._run_s = 0.0

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
        with self._lock:
            request = self._live.get(id)
            if request is None or request.state not in before:
                return False
            now = time.monotonic()
            request.state, request.error = self._states(to), error or None
            self._counts[to] += 1
            if to == STARTED:
                request.started_at = now
                self._wait_s += now - request.queued_at
                return True
            del self._live[id]
            request.ended_at = now
            if to == COMPLETED:
                self._run_s += now - (request.started_at or now)
            return True

    def _settle(self) -> None:
        """Completes what has ended by itself."""

    def _get(self, id: int) -> R | None:
        self._settle()
        request = self._all.get(id)
        return None if request is None else replace(request)

    def _figures(self) -> tuple[Any, ...]:
        """The fields of RequestStats."""
        self._settle()
        with self._lock:
            queued = sum(request.state == QUEUED for request in self._live.values())
            active = len(self._live) - queued
            return *self._counts, queued, active, self._wait_s, self._run_s

    def has_pending_work(self) -> bool:
        """Something is queued or started."""
        self._settle()
        return bool(self._live)

    def gc(self) -> int:
        """Forgets what has ended; how many."""
        with self._lock:
            before = len(self._all)
            self._all = dict(self._live)
            return before - len(self._all)

    def clear(self) -> None:
        """Forgets everything. Ids are not used again."""
        with self._lock:
            self._forget()
