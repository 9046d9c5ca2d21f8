"""The memory pool: host cost of an allocation, and the speed of eviction and restore.

Eviction is compared with copies of the same size between the device and pinned memory.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from pygpukit import _native
from pygpukit.benchmark.measure import CallCost, Stats, measure_kernel, summarize
from pygpukit.benchmark.peers import Engine
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session
from pygpukit.memory import pool_control

MIB = 1 << 20
EMPTY_BYTES = (4 << 10, MIB, 64 * MIB)


def run(session: Session) -> None:
    """Runs the suite."""
    for nbytes in EMPTY_BYTES:
        for engine in session.engines:
            _empty(session, engine, nbytes)
    for nbytes in _array_bytes(session):
        _moves(session, nbytes)
    for order in ("lru", "random"):
        _pressure(session, order)
    _native.trim()


def _array_bytes(session: Session) -> list[int]:
    if session.sizes:
        return [max(size, 4 * MIB) for size in session.sizes]
    if not session.on_gpu:
        return [16 * MIB]
    return [64 * MIB, 512 * MIB] if session.quick else [16 * MIB, 64 * MIB, 512 * MIB, 2048 * MIB]


def _empty(session: Session, engine: Engine, nbytes: int) -> None:
    """Host cost of creating and dropping an array; no work is submitted."""
    session.step(f"memory: empty + drop {nbytes} bytes, {engine.name}")
    more = ", device='cuda'" if engine.name == "torch" else ""
    dtype = "lib.uint8" if engine.name == "torch" else "'uint8'"
    call = f"empty({nbytes}, dtype={dtype}{more})"
    names = {"lib": engine.namespace, "empty": engine.namespace.empty}
    calls, repeats = (1000, 3) if session.quick else (5000, 5)
    cost = CallCost(call, names, _native.synchronize, calls=calls)
    cost.sample()
    samples = [cost.sample() for _ in range(repeats)]
    session.add(
        "memory",
        "empty_drop",
        engine.name,
        summarize(samples),
        cost.calls * repeats,
        params={"bytes": nbytes},
    )
    engine.release()


def _moves(session: Session, nbytes: int) -> None:
    """One array evicted and restored, against copies of the same size."""
    import numpy as np

    _native.trim()
    host = np.random.default_rng(nbytes).integers(0, 2**31, nbytes // 4, dtype=np.int32)
    pinned = _native.pinned_empty(host.size, "int32")
    pool_control.set_evictable_default(nbytes)
    try:
        x = _native.from_numpy(host)
    finally:
        pool_control.set_evictable_default(None)
    y = _native.empty(host.size, "int32")
    stream = _native.current_stream()

    def restore() -> None:
        pool_control.restore(x)
        stream.synchronize()

    def d2h() -> None:
        _native.copy_to_host_async(y, pinned.ctypes.data, nbytes)
        stream.synchronize()

    def h2d() -> None:
        _native.copy_to_device_async(y, pinned.ctypes.data, nbytes)
        stream.synchronize()

    iterations = min(session.iterations, 20)
    copies = {"evict": d2h, "restore": h2d}
    rates = {
        name: measure_kernel(copy, 3, iterations, _native.synchronize).median
        for name, copy in copies.items()
    }
    session.step(f"memory: evict and restore {nbytes} bytes")
    out, back = [], []
    for _ in range(iterations + 1):
        _native.synchronize()
        out.append(_timed(lambda: pool_control.evict(x)))
        back.append(_timed(restore))
    correct = bool(np.array_equal(x.to_numpy(), host))
    for name, samples in (("evict", out), ("restore", back)):
        stats = summarize(samples[1:])  # the first one allocates the pinned memory
        session.add(
            "memory",
            name,
            OURS,
            stats,
            iterations,
            params={"bytes": nbytes},
            bandwidth_gbps=nbytes / stats.median / 1e3,
            correct=correct,
            extra={"of_pinned_copy": rates[name] / stats.median, "first_us": samples[0]},
        )


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def _pressure(session: Session, order: str) -> None:
    """Arrays of 1.5 times the quota in total, updated in turn. Contents and quota are checked."""
    num = 24
    each = 4 * MIB if not session.on_gpu else (64 * MIB if session.quick else 256 * MIB)
    session.step(f"memory: {num} arrays of {each} bytes in {order} order")
    _native.synchronize()
    _native.trim()
    quota = pool_control.stats()["reserved"] + num * each * 2 // 3
    pool_control.set_limit(quota)
    pool_control.set_evictable_default(each)
    try:
        arrays = [_native.full(each // 4, i, "int32") for i in range(num)]
        expected = list(range(num))
        sequence = list(range(num)) * 3
        if order == "random":
            random.Random(1).shuffle(sequence)
        for i in sequence[: num + num // 2]:  # so that all pinned memory is allocated
            _native.add(arrays[i], 0, out=arrays[i])
        _native.synchronize()
        before = pool_control.stats()
        within = True
        start = time.perf_counter()
        for i in sequence:
            _native.add(arrays[i], 1, out=arrays[i])
            within = within and pool_control.stats()["reserved"] <= quota
            expected[i] += 1
        _native.synchronize()
        seconds = time.perf_counter() - start
        after = pool_control.stats()
        correct = within and all(
            int(array.min()) == value == int(array.max())
            for array, value in zip(arrays, expected, strict=True)
        )
    finally:
        arrays = []
        pool_control.set_evictable_default(None)
        pool_control.set_limit(None)
    moved = sum(after[key] - before[key] for key in ("evicted_total", "restored_total"))
    counts: dict[str, Any] = {
        key: after[key] - before[key] for key in ("evictions", "restores", "host_waits")
    }
    per_step = seconds / len(sequence) * 1e6
    session.add(
        "memory",
        f"pressure_{order}",
        OURS,
        Stats(per_step, per_step, per_step, 0.0),
        len(sequence),
        params={"bytes": each, "arrays": num},
        bandwidth_gbps=moved / seconds / 1e9,
        correct=correct,
        extra=counts,
    )
