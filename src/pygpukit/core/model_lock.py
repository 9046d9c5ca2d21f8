"""The lock of a model that several threads share."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Generic, TypeVar

from pygpukit import _native

T = TypeVar("T")


class ModelLock:
    """Whoever holds it has the model's caches and intermediate results.

    A holder on another stream than the last one first waits for that stream, on the device. A
    garbage collector may drop a text on any thread, also on one that holds the lock of another
    model: it never waits, and what it cannot free at once is left to the holder.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._lock = threading.RLock()
        self._depth = 0
        self._stream: _native.Stream | None = None  # of the last holder
        self._deferred: deque[Callable[[], object]] = deque()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        try:
            if self._depth == 1:
                self._follow_last_holder()
        except BaseException:
            self._depth -= 1
            self._lock.release()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        self._lock.release()
        self._run_deferred()

    def _follow_last_holder(self) -> None:
        if self._device == "cpu":
            return
        stream, last = _native.current_stream(self._device), self._stream
        if last is not None and last.handle != stream.handle:
            stream.wait(last)
        self._stream = stream

    def _try(self) -> bool:
        return self._lock.acquire(blocking=False)

    def _defer(self, call: Callable[[], object]) -> None:
        self._deferred.append(call)
        self._run_deferred()  # the holder may have looked before

    def _run_deferred(self) -> None:
        while self._deferred and self._try():
            try:
                while self._deferred:
                    self._deferred.popleft()()
            finally:
                self._lock.release()


def _clear(locks: Sequence[ModelLock], texts: list[Any]) -> None:
    """Empties the list while all locks are held: now, or when a holder is done."""
    with ExitStack() as taken:
        for lock in locks:
            if not lock._try():
                busy = lock
                break
            taken.callback(lock._lock.release)
        else:
            texts.clear()
            return
    busy._defer(lambda: _clear(locks, texts))


class LockedIterator(Iterator[T], Generic[T]):
    """An iterator that is made, advanced and closed with locks held.

    Texts of one model share its memory: their steps may alternate, but not overlap.
    """

    _locks: Sequence[ModelLock] = ()  # until __init__ has run, which Ctrl-C may end

    def __init__(self, locks: Sequence[ModelLock], make: Callable[[], Iterator[T]]) -> None:
        self._steps: list[Iterator[T]] = []  # one until it is closed
        self._locks = sorted(set(locks), key=id)  # in one order everywhere
        with self._held():
            self._steps.append(make())

    def _held(self) -> ExitStack:
        with ExitStack() as stack:
            for lock in self._locks:
                stack.enter_context(lock)
            return stack.pop_all()

    def __next__(self) -> T:
        with self._held():
            if not self._steps:
                raise StopIteration
            return next(self._steps[0])

    def close(self) -> None:
        """Frees its part of the cache."""
        if self._locks:
            _clear(self._locks, self._steps)

    def __del__(self) -> None:
        self.close()


__all__ = ["LockedIterator", "ModelLock"]
