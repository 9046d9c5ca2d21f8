"""The default scheduler, and what becomes of all of them at exit and after a fork."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pygpukit import _native
from pygpukit._runtime import end_python as _end_python
from pygpukit.core.errors import OperationError
from pygpukit.scheduler.future import TaskFuture
from pygpukit.scheduler.inspection import Snapshot
from pygpukit.scheduler.scheduler import Scheduler, live_schedulers

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pygpukit.scheduler.options import TaskOptions

T = TypeVar("T")

_EXIT_SECONDS = 2.0  # what tasks have to end in when the interpreter exits, all together

_default: Scheduler | None = None
_default_lock = threading.Lock()
_left_behind: list[object] = []  # by a fork: their locks may be held for ever


def default_scheduler() -> Scheduler:
    """The one that submit() uses, made at first use."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Scheduler()
            _publish_if_asked()
        return _default


def configure(**options: Any) -> Scheduler:
    """Replaces the default scheduler by Scheduler(**options). It must have no live tasks."""
    global _default
    made = Scheduler(**options)
    with _default_lock:
        old, live = _default, 0
        if old is not None:
            stats = old.native.stats()
            live = stats.pending_count + stats.running_count
        if live:
            made.shutdown()
            raise OperationError(f"configure: {live} tasks of the old scheduler have not ended")
        _default = made
    if old is not None:
        old.shutdown()
    _publish_if_asked()
    return made


def _publish_if_asked() -> None:
    if _native.config()["top"]:
        from pygpukit.scheduler.publishing import publish

        publish()


def submit(fn: Callable[..., T], *args: Any, **options: Unpack[TaskOptions]) -> TaskFuture[T]:
    """Takes a function in as a task of the default scheduler; see Scheduler.submit.

    Options: name, priority, deadline, after, memory, bandwidth, estimate, qos, policy, partition,
    kwargs.
    """
    return default_scheduler().submit(fn, *args, **options)


def stats() -> Snapshot:
    """The default scheduler at this moment; str() of it is a table."""
    return default_scheduler().stats()


def shutdown(*, cancel: bool = True, timeout: float | None = 5.0) -> bool:
    """Ends the default scheduler; the next submit() makes a new one."""
    global _default
    with _default_lock:
        old, _default = _default, None
    return True if old is None else old.shutdown(cancel=cancel, timeout=timeout)


def _end_all() -> None:
    """At exit: work on the GPU ends, so that no thread is left that would call into Python."""
    schedulers = list(live_schedulers)
    limit = time.monotonic() + _EXIT_SECONDS
    for scheduler in schedulers:
        scheduler.shutdown(cancel=True, timeout=max(0.0, limit - time.monotonic()))
    _native.finish()
    while any(s.native.streams_in_use for s in schedulers) and time.monotonic() < limit:
        time.sleep(0.001)
    _end_python()


def _forget_after_fork() -> None:
    global _default, _default_lock
    _left_behind.extend([_default, *list(live_schedulers)])
    _default, _default_lock = None, threading.Lock()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)

__all__ = [
    "configure",
    "default_scheduler",
    "shutdown",
    "stats",
    "submit",
]
