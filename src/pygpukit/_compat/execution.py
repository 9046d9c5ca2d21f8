"""0.2's execution contexts: several models on one GPU.

A context is a real scheduler with one worker and one stream, which runs what is dispatched in
order, and an account with a memory budget.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pygpukit import _native
from pygpukit._native import JITKernel, safe_repr
from pygpukit._runtime import LimitLedger, launch_function
from pygpukit.core.errors import (
    GpuUnavailable,
    InvalidTypeError,
    InvalidValueError,
    OperationError,
)
from pygpukit.scheduler import service
from pygpukit.scheduler.future import TaskFuture
from pygpukit.scheduler.inspection import Snapshot

HAS_MULTI_LLM = True

_NO_LIMIT = 2**64 - 1
_Kernel = int | JITKernel | Callable[..., Any]


@dataclass(frozen=True)
class ContextStats:
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


class AsyncKernelRequest:
    """A kernel, its arguments and the shape of its launch.

    `kernel_handle` is a jit kernel, a Python callable (which may launch ops of its own), or the
    address of a CUfunction.
    """

    def __init__(self, kernel_handle: _Kernel) -> None:
        self.kernel_handle = kernel_handle
        self.grid: tuple[int, int, int] = (1, 1, 1)
        self.block: tuple[int, int, int] = (256, 1, 1)
        self.shared_mem = 0
        self.args: list[Any] = []

    @staticmethod
    def linear(kernel_handle: _Kernel, n: int, block_size: int = 256) -> AsyncKernelRequest:
        """Enough blocks for `n` items."""
        blocks = -(-n // block_size)
        return AsyncKernelRequest(kernel_handle).with_grid(blocks).with_block(block_size)

    def with_grid(self, x: int, y: int = 1, z: int = 1) -> AsyncKernelRequest:
        """Sets the number of blocks."""
        self.grid = (x, y, z)
        return self

    def with_block(self, x: int, y: int = 1, z: int = 1) -> AsyncKernelRequest:
        """Sets the threads of a block."""
        self.block = (x, y, z)
        return self

    def with_shared_mem(self, size: int) -> AsyncKernelRequest:
        """Sets the dynamic shared memory in bytes."""
        self.shared_mem = size
        return self

    def with_args(self, args: list[Any]) -> AsyncKernelRequest:
        """Sets the arguments; a CUfunction takes each as an integer of 8 bytes."""
        self.args = list(args)
        return self

    def _check(self) -> None:
        kernel = self.kernel_handle
        if not (callable(kernel) or isinstance(kernel, int)):
            raise InvalidTypeError(
                f"dispatch_async: kernel_handle is {safe_repr(kernel)}, expected a jit kernel, "
                "a callable or the address of a CUfunction"
            )
        if isinstance(kernel, int) and _native.default_device()[0] == "cpu":
            raise GpuUnavailable(
                f"dispatch_async: kernel_handle is {kernel}, the address of a CUfunction, and CPU "
                "simulation has none; pass a callable, or a jit kernel with reference="
            )

    def _launch(self) -> Any:
        """On the current stream."""
        kernel = self.kernel_handle
        if isinstance(kernel, JITKernel):
            kernel(*self.args, grid=self.grid, block=self.block, shared_mem=self.shared_mem)
            return None
        if callable(kernel):
            return kernel(*self.args)
        launch_function(int(kernel), self.grid, self.block, self.shared_mem, self.args)
        return None

    def __repr__(self) -> str:
        return f"AsyncKernelRequest({self.kernel_handle!r}, grid={self.grid}, block={self.block})"


@dataclass(frozen=True)
class KernelResult:
    """How a kernel ended. `exec_time` in seconds; `output` is what a Python callable returned."""

    success: bool
    error: str | None
    exec_time: float
    output: Any


class KernelFuture:
    """A dispatched kernel: a task of the context's scheduler. Can be awaited."""

    def __init__(self, number: int, context: ExecutionContext, task: TaskFuture[Any]) -> None:
        self.id = number
        self.stream_id = context.stream_id
        self.context_id = context.llm_id
        self._task = task

    @property
    def state(self) -> str:
        """PENDING, RUNNING, COMPLETED, FAILED or CANCELLED."""
        name = self._task.state.name
        return "PENDING" if name in ("QUEUED", "ADMITTED") else name

    @property
    def is_ready(self) -> bool:
        """True when wait() would not wait."""
        return self._task.done()

    def wait(self) -> KernelResult:
        """Waits for the kernel. A failure is in the result, not raised."""
        error = self._task.exception()
        time = self._task.info().exec_time
        if error is None:
            return KernelResult(True, None, time, self._task.result())
        return KernelResult(False, f"{type(error).__name__}: {error}", time, None)

    def try_get(self) -> KernelResult | None:
        """The result, or None while the kernel runs."""
        return self.wait() if self.is_ready else None

    @property
    def exec_time(self) -> float | None:
        """Seconds from its start to its end on the device; None while the kernel runs."""
        result = self.try_get()
        return None if result is None else result.exec_time

    async def _finished(self) -> KernelResult:
        with suppress(Exception):  # wait() reports it
            await self._task
        return self.wait()

    def __await__(self) -> Generator[Any, None, KernelResult]:
        return self._finished().__await__()

    def __repr__(self) -> str:
        return f"KernelFuture({self.id}, {self.context_id!r}, {self.state})"


class ExecutionContext:
    """One model on the GPU: its stream, its memory budget, its sessions."""

    def __init__(self, llm_id: str, stream_id: int, max_vram: int) -> None:
        self.llm_id = llm_id
        self.stream_id = stream_id
        self.max_vram = max_vram
        self._state = "IDLE"
        self._buffers: dict[int, int] = {}
        self._scheduler: service.Scheduler | None = None
        self._last: TaskFuture[Any] | None = None

    def _check_alive(self, what: str) -> None:
        if _all.contexts.get(self.llm_id) is not self:
            raise OperationError(f"{what}: context '{self.llm_id}' was destroyed")

    @property
    def stats(self) -> ContextStats | None:
        """The context now; None when it was destroyed."""
        with _lock:
            if _all.contexts.get(self.llm_id) is not self:
                return None
            return ContextStats(
                self.llm_id,
                self._state,
                self.stream_id,
                self.max_vram,
                sum(self._buffers.values()),
                _all.ledger.available(self.llm_id),
                len(self._buffers),
            )

    def track_allocation(self, buffer_id: int, size: int) -> bool:
        """Counts a buffer; False when it would pass the context's budget or that of all."""
        with _lock:
            self._check_alive("track_allocation")
            if buffer_id in self._buffers:
                raise InvalidValueError(
                    f"track_allocation: buffer {buffer_id} of context '{self.llm_id}' is tracked "
                    "already"
                )
            if not _all.ledger.reserve(size, self.llm_id):
                return False
            self._buffers[buffer_id] = size
            return True

    def track_deallocation(self, buffer_id: int) -> None:
        """Counts a buffer no longer."""
        with _lock:
            self._check_alive("track_deallocation")
            if buffer_id not in self._buffers:
                raise InvalidValueError(
                    f"track_deallocation: buffer {buffer_id} of context '{self.llm_id}' is not "
                    "tracked"
                )
            _all.ledger.release(self._buffers.pop(buffer_id), self.llm_id)

    def dispatch_async(self, request: AsyncKernelRequest) -> KernelFuture:
        """Runs the request on the context's stream, after earlier ones; returns at once."""
        request._check()
        with _lock:
            self._check_alive("dispatch_async")
            if self._scheduler is None:
                self._scheduler = service.Scheduler(workers=1, max_streams=1)
            self._last = self._scheduler.submit(request._launch, name=self.llm_id)
            _all.futures += 1
            return KernelFuture(_all.futures, self, self._last)

    def start_session(self) -> None:
        """IDLE to RUNNING."""
        with _lock:
            self._check_alive("start_session")
            self._state = "RUNNING"

    def end_session(self) -> None:
        """RUNNING to IDLE."""
        with _lock:
            self._state = "IDLE"

    def is_session_active(self) -> bool:
        """Between the two."""
        return self._state != "IDLE"

    def destroy(self) -> None:
        """Waits for its kernels and gives back the stream and the budget."""
        if self.stats is not None:
            destroy_context(self.llm_id)

    def _end(self) -> None:
        if self._last is not None:
            self._last.wait()
        if self._scheduler is not None:
            self._scheduler.shutdown()

    def __repr__(self) -> str:
        return f"ExecutionContext({self.llm_id!r}, stream_id={self.stream_id})"


@dataclass
class _Contexts:
    """All contexts, oldest first, and what they share."""

    initialized: bool = False
    device_id: int = 0
    memory: int = 0
    budget: int = 0
    ledger: LimitLedger = field(default_factory=lambda: LimitLedger(0))
    contexts: dict[str, ExecutionContext] = field(default_factory=dict)
    free_streams: list[int] = field(default_factory=lambda: list(range(8)))  # the last is next
    num_streams: int = 8
    session_depth: int = 0
    futures: int = 0

    def take_stream(self) -> int:
        if self.free_streams:
            return self.free_streams.pop()
        self.num_streams += 1
        return self.num_streams - 1


_all = _Contexts()
_lock = threading.RLock()


def initialize(
    device_id: int = 0, device_total_memory: int = 0, total_vram_budget: int = 0
) -> None:
    """Memory 0: 8 GiB. Budget 0 or above the memory: the memory. Later calls do nothing."""
    if device_id < 0:
        raise InvalidValueError(f"initialize: device_id is {device_id}, expected at least 0")
    with _lock:
        if _all.initialized:
            return
        _all.memory = device_total_memory or 8 << 30
        _all.budget = min(total_vram_budget or _all.memory, _all.memory)
        _all.ledger = LimitLedger(_all.budget)
        _all.device_id = device_id
        _all.initialized = True


def create_context(llm_id: str, max_vram: int = 0, *, device_id: int = 0) -> ExecutionContext:
    """A new context; max_vram 0: only the budget of all. RuntimeError when the id exists."""
    if not llm_id:
        raise InvalidValueError("create_context: llm_id is empty")
    with _lock:
        initialize(device_id)
        if llm_id in _all.contexts:
            raise OperationError(f"create_context: context '{llm_id}' exists already")
        _all.ledger.set_account_limit(llm_id, max_vram or _NO_LIMIT)
        context = ExecutionContext(llm_id, _all.take_stream(), max_vram)
        _all.contexts[llm_id] = context
        return context


def get_context(llm_id: str) -> ExecutionContext | None:
    """The context of that id, or None."""
    return _all.contexts.get(llm_id)


def destroy_context(llm_id: str) -> bool:
    """Waits for its kernels and ends it; False when there is none."""
    with _lock:
        context = _all.contexts.pop(llm_id, None)
        if context is None:
            return False
        for size in context._buffers.values():
            _all.ledger.release(size, llm_id)
        _all.ledger.set_account_limit(llm_id, _NO_LIMIT)
        _all.free_streams.append(context.stream_id)
    context._end()  # without the lock: its work may use contexts
    return True


def list_contexts() -> list[str]:
    """The ids, oldest first."""
    return list(_all.contexts)


def _set_all(state: str) -> None:
    for context in _all.contexts.values():
        context._state = state


@contextmanager
def session() -> Iterator[None]:
    """All contexts there are run inside; at the end of the outermost all are idle."""
    with _lock:
        _all.session_depth += 1
        _set_all("RUNNING")
    try:
        yield
    finally:
        with _lock:
            _all.session_depth = max(0, _all.session_depth - 1)  # reset() may have been inside
            if _all.session_depth == 0:
                _set_all("IDLE")


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
    """Inside session()."""
    return _all.session_depth > 0


def stats() -> SchedulerStats:
    """The default scheduler at this moment, with the figures of the execution contexts.

    str() of it is a table.
    """
    now = service.stats()
    with _lock:
        used = _all.ledger.reserved
        return SchedulerStats(
            **vars(now),
            initialized=_all.initialized,
            device_id=_all.device_id,
            total_vram_budget=_all.budget,
            device_total_memory=_all.memory,
            used_vram=used,
            available_vram=_all.budget - used,
            context_count=len(_all.contexts),
            stream_pool_size=len(_all.free_streams),
        )


snapshot = stats


def reset() -> None:
    """Destroys all contexts; as new."""
    global _all
    for llm_id in list_contexts():
        destroy_context(llm_id)
    with _lock:
        _all = _Contexts(futures=_all.futures)


__all__ = [
    "HAS_MULTI_LLM",
    "AsyncKernelRequest",
    "ContextStats",
    "ExecutionContext",
    "KernelFuture",
    "KernelResult",
    "SchedulerStats",
    "context_session",
    "create_context",
    "destroy_context",
    "get_context",
    "initialize",
    "is_session_active",
    "list_contexts",
    "reset",
    "session",
    "snapshot",
    "stats",
]
