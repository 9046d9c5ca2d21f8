"""Functions as tasks: worker threads, a stream for each task, memory reserved before it starts."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pygpukit import _native
from pygpukit._runtime import (
    AdmissionDecision,
    LimitLedger,
    MemoryLedger,
    PoolLedger,
    QosClass,
)
from pygpukit._runtime import Scheduler as NativeScheduler
from pygpukit._runtime import end_python as _end_python
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError, OperationError
from pygpukit.scheduler.future import TaskFuture
from pygpukit.scheduler.inspection import Snapshot, take_snapshot
from pygpukit.scheduler.partition import DevicePartition, find_partition
from pygpukit.scheduler.tasks import TaskPolicy

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pygpukit.scheduler.options import QosName, TaskOptions

T = TypeVar("T")

_CLASSES = {
    "guaranteed": QosClass.Guaranteed,
    "burstable": QosClass.Burstable,
    "best_effort": QosClass.BestEffort,
}
_ORDERS = ("fifo", "sjf", "priority")
_OLD_ARGUMENTS = frozenset({"sched_tick_ms", "window_ms", "total_memory"})  # of 0.2
_OLD_NAMES = frozenset(
    {
        *("available_memory", "completed_count", "get_task", "global_stats", "reserved_memory"),
        *("sched_tick_ms", "should_run", "step", "task_count", "task_stats", "window_ms"),
    }
)
_EXIT_SECONDS = 2.0  # what tasks have to end in when the interpreter exits, all together


def qos_class(qos: QosClass | TaskPolicy | str) -> QosClass:
    """From a class, a TaskPolicy or one of "guaranteed", "burstable", "best_effort"."""
    if isinstance(qos, QosClass):
        return qos
    name = qos.value if isinstance(qos, TaskPolicy) else str(qos).lower()
    if name in _CLASSES:
        return _CLASSES[name]
    if name in _ORDERS:
        raise InvalidValueError(
            f"submit: {name!r} is an order, which belongs to the scheduler: "
            f"Scheduler(policy={name!r}) or configure(policy={name!r})"
        )
    raise InvalidValueError(
        f"submit: qos is {_native.safe_repr(qos)}, expected one of {', '.join(_CLASSES)}"
    )


def default_ledger(memory: int | None) -> MemoryLedger:
    """Where reservations are made when nothing else was said: in the pool that arrays live in,
    within the memory of their partition and a total."""
    return PoolLedger(None if memory is None else LimitLedger(memory))


class Scheduler:
    """Runs functions on worker threads, each on a stream of its own.

    A task waits for its dependencies, then for its memory and its turn. It has ended when its
    function has returned and all work it submitted has ended, on every stream. `policy` is the
    order of those that wait: "fifo", "sjf" (shortest `estimate` first) or "priority".

    The arguments of version 0.2 (sched_tick_ms, window_ms, total_memory) make its scheduler, whose
    tasks run in step(). Its methods are adapted to this one; see docs/migrating-from-0.2.md.
    """

    def __new__(cls, *args: Any, **options: Any) -> Scheduler:
        if cls is Scheduler and (args or not _OLD_ARGUMENTS.isdisjoint(options)):
            from pygpukit._compat.schedulers import SteppedScheduler

            cls = SteppedScheduler
        return super().__new__(cls)

    def __init__(
        self,
        *,
        policy: str = "fifo",
        workers: int = 4,
        memory: int | None = None,
        ledger: MemoryLedger | None = None,
        max_streams: int = 32,
        aging_interval: float = 0.1,
        max_ended_kept: int = 16384,
    ) -> None:
        self._num_workers = whole("Scheduler", "workers", workers, 1)
        self._native = NativeScheduler(
            default_ledger(memory) if ledger is None else ledger,
            policy=policy,
            aging_interval=aging_interval,
            max_streams=max_streams,
            max_ended_kept=max_ended_kept,
        )
        self.total_memory = memory
        self._policy = policy
        self._workers: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False
        self._finalizer = weakref.finalize(self, self._native.stop)
        self._finalizer.atexit = False  # shutdown() of the default one does that in order
        _all.add(self)

    def __getattr__(self, name: str) -> Any:
        if name not in _OLD_NAMES:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        from pygpukit._compat.schedulers import Steps

        return getattr(Steps(self), name)

    @property
    def policy(self) -> str:
        """The order of those that wait."""
        return self._policy

    @property
    def native(self) -> NativeScheduler:
        """The C++ scheduler behind this one."""
        return self._native

    def _start_workers(self) -> None:
        with self._lock:
            if self._closed:
                raise OperationError("submit: the scheduler was shut down")
            while len(self._workers) < self._num_workers:
                name = f"pygpukit-worker-{len(self._workers)}"
                worker = threading.Thread(target=self._native.serve, name=name, daemon=True)
                self._workers.append(worker)
                worker.start()

    def submit(
        self,
        fn: Callable[..., T],
        *args: Any,
        name: str | None = None,
        priority: int = 0,
        deadline: float | None = None,
        after: Iterable[TaskFuture[Any]] = (),
        memory: int = 0,
        bandwidth: float = 0.0,
        estimate: float = 0.0,
        qos: QosClass | TaskPolicy | QosName | None = None,
        policy: TaskPolicy | QosName | None = None,
        partition: str | DevicePartition | None = None,
        owner: int = 0,
        kwargs: dict[str, Any] | None = None,
    ) -> TaskFuture[T]:
        """Takes `fn(*args, **kwargs)` in as a task.

        `deadline` is seconds from now: a task that has not started by then fails. `after` are
        tasks that must complete first; one that does not fails this one. `memory` is reserved
        before it starts. `qos` is "guaranteed", "burstable" or "best_effort" (`policy` is 0.2's
        name for it): the priority and the gate of its stream; without one it has neither. In a
        `partition` it runs on the partition's streams, in its memory and by its class.
        MemoryError when it asks for more than it can ever have.
        """
        if qos is not None and policy is not None:
            raise InvalidValueError("submit: qos and policy are two names of one argument")
        chosen = qos if qos is not None else policy
        part = self._part(partition, "submit")
        function: Callable[[], T] = functools.partial(fn, *args, **(kwargs or {}))
        task: TaskFuture[T] = TaskFuture(self._native, function)
        self._start_workers()
        task._submit(
            {
                "name": getattr(fn, "__name__", "") if name is None else name,
                "account": "" if part is None else part.name,
                "partition": None if part is None else part.native,
                "owner": owner,
                "qos": qos_class(chosen or ("best_effort" if part is None else part.qos)),
                "stream_class": None if chosen is None else qos_class(chosen),
                "priority": priority,
                "memory": memory,
                "bandwidth": bandwidth,
                "estimate": estimate,
                "deadline": deadline,
                "after": [self._number(other) for other in after],
            }
        )
        return task

    def _part(self, wanted: str | DevicePartition | None, op: str) -> DevicePartition | None:
        return None if wanted is None else find_partition(wanted, self._native.device, op)

    def _number(self, other: TaskFuture[Any]) -> int:
        if other._native is not self._native:
            raise InvalidValueError(
                f"submit: after: {_native.safe_repr(other)} belongs to another scheduler"
            )
        return other.id

    def evaluate_admission(
        self,
        memory: int = 0,
        bandwidth: float = 0.0,
        partition: str | DevicePartition | None = None,
    ) -> AdmissionDecision:
        """What admission control would say to such a task now, and why."""
        part = self._part(partition, "evaluate_admission")
        account = "" if part is None else part.name
        return self._native.evaluate_admission(memory, bandwidth, account)

    @overload
    def stats(self) -> Snapshot: ...
    @overload
    def stats(self, task_id: TaskFuture[Any] | str) -> dict[str, Any]: ...
    def stats(self, task_id: TaskFuture[Any] | str | None = None) -> Snapshot | dict[str, Any]:
        """Everything at this moment; str() of it is a table. Of one task, as 0.2: a dict."""
        if task_id is not None:
            stats: dict[str, Any] = self.task_stats(task_id)
            return stats
        return take_snapshot(self._native, len(self._workers))

    snapshot = stats

    def cancel_owner(self, owner: int, reason: str = "its owner is gone") -> int:
        """Cancels all tasks of a client; how many."""
        return self._native.cancel_owner(owner, reason)

    def memory_changed(self) -> None:
        """Tells that memory became free by other means than the end of a task."""
        self._native.poll()

    def shutdown(self, *, cancel: bool = False, timeout: float | None = None) -> bool:
        """Takes no more tasks, ends the workers; False when one did not end in `timeout` seconds.

        Tasks that have not started are left alone (and never start) unless `cancel`.
        """
        with self._lock:
            self._closed = True
            workers, self._workers = self._workers, []
        if cancel:
            self._native.clear()
        self._native.stop()
        limit = None if timeout is None else time.monotonic() + timeout
        for worker in workers:
            worker.join(None if limit is None else max(0.0, limit - time.monotonic()))
        return not any(worker.is_alive() for worker in workers)

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown(cancel=True)


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


_all: weakref.WeakSet[Scheduler] = weakref.WeakSet()
_default: Scheduler | None = None
_default_lock = threading.Lock()
_threads = threading.local()
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


def shutdown(*, cancel: bool = True, timeout: float | None = 5.0) -> bool:
    """Ends the default scheduler; the next submit() makes a new one."""
    global _default
    with _default_lock:
        old, _default = _default, None
    return True if old is None else old.shutdown(cancel=cancel, timeout=timeout)


def _end_all() -> None:
    """At exit: work on the GPU ends, so that no thread is left that would call into Python."""
    schedulers = list(_all)
    limit = time.monotonic() + _EXIT_SECONDS
    for scheduler in schedulers:
        scheduler.shutdown(cancel=True, timeout=max(0.0, limit - time.monotonic()))
    _native.finish()
    while any(s.native.streams_in_use for s in schedulers) and time.monotonic() < limit:
        time.sleep(0.001)
    _end_python()


def _forget_after_fork() -> None:
    global _default, _default_lock
    _left_behind.extend([_default, *list(_all)])
    _default, _default_lock = None, threading.Lock()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)

__all__ = [
    "Client",
    "Scheduler",
    "configure",
    "default_ledger",
    "default_scheduler",
    "qos_class",
    "shutdown",
    "stats",
    "submit",
    "thread_client",
]
