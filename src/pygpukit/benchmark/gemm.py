"""GEMM: TFLOP/s (and, for few rows, bytes of weights per second) against the peers.

Implementations are interleaved within a round of samples, inputs rotate to defeat the L2, small
shapes are timed as CUDA graphs, and results are compared with float64 on sampled rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.benchmark import plan_sweep, product_cases
from pygpukit.benchmark.interleave import events_sampler, host_sampler, measure_in_turn
from pygpukit.benchmark.measure import Stats, Step
from pygpukit.benchmark.oracle import relative_error, sample_indices
from pygpukit.benchmark.peers import Engine
from pygpukit.benchmark.product_cases import TOLERANCE, Case
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session
from pygpukit.benchmark.summary import note_slow, note_speedups

if TYPE_CHECKING:
    from numpy.typing import NDArray

GRAPH_BELOW_FLOPS = 2**36  # about 100 us: where launch overhead matters
MAX_SETS = 64
RANDOM_FLOOR = 0.95  # random shapes below it are listed
MAX_SAMPLES = 25
_RANDOM_ELEMS = 2**22


def run(session: Session) -> None:
    """Runs the suite for many rows, or for random shapes."""
    if session.random_shapes is None:
        _run_suite(session, "gemm", product_cases.gemm_cases)
        return
    cases = product_cases.random_cases(
        session.random_shapes,
        session.seed,
        session.product_dtypes,
        session.layouts,
        small=not session.on_gpu,
    )
    if session.candidates is None:
        _run_cases(session, "gemm", cases)
    else:
        probes = product_cases.probe_cases(session.product_dtypes) if session.probes else []
        plan_sweep.run(session, [*probes, *cases])
        note_speedups(session, "gemm", session.report.results)
    note_slow(session, f"gemm, seed {session.seed}", session.report.results, RANDOM_FLOOR)


def run_few_rows(session: Session) -> None:
    """Runs the suite for one to 32 rows."""
    _run_suite(session, "gemv", product_cases.gemv_cases)


def run_eight_bits(session: Session) -> None:
    """Runs the suite for FP8 and INT8 operands."""
    _run_suite(session, "fp8", product_cases.eight_bit_cases)


def _run_suite(session: Session, name: str, make: Callable[..., list[Case]]) -> None:
    dtypes = session.product_dtypes
    if session.on_gpu or session.sizes:
        cases = make(session.sizes, dtypes, session.layouts)
        if session.quick and not session.sizes:
            cases = product_cases.quick_cases(cases)
    else:
        cases = product_cases.small_cases(name, dtypes, session.layouts)
    if not cases:
        session.note(f"{name}: nothing to measure in these dtypes and layouts")
    _run_cases(session, name, cases)


def _run_cases(session: Session, name: str, cases: list[Case]) -> None:
    for i, case in enumerate(cases):
        session.step(f"{name}: {i + 1} of {len(cases)}, {case.name} {case.m}x{case.n}x{case.k}")
        _run_case(session, name, case)
    note_speedups(session, name, [r for r in session.report.results if r.category == name])


@dataclass
class _Contender:
    """An implementation measured in a case."""

    engine: Engine
    step: Step  # one pass over all sets, or one GEMM
    products: int  # GEMMs per step
    error: float


def _run_case(session: Session, suite: str, case: Case) -> None:
    a = _random(case.m, case.k, case.dtype, case.layout[0] == "t", 1)
    b = _random(case.k, case.n, case.dtype, case.layout[1] == "t", 2)
    for mode in _modes(session, case):
        contenders = []
        for engine in session.engines:
            contender = _contender(session, engine, case, a, b, mode)
            if contender is not None:
                contenders.append(contender)
        _measure(session, suite, case, mode, contenders)
        engines = [contender.engine for contender in contenders]
        contenders.clear()
        for engine in engines:
            engine.release()


def _contender(
    session: Session, engine: Engine, case: Case, a: NDArray[Any], b: NDArray[Any], mode: str
) -> _Contender | None:
    if not engine.multiplies(case.dtype):
        session.note(f"{engine.name} has no GEMM for {case.dtype}: skipped")
        return None
    try:
        return _prepare(engine, case, a, b, mode)
    except Exception as error:
        if engine.name == OURS:
            raise
        session.note(f"{engine.name} stopped in {case.name}: {type(error).__name__}: {error}")
        return None


def _prepare(engine: Engine, case: Case, a: NDArray[Any], b: NDArray[Any], mode: str) -> _Contender:
    multiply = engine.matmul(case.dtype)
    kind = product_cases.RESULT.get(case.dtype, case.dtype)
    unset = -77 if kind == "int32" else float("nan")
    sets = []
    for _ in range(_num_sets(engine, case)):
        left, right = _upload(engine, a), _upload(engine, b)
        out = engine.full(case.m * case.n, unset, kind).reshape(case.m, case.n)
        sets.append((left, right, out))
    turn = 0

    def every_set() -> None:
        for left, right, out in sets:
            multiply(left, right, out)

    def one_set() -> None:
        nonlocal turn
        left, right, out = sets[turn]
        turn = (turn + 1) % len(sets)
        multiply(left, right, out)

    replay = engine.capture(every_set) if mode == "graph" and _first_run(every_set) else None
    if replay is not None:
        for _, _, out in sets:
            engine.fill(out, unset)
        replay()
    else:
        every_set()
    if engine.on_gpu:
        _native.synchronize()
    error = max(product_error(a, b, engine.to_host(out)) for out in (sets[0][2], sets[-1][2]))
    if replay is not None:
        return _Contender(engine, replay, len(sets), error)
    return _Contender(engine, one_set, 1, error)


def _first_run(work: Step) -> bool:
    """Compiles kernels and allocates workspaces before a capture."""
    work()
    return True


def _upload(engine: Engine, host: NDArray[Any]) -> Any:
    """Preserves the memory layout: a transposed array stays a transposed view."""
    if host.flags.c_contiguous:
        return engine.from_host(host)
    return engine.from_host(host.T).T


def _measure(
    session: Session, suite: str, case: Case, mode: str, contenders: list[_Contender]
) -> None:
    on_gpu = session.on_gpu
    iterations = min(session.iterations, MAX_SAMPLES if on_gpu else 5)
    stats = measure_in_turn(
        [contender.step for contender in contenders],
        events_sampler() if on_gpu else host_sampler(),
        min(session.warmup, 5) if on_gpu else 1,
        iterations,
    )
    for contender, of_step in zip(contenders, stats, strict=True):
        one = Stats(*(us / contender.products for us in of_step))
        session.add(
            suite,
            case.name,
            contender.engine.name,
            one,
            iterations,
            params={
                "m": case.m,
                "n": case.n,
                "k": case.k,
                "layout": case.layout,
                "dtype": case.dtype,
                "mode": mode,
            },
            tflops=case.flops / one.median / 1e6,
            bandwidth_gbps=case.weight_bytes / one.median / 1e3 if suite == "gemv" else None,
            correct=contender.error <= TOLERANCE[case.dtype],
            rel_error=contender.error,
        )


def _modes(session: Session, case: Case) -> tuple[str, ...]:
    small = case.flops < GRAPH_BELOW_FLOPS or case.m <= 32
    if not session.on_gpu or not small:
        return ("eager",)
    return ("graph", "eager") if case.name == "square" and not session.quick else ("graph",)


def _num_sets(engine: Engine, case: Case) -> int:
    """How many sets of inputs to rotate over, so that none is still in the L2 when reused."""
    if not engine.on_gpu:
        return 1
    l2_bytes = max(int(_native.device_traits()["l2_bytes"]), 2**20)
    return max(1, min(MAX_SETS, -(-4 * l2_bytes // case.input_bytes)))


def _random(rows: int, columns: int, dtype: str, transposed: bool, seed: int) -> NDArray[Any]:
    """Normal random numbers (int8: uniform).

    Beyond 4 Mi elements they repeat, never aligned with the rows.
    """
    import ml_dtypes
    import numpy as np

    size = rows * columns
    count = min(size, _RANDOM_ELEMS + 2 * seed + 1)
    numbers = np.random.default_rng(seed)
    if dtype == "int8":
        flat = np.resize(numbers.integers(-128, 128, count, dtype=np.int8), size)
    else:
        name = product_cases.OPERAND.get(dtype, dtype)
        kind = np.dtype(getattr(ml_dtypes, name, name))
        flat = np.resize(numbers.standard_normal(count, dtype=np.float32).astype(kind), size)
    return flat.reshape(columns, rows).T if transposed else flat.reshape(rows, columns)


def product_error(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> float:
    """The error of a @ b against float64 over sampled rows and columns, including both ends."""
    import numpy as np

    if out.shape != (a.shape[0], b.shape[1]):
        return float("inf")
    rows, columns = sample_indices(out.shape[0], 32), sample_indices(out.shape[1], 256)
    ref = a[rows].astype(np.float64) @ b[:, columns].astype(np.float64)
    return relative_error(out[np.ix_(rows, columns)], ref)
