"""The linalg family on the GPU: residuals, sizes around blocks, batches, errors, waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases.linalg import BATCHED, DTYPES, EXTREME, KINDS, LARGE, OBLONG, SQUARE, Case, normal
from cases.run_linalg import RUNS, widen

import pygpukit as gp

ANY_SHAPE = ("lu", "qr", "svd")
DIRECT = ("cholesky", "lu", "solve", "inverse", "triangular", "qr")


@pytest.mark.parametrize("run", RUNS, ids=str)
@pytest.mark.parametrize("case", [*SQUARE, *BATCHED, *EXTREME, *LARGE], ids=str)
def test_case(case: Case, run: str) -> None:
    RUNS[run](case, "cuda")


@pytest.mark.parametrize("run", ANY_SHAPE)
@pytest.mark.parametrize("case", OBLONG, ids=str)
def test_oblong(case: Case, run: str) -> None:
    RUNS[run](case, "cuda")


@pytest.mark.hardware("too long")
@pytest.mark.parametrize("run", DIRECT)
@pytest.mark.parametrize("dtype", DTYPES)
def test_larger_than_shared_memory(run: str, dtype: str) -> None:
    """Panels in place."""
    RUNS[run](Case("random", dtype, (1500, 1500)), "cuda")


@pytest.mark.parametrize("run", ["eigh", "svd"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_block_jacobi(run: str, kind: str, dtype: str) -> None:
    RUNS[run](Case(kind, dtype, (300, 300)), "cuda")


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_many_small_matrices(run: str) -> None:
    RUNS[run](Case("random", "float32", (2000, 32, 32)), "cuda")


@pytest.mark.hardware("too long")
@pytest.mark.parametrize("run", RUNS, ids=str)
@pytest.mark.parametrize("kind", ["skewed", "tiny"])
def test_extreme_scales_in_panels(run: str, kind: str) -> None:
    for dtype in DTYPES:
        RUNS[run](Case(kind, dtype, (150, 150)), "cuda")


@pytest.mark.parametrize("op", ["inv", "solve", "cholesky"])
def test_singular_matrices(op: str) -> None:
    host = np.stack([np.eye(5), np.zeros((5, 5)), np.eye(5)])
    x = gp.from_numpy(host, device="cuda")
    args = (x, gp.ones((5,), "float64", device="cuda")) if op == "solve" else (x,)
    with pytest.raises(gp.linalg.LinAlgError, match=rf"^{op}: the matrix at \(1,\) is "):
        getattr(gp.linalg, op)(*args)
    result = getattr(gp.linalg, op)(*args, check=False).to_numpy()
    assert np.isfinite(result[[0, 2]]).all()
    assert np.isnan(result[1]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite(value: float) -> None:
    for n in (3, 70):
        bad = np.eye(n)
        bad[1, 1] = value
        x = gp.from_numpy(bad, device="cuda")
        for op in ("svdvals", "eigvalsh"):
            with pytest.raises(gp.linalg.LinAlgError, match=f"^{op}: "):
                getattr(gp.linalg, op)(x)
            assert np.isnan(getattr(gp.linalg, op)(x, check=False).to_numpy()).all()


def test_general_eigenvalues_name_the_cpu() -> None:
    x = gp.ones((3, 3), device="cuda")
    for op in ("eig", "eigvals"):
        with pytest.raises(gp.UnsupportedError, match=rf"^{op}: .*to_device\('cpu'\).*to_numpy"):
            getattr(gp.linalg, op)(x)


def test_results_are_the_same_every_time() -> None:
    x = gp.from_numpy(normal(np.random.default_rng(0), (200, 200), "float32"), device="cuda")
    calls: list[Any] = [gp.linalg.svd, gp.linalg.qr, gp.linalg.lu_factor]
    for call in calls:
        for a, b in zip(call(x), call(x), strict=True):
            np.testing.assert_array_equal(a.to_numpy(), b.to_numpy())


def test_float32_is_not_tf32() -> None:
    before = gp.get_matmul_precision()
    gp.set_matmul_precision("tf32")
    try:
        RUNS["cholesky"](Case("random", "float32", (512, 512)), "cuda")
        RUNS["qr"](Case("random", "float32", (512, 512)), "cuda")
    finally:
        gp.set_matmul_precision(before)


def test_part_of_a_graph() -> None:
    host = normal(np.random.default_rng(1), (70, 70), "float64")
    host = host @ host.T + np.eye(70)
    x = gp.from_numpy(host, device="cuda")
    gp.linalg.cholesky(x, check=False)  # kernels are loaded
    gp.linalg.qr(x)
    graph = gp.CudaGraph()
    with graph:
        factor = gp.linalg.cholesky(x, check=False)
        _, r = gp.linalg.qr(x)
    graph.replay()
    f = widen(factor)
    np.testing.assert_allclose(f @ f.T, host, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(np.abs(np.linalg.qr(host).R), np.abs(widen(r)), atol=1e-9)
