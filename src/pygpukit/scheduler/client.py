"""Groups of tasks with one owner."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from pygpukit.core.errors import OperationError
from pygpukit.scheduler.future import TaskFuture
from pygpukit.scheduler.scheduler import Scheduler
from pygpukit.scheduler.service import default_scheduler

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pygpukit.scheduler.options import TaskOptions

T = TypeVar("T")


class Client:
    """A group of tasks that go together: when their owner is gone, so are they.

    Left by an exception (as a context), or dropped while tasks wait or run, a client cancels them
    all, and nothing stays reserved for it. thread_client() is tied to the life of its thread.
    """

    _numbers = itertools.count(1)

    def __init__(self, scheduler: Scheduler | None = None) -> None:
        self._scheduler = default_scheduler() if scheduler is None else scheduler
        self._owner = next(Client._numbers)
        self._closed = False
        self._bind_to(self)

    def _bind_to(self, keeper: object) -> None:
        """Its tasks live as long as `keeper`."""
        native = self._scheduler.native
        self._finalizer = weakref.finalize(keeper, native.cancel_owner, self._owner)
        self._finalizer.atexit = False

    @property
    def owner(self) -> int:
        """The number its tasks carry."""
        return self._owner

    def submit(
        self, fn: Callable[..., T], *args: Any, **options: Unpack[TaskOptions]
    ) -> TaskFuture[T]:
        """As Scheduler.submit."""
        if self._closed:
            raise OperationError("Client.submit: the client was closed")
        return self._scheduler.submit(fn, *args, owner=self._owner, **options)

    def close(self, reason: str = "its owner is gone") -> int:
        """Cancels all its tasks; how many."""
        self._closed = True
        self._finalizer.detach()
        return self._scheduler.cancel_owner(self._owner, reason)

    def detach(self) -> None:
        """Lets its tasks go on without it."""
        self._finalizer.detach()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self.detach()
        else:
            self.close(f"its owner ended by {exc_type.__name__}")


class _ThreadLife:
    """Goes when its thread ends."""


_threads = threading.local()


def thread_client() -> Client:
    """The calling thread's client: when the thread ends, its tasks are cancelled."""
    client: Client | None = getattr(_threads, "client", None)
    if client is None or client._closed or client._scheduler is not default_scheduler():
        client = _threads.client = Client()
        client.detach()
        # Only the thread holds it: others may keep the client, a traceback for instance.
        _threads.life = _ThreadLife()
        client._bind_to(_threads.life)
    return client


__all__ = ["Client", "thread_client"]
