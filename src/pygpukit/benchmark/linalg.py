"""Factorisations, systems, eigenvalues and singular values: many small matrices, one large one.

A case is one line per library, evaluated with its module and the inputs in scope. Ours waits where
it has to know whether a matrix failed, as the peers' do. Results are checked by residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pygpukit.benchmark.measure import measure_step
from pygpukit.benchmark.peers import Engine
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

Check = Callable[..., bool]

SAMPLE = 16  # matrices of a batch that are checked


@dataclass(frozen=True)
class Case:
    """`code` by library; x is the matrix (definite: Hermitian and positive definite)."""

    name: str
    code: dict[str, str]
    shape: tuple[int, ...]
    dtype: str
    definite: bool
    flops: float  # of one matrix
    residual: Callable[[Any, Any], Any]  # of results and x in float64, relative to |x|


def _same(code: str, torch: str | None = None) -> dict[str, str]:
    return {OURS: code, "numpy": code, "cupy": code, "torch": torch or code}


def _adjoint(x: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.swapaxes(x.conj(), -1, -2)


def _cases(batch: int, n: int, dtype: str, ops: tuple[str, ...]) -> Iterator[Case]:
    shape = (batch, n, n) if batch > 1 else (n, n)
    cube = float(n) ** 3
    known = {
        "cholesky": (
            _same("xp.linalg.cholesky(x)"), True, cube / 3, lambda f, x: f @ _adjoint(f) - x
        ),
        "solve": (
            _same("xp.linalg.solve(x, x[..., :1])"), False, cube * 2 / 3,
            lambda y, x: x @ y - x[..., :1],
        ),
        "inv": (
            _same("xp.linalg.inv(x)"), True, cube * 2,
            lambda y, x: (y @ x - _unit(x)) * _norm(x),
        ),
        "qr": (
            _same("xp.linalg.qr(x)"), False, cube * 8 / 3, lambda q, x: _adjoint(q) @ q - _unit(x)
        ),
        "eigh": (
            _same("xp.linalg.eigh(x)[1]"), True, cube * 9,
            lambda v, x: _off_diagonal(_adjoint(v) @ x @ v),
        ),
        "svd": (
            _same("xp.linalg.svd(x)[0]"), False, cube * 22,
            lambda u, x: _off_diagonal(_adjoint(u) @ x @ _adjoint(x) @ u) / _norm(x),
        ),
    }  # fmt: skip
    for op in ops:
        code, definite, flops, residual = known[op]
        if op == "qr":
            code = {name: f"{line}[0]" for name, line in code.items()}
        yield Case(op, code, shape, dtype, definite, flops, residual)


def _unit(x: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.eye(x.shape[-1])


def _norm(x: NDArray[Any]) -> Any:
    import numpy as np

    return np.linalg.norm(x, axis=(-2, -1), keepdims=True)


def _off_diagonal(x: NDArray[Any]) -> Any:
    return x * (1 - _unit(x))


def cases(session: Session) -> Iterator[Case]:
    """Ten thousand of order 32, then one large matrix."""
    small = ("cholesky", "solve", "inv", "qr", "eigh", "svd")
    if not session.on_gpu:
        yield from _cases(4, 8, "float32", small)
        yield from _cases(1, 16, "float64", small)
        return
    batch, large, iterated = (1000, 1024, 512) if session.quick else (10_000, 8192, 2048)
    for dtype in ("float32", "float64"):
        yield from _cases(batch, 32, dtype, small)
        for n in sorted({large // 2, large}):
            yield from _cases(1, n, dtype, ("cholesky", "solve", "qr"))
        yield from _cases(1, iterated, dtype, ("eigh", "svd"))


def run(session: Session) -> None:
    """Runs the suite."""
    for case in cases(session):
        host = _values(case)
        for engine in session.engines:
            if engine.name in case.code and engine.supports(case.dtype):
                _run_engine(session, engine, case, host)


def _values(case: Case) -> NDArray[Any]:
    import numpy as np

    rng = np.random.default_rng(1)
    x = rng.standard_normal(case.shape, dtype=np.float32).astype(case.dtype)
    if case.definite:
        x = (x + _adjoint(x)) / 2 + 2 * np.sqrt(case.shape[-1]).astype(case.dtype) * _unit(x)
    return np.ascontiguousarray(x.astype(case.dtype))


def _is_right(case: Case, out: NDArray[Any], host: NDArray[Any]) -> bool:
    import numpy as np

    count = slice(SAMPLE) if host.ndim == 3 else slice(None)
    x, result = host[count].astype(np.float64), out[count].astype(np.float64)
    n = case.shape[-1]
    rest = _norm(case.residual(result, x))
    scale = np.sqrt(n) if case.name == "qr" else _norm(x)
    if case.name == "solve":
        scale = scale * (1 + _norm(result))
    return bool(np.all(rest <= 10 * n * np.finfo(case.dtype).eps * scale))


def _run_engine(session: Session, engine: Engine, case: Case, host: NDArray[Any]) -> None:
    session.step(f"linalg: {case.name} {'x'.join(map(str, case.shape))}, {engine.name}")
    try:
        body = eval(f"lambda x: {case.code[engine.name]}", {"xp": engine.namespace})
        x = engine.from_host(host)
        correct = _is_right(case, engine.to_host(body(x)), host) if engine.name == OURS else None
        iterations = min(session.iterations, 10)
        stats = measure_step(
            lambda: body(x), min(session.warmup, 2), iterations, on_gpu=engine.on_gpu
        )
    except Exception as error:
        if engine.name == OURS:
            raise
        session.note(f"{engine.name} stopped in {case.name}: {type(error).__name__}: {error}")
        return
    finally:
        engine.release()
    matrices = case.shape[0] if len(case.shape) == 3 else 1
    session.add(
        "linalg",
        case.name,
        engine.name,
        stats,
        iterations,
        params={"dtype": case.dtype, "shape": "x".join(map(str, case.shape))},
        tflops=matrices * case.flops / stats.median / 1e6,
        correct=correct,
    )
