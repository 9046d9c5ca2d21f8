"""add and mul over large arrays: bytes per second, against the peers, checked against float64."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.benchmark.measure import measure_step
from pygpukit.benchmark.peers import Engine
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

OPS = ("add", "mul")
DTYPES = ("float32", "bfloat16", "float16", "float64")
TOLERANCE = {"float64": 1e-15, "float32": 1e-7, "float16": 1e-3, "bfloat16": 8e-3}
ITEMSIZE = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
GRAPH_BELOW = 2**25  # where launch overhead matters
_RANDOM_ELEMS = 2**22

Step = Callable[[], object]


def sizes(session: Session) -> list[int]:
    """Elements per array."""
    if session.sizes:
        return session.sizes
    if session.on_gpu:
        return [2**20, 2**24] if session.quick else [2**20, 2**22, 2**24, 2**26, 2**28]
    return [2**14, 2**18] if session.quick else [2**16, 2**20, 2**22]


def run(session: Session) -> None:
    """Runs the suite."""
    for size in sizes(session):
        for dtype in session.dtypes:
            a, b = _random(size, dtype, 1), _random(size, dtype, 2)
            for engine in session.engines:
                _run_engine(session, engine, a, b, dtype)


def _run_engine(
    session: Session, engine: Engine, a: NDArray[Any], b: NDArray[Any], dtype: str
) -> None:
    if not engine.supports(dtype):
        session.note(f"{engine.name} skipped for {dtype} in elementwise: it is no peer there")
        return
    try:
        for op in OPS:
            _run_op(session, engine, op, a, b, dtype)
    except Exception as error:
        if engine.name == OURS:
            raise
        session.note(f"{engine.name} stopped in elementwise: {type(error).__name__}: {error}")
    finally:
        engine.release()


def _run_op(
    session: Session, engine: Engine, op: str, a: NDArray[Any], b: NDArray[Any], dtype: str
) -> None:
    size = a.size
    session.step(f"elementwise: {op} {dtype} {size} elements, {engine.name}")
    function = engine.binary(op)
    sets = [
        (engine.from_host(a), engine.from_host(b), engine.full(size, float("nan"), dtype))
        for _ in range(_num_sets(engine, size, dtype))
    ]

    def every_set() -> None:
        for left, right, out in sets:
            function(left, right, out)

    turn = itertools.cycle(sets)

    def one_set() -> None:
        left, right, out = next(turn)
        function(left, right, out)

    def error() -> float:
        _native.synchronize()
        outs = (sets[0][2], sets[-1][2])
        return max(relative_error(op, a, b, engine.to_host(out)) for out in outs)

    every_set()
    _measure(session, engine, op, dtype, size, "eager", one_set, 1, error())
    replay = engine.capture(every_set) if size < GRAPH_BELOW else None
    if replay is not None:
        poison = engine.full(size, float("nan"), dtype)
        for _, _, out in sets:
            function(out, poison, out)
        replay()
        _measure(session, engine, op, dtype, size, "graph", replay, len(sets), error())


def _measure(
    session: Session,
    engine: Engine,
    op: str,
    dtype: str,
    size: int,
    mode: str,
    step: Step,
    ops_per_step: int,
    error: float,
) -> None:
    iterations, warmup = session.iterations, session.warmup
    if not engine.on_gpu:
        iterations, warmup = min(iterations, 10), min(warmup, 2)
    stats = measure_step(step, warmup, iterations, on_gpu=engine.on_gpu)
    stats = type(stats)(*(us / ops_per_step for us in stats))
    session.add(
        "elementwise",
        op,
        engine.name,
        stats,
        iterations,
        params={"dtype": dtype, "n": size, "mode": mode},
        tflops=size / stats.median / 1e6,
        bandwidth_gbps=3 * size * ITEMSIZE[dtype] / stats.median / 1e3,
        correct=error <= TOLERANCE[dtype],
        rel_error=error,
    )


def _num_sets(engine: Engine, size: int, dtype: str) -> int:
    """How many sets of arrays to rotate over, so that none is still in the L2 when reused."""
    if not engine.on_gpu:
        return 1
    l2_bytes = max(int(_native.device_traits()["l2_bytes"]), 2**20)
    set_bytes = 3 * size * ITEMSIZE[dtype]
    return max(1, min(64, -(-4 * l2_bytes // set_bytes)))


def _random(size: int, dtype: str, seed: int) -> NDArray[Any]:
    """Normal random numbers; beyond 4 Mi elements they repeat."""
    import ml_dtypes
    import numpy as np

    values = np.random.default_rng(seed).standard_normal(min(size, _RANDOM_ELEMS + seed))
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    return np.resize(values.astype(kind), size)


def relative_error(op: str, a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> float:
    """||out - ref|| / ||ref|| in float64 over a sample; infinite where anything is not finite."""
    import numpy as np

    size = a.size
    ends = np.r_[0 : min(size, 4096), max(0, size - 4096) : size]
    picked = np.r_[ends, np.arange(0, size, max(1, size // 2**20))]
    left, right, got = (x[picked].astype(np.float64) for x in (a, b, out))
    ref = left + right if op == "add" else left * right
    if out.shape != a.shape or not np.isfinite(got).all():
        return float("inf")
    return float(np.linalg.norm(got - ref) / np.linalg.norm(ref))
