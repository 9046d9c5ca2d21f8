"""Copies: host to device and back, pinned and pageable, and on the device. Contents are checked."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.benchmark.measure import Step, measure_events, measure_kernel
from pygpukit.benchmark.peers import Engine
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

POISON = 0xA5


@dataclass
class Case:
    """One kind of copy. `result` returns the destination on the host."""

    name: str
    step: Step
    result: Callable[[], NDArray[Any]]
    by_events: bool  # asynchronous; else it blocks, and the host clock counts


def transfer_sizes(session: Session) -> list[int]:
    """Bytes between host and device."""
    if session.sizes:
        return session.sizes
    if session.on_gpu:
        return [2**20, 2**24] if session.quick else [2**20, 2**24, 2**28]
    return [2**16, 2**20] if session.quick else [2**20, 2**24]


def device_sizes(session: Session) -> list[int]:
    """Bytes on the device."""
    if session.sizes:
        return session.sizes
    if session.on_gpu:
        return [2**28] if session.quick else [2**30]
    return [2**20] if session.quick else [2**24]


def run(session: Session) -> None:
    """Runs the suite."""
    for nbytes in transfer_sizes(session):
        _run_size(session, nbytes, _transfer_cases)
    for nbytes in device_sizes(session):
        _run_size(session, nbytes, _device_cases)


def _run_size(
    session: Session, nbytes: int, cases: Callable[[Session, Engine, Any], list[Case]]
) -> None:
    import numpy as np

    host = np.random.default_rng(nbytes).integers(0, 256, nbytes, dtype=np.uint8)
    for engine in session.engines:
        try:
            for case in cases(session, engine, host):
                _measure(session, engine, case, host)
        except Exception as error:
            if engine.name == OURS:
                raise
            session.note(f"{engine.name} stopped in copy: {type(error).__name__}: {error}")
        finally:
            engine.release()


def _measure(session: Session, engine: Engine, case: Case, host: NDArray[Any]) -> None:
    import numpy as np

    session.step(f"copy: {case.name} {host.size} bytes, {engine.name}")
    case.step()
    correct = bool(np.array_equal(case.result(), host))
    iterations = max(20, session.iterations) if case.by_events else min(session.iterations, 20)
    warmup = min(session.warmup, 5)
    if case.by_events:
        stats = measure_events(case.step, warmup, iterations)
    else:
        stats = measure_kernel(case.step, warmup, iterations, _native.synchronize)
    moved = host.size * (2 if case.name == "d2d" else 1)
    session.add(
        "copy",
        case.name,
        engine.name,
        stats,
        iterations,
        params={"bytes": host.size},
        bandwidth_gbps=moved / stats.median / 1e3,
        correct=correct,
        rel_error=0.0 if correct else None,
    )


def _transfer_cases(session: Session, engine: Engine, host: NDArray[Any]) -> list[Case]:
    if engine.name == OURS:
        return _own_transfers(session, host)
    if engine.name == "torch":
        return _torch_transfers(engine, host)
    if engine.name == "cupy":
        return _cupy_transfers(engine, host)
    return []


def _own_transfers(session: Session, host: NDArray[Any]) -> list[Case]:
    size = host.size
    dst = _native.full(size, POISON, "uint8")
    src = _native.from_numpy(host)
    fresh: list[Any] = [None]

    def to_numpy() -> None:
        fresh[0] = src.to_numpy()

    cases = [
        Case(
            "h2d_pageable",
            lambda: _native.copy_to_device(dst, host.ctypes.data, size),
            dst.to_numpy,
            False,
        ),
        Case("d2h_pageable", to_numpy, lambda: fresh[0], False),
    ]
    if not session.on_gpu:
        return cases
    pinned = _native.pinned_empty(size, "uint8")
    pinned[:] = host
    sink = _native.pinned_empty(size, "uint8")
    sink[:] = POISON
    pinned_dst = _native.full(size, POISON, "uint8")
    cases.insert(
        0,
        Case(
            "h2d_pinned",
            lambda: _native.copy_to_device_async(pinned_dst, pinned.ctypes.data, size),
            pinned_dst.to_numpy,
            True,
        ),
    )

    def read() -> Any:
        _native.synchronize()
        return sink

    # The lambdas hold the arrays, not their addresses: the memory must outlive the copies.
    cases.insert(
        1,
        Case(
            "d2h_pinned",
            lambda: _native.copy_to_host_async(src, sink.ctypes.data, size),
            read,
            True,
        ),
    )
    return cases


def _torch_transfers(engine: Engine, host: NDArray[Any]) -> list[Case]:
    torch: Any = engine.module  # type: ignore[attr-defined]
    src = engine.from_host(host)
    first, second = (engine.full(host.size, POISON, "uint8") for _ in range(2))
    pageable = torch.from_numpy(host)
    pinned = pageable.pin_memory()
    sink = torch.full((host.size,), POISON, dtype=torch.uint8).pin_memory()
    fresh: list[Any] = [None]

    def to_cpu() -> None:
        fresh[0] = src.cpu()

    def read() -> Any:
        _native.synchronize()
        return sink.numpy()

    return [
        Case(
            "h2d_pinned",
            lambda: first.copy_(pinned, non_blocking=True),
            lambda: engine.to_host(first),
            True,
        ),
        Case("d2h_pinned", lambda: sink.copy_(src, non_blocking=True), read, True),
        Case("h2d_pageable", lambda: second.copy_(pageable), lambda: engine.to_host(second), False),
        Case("d2h_pageable", to_cpu, lambda: fresh[0].numpy(), False),
    ]


def _cupy_transfers(engine: Engine, host: NDArray[Any]) -> list[Case]:
    cupyx = importlib.import_module("cupyx")
    src = engine.from_host(host)
    dst, pinned_dst = (engine.full(host.size, POISON, "uint8") for _ in range(2))
    pinned, sink = (cupyx.empty_pinned(host.size, "uint8") for _ in range(2))
    pinned[:] = host
    sink[:] = POISON
    fresh: list[Any] = [None]

    def get() -> None:
        fresh[0] = src.get()

    def read() -> Any:
        _native.synchronize()
        return sink

    return [
        Case("h2d_pinned", lambda: pinned_dst.set(pinned), pinned_dst.get, True),
        Case("d2h_pinned", lambda: src.get(out=sink, blocking=False), read, True),
        Case("h2d_pageable", lambda: dst.set(host), dst.get, False),
        Case("d2h_pageable", get, lambda: fresh[0], False),
    ]


def _device_cases(session: Session, engine: Engine, host: NDArray[Any]) -> list[Case]:
    if session.on_gpu and not engine.on_gpu:
        return []
    src = engine.from_host(host)
    dst = engine.full(host.size, POISON, "uint8")
    step: Step
    if engine.name == OURS:
        step = lambda: _native.copy_device_to_device_async(dst, src)  # noqa: E731
    elif engine.name == "torch":
        step = lambda: dst.copy_(src)  # noqa: E731
    elif engine.name == "cupy":
        copyto = engine.module.copyto  # type: ignore[attr-defined]
        step = lambda: copyto(dst, src)  # noqa: E731
    else:
        import numpy as np

        step = lambda: np.copyto(dst, src)  # noqa: E731
    return [Case("d2d", step, lambda: engine.to_host(dst), session.on_gpu)]
