"""Requests that are queued, started and ended: what transfers and launches have in common."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from pygpukit._compat.arguments import NumberEnum

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


R = TypeVar("R", bound=Request)


class Requests(Generic[R]):
    """Requests by id, from 1. Changes return False when the request is in another state."""

    def __init__(self, states: type[NumberEnum]) -> None:
        self._states = states
        self._lock = threading.RLock()
        self._next_id = 1
        self._forget()

    def _forget(self) -> None:
        self._all: dict[int, R] = {}
        self._live: dict[int, R] = {}  # queued or started, in the order they were queued
        self._counts = [0] * 5  # how many ever entered a state
        self._wait_s = self._run_s = 0.0

    def _add(self, request: R) -> int:
        self._all[request.id] = self._live[request.id] = request
        self._counts[QUEUED] += 1
        self._next_id = request.id + 1
        return request.id

    def _queued(self) -> int:
        return sum(request.state == QUEUED for request in self._live.values())

    def _change(self, number: int, to: int, *before: int, error: str = "") -> R | None:
        request = self._live.get(number)
        if request is None or request.state not in before:
            return None
        now = time.monotonic()
        request.state, request.error = self._states(to), error or None
        self._counts[to] += 1
        if to == STARTED:
            request.started_at = now
            self._wait_s += now - request.queued_at
            return request
        del self._live[number]
        request.ended_at = now
        if to == COMPLETED:
            self._run_s += now - (request.started_at or now)
        return request

    def _get(self, number: int) -> R | None:
        request = self._all.get(number)
        return None if request is None else replace(request)

    def has_pending_work(self) -> bool:
        """Something is queued or started."""
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
