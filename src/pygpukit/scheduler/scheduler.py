"""Functions as tasks: worker threads, a stream for each task, memory reserved before it starts."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
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
from pygpukit.core.arguments import amount, items, require_callable, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError, OperationError
from pygpukit.scheduler.future import TaskFuture
from pygpukit.scheduler.inspection import Snapshot, take_snapshot
from pygpukit.scheduler.partition import DevicePartition, find_partition
from pygpukit.scheduler.tasks import TaskPolicy, qos_class

if TYPE_CHECKING:
    from pygpukit.scheduler.options import QosName

T = TypeVar("T")

_OLD_ARGUMENTS = frozenset({"sched_tick_ms", "window_ms", "total_memory"})  # of 0.2
_OLD_NAMES = frozenset(
    {
        *("available_memory", "completed_count", "get_task", "global_stats", "reserved_memory"),
        *("sched_tick_ms", "should_run", "step", "task_count", "task_stats", "window_ms"),
    }
)
live_schedulers: weakref.WeakSet[Scheduler] = weakref.WeakSet()  # what exit and fork go through


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
        memory = None if memory is None else whole("Scheduler", "memory", memory)
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
        live_schedulers.add(self)

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
        require_callable("submit", "fn", fn)
        if kwargs is not None and (
            not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs)
        ):
            raise InvalidTypeError(
                f"submit: kwargs is {_native.safe_repr(kwargs)}, expected a dict with names as keys"
            )
        bandwidth = amount("submit", "bandwidth", bandwidth, 0.0, 1.0)
        earlier = items("submit", "after", after, "several tasks")
        part = self._part(partition, "submit")
        function: Callable[[], T] = functools.partial(fn, *args, **(kwargs or {}))
        task: TaskFuture[T] = TaskFuture(self._native, function, self)
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
                "after": [self._number(other) for other in earlier],
            }
        )
        return task

    def _part(self, wanted: str | DevicePartition | None, op: str) -> DevicePartition | None:
        return None if wanted is None else find_partition(wanted, self._native.device, op)

    def _number(self, other: TaskFuture[Any]) -> int:
        if not isinstance(other, TaskFuture):
            raise InvalidTypeError(
                f"submit: after has {_native.safe_repr(other)}, expected a TaskFuture"
            )
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

        Tasks that have not started are left alone (and never start) unless `cancel`. Called by a
        task, it does not wait for that task's own worker.
        """
        with self._lock:
            self._closed = True
            workers, self._workers = self._workers, []
        if cancel:
            self._native.clear()
        self._native.stop()
        limit = None if timeout is None else time.monotonic() + timeout
        for worker in workers:
            if worker is not threading.current_thread():  # a task's, which ends after this
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


__all__ = ["Scheduler", "default_ledger"]
