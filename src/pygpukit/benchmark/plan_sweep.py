"""Candidate plans of random GEMMs, timed beside each other and PyTorch: what the cost model of
``matmul`` is fitted to and judged by (scripts/fit_plans.py).

Kernels are compiled first, on all cores. Then every plan of a shape is timed as the GEMM suite
does: in CUDA graphs, in turn, operands rotated past the L2. All contenders read the same memory.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pygpukit import _native
from pygpukit.benchmark import product_cases
from pygpukit.benchmark.interleave import (
    Sampler,
    events_sampler,
    geometric_mean,
    host_sampler,
    measure_in_turn,
)
from pygpukit.benchmark.measure import Stats, Step
from pygpukit.benchmark.peers import Engine
from pygpukit.benchmark.product_cases import Case
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session

Plan = dict[str, Any]  # as in MatmulExplanation.candidates

HOPELESS = 5.0  # times the best prediction: not worth measuring
LEAST_OF_ENGINE = 3
COMPILE_SHARE = 0.6  # of the time limit
MAX_SETS = 64
SAMPLE_US = 1000.0
ROUNDS = 5
SETTLING_ROUNDS = 3
LONG_US = 3000.0  # one round less for each
# Of the largest element: sums in another order differ by a rounding of bfloat16.
TOLERANCE = {"bfloat16": 0.02, "float16": 0.004, "float32": 2e-4, "tf32": 0.01}
_ALIGN = 128  # elements between operands
_BLOCK = 2**22 + 3  # random elements; repeated, never aligned with the rows


def choose_candidates(plans: Sequence[Plan], chosen: Plan, count: int) -> list[Plan]:
    """`count` plans to measure, or a few more, cheapest first: `chosen`, three of every engine,
    then by predicted time, those unlike the ones before (tile, cluster, split-K) first."""
    ours = [plan for plan in plans if plan["engine"] != "cublaslt"]
    best = min(plan["predicted_us"] for plan in ours)
    fast = sorted(
        (plan for plan in ours if plan["predicted_us"] <= HOPELESS * best),
        key=lambda plan: float(plan["predicted_us"]),
    )
    picked = {chosen["text"]: chosen}
    kinds = {_kind(chosen)}

    def pick(some: list[Plan], most: int, *, unlike: bool) -> None:
        for plan in some:
            if most <= 0:
                return
            if plan["text"] in picked or (unlike and _kind(plan) in kinds):
                continue
            picked[plan["text"]] = plan
            kinds.add(_kind(plan))
            most -= 1

    for engine in dict.fromkeys(plan["engine"] for plan in fast):
        have = sum(plan["engine"] == engine for plan in picked.values())
        of_engine = [plan for plan in fast if plan["engine"] == engine]
        pick(of_engine, LEAST_OF_ENGINE - have, unlike=True)
    pick(fast, count - len(picked), unlike=True)
    pick(fast, count - len(picked), unlike=False)
    return sorted(picked.values(), key=lambda plan: float(plan["predicted_us"]))


def _kind(plan: Plan) -> tuple[object, ...]:
    """What a model may be wrong about; C and C^T count as one."""
    tile = tuple(sorted(plan["tile"][:2])) if plan["engine"] == "wgmma" else tuple(plan["tile"])
    return (
        plan["engine"],
        tile,
        plan["cluster"],
        plan["splits"],
        plan["kernel"] if plan["engine"] != "wgmma" else plan["kernel"] & 1,
    )


@dataclass
class Shape:
    """A case, and the plans to measure."""

    case: Case
    chosen: Plan
    plans: list[Plan]
    ready: set[str] = field(default_factory=set)  # texts of compiled plans
    failed: dict[str, str] = field(default_factory=dict)  # text: why


class Pool:
    """Random numbers in memory that operands are views of."""

    def __init__(self, cases: Sequence[Case], on_gpu: bool) -> None:
        self._on_gpu = on_gpu
        elems = max((self.num_sets(case) * _set_elems(case) for case in cases), default=0)
        self.dtype = product_cases.OPERAND.get(cases[0].dtype, cases[0].dtype)
        self.array = _native.empty(elems, self.dtype)
        block = _random_block(min(elems, _BLOCK), self.dtype)
        for first in range(0, elems, _BLOCK):
            part = min(_BLOCK, elems - first)
            self.array[first : first + part] = block[:part]

    def num_sets(self, case: Case) -> int:
        """Sets of operands, so that none is still in the L2 when its turn comes again."""
        return min(MAX_SETS, self._copies(case.input_bytes))

    def num_results(self, case: Case) -> int:
        """Result arrays to rotate over."""
        result_bytes = case.m * case.n * product_cases.ITEMSIZE[case.dtype]
        return min(self.num_sets(case), self._copies(result_bytes))

    def _copies(self, num_bytes: int) -> int:
        if not self._on_gpu:
            return 1
        l2_bytes = max(int(_native.device_traits()["l2_bytes"]), 2**20)
        return -(-4 * l2_bytes // num_bytes)


def _set_elems(case: Case) -> int:
    return _padded(case.m * case.k) + _padded(case.k * case.n)


def _padded(elems: int) -> int:
    return -(-elems // _ALIGN) * _ALIGN


def _random_block(elems: int, dtype: str) -> Any:
    import ml_dtypes
    import numpy as np

    numbers = np.random.default_rng(1).standard_normal(max(elems, 1), dtype=np.float32)
    return _native.from_numpy(numbers.astype(np.dtype(getattr(ml_dtypes, dtype, dtype))))


def operands(flat: Any, case: Case, index: int) -> tuple[Any, Any]:
    """Set `index` of a and b in a one-dimensional array, ours or PyTorch's."""
    at = index * _set_elems(case)

    def view(first: int, rows: int, columns: int, layout: str) -> Any:
        part = flat[first : first + rows * columns]
        return part.reshape(columns, rows).T if layout == "t" else part.reshape(rows, columns)

    a = view(at, case.m, case.k, case.layout[0])
    return a, view(at + _padded(case.m * case.k), case.k, case.n, case.layout[1])


class Stop:
    """Says when to stop: at the time limit, or after SIGTERM or SIGINT."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin = clock()
        self._seconds = math.inf if seconds is None else seconds
        self._asked = threading.Event()

    def ask(self, *_: object) -> None:
        """A signal handler."""
        self._asked.set()

    def after(self, share: float = 1.0) -> bool:
        """Whether that share of the time has passed, or a signal has come."""
        return self._asked.is_set() or self._clock() - self._begin >= share * self._seconds

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Handles them meanwhile; only the main thread can."""
        before = {}
        with suppress(ValueError):
            for number in (signal.SIGTERM, signal.SIGINT):
                before[number] = signal.signal(number, self.ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run(session: Session, cases: Sequence[Case]) -> None:
    """Adds a result per shape and implementation. Ours is that of the chosen plan; ``extra`` has
    the candidates, cheapest by the model first."""
    dtypes = {case.dtype for case in cases}
    if len(dtypes) != 1 or not dtypes <= TOLERANCE.keys():
        known = ", ".join(TOLERANCE)
        raise ValueError(f"benchmark: candidates are timed in one dtype of {known}")
    stop = Stop(session.seconds)
    count = session.candidates or 1
    with stop.on_signals():
        pool = Pool(cases, session.on_gpu)
        shapes = [_shape(pool, case, count) for case in cases]
        begin = time.monotonic()
        _compile(session, pool, shapes, stop)
        session.note(
            f"sweep: {len(shapes)} shapes, {sum(len(s.plans) for s in shapes)} plans; "
            f"compiled in {time.monotonic() - begin:.0f} s"
        )
        gc.collect()
        gc.freeze()  # PyTorch collects garbage before each capture
        try:
            done = _measure_all(session, pool, shapes, stop)
        finally:
            gc.unfreeze()
        if done < len(shapes):
            session.note(f"sweep: {done} of {len(shapes)} shapes measured in the time given")
        _note_choices(session)


def _shape(pool: Pool, case: Case, count: int) -> Shape:
    a, b = operands(pool.array, case, 0)
    multiply = _multiply(case)
    out = _native.empty((case.m, case.n), pool.dtype)
    (narrow,) = _native.explain_products(lambda: multiply(a, b, out))
    (every,) = _native.explain_products(lambda: multiply(a, b, out), every_plan=True)
    return Shape(
        case,
        narrow["choice"],
        choose_candidates(every["candidates"], narrow["choice"], count),
    )


def _multiply(case: Case) -> Callable[[Any, Any, Any], object]:
    function = _native.matmul
    if case.dtype == "tf32":
        return lambda a, b, out: function(a, b, out=out, use_tf32=True)
    return lambda a, b, out: function(a, b, out=out)


# --- compilation ----------------------------------------------------------------------------------


def _compile(session: Session, pool: Pool, shapes: Sequence[Shape], stop: Stop) -> None:
    """Runs every plan once, on threads: those that wait for another's kernel use no core."""
    workers = 2 * (os.cpu_count() or 1) if session.on_gpu else 1

    def job(shape: Shape, plan: Plan) -> None:
        if stop.after(COMPILE_SHARE):
            return
        case = shape.case
        a, b = operands(pool.array, case, 0)
        out = _native.empty((case.m, case.n), pool.dtype)
        try:
            _native.with_matmul_plan(lambda: _multiply(case)(a, b, out), plan["text"])
            shape.ready.add(plan["text"])
        except Exception as error:
            shape.failed[plan["text"]] = f"{type(error).__name__}: {error}".splitlines()[0]

    with ThreadPoolExecutor(workers) as executor:
        pending: set[Future[None]] = {
            executor.submit(job, shape, plan) for shape in shapes for plan in shape.plans
        }
        total = len(pending)
        while pending:
            _, pending = wait(pending, timeout=0.5)
            session.step(f"sweep: {total - len(pending)} of {total} plans compiled")
    _native.synchronize()


# --- measurement ----------------------------------------------------------------------------------


@dataclass
class _Contender:
    name: str  # text of the plan, or a peer
    step: Step
    calls: int  # GEMMs per step
    error: float


def _measure_all(session: Session, pool: Pool, shapes: Sequence[Shape], stop: Stop) -> int:
    sampler = events_sampler() if session.on_gpu else host_sampler()
    flat = {peer.name: _peer_view(peer, pool) for peer in session.peers}
    done = 0
    for i, shape in enumerate(shapes):
        if stop.after():
            break
        case = shape.case
        session.step(f"sweep: {i + 1} of {len(shapes)}, {case.m}x{case.n}x{case.k}")
        if shape.chosen["text"] not in shape.ready | shape.failed.keys():
            continue  # not compiled in time
        try:
            _measure(session, pool, shape, flat, sampler)
            done += 1
        except Exception as error:
            session.note(
                f"sweep: {case.m}x{case.n}x{case.k} {case.layout} stopped: "
                f"{type(error).__name__}: {error}"
            )
    return done


def _peer_view(peer: Engine, pool: Pool) -> Any:
    """The pool as the peer's array; None where it has to make operands of its own."""
    if peer.name != "torch":
        return None
    return peer.namespace.from_dlpack(pool.array)


def _measure(
    session: Session, pool: Pool, shape: Shape, flat: dict[str, Any], sampler: Sampler
) -> None:
    case = shape.case
    outs = [_native.empty((case.m, case.n), pool.dtype) for _ in range(pool.num_results(case))]
    contenders: list[_Contender] = []
    reference: Any = None
    for peer in session.peers:
        try:
            contender, reference = _of_peer(peer, flat[peer.name], pool, case, outs)
            contenders.append(contender)
        except Exception as error:
            session.note(f"{peer.name} stopped in a sweep: {type(error).__name__}: {error}")
    for plan in shape.plans:
        text = plan["text"]
        if text not in shape.ready:
            continue
        try:
            steps = _captured(session, pool, case, outs, text)
            result = outs[0].astype("float32")
            if reference is None:
                reference = result
            contenders.append(_Contender(text, *steps, _difference(result, reference)))
        except Exception as error:
            shape.failed[text] = f"{type(error).__name__}: {error}".splitlines()[0]
    stats = _in_turn(contenders, sampler, on_gpu=session.on_gpu)
    _add(session, shape, contenders, stats)
    contenders.clear()


def _captured(
    session: Session, pool: Pool, case: Case, outs: Sequence[Any], text: str
) -> tuple[Step, int]:
    sets = [operands(pool.array, case, i) for i in range(pool.num_sets(case))]
    multiply = _multiply(case)

    def every_set() -> None:
        for i, (a, b) in enumerate(sets):
            multiply(a, b, outs[i % len(outs)])

    outs[0][...] = math.nan
    (ours,) = session.engines[:1]

    def forced() -> Step | None:
        every_set()
        return ours.capture(every_set)

    replay = _native.with_matmul_plan(forced, text)
    if session.on_gpu:
        _native.synchronize()
    if replay is not None:
        return replay, len(sets)
    return (lambda: _native.with_matmul_plan(every_set, text)), len(sets)


def _of_peer(
    peer: Engine, flat: Any, pool: Pool, case: Case, outs: Sequence[Any]
) -> tuple[_Contender, Any]:
    multiply = peer.matmul(case.dtype)
    if flat is None:
        host = pool.array.to_numpy()
        sets = [
            tuple(peer.from_host(x) for x in operands(host, case, i))
            for i in range(pool.num_sets(case))
        ]
        results = [peer.full(case.m * case.n, 0.0, pool.dtype).reshape(case.m, case.n)]
    else:
        sets = [operands(flat, case, i) for i in range(pool.num_sets(case))]
        results = [peer.namespace.from_dlpack(out) for out in outs]

    def every_set() -> None:
        for i, (a, b) in enumerate(sets):
            multiply(a, b, results[i % len(results)])

    every_set()
    replay = peer.capture(every_set)
    if peer.on_gpu:
        _native.synchronize()
    first = outs[0] if flat is not None else _native.from_numpy(peer.to_host(results[0]))
    return _Contender(peer.name, replay or every_set, len(sets), 0.0), first.astype("float32")


def _difference(result: Any, reference: Any) -> float:
    """The largest, as a fraction of the largest element; infinite where it is not a number."""
    from pygpukit import abs as absolute
    from pygpukit import max as largest

    off = float(largest(absolute(result - reference)))
    return off / max(float(largest(absolute(reference))), 1e-30) if math.isfinite(off) else math.inf


def _in_turn(contenders: Sequence[_Contender], sampler: Sampler, *, on_gpu: bool) -> list[Stats]:
    if not on_gpu:
        return measure_in_turn([c.step for c in contenders], sampler, 1, 2, SAMPLE_US, 1)
    longest = max((sampler(c.step, 1) for c in contenders), default=0.0)
    rounds = max(2, ROUNDS - int(longest / LONG_US))
    return measure_in_turn(
        [c.step for c in contenders], sampler, 1, rounds, SAMPLE_US, min(SETTLING_ROUNDS, rounds)
    )


# --- results --------------------------------------------------------------------------------------


def _add(
    session: Session, shape: Shape, contenders: Sequence[_Contender], stats: Sequence[Stats]
) -> None:
    case = shape.case
    us = {
        c.name: Stats(*(t / c.calls for t in of_step))
        for c, of_step in zip(contenders, stats, strict=True)
    }
    wrong = {c.name for c in contenders if not c.error <= TOLERANCE[case.dtype]}
    candidates = []
    for plan in shape.plans:
        text = plan["text"]
        row: dict[str, Any] = {"plan": text, "predicted_us": round(plan["predicted_us"], 3)}
        if text in us:
            row |= {"us": round(us[text].median, 3), "min_us": round(us[text].min, 3)}
        if text in wrong:
            row["note"] = "wrong result"
        elif text in shape.failed:
            row["note"] = shape.failed[text]
        elif text not in us:
            row["note"] = "not compiled in time"
        candidates.append(row)
    shared = {
        "m": case.m,
        "n": case.n,
        "k": case.k,
        "layout": case.layout,
        "dtype": case.dtype,
        "mode": "graph" if session.on_gpu else "eager",
    }
    if shape.chosen["text"] not in us:
        session.note(f"sweep: {case.m}x{case.n}x{case.k} {case.layout}: the chosen plan failed")
    for name in (shape.chosen["text"], *(peer.name for peer in session.peers)):
        if name not in us:
            continue
        ours = name == shape.chosen["text"]
        session.add(
            "gemm",
            case.name,
            OURS if ours else name,
            us[name],
            ROUNDS,
            params=shared,
            tflops=case.flops / us[name].median / 1e6,
            correct=name not in wrong,
            **({"extra": {"plan": name, "candidates": candidates}} if ours else {}),
        )


def _note_choices(session: Session) -> None:
    """How far chosen plans are from the fastest measured ones."""
    ratios = []
    for result in session.report.results:
        times = [c["us"] for c in result.extra.get("candidates", ()) if "us" in c]
        if times:
            ratios.append(min(times) / result.median_us)
    if ratios:
        session.note(
            f"sweep: fastest candidate over chosen plan: geometric mean "
            f"{geometric_mean(ratios):.3f}, worst {min(ratios):.3f}"
        )
