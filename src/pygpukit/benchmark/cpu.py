"""CPU simulation beside NumPy, in one process and on the same data.

A case is one line, evaluated with the library's module, its generator and the inputs in scope.
Times are those of the thread's own processor time, so that other work on the machine counts little;
samples of both are taken in turn and the least one counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pygpukit import _native
from pygpukit.benchmark.interleave import geometric_mean
from pygpukit.benchmark.measure import Stats, Step, summarize
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session

SMALL, LARGE = 64, 2000  # a side of the square matrices
MIN_SAMPLE_US = 500.0

CASES = {
    "add": "a + b",
    "exp": "xp.exp(a)",
    "compare": "a > b",
    "where": "xp.where(m, a, b)",
    "astype": "a.astype('float64')",
    "sum": "xp.sum(a)",
    "sum_axis0": "xp.sum(a, axis=0)",
    "sum_axis1": "xp.sum(a, axis=1)",
    "max_axis0": "xp.max(a, axis=0)",
    "max_axis1": "xp.max(a, axis=1)",
    "var_axis0": "xp.var(a, axis=0)",
    "var_axis1": "xp.var(a, axis=1)",
    "argmax_axis1": "xp.argmax(a, axis=1)",
    "cumsum_axis0": "xp.cumsum(a, axis=0)",
    "cumsum_axis1": "xp.cumsum(a, axis=1)",
    "sort_axis1": "xp.sort(a, axis=1)",
    "argsort_axis1": "xp.argsort(a, axis=1)",
    "norm": "xp.linalg.norm(a)",
    "histogram": "xp.histogram(a, 100)[0]",
    "take_axis0": "xp.take(a, i, axis=0)",
    "take_axis1": "xp.take(a, i, axis=1)",
    "mask": "a[m]",
    "concat": "xp.concat([a, b])",
    "matmul": "a @ b",
    "random": "rng.random((n, n), dtype=xp.float32)",
    "normal": "rng.standard_normal((n, n), dtype=xp.float32)",
}


def _inputs(n: int) -> dict[str, Any]:
    import numpy as np

    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((2, n, n)).astype(np.float32)
    return {"a": a, "b": b, "m": a > b, "i": rng.integers(0, n, n)}


def _sides(n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The scope of ours and of NumPy's."""
    import numpy as np

    import pygpukit as gp

    host = _inputs(n)
    ours: dict[str, Any] = {name: _native.from_numpy(x, device="cpu") for name, x in host.items()}
    ours |= {"xp": gp, "rng": gp.random.default_rng(1, device="cpu"), "n": n}
    return ours, host | {"xp": np, "rng": np.random.default_rng(1), "n": n}


def _sample(step: Step, count: int) -> float:
    start = time.thread_time_ns()
    for _ in range(count):
        step()
    return (time.thread_time_ns() - start) / 1e3 / count


def measure_pair(ours: Step, theirs: Step, iterations: int) -> tuple[Stats, Stats]:
    """Microseconds of both, sampled in turn."""
    counts = []
    for step in (ours, theirs):
        step()
        counts.append(max(1, round(MIN_SAMPLE_US / max(_sample(step, 1), 0.1))))
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(iterations):
        for values, step, count in zip(samples, (ours, theirs), counts, strict=True):
            values.append(_sample(step, count))
    return summarize(samples[0]), summarize(samples[1])


def _steps(code: str, sides: tuple[dict[str, Any], dict[str, Any]]) -> list[Callable[[], Any]]:
    return [eval(f"lambda: {code}", scope) for scope in sides]


def run(session: Session) -> None:
    """Runs the suite."""
    for n in (SMALL, 256 if session.quick else LARGE):
        sides = _sides(n)
        more, ratios = {}, {}
        for name, code in CASES.items():
            session.step(f"cpu: {name} {n}x{n}")
            ours, theirs = _steps(code, sides)
            stats = measure_pair(ours, theirs, session.iterations)
            for impl, result in zip((OURS, "numpy"), stats, strict=True):
                session.add(
                    "cpu",
                    name,
                    impl,
                    result,
                    session.iterations,
                    params={"device": "cpu", "shape": f"{n}x{n}"},
                )
            more[name] = stats[0].min - stats[1].min
            ratios[name] = stats[0].min / stats[1].min
        _summarize(session, n, more, ratios)


def _summarize(session: Session, n: int, more: dict[str, float], ratios: dict[str, float]) -> None:
    if n == SMALL:
        worst = max(more, key=more.__getitem__)
        session.note(
            f"cpu: {n}x{n}: {sum(more.values()) / len(more):.1f} us a call more than NumPy; the "
            f"most: {worst} {more[worst]:.1f} us"
        )
        return
    worst = max(ratios, key=ratios.__getitem__)
    session.note(
        f"cpu: {n}x{n}: {geometric_mean(list(ratios.values())):.2f} times NumPy's time "
        f"(geometric mean); the most: {worst} {ratios[worst]:.2f}"
    )
