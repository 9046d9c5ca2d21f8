"""float64 by int8 slices on a GPU: the case table, larger products, and graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import float64_int8

import pygpukit as gp
from pygpukit.ops.matmul_plan import with_matmul_plan


@pytest.mark.parametrize("case", float64_int8.CASES, ids=str)
def test_bound(case: float64_int8.Case) -> None:
    float64_int8.run(case)


@pytest.mark.parametrize(
    "run",
    [
        float64_int8.run_not_finite,
        float64_int8.run_overflow,
        float64_int8.run_same_bits,
        float64_int8.run_chunks,
    ],
)
def test_others(run: Any) -> None:
    run()


@pytest.mark.parametrize(("m", "n", "k"), [(1024, 768, 512), (200, 3000, 2048)])
def test_as_accurate_as_float64(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    x, y = gp.from_numpy(a), gp.from_numpy(b)
    wide = a[:8].astype(np.longdouble) @ b.astype(np.longdouble)

    def error(plan: str, precision: Any) -> float:
        c = with_matmul_plan(lambda: gp.matmul(x, y, precision=precision), plan).to_numpy()
        return float(np.sqrt(np.mean((c[:8] - wide) ** 2)))

    assert error("ozaki", "float64_int8") <= error("general", None)


def test_panels_of_rows() -> None:
    """Sums of more than 256 MiB are made in parts."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3000, 48)), rng.standard_normal((48, 4096))
    got = float64_int8.emulated(a, b)
    assert np.abs(got - a @ b).max() < 1e-13


def test_in_a_graph() -> None:
    x = gp.from_numpy(np.random.default_rng(1).standard_normal((64, 64)))
    out = gp.zeros((64, 64), dtype="float64")

    def call() -> None:
        with_matmul_plan(lambda: gp.matmul(x, x, out=out, precision="float64_int8"), "ozaki")

    call()
    want = out.to_numpy()
    graph = gp.CudaGraph()
    with graph:
        call()
    out.fill(0.0)
    graph.replay()
    graph.synchronize()
    assert (out.to_numpy() == want).all()
