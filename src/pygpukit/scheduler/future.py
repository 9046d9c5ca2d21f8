"""A submitted task: its state and its result."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pygpukit.core.errors import InvalidValueError
from pygpukit.scheduler.errors import DeadlineMissed, DependencyFailed, TaskCancelled, TaskError
from pygpukit.scheduler.tasks import TaskState

if TYPE_CHECKING:
    from pygpukit._runtime import Scheduler as NativeScheduler
    from pygpukit._runtime import TaskInfo
    from pygpukit.scheduler.scheduler import Scheduler

T = TypeVar("T")
_local = threading.local()


def current_task() -> TaskFuture[Any] | None:
    """The task whose function the calling thread runs, or None."""
    return getattr(_local, "task", None)


class TaskFuture(Generic[T]):
    """The result of submit(). Can be waited for, awaited and cancelled from any thread."""

    def __init__(
        self,
        native: NativeScheduler,
        function: Callable[[], T],
        scheduler: Scheduler | None = None,
    ) -> None:
        self._native = native
        self._scheduler = scheduler  # held until the task ends: a dropped one stops its workers
        self._function: Callable[[], T] | None = function
        self._number = 0
        self._value: T | None = None
        self._final: TaskInfo | None = None
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[TaskFuture[T]], object]] = []

    def _submit(self, options: dict[str, Any]) -> None:
        with self._lock:  # _run waits until the number is known
            self._number = self._native.submit(self._run, **options)
        self._native.on_end(self._number, self._ended)

    def _run(self) -> None:
        with self._lock:
            function = self._function
        assert function is not None
        outer = current_task()
        _local.task = self
        try:
            self._value = function()
        finally:
            _local.task = outer

    def _ended(self, info: TaskInfo) -> None:
        with self._lock:
            self._final = info
            self._function = self._scheduler = None  # drop what they hold
            callbacks, self._callbacks = self._callbacks, []
        with contextlib.ExitStack() as calls:  # all of them, whichever raise
            for callback in reversed(callbacks):
                calls.callback(callback, self)

    @property
    def id(self) -> int:
        """Its id in its scheduler, from 1."""
        return self._number

    @property
    def name(self) -> str:
        """As given to submit()."""
        return self.info().name

    @property
    def state(self) -> TaskState:
        """The state of the task."""
        return TaskState(self.info().state)

    @property
    def reason(self) -> str:
        """Why it failed, was cancelled, or waits."""
        info = self.info()
        return info.reason if info.is_terminal else info.wait_reason

    @property
    def cancel_requested(self) -> bool:
        """Cancellation was requested; a long function polls this and returns early."""
        return self.info().cancel_requested

    def info(self) -> TaskInfo:
        """Everything known about the task: times, memory, reasons."""
        if self._final is None:
            try:
                return self._native.info(self._number)
            except InvalidValueError:  # it ended and was dropped just now
                self._wait_for_final()
        assert self._final is not None
        return self._final

    def _forgotten(self) -> bool:
        """It has ended, and its scheduler no longer keeps it."""
        try:
            self._native.state(self._number)
        except InvalidValueError:
            return True
        return False

    def _wait_for_final(self) -> None:
        for _ in range(1000):
            if self._final is not None:
                return
            time.sleep(0.001)
        raise TaskError(f"task {self._number} is no longer known to its scheduler")

    def done(self) -> bool:
        """It has completed, failed or was cancelled."""
        return self._final is not None or self.state.is_terminal

    def running(self) -> bool:
        """Its function runs, or its work on the GPU."""
        return self.state is TaskState.RUNNING

    def cancelled(self) -> bool:
        """It has ended as cancelled."""
        return self.state is TaskState.CANCELLED

    def cancel(self, reason: str = "cancelled") -> bool:
        """Requests cancellation; False when it has already ended.

        A waiting task is cancelled at once. A running one is cancelled when its function has
        returned and its work on the GPU is done: see cancel_requested.
        """
        return self._final is None and self._native.cancel(self._number, reason)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has ended, at most `timeout` seconds; False on a timeout.

        Inside a task it runs others meanwhile. Without a timeout it raises TaskDeadlock there when
        this one can never start beside what the waiting task and other waiting ones hold.
        """
        if self._final is not None:
            return True
        try:
            return self._native.wait(self._number, timeout) is not None
        except InvalidValueError:
            if not self._forgotten():
                raise
            self._wait_for_final()
            return True

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits; returns the exception (TaskCancelled when it was cancelled), or None."""
        if not self.wait(timeout):
            raise TimeoutError(f"task {self._number} has not ended after {timeout} s")
        info = self.info()
        if info.state == "completed":
            return None
        text = f"task {info.id}{f' {info.name!r}' if info.name else ''}: {info.reason}"
        if info.state == "cancelled":
            return TaskCancelled(text)
        raised: BaseException | None = self._native.exception(self._number)
        if raised is not None:
            return raised
        if info.first_cause is not None:
            error = DependencyFailed(text)
            error.__cause__ = self._native.exception(info.first_cause)
            return error
        if info.missed_deadline and info.started_at is None:
            return DeadlineMissed(text)
        return TaskError(text)

    def result(self, timeout: float | None = None) -> T:
        """Waits; returns what the function returned, or raises what it raised."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        value: Any = self._value
        return value  # type: ignore[no-any-return]

    def add_done_callback(self, callback: Callable[[TaskFuture[T]], object]) -> None:
        """Calls `callback(self)` when it ends, on any thread; at once if it has ended."""
        with self._lock:
            if self._final is None:
                self._callbacks.append(callback)
                return
        callback(self)

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio

        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def ended(_: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        self.add_done_callback(ended)
        try:
            yield from waiter
        except asyncio.CancelledError:
            self.cancel("the coroutine that awaited it was cancelled")
            raise
        return self.result(0)

    def __repr__(self) -> str:
        info = self._final
        if info is None:
            try:
                info = self._native.info(self._number)
            except InvalidValueError:  # dropped, and its result is about to be set: no time to wait
                return f"TaskFuture({self._number}, ended)"
        name = f" {info.name!r}" if info.name else ""
        return f"TaskFuture({info.id}{name}, {info.state})"


__all__ = ["TaskFuture", "current_task"]
