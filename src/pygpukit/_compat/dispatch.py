"""KernelDispatcher of 0.2: the life of launches, with limits per stream.

Launches of plain numbers are the caller's: get_ready, mark_launched, mark_completed. A kernel that
can be called, and a CUfunction on a stream that was attached, are launched when they are queued;
the gate of the stream has the limit, and waits where it is reached.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, ClassVar, Generic, TypeVar

from pygpukit import _native, dispatch
from pygpukit._compat.common import Locked, check_fields, forward
from pygpukit._runtime import launch_function
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

QUEUED, STARTED, COMPLETED, FAILED, CANCELLED = range(5)  # the states of all requests
Kernel = int | _native.JITKernel | Callable[..., Any]


def launch(kernel: Kernel, grid: Any, block: Any, shared_mem: int, args: list[Any]) -> Any:
    """Launches a jit kernel, a callable or the address of a CUfunction on the current stream."""
    if isinstance(kernel, _native.JITKernel):
        return kernel(*args, grid=grid, block=block, shared_mem=shared_mem)
    if callable(kernel):
        return kernel(*args)
    return launch_function(kernel, grid, block, shared_mem, args)


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


@dataclass
class LaunchConfig:
    """The shape of a launch, which the launch checks."""

    grid: Any
    block: Any = (256, 1, 1)
    shared_mem: int = 0
    stream_id: int = 0

    def __post_init__(self) -> None:
        for name in ("grid", "block"):
            sizes = getattr(self, name)
            sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
            if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
                raise InvalidValueError(f"LaunchConfig: {name} is {sizes}, expected 1 to 3 sizes")
            setattr(self, name, (*sizes, 1, 1)[:3])
        check_fields(self, shared_mem=0, stream_id=0)

    @staticmethod
    def linear(n: int, block_size: int = 256) -> LaunchConfig:
        """Enough blocks for n items."""
        block_size = whole("LaunchConfig.linear", "block_size", block_size, 1)
        return LaunchConfig(-(-whole("LaunchConfig.linear", "n", n, 1) // block_size), block_size)

    @staticmethod
    def grid_2d(width: int, height: int, block_x: int = 16, block_y: int = 16) -> LaunchConfig:
        """Enough blocks for a plane."""
        sizes = {"width": width, "height": height, "block_x": block_x, "block_y": block_y}
        w, h, x, y = (whole("LaunchConfig.grid_2d", k, v, 1) for k, v in sizes.items())
        return LaunchConfig((-(-w // x), -(-h // y)), (x, y))


KernelState = IntEnum("KernelState", "Queued Launched Completed Failed Cancelled", start=0)


@dataclass(kw_only=True)
class KernelLaunchRequest(Request):
    """A launch: what was asked for and how far it got."""

    kernel_handle: Any
    config: LaunchConfig
    args: list[Any]
    task_id: str | None = None
    _event: _native.CudaEvent | None = field(default=None, repr=False)
    _cause: Exception | None = field(default=None, repr=False)


class DispatchStats(RequestStats):
    """Figures of a KernelDispatcher."""

    total_queued = forward("total_count")
    total_launched = forward("started_count")
    in_flight_count = forward("active_count")


class KernelDispatcher(
    Requests[KernelLaunchRequest], unlocked=("queue", "queue_for_task", "wait", "drain")
):
    """Queues launches; at most `max_in_flight` run on a stream."""

    _kind, _states, _fails_from = KernelLaunchRequest, KernelState, (QUEUED, STARTED)

    def __init__(self, max_in_flight: int = 4) -> None:
        super().__init__(whole("KernelDispatcher", "max_in_flight", max_in_flight, 1))
        self._streams: dict[int, _native.Stream] = {}

    max_in_flight = forward("_max_per_stream")

    def _stream(self, request: KernelLaunchRequest) -> int:
        return request.config.stream_id

    def queue(
        self,
        kernel_handle: Kernel,
        config: LaunchConfig,
        args: Sequence[Any] | None = None,
        task_id: str | None = None,
        priority: int = 0,
    ) -> int:
        op = "KernelDispatcher.queue"
        if not isinstance(config, LaunchConfig):
            raise InvalidTypeError(f"{op}: config is {type(config)}, expected a LaunchConfig")
        if not callable(kernel_handle):
            whole(op, "kernel_handle", kernel_handle)
        what = {"kernel_handle": kernel_handle, "config": replace(config), "args": [*(args or ())]}
        request = self._add(op, priority, **what, task_id=task_id or None)
        if callable(kernel_handle) or config.stream_id in self._streams:
            self._launch(request)
        return request.id

    def queue_for_task(
        self,
        task_id: str,
        kernel_handle: Kernel,
        config: LaunchConfig,
        args: Sequence[Any] | None = None,
        priority: int = 0,
    ) -> int:
        return self.queue(kernel_handle, config, args, task_id, priority)

    def get_ready(self, max_requests: int = 1) -> list[KernelLaunchRequest]:
        """Those that may launch now, by priority, then first come; changes nothing."""
        return self._ready()[:max_requests]

    mark_launched, mark_completed, mark_failed = Requests.start, Requests.complete, Requests.fail
    get_request = Requests._get

    def get_in_flight(self, stream_id: int = 0) -> list[int]:
        return self._active(stream_id)

    def get_requests_for_task(self, task_id: str) -> list[int]:
        return [r.id for r in self._all.values() if r.task_id == task_id]

    def stats(self) -> DispatchStats:
        return DispatchStats(*self._figures())

    def attach_stream(self, stream_id: int, stream: _native.Stream) -> None:
        """Requests for that number launch there; its gate gets the limit."""
        dispatch.limit(stream, self.max_in_flight)
        self._streams[whole("KernelDispatcher", "stream_id", stream_id)] = stream

    def wait(self, request_id: int) -> None:
        """Until a request that was launched here is over; raises what it failed with."""
        request = self._all.get(request_id)
        if request is None or (request._event is None and request._cause is None):
            raise InvalidValueError(f"KernelDispatcher.wait: {request_id} was not launched here")
        self._settle(request)
        if request._cause is not None:
            raise request._cause

    def drain(self) -> None:
        """Until everything that was launched here is over; failures stay with their requests."""
        for request in list(self._live.values()):
            self._settle(request)

    def _launch(self, request: KernelLaunchRequest) -> None:
        config = request.config
        try:
            if config.stream_id not in self._streams:
                self.attach_stream(config.stream_id, _native.Stream())
            stream = self._streams[config.stream_id]
            with stream:
                shape = config.grid, config.block, config.shared_mem
                launch(request.kernel_handle, *shape, request.args)
            event = _native.CudaEvent(timing=False, device=stream.device)
            event.record(stream)
        except Exception as error:
            request._cause = error
            self.fail(request.id, str(error))
        else:
            request._event = event
            self.start(request.id)

    def _settle(self, awaited: KernelLaunchRequest | None = None) -> None:
        """Completes what the device has done, and `awaited` once it has."""
        for request in list(self._live.values()):
            if request._event is None:
                continue
            try:
                if request is awaited:
                    request._event.synchronize()
                if request._event.query():
                    self.complete(request.id)
            except Exception as error:
                request._cause = error
                self.fail(request.id, str(error))
