"""0.2's execution contexts: several models on one GPU.

A context is a real scheduler with one worker and one stream, which runs what is dispatched in
order, and an account with a memory budget.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pygpukit._compat.common import figures, forward, old_state
from pygpukit._compat.dispatch import Kernel, launch
from pygpukit._runtime import LimitLedger
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError, OperationError
from pygpukit.scheduler import service
from pygpukit.scheduler.future import TaskFuture
from pygpukit.scheduler.inspection import UNLIMITED, Snapshot
from pygpukit.scheduler.scheduler import Scheduler

HAS_MULTI_LLM = True

_Dims = tuple[int, int, int]


class ContextStats(NamedTuple):
    """A context as it was when asked for; memory in bytes."""

    llm_id: str
    state: str  # "IDLE" or "RUNNING"
    stream_id: int
    max_vram: int
    used_vram: int
    available_vram: int
    buffer_count: int


@dataclass(frozen=True)
class SchedulerStats(Snapshot):
    """The default scheduler, and the figures of all execution contexts; memory in bytes."""

    initialized: bool = False
    device_id: int = 0
    total_vram_budget: int = 0
    device_total_memory: int = 0
    used_vram: int = 0
    available_vram: int = 0
    context_count: int = 0
    stream_pool_size: int = 0


@dataclass
class AsyncKernelRequest:
    """A kernel, its arguments and the shape of its launch.

    `kernel_handle` is a jit kernel, a Python callable (which may launch ops of its own), or the
    address of a CUfunction, which takes each argument as an integer of 8 bytes.
    """

    kernel_handle: Kernel
    grid: _Dims = (1, 1, 1)
    block: _Dims = (256, 1, 1)
    shared_mem: int = 0
    args: list[Any] = field(default_factory=list)

    @staticmethod
    def linear(kernel_handle: Kernel, n: int, block_size: int = 256) -> AsyncKernelRequest:
        return AsyncKernelRequest(kernel_handle, (-(-n // block_size), 1, 1), (block_size, 1, 1))

    def with_grid(self, x: int, y: int = 1, z: int = 1) -> AsyncKernelRequest:
        self.grid = (x, y, z)
        return self

    def with_block(self, x: int, y: int = 1, z: int = 1) -> AsyncKernelRequest:
        self.block = (x, y, z)
        return self

    def with_shared_mem(self, size: int) -> AsyncKernelRequest:
        self.shared_mem = size
        return self

    def with_args(self, args: list[Any]) -> AsyncKernelRequest:
        self.args = list(args)
        return self

    def _launch(self) -> Any:
        return launch(self.kernel_handle, self.grid, self.block, self.shared_mem, self.args)


class KernelResult(NamedTuple):
    """How a kernel ended. `exec_time` in seconds; `output` is what a Python callable returned."""

    success: bool
    error: str | None
    exec_time: float
    output: Any


@dataclass(frozen=True, eq=False)
class KernelFuture:
    """A dispatched kernel: a task of the context's scheduler. Can be awaited."""

    id: int
    stream_id: int
    context_id: str
    _task: TaskFuture[Any]

    @property
    def state(self) -> str:
        """PENDING, RUNNING, COMPLETED, FAILED or CANCELLED."""
        return old_state(self._task.state.value).upper()

    is_ready = property(lambda self: self._task.done())

    def wait(self) -> KernelResult:
        """Waits for the kernel. A failure is in the result, not raised."""
        error = self._task.exception()
        time = self._task.info().exec_time
        if error is None:
            return KernelResult(True, None, time, self._task.result())
        return KernelResult(False, f"{type(error).__name__}: {error}", time, None)

    def try_get(self) -> KernelResult | None:
        return self.wait() if self.is_ready else None

    @property
    def exec_time(self) -> float | None:
        """Seconds from its start to its end on the device; None while the kernel runs."""
        return self.wait().exec_time if self.is_ready else None

    def __await__(self) -> Generator[Any, None, KernelResult]:
        with suppress(Exception):  # wait() reports it
            yield from self._task.__await__()
        return self.wait()


@dataclass(eq=False)
class ExecutionContext:
    """One model on the GPU: its stream, its memory budget, its sessions."""

    llm_id: str
    stream_id: int
    max_vram: int
    _state: str = field(default="IDLE", repr=False)
    _buffers: dict[int, int] = field(default_factory=dict, repr=False)  # bytes by id
    _scheduler: Scheduler = field(
        default_factory=lambda: Scheduler(workers=1, max_streams=1), repr=False
    )
    _last: TaskFuture[Any] | None = field(default=None, repr=False)

    def _check_alive(self, what: str) -> None:
        if self.stats is None:
            raise OperationError(f"{what}: context '{self.llm_id}' was destroyed")

    @property
    def stats(self) -> ContextStats | None:
        """The context now; None when it was destroyed."""
        with _lock:
            if _all.contexts.get(self.llm_id) is not self:
                return None
            used, left = sum(self._buffers.values()), _all.ledger.available(self.llm_id)
            known = self.llm_id, self._state, self.stream_id, self.max_vram
            return ContextStats(*known, used, left, len(self._buffers))

    def track_allocation(self, buffer_id: int, size: int) -> bool:
        """Counts a buffer; False when it would pass the context's budget or that of all."""
        with _lock:
            self._check_buffer("track_allocation", buffer_id, tracked=False)
            if not _all.ledger.reserve(size, self.llm_id):
                return False
            self._buffers[buffer_id] = size
            return True

    def track_deallocation(self, buffer_id: int) -> None:
        with _lock:
            self._check_buffer("track_deallocation", buffer_id, tracked=True)
            _all.ledger.release(self._buffers.pop(buffer_id), self.llm_id)

    def _check_buffer(self, what: str, buffer_id: int, tracked: bool) -> None:
        self._check_alive(what)
        if (buffer_id in self._buffers) != tracked:
            state = "not tracked" if tracked else "tracked already"
            raise InvalidValueError(f"{what}: buffer {buffer_id} of '{self.llm_id}' is {state}")

    def dispatch_async(self, request: AsyncKernelRequest) -> KernelFuture:
        """Runs the request on the context's stream, after earlier ones; returns at once."""
        if not callable(request.kernel_handle):
            whole("dispatch_async", "kernel_handle", request.kernel_handle)
        with _lock:
            self._check_alive("dispatch_async")
            self._last = self._scheduler.submit(request._launch, name=self.llm_id)
            _all.futures += 1
            return KernelFuture(_all.futures, self.stream_id, self.llm_id, self._last)

    def start_session(self) -> None:
        with _lock:
            self._check_alive("start_session")
            self._state = "RUNNING"

    def end_session(self) -> None:
        with _lock:
            self._state = "IDLE"

    def is_session_active(self) -> bool:
        return self._state != "IDLE"

    def destroy(self) -> None:
        """Waits for its kernels and gives back the stream and the budget."""
        if self.stats is not None:
            destroy_context(self.llm_id)


@dataclass
class _Contexts:
    """All contexts, oldest first, and what they share."""

    initialized: bool = False
    device_id: int = 0
    device_total_memory: int = 0
    total_vram_budget: int = 0
    ledger: LimitLedger = field(default_factory=lambda: LimitLedger(0))
    contexts: dict[str, ExecutionContext] = field(default_factory=dict)
    free_streams: list[int] = field(default_factory=lambda: list(range(8)))  # the last is next
    session_depth: int = 0
    futures: int = 0

    used_vram = forward("ledger.reserved")
    available_vram = property(lambda self: self.total_vram_budget - self.used_vram)
    context_count = property(lambda self: len(self.contexts))
    stream_pool_size = property(lambda self: len(self.free_streams))


_all = _Contexts()
_lock = threading.RLock()


def initialize(
    device_id: int = 0, device_total_memory: int = 0, total_vram_budget: int = 0
) -> None:
    """Memory 0: 8 GiB. Budget 0 or above the memory: the memory. Later calls do nothing."""
    device_id = whole("initialize", "device_id", device_id)
    with _lock:
        if _all.initialized:
            return
        memory = device_total_memory or 8 << 30
        _all.total_vram_budget = min(total_vram_budget or memory, memory)
        _all.ledger = LimitLedger(_all.total_vram_budget)
        _all.device_total_memory, _all.device_id = memory, device_id
        _all.initialized = True


def create_context(llm_id: str, max_vram: int = 0, *, device_id: int = 0) -> ExecutionContext:
    """A new context; max_vram 0: only the budget of all. RuntimeError when the id exists."""
    if not llm_id:
        raise InvalidValueError("create_context: llm_id is empty")
    with _lock:
        initialize(device_id)
        if llm_id in _all.contexts:
            raise OperationError(f"create_context: context '{llm_id}' exists already")
        _all.ledger.set_account_limit(llm_id, max_vram or UNLIMITED)
        # Without a free stream all smaller numbers are taken.
        stream_id = _all.free_streams.pop() if _all.free_streams else len(_all.contexts)
        context = _all.contexts[llm_id] = ExecutionContext(llm_id, stream_id, max_vram)
        return context


def get_context(llm_id: str) -> ExecutionContext | None:
    return _all.contexts.get(llm_id)


def destroy_context(llm_id: str) -> bool:
    """Waits for its kernels and ends it; False when there is none."""
    with _lock:
        context = _all.contexts.pop(llm_id, None)
        if context is None:
            return False
        for size in context._buffers.values():
            _all.ledger.release(size, llm_id)
        _all.ledger.set_account_limit(llm_id, UNLIMITED)
        _all.free_streams.append(context.stream_id)
    if context._last is not None:
        context._last.wait()  # without the lock: its work may use contexts
    context._scheduler.shutdown()
    return True


def list_contexts() -> list[str]:
    return list(_all.contexts)


@contextmanager
def session() -> Iterator[None]:
    """All contexts there are run inside; at the end of the outermost all are idle."""
    with _lock:
        _all.session_depth += 1
        for context in _all.contexts.values():
            context._state = "RUNNING"
    try:
        yield
    finally:
        with _lock:
            _all.session_depth = max(0, _all.session_depth - 1)  # reset() may have been inside
            for context in _all.contexts.values():
                context._state = "RUNNING" if _all.session_depth else "IDLE"


class context_session:
    """One context runs inside; for `with` and `async with`."""

    def __init__(self, ctx: ExecutionContext) -> None:
        self._context = ctx

    def __enter__(self) -> ExecutionContext:
        self._context.start_session()
        return self._context

    def __exit__(self, *_: object) -> None:
        self._context.end_session()

    async def __aenter__(self) -> ExecutionContext:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()


def is_session_active() -> bool:
    return _all.session_depth > 0


def stats() -> SchedulerStats:
    """The default scheduler and the execution contexts at this moment; str() is a table."""
    now = service.stats()
    with _lock:
        return figures(SchedulerStats, _all, **vars(now))


snapshot = stats


def reset() -> None:
    global _all
    for llm_id in list_contexts():
        destroy_context(llm_id)
    with _lock:
        _all = _Contexts(futures=_all.futures)
