"""Several models on one GPU: a context each, with a stream, a memory budget and sessions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any

from pygpukit import _native
from pygpukit._native import CudaEvent, JITKernel, Stream, safe_repr
from pygpukit._runtime import ExecutionContexts, launch_function
from pygpukit.core.errors import GpuUnavailable, InvalidTypeError, OperationError

HAS_MULTI_LLM = True

_contexts = ExecutionContexts()
_objects: dict[str, ExecutionContext] = {}
_lock = threading.Lock()
_futures = 0


@dataclass(frozen=True)
class ContextStats:
    """A context as it was when asked for; memory in bytes."""

    llm_id: str
    state: str
    stream_id: int
    max_vram: int
    used_vram: int
    available_vram: int
    buffer_count: int


@dataclass(frozen=True)
class SchedulerStats:
    """All contexts together; memory in bytes."""

    initialized: bool
    device_id: int
    total_vram_budget: int
    device_total_memory: int
    used_vram: int
    available_vram: int
    context_count: int
    stream_pool_size: int


class AsyncKernelRequest:
    """A kernel, its arguments and the shape of its launch.

    `kernel_handle` is a jit kernel, a Python callable (which may launch ops of its own), or the
    address of a CUfunction.
    """

    def __init__(self, kernel_handle: int | JITKernel | Callable[..., Any]) -> None:
        self.kernel_handle = kernel_handle
        self.grid: tuple[int, int, int] = (1, 1, 1)
        self.block: tuple[int, int, int] = (256, 1, 1)
        self.shared_mem = 0
        self.args: list[Any] = []

    @staticmethod
    def linear(
        kernel_handle: int | JITKernel | Callable[..., Any], n: int, block_size: int = 256
    ) -> AsyncKernelRequest:
        """Enough blocks for `n` items."""
        blocks = (n + block_size - 1) // block_size
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

    def __repr__(self) -> str:
        return f"AsyncKernelRequest({self.kernel_handle!r}, grid={self.grid}, block={self.block})"


class FutureState(str, Enum):
    """How far a dispatched kernel got."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class KernelResult:
    """How a kernel ended. `exec_time` in seconds; `output` is what a Python callable returned."""

    success: bool
    error: str | None
    exec_time: float
    output: Any


class KernelFuture:
    """A kernel on its way. Made by ExecutionContext.dispatch_async; can be awaited."""

    def __init__(self, number: int, context: ExecutionContext) -> None:
        self.id = number
        self.stream_id = context.stream_id
        self.context_id = context.llm_id
        self._start: CudaEvent | None = None
        self._stop: CudaEvent | None = None
        self._output: Any = None
        self._result: KernelResult | None = None
        self._exception: BaseException | None = None
        self._lock = threading.Lock()

    def _launch(self, stream: Stream, request: AsyncKernelRequest) -> None:
        start, stop = CudaEvent(), CudaEvent()
        try:
            with stream:
                start.record(stream)
                self._output = _call(request, stream)
                stop.record(stream)
        except Exception as error:  # kept: wait() reports it
            self._fail(error)
        else:
            self._start, self._stop = start, stop

    def _fail(self, error: BaseException) -> None:
        self._exception = error
        self._result = KernelResult(False, f"{type(error).__name__}: {error}", 0.0, None)

    def _finish(self) -> KernelResult:
        with self._lock:
            if self._result is None:
                if self._start is None or self._stop is None:
                    raise OperationError("KernelFuture: nothing was launched with it")
                try:
                    self._stop.synchronize()
                    ms = _native.event_elapsed_ms(self._start, self._stop)
                    self._result = KernelResult(True, None, ms / 1000.0, self._output)
                except Exception as error:  # the kernel's failure
                    self._fail(error)
            assert self._result is not None
            return self._result

    @property
    def state(self) -> FutureState:
        """PENDING, RUNNING, COMPLETED, FAILED or CANCELLED."""
        if self._result is None and not self.is_ready:
            return FutureState.RUNNING
        return FutureState.COMPLETED if self._finish().success else FutureState.FAILED

    @property
    def is_ready(self) -> bool:
        """True when wait() would not wait."""
        if self._result is not None or self._stop is None:
            return True
        try:
            return self._stop.query()
        except Exception:  # the failure is reported by wait()
            return True

    def wait(self) -> KernelResult:
        """Waits for the kernel. A failure is in the result, not raised."""
        return self._finish()

    def try_get(self) -> KernelResult | None:
        """The result, or None while the kernel runs."""
        return self._finish() if self.is_ready else None

    def exception(self) -> BaseException | None:
        """Waits; what the kernel failed with, or None."""
        self._finish()
        return self._exception

    @property
    def exec_time(self) -> float | None:
        """Seconds on the device; None while the kernel runs."""
        result = self.try_get()
        return None if result is None else result.exec_time

    def __await__(self) -> Generator[Any, None, KernelResult]:
        import asyncio

        if not self.is_ready:
            loop = asyncio.get_running_loop()
            yield from loop.run_in_executor(None, self.wait).__await__()
        return self.wait()

    def __repr__(self) -> str:
        return f"KernelFuture({self.id}, {self.context_id!r}, {self.state})"


def _call(request: AsyncKernelRequest, stream: Stream) -> Any:
    kernel = request.kernel_handle
    if isinstance(kernel, JITKernel):
        shape = {"grid": request.grid, "block": request.block, "shared_mem": request.shared_mem}
        kernel(*request.args, stream=stream, **shape)
        return None
    if callable(kernel):
        return kernel(*request.args)
    launch_function(
        int(kernel), request.grid, request.block, request.shared_mem, request.args, stream
    )
    return None


def _check_request(request: AsyncKernelRequest) -> None:
    kernel = request.kernel_handle
    if not (callable(kernel) or isinstance(kernel, int)):
        raise InvalidTypeError(
            f"dispatch_async: kernel_handle is {safe_repr(kernel)}, "
            "expected a jit kernel, a callable or "
            "the address of a CUfunction"
        )
    if isinstance(kernel, int) and _native.default_device()[0] == "cpu":
        raise GpuUnavailable(
            f"dispatch_async: kernel_handle is {kernel}, the address of a CUfunction, and CPU "
            "simulation has none; pass a callable, or a jit kernel with reference="
        )


class ExecutionContext:
    """One model on the GPU: its stream, its memory budget, its sessions."""

    def __init__(self, llm_id: str, stream_id: int, max_vram: int) -> None:
        self.llm_id = llm_id
        self.stream_id = stream_id
        self.max_vram = max_vram
        self._stream: Stream | None = None
        self._lock = threading.Lock()

    @property
    def stream(self) -> Stream:
        """The real stream that its kernels run on, made at first use."""
        with self._lock:
            if self._stream is None:
                self._stream = Stream()
            return self._stream

    @property
    def stats(self) -> ContextStats | None:
        """The context now; None when it was destroyed."""
        now = _contexts.get(self.llm_id)
        if now is None or _objects.get(self.llm_id) is not self:
            return None
        return ContextStats(
            now.llm_id,
            now.state,
            now.stream_id,
            now.max_vram,
            now.used_vram,
            now.available_vram,
            now.buffer_count,
        )

    def track_allocation(self, buffer_id: int, size: int) -> bool:
        """Counts a buffer; False when it would pass the context's budget or that of all."""
        return _contexts.track_allocation(self.llm_id, buffer_id, size)

    def track_deallocation(self, buffer_id: int) -> None:
        """Counts a buffer no longer."""
        _contexts.track_deallocation(self.llm_id, buffer_id)

    def dispatch_async(self, request: AsyncKernelRequest) -> KernelFuture:
        """Launches on the context's stream and returns at once."""
        global _futures
        if self.stats is None:
            raise OperationError(f"dispatch_async: context '{self.llm_id}' was destroyed")
        _check_request(request)
        with _lock:
            _futures += 1
            future = KernelFuture(_futures, self)
        future._launch(self.stream, request)
        return future

    def start_session(self) -> None:
        """IDLE to RUNNING."""
        _contexts.begin_context_session(self.llm_id)

    def end_session(self) -> None:
        """RUNNING to IDLE."""
        _contexts.end_context_session(self.llm_id)

    def is_session_active(self) -> bool:
        """Between the two."""
        return _contexts.is_context_session_active(self.llm_id)

    def destroy(self) -> None:
        """Waits for its kernels and lets go of the stream and the budget."""
        if self.stats is not None:
            destroy_context(self.llm_id)

    def __repr__(self) -> str:
        return f"ExecutionContext({self.llm_id!r}, stream_id={self.stream_id})"


def initialize(
    device_id: int = 0, device_total_memory: int = 0, total_vram_budget: int = 0
) -> None:
    """Memory 0: 8 GiB. Budget 0 or above the memory: the memory. Later calls do nothing."""
    _contexts.initialize(device_id, device_total_memory, total_vram_budget)


def create_context(llm_id: str, max_vram: int = 0, *, device_id: int = 0) -> ExecutionContext:
    """A new context; max_vram 0: only the budget of all. RuntimeError when the id exists."""
    made = _contexts.create(llm_id, max_vram, device_id)
    context = ExecutionContext(llm_id, made.stream_id, max_vram)
    with _lock:
        _objects[llm_id] = context
    return context


def get_context(llm_id: str) -> ExecutionContext | None:
    """The context of that id, or None."""
    with _lock:
        return _objects.get(llm_id)


def destroy_context(llm_id: str) -> bool:
    """Waits for its kernels and lets go of it; False when there is none."""
    with _lock:
        context = _objects.pop(llm_id, None)
    if context is not None and context._stream is not None:
        context._stream.synchronize()
    return _contexts.destroy(llm_id)


def list_contexts() -> list[str]:
    """The ids, oldest first."""
    return _contexts.ids()


@contextmanager
def session() -> Iterator[None]:
    """All contexts there are run inside; at the end all are idle."""
    _contexts.begin_session()
    try:
        yield
    finally:
        _contexts.end_session()


class context_session:
    """One context runs inside; for `with` and `async with`."""

    def __init__(self, ctx: ExecutionContext) -> None:
        self._context = ctx

    def __enter__(self) -> ExecutionContext:
        self._context.start_session()
        return self._context

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._context.end_session()

    async def __aenter__(self) -> ExecutionContext:
        return self.__enter__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(exc_type, exc, traceback)


def is_session_active() -> bool:
    """Inside session()."""
    return _contexts.is_session_active()


def stats() -> SchedulerStats:
    """All contexts together."""
    now = _contexts.stats()
    return SchedulerStats(
        now.initialized,
        now.device_id,
        now.total_vram_budget,
        now.device_total_memory,
        now.used_vram,
        now.available_vram,
        now.context_count,
        now.stream_pool_size,
    )


def reset() -> None:
    """Destroys all contexts; as new."""
    for llm_id in list_contexts():
        destroy_context(llm_id)
    _contexts.reset()


__all__ = [
    "HAS_MULTI_LLM",
    "AsyncKernelRequest",
    "ContextStats",
    "ExecutionContext",
    "FutureState",
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
    "stats",
]
