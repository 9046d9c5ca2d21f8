"""Everyday array ops against the peers: maps, casts, reductions, copies, gathers, sorts, scans.

A case is one line per library, evaluated with its module and the inputs in scope.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.benchmark.measure import measure_step
from pygpukit.benchmark.peers import Engine
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

Check = Callable[..., bool]

ROWS = ((8192, 4096), (65536, 1024), (4096, 32768))


@dataclass(frozen=True)
class Case:
    """`code` by library; `inputs` are (shape, dtype, kind); bytes are read + written once each."""

    name: str
    code: dict[str, str]
    inputs: tuple[tuple[tuple[int, ...], str, str], ...]
    bytes: int
    check: Check
    setup: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)


def _same(code: str, torch: str | None = None, cupy: str | None = None) -> dict[str, str]:
    """One expression for all; `xp` is the library's module."""
    return {OURS: code, "numpy": code, "cupy": cupy or code, "torch": torch or code}


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _close(tolerance: float, reference: Callable[..., Any]) -> Check:
    def check(out: NDArray[Any], *inputs: NDArray[Any]) -> bool:
        import numpy as np

        ref = np.asarray(reference(np, *(x.astype(np.float64) for x in inputs)), np.float64)
        got = out.astype(np.float64)
        scale = float(np.linalg.norm(ref)) or 1.0
        return out.shape == ref.shape and float(np.linalg.norm(got - ref)) <= tolerance * scale

    return check


def _equal(reference: Callable[..., Any]) -> Check:
    def check(out: NDArray[Any], *inputs: NDArray[Any]) -> bool:
        import numpy as np

        return bool(np.array_equal(out, reference(np, *inputs)))

    return check


def _sorted(out: NDArray[Any], x: NDArray[Any]) -> bool:
    import numpy as np

    def moments(a: NDArray[Any]) -> tuple[float, float]:
        wide = a.astype(np.float64)
        return float(wide.sum()), float(np.square(wide).sum())

    in_order = bool(np.all(out[:-1] <= out[1:]))
    return in_order and bool(np.allclose(moments(out), moments(x), rtol=1e-9))


def _normal(out: NDArray[Any]) -> bool:
    import numpy as np

    sample = out[: 2**24].astype(np.float64)
    limit = 6 / np.sqrt(sample.size)
    return bool(abs(sample.mean()) < limit and abs(sample.std() - 1) < limit)


def _gelu(np: Any, x: NDArray[Any]) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def _maps(scale: int) -> Iterator[Case]:
    for shape in ROWS:
        rows = (max(shape[0] // scale, 1), shape[1])
        n = _count(rows)
        yield Case(
            "gelu",
            {OURS: "xp.gelu(x)", "torch": "xp.nn.functional.gelu(x, approximate='tanh')"},
            ((rows, "bfloat16", "normal"),),
            4 * n,
            _close(6e-3, _gelu),
        )
    n = 2**27 // scale
    for source, target in (("float32", "bfloat16"), ("bfloat16", "float32")):
        yield Case(
            f"cast_{source}_{target}",
            {OURS: f"x.astype('{target}')", "torch": f"x.to(xp.{target})"},
            (((n,), source, "normal"),),
            6 * n,
            _close(4e-3, lambda np, x: x),
        )


def _fused(scale: int) -> Iterator[Case]:
    n = 2**26 // scale
    chain = "xp.tanh(a * b + c) * a + xp.sqrt(xp.abs(b)) - c"
    yield Case(
        "fused_chain",
        {OURS: "f(a, b, c)", "torch": "f(a, b, c)", "cupy": "f(a, b, c)"},
        tuple((((n,), "float32", "normal")) for _ in range(3)),
        16 * n,
        _close(1e-5, lambda np, a, b, c: np.tanh(a * b + c) * a + np.sqrt(np.abs(b)) - c),
        setup={
            OURS: f"f = xp.fuse(lambda a, b, c: {chain})",
            "torch": f"f = xp.compile(lambda a, b, c: {chain})",
            "cupy": f"def f(a, b, c): return {chain}\nf = xp.fuse()(f)",
        },
    )


def _reductions(scale: int) -> Iterator[Case]:
    n = 2**28 // scale
    yield Case(
        "sum", _same("xp.sum(x)"), (((n,), "float32", "uniform"),), 4 * n,
        _close(1e-6, lambda np, x: x.sum()),
    )  # fmt: skip
    for shape in ROWS:
        rows = (max(shape[0] // scale, 1), shape[1])
        for axis in (0, 1):
            yield Case(
                "sum",
                {OURS: f"xp.sum(x, axis={axis})", "torch": f"xp.sum(x, dim={axis})"},
                ((rows, "bfloat16", "uniform"),),
                2 * _count(rows),
                _close(4e-3, lambda np, x, axis=axis: x.sum(axis=axis)),
                params={"axis": axis},
            )
    yield Case(
        "cumsum",
        _same("xp.cumsum(x)", torch="xp.cumsum(x, 0)"),
        (((n,), "float32", "uniform"),),
        8 * n,
        _close(1e-5, lambda np, x: np.cumsum(x)),
    )


def _copies(scale: int) -> Iterator[Case]:
    for shape in ROWS:
        rows = (max(shape[0] // scale, 16), shape[1])
        yield Case(
            "transpose",
            {OURS: "x.T.contiguous()", "torch": "x.T.contiguous()"},
            ((rows, "bfloat16", "normal"),),
            4 * _count(rows),
            _equal(lambda np, x: x.T),
        )
    side = max(16384 // scale, 16)
    yield Case(
        "strided_copy",
        {
            OURS: "x[:, ::2].contiguous()",
            "torch": "x[:, ::2].contiguous()",
            "cupy": "xp.ascontiguousarray(x[:, ::2])",
        },
        (((side, side), "float32", "normal"),),
        4 * side * side * 3 // 2,  # every sector is read
        _equal(lambda np, x: x[:, ::2]),
    )
    height, width, picked = 2**20 // scale, 128, 2**19 // scale
    yield Case(
        "gather_rows",
        _same("x[i]"),
        (((height, width), "float32", "normal"), ((picked,), "int64", f"index:{height}")),
        8 * picked * width + 8 * picked,
        _equal(lambda np, x, i: x[i]),
    )
    n = 2**26 // scale
    yield Case(
        "gather",
        _same("x[i]"),
        (((n,), "float32", "normal"), ((n,), "int64", f"index:{n}")),
        (4 + 32 + 8) * n,  # a random element costs a sector
        _equal(lambda np, x, i: x[i]),
    )


def _along_rows(scale: int) -> Iterator[Case]:
    """A GiB of float32."""
    rows, columns = max(65536 // scale, 16), 4096
    shape, n = (rows, columns), rows * columns
    yield Case(
        "var",
        _same("xp.var(x, axis=1)", torch="xp.var(x, dim=1, correction=0)"),
        ((shape, "float32", "normal"),),
        4 * n,
        _close(1e-5, lambda np, x: np.var(x, axis=1)),
        params={"axis": 1},
    )
    yield Case(
        "argmax",
        _same("xp.argmax(x, axis=1)", torch="xp.argmax(x, dim=1)"),
        ((shape, "float32", "normal"),),
        4 * n,
        _equal(lambda np, x: np.argmax(x, axis=1)),
        params={"axis": 1},
    )
    yield Case(
        "flip",
        _same(
            "xp.ascontiguousarray(xp.flip(x, axis=1))",
            torch="xp.flip(x, (1,))",
        ),
        ((shape, "float32", "normal"),),
        8 * n,
        _equal(lambda np, x: np.flip(x, 1)),
        params={"axis": 1},
    )
    yield Case(
        "cumsum",
        _same("xp.cumsum(x, axis=0)", torch="xp.cumsum(x, 0)"),
        ((shape, "float32", "uniform"),),
        8 * n,
        _close(1e-5, lambda np, x: np.cumsum(x, axis=0)),
        params={"axis": 0},
    )
    yield Case(
        "take_rows",
        _same("xp.take(x, i, axis=0)", torch="xp.index_select(x, 0, i)"),
        ((shape, "float32", "normal"), ((rows,), "int64", f"index:{rows}")),
        8 * n + 8 * rows,
        _equal(lambda np, x, i: x[i]),
    )


def _sorts(scale: int) -> Iterator[Case]:
    n = 2**28 // scale
    for dtype in ("float32", "int32"):
        yield Case(
            "sort",
            _same("xp.sort(x)", torch="xp.sort(x)[0]"),
            (((n,), dtype, "normal" if dtype == "float32" else "bits"),),
            8 * n,
            _sorted,
        )


def _random_numbers(scale: int) -> Iterator[Case]:
    n = 2**28 // scale
    yield Case(
        "random_normal",
        {
            OURS: f"rng.standard_normal({n})",
            "torch": f"xp.randn({n}, device='cuda')",
            "cupy": f"rng.standard_normal({n}, dtype='float32')",
        },
        (),
        4 * n,
        _normal,
        setup={
            OURS: "rng = xp.random.default_rng(1)",
            "cupy": "rng = xp.random.default_rng(1)",
        },
    )


def cases(scale: int = 1) -> Iterator[Case]:
    """All cases; sizes divided by `scale`."""
    for family in (_maps, _fused, _reductions, _copies, _along_rows, _sorts, _random_numbers):
        yield from family(scale)


def run(session: Session) -> None:
    """Runs the suite."""
    scale = 1 if session.on_gpu and not session.quick else 16 if session.on_gpu else 2**12
    for case in cases(scale):
        host = [
            _values(shape, dtype, kind, i) for i, (shape, dtype, kind) in enumerate(case.inputs)
        ]
        for engine in session.engines:
            if engine.name in case.code:
                _run_engine(session, engine, case, host)


def _run_engine(session: Session, engine: Engine, case: Case, host: list[NDArray[Any]]) -> None:
    if not all(engine.supports(dtype) for _, dtype, _ in case.inputs):
        return
    session.step(f"arrays: {case.name}, {engine.name}")
    try:
        _run_case(session, engine, case, host)
    except Exception as error:
        if engine.name == OURS:
            raise
        session.note(f"{engine.name} stopped in {case.name}: {type(error).__name__}: {error}")
    finally:
        engine.release()


def _run_case(session: Session, engine: Engine, case: Case, host: list[NDArray[Any]]) -> None:
    scope: dict[str, Any] = {"xp": engine.namespace}
    exec(case.setup.get(engine.name, ""), scope)
    names = {0: (), 1: ("x",), 2: ("x", "i"), 3: ("a", "b", "c")}[len(host)]
    body = eval(f"lambda {', '.join(names)}: {case.code[engine.name]}", scope)
    l2_bytes = max(int(_native.device_traits()["l2_bytes"]), 2**20) if engine.on_gpu else 0
    num_sets = max(1, min(16, -(-4 * l2_bytes // case.bytes)))
    sets = [[engine.from_host(x) for x in host] for _ in range(num_sets)]
    correct = case.check(engine.to_host(body(*sets[0])), *host) if engine.name == OURS else None
    turn = itertools.cycle(sets)
    stats = measure_step(
        lambda: body(*next(turn)),
        min(session.warmup, 5),
        min(session.iterations, 30),
        on_gpu=engine.on_gpu,
    )
    shape, dtype = (case.inputs[0][0], case.inputs[0][1]) if case.inputs else ((), "float32")
    session.add(
        "arrays",
        case.name,
        engine.name,
        stats,
        min(session.iterations, 30),
        params={"dtype": dtype, "shape": "x".join(map(str, shape)), **case.params},
        bandwidth_gbps=case.bytes / stats.median / 1e3,
        correct=correct,
    )


def _values(shape: tuple[int, ...], dtype: str, kind: str, seed: int) -> NDArray[Any]:
    """Random inputs; they repeat beyond 4 Mi elements, except sort keys and indices."""
    import ml_dtypes
    import numpy as np

    rng = np.random.default_rng(seed)
    n = _count(shape)
    if kind.startswith("index:"):
        return rng.integers(0, int(kind[6:]), shape, dtype=np.int64)
    if kind == "bits":
        return rng.integers(-(2**31), 2**31, shape, dtype=np.int32)
    draw = rng.random if kind == "uniform" else rng.standard_normal
    if dtype == "float32":
        return np.resize(draw(min(n, 2**26), dtype=np.float32), shape)
    small = draw(min(n, 2**22)).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return np.resize(small, shape)
