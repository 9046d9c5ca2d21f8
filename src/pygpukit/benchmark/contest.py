"""One case of an op, timed in turn for every implementation, and checked against float64.

On a GPU a case is a CUDA graph of many calls. Its arrays are drawn on the device and shared with
the peers by DLPack; sets of them rotate where one would stay in the L2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pygpukit import _native
from pygpukit.benchmark.interleave import (
    MIN_SAMPLE_US,
    Sampler,
    events_sampler,
    host_sampler,
    measure_in_turn,
)
from pygpukit.benchmark.measure import Stats, Step
from pygpukit.benchmark.peers import Engine
from pygpukit.benchmark.report import OURS, BenchmarkResult
from pygpukit.benchmark.session import Session

Arrays = tuple[Any, ...]
Build = Callable[..., Step]  # of one set of arrays (peers: of their module and tensors)
Error = Callable[[Arrays, Any], float]  # of a call's result, against float64

MAX_SETS = 32
MAX_NODES = 400
MAX_SAMPLES = 15
WARMUP = 3


@dataclass(frozen=True)
class Entry:
    """An implementation: a row of the table, or one of the back ends whose best is the row."""

    build: Build
    error: Error | None = None
    impl: str = OURS
    name: str = ""  # of the row, where it is not the case's
    backend: str = ""
    flops: float = 0.0
    bytes: int = 0  # moved by one call
    tolerance: float = 6e-3


@dataclass(frozen=True)
class Case:
    """Entries for one shape. Ours is the first."""

    name: str
    params: dict[str, Any]
    arrays: Callable[[], Arrays]
    entries: Sequence[Entry]
    rotated_bytes: int = 0  # of a set; 0: one set is enough


@dataclass
class _Contender:
    entry: Entry
    step: Step
    calls: int  # of the op, in one step
    error: float | None
    operands: Any  # a peer's graph does not keep them alive
    stats: Stats = field(default=Stats(0.0, 0.0, 0.0, 0.0))


def run_case(session: Session, suite: str, case: Case) -> list[BenchmarkResult]:
    """Adds a row for each name and implementation, and returns them in the order of entries."""
    shape = " ".join(f"{value}" for value in case.params.values())
    session.step(f"{suite}: {case.name} {shape}")
    try:
        contenders = _contenders(session, case)
        _measure(session, contenders)
        return _add_rows(session, suite, case, contenders)
    finally:
        contenders = []
        for engine in session.engines:
            engine.release()


def _contenders(session: Session, case: Case) -> list[_Contender]:
    engines = {engine.name: engine for engine in session.engines}
    sets = [case.arrays() for _ in range(_num_sets(session, case))]
    found: list[_Contender] = []
    for entry in case.entries:
        if entry.impl not in engines:
            continue
        try:
            calls = found[0].calls if found else 0
            found.append(_prepare(engines[entry.impl], entry, sets, calls, _sampler(session)))
        except Exception as error:
            if entry.impl == OURS:
                raise
            which = f"{entry.impl} {entry.backend}".rstrip()
            text = (str(error).splitlines() or [""])[0]
            session.note(f"{which} stopped in {case.name}: {type(error).__name__}: {text}")
    return found


def _num_sets(session: Session, case: Case) -> int:
    if not session.on_gpu or not case.rotated_bytes:
        return 1
    l2_bytes = max(int(_native.device_traits()["l2_bytes"]), 2**20)
    return max(1, min(MAX_SETS, -(-4 * l2_bytes // case.rotated_bytes)))


def _prepare(
    engine: Engine, entry: Entry, sets: list[Arrays], calls: int, sample: Sampler
) -> _Contender:
    """`calls` of the first contender: graphs of all have as many nodes, unless one is slow."""
    steps = [entry.build(*_operands(engine, arrays)) for arrays in sets]
    outs: list[Any] = [None] * len(steps)

    def every_set() -> None:
        for i, step in enumerate(steps):
            outs[i] = step()  # the result before is alive: a peer's allocator cannot reuse it

    every_set()  # compiles kernels and allocates workspaces
    passes = 1
    if engine.on_gpu:
        enough = MIN_SAMPLE_US / max(sample(every_set, 1), 0.1)
        most = max(1, MAX_NODES // len(steps))
        passes = calls // len(steps) if calls else max(1, min(most, round(enough)))
        passes = max(1, min(passes, round(10 * enough)))

    def all_passes() -> None:
        for _ in range(passes):
            every_set()

    run = (engine.capture(all_passes) if engine.on_gpu else None) or every_set
    for out in outs:
        _poison(engine, out)
    run()
    if engine.on_gpu:
        _native.synchronize()
    error = None
    if entry.error is not None:
        error = max(entry.error(sets[i], outs[i]) for i in {0, len(sets) - 1})
    num_calls = len(steps) * (1 if run is every_set else passes)
    return _Contender(entry, run, num_calls, error, (steps, outs))


def _operands(engine: Engine, arrays: Arrays) -> Arrays:
    if engine.name == OURS:
        return arrays
    share = engine.namespace.from_dlpack
    bits = (x.view("uint8") if "float8" in str(x.dtype) else x for x in arrays)
    return (engine.namespace, *(share(x) for x in bits))


def _poison(engine: Engine, out: Any) -> None:
    for array in out if isinstance(out, tuple) else (out,):
        if array is not None:
            engine.fill(array, float("nan") if "float" in str(array.dtype) else -1)


def _sampler(session: Session) -> Sampler:
    return events_sampler() if session.on_gpu else host_sampler()


def _samples(session: Session) -> int:
    return min(session.iterations, MAX_SAMPLES if not session.quick else 7)


def _measure(session: Session, contenders: list[_Contender]) -> None:
    stats = measure_in_turn(
        [contender.step for contender in contenders],
        _sampler(session),
        min(session.warmup, WARMUP),
        _samples(session),
        MIN_SAMPLE_US if session.on_gpu else 0.0,
    )
    for contender, of_step in zip(contenders, stats, strict=True):
        contender.stats = Stats(*(us / contender.calls for us in of_step))


def _add_rows(
    session: Session, suite: str, case: Case, contenders: list[_Contender]
) -> list[BenchmarkResult]:
    rows: dict[tuple[str, str], list[_Contender]] = {}
    for contender in contenders:
        entry = contender.entry
        rows.setdefault((entry.name or case.name, entry.impl), []).append(contender)
    results = []
    for (name, impl), group in rows.items():
        best = min(group, key=lambda contender: contender.stats.median)
        entry, stats = best.entry, best.stats
        backend = {"backend": entry.backend} if entry.backend else {}
        extra = {f"{c.entry.backend}_us": c.stats.median for c in group} if backend else {}
        results.append(
            session.add(
                suite,
                name,
                impl,
                stats,
                _samples(session),
                params={**case.params, "mode": "graph" if session.on_gpu else "eager", **backend},
                tflops=entry.flops / stats.median / 1e6 if entry.flops else None,
                bandwidth_gbps=entry.bytes / stats.median / 1e3 if entry.bytes else None,
                correct=None if best.error is None else best.error <= entry.tolerance,
                rel_error=best.error,
                extra=extra,
            )
        )
    return results
