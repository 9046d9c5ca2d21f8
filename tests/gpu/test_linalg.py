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


@pytest.mark.parametrize("run", DIRECT)
@pytest.mark.parametrize("dtype", DTYPES)
def test_panels_of_several_blocks(run: str, dtype: str) -> None:
    RUNS[run](Case("random", dtype, (300, 300)), "cuda")


@pytest.mark.parametrize("run", ["lu", "qr"])
@pytest.mark.parametrize("kind", ["graded", "deficient", "scaled", "skewed"])
@pytest.mark.parametrize("shape", [(2, 260, 70), (400, 20), (70, 260)], ids=str)
def test_panels_of_any_kind_and_shape(run: str, kind: str, shape: tuple[int, ...]) -> None:
    for dtype in ("float32", "complex128"):
        RUNS[run](Case(kind, dtype, shape), "cuda")


@pytest.mark.hardware("too long")
@pytest.mark.parametrize("run", DIRECT)
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_matrices(run: str, dtype: str) -> None:
    for n in (1500, 4096) if dtype in ("float32", "float64") else (1500,):
        RUNS[run](Case("random", dtype, (n, n)), "cuda")


@pytest.mark.hardware("too long")
@pytest.mark.parametrize("rows", [20_000, 60_000, 300_000])
def test_very_tall_matrices(rows: int) -> None:
    """Narrower panels, and panels in place."""
    RUNS["lu"](Case("random", "float64", (rows, 40)), "cuda")
    host = normal(np.random.default_rng(3), (rows, 40), "float64")
    q, r = (part.to_numpy() for part in gp.linalg.qr(gp.from_numpy(host, device="cuda")))
    limit = 10 * rows * np.finfo("float64").eps
    assert np.linalg.norm(q @ r - host) <= limit * np.linalg.norm(host)
    assert np.linalg.norm(q.T @ q - np.eye(40)) <= limit


@pytest.mark.hardware("too long")
@pytest.mark.parametrize("run", DIRECT)
def test_stacks_of_large_matrices(run: str) -> None:
    """Fewer matrices than multiprocessors, and more."""
    for batch in (5, 200):
        RUNS[run](Case("random", "float32", (batch, 200, 200)), "cuda")


@pytest.mark.parametrize("op", ["cholesky", "solve", "solve_triangular", "lu_factor"])
def test_ill_conditioned_systems(op: str) -> None:
    """Residuals do not grow with the condition of blocks on the diagonal."""
    n = 150
    rng = np.random.default_rng(2)
    q = np.linalg.qr(normal(rng, (n, n), "float64"))[0]
    spd = (q * np.logspace(0, -12, n)) @ q.T
    triangle = np.tril(normal(rng, (n, n), "float64"))  # its inverse grows like 2^n
    host = triangle if op == "solve_triangular" else (spd + spd.T) / 2
    x = gp.from_numpy(host, device="cuda")
    b = normal(rng, (n, 3), "float64")
    limit = 10 * n * np.finfo("float64").eps
    if op == "cholesky":
        factor = gp.linalg.cholesky(x).to_numpy()
        assert np.linalg.norm(factor @ factor.T - host) <= limit * np.linalg.norm(host)
        return
    if op == "lu_factor":
        p, lower, upper = (part.to_numpy() for part in gp.linalg.lu(x))
        assert np.linalg.norm(p @ lower @ upper - host) <= limit * np.linalg.norm(host)
        return
    options = {"lower": True} if op == "solve_triangular" else {}
    y = getattr(gp.linalg, op)(x, gp.from_numpy(b, device="cuda"), **options).to_numpy()
    assert np.all(np.abs(host @ y - b).max(0) <= limit * np.linalg.norm(host) * np.abs(y).max(0))


def test_singular_matrices_of_several_panels() -> None:
    host = normal(np.random.default_rng(4), (3, 200, 200), "float64")
    host[1, :, 150] = 0
    x = gp.from_numpy(host, device="cuda")
    with pytest.raises(gp.linalg.LinAlgError, match=r"^inv: the matrix at \(1,\) is singular"):
        gp.linalg.inv(x)
    result = gp.linalg.inv(x, check=False).to_numpy()
    assert np.isfinite(result[[0, 2]]).all()
    assert np.isnan(result[1]).all()
    sign, logabs = (part.to_numpy() for part in gp.linalg.slogdet(x))
    want = np.linalg.slogdet(host[[0, 2]])
    np.testing.assert_array_equal(sign[[0, 2]], want[0])
    np.testing.assert_allclose(logabs[[0, 2]], want[1], rtol=1e-10)
    assert sign[1] == 0
    assert logabs[1] == -np.inf


@pytest.mark.parametrize(("run", "n"), [("eigh", 200), ("svd", 90)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_spectra(run: str, n: int, kind: str, dtype: str) -> None:
    RUNS[run](Case(kind, dtype, (n, n)), "cuda")


@pytest.mark.hardware("too long")
@pytest.mark.parametrize("run", ["eigh", "svd"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_larger_spectra(run: str, kind: str, dtype: str) -> None:
    RUNS[run](Case(kind, dtype, (600, 600)), "cuda")


@pytest.mark.hardware("too long")
@pytest.mark.parametrize("run", ["eigh", "svd"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(1023, 1023), (3, 500, 500), (200, 70, 70), (2048, 2048)], ids=str
)
def test_large_spectra(run: str, dtype: str, shape: tuple[int, ...]) -> None:
    """Padding, a matrix on all multiprocessors, on some of them, on one."""
    RUNS[run](Case("random", dtype, shape), "cuda")


@pytest.mark.hardware("too long")
def test_spectra_of_stacks_in_parts() -> None:
    host = normal(np.random.default_rng(2), (20000, 65, 65), "float32")
    host = host + np.swapaxes(host, 1, 2)
    x = gp.from_numpy(host, device="cuda")
    w, v = gp.linalg.eigh(x)
    u, s, vh = gp.linalg.svd(x)
    for at in (0, 4000, 15886, 15887, 19999):
        q = widen(v[at])
        np.testing.assert_allclose((q * widen(w[at])) @ q.T, host[at], atol=1e-3)
        again = (widen(u[at]) * widen(s[at])) @ widen(vh[at])
        np.testing.assert_allclose(again, host[at], atol=1e-3)


@pytest.mark.hardware("too long")
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_spectra_with_repeated_values(dtype: str) -> None:
    """Almost everything is deflated."""
    n = 700
    rng = np.random.default_rng(3)
    few = normal(rng, (n, 5), dtype)
    for host in (np.eye(n, dtype=dtype), np.eye(n, dtype=dtype) + few @ few.conj().T):
        x = gp.from_numpy(host.astype(dtype), device="cuda")
        w, v = (widen(part) for part in gp.linalg.eigh(x))
        u, s, vh = (widen(part) for part in gp.linalg.svd(x))
        limit = 10 * n * np.finfo(dtype).eps * np.linalg.norm(host)
        assert np.linalg.norm(widen(host) @ v - v * w) <= limit
        assert np.linalg.norm((u * s) @ vh - widen(host)) <= limit
        for q in (v, u, vh):
            assert np.linalg.norm(q.conj().T @ q - np.eye(n)) <= limit


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


@pytest.mark.parametrize("n", [5, 70])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_largest_number(dtype: str, n: int) -> None:
    """Its logarithm is rounded up to a power of two that is infinite."""
    limits = np.finfo(dtype)
    want = np.ones(n, dtype)
    want[-1] = limits.max
    x = gp.from_numpy(np.diag(np.roll(want, 2)), device="cuda")
    w, v = gp.linalg.eigh(x)
    u, s, vh = gp.linalg.svd(x)
    for values in (w.to_numpy(), s.to_numpy()[::-1]):
        np.testing.assert_allclose(values, want, atol=10 * limits.eps * limits.max)
    for q in (v, u, vh):
        vectors = q.to_numpy()
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(n), atol=10 * n * limits.eps)


def test_general_eigenvalues_name_the_cpu() -> None:
    x = gp.ones((3, 3), device="cuda")
    for op in ("eig", "eigvals"):
        with pytest.raises(gp.UnsupportedError, match=rf"^{op}: .*to_device\('cpu'\).*to_numpy"):
            getattr(gp.linalg, op)(x)


def test_results_are_the_same_every_time() -> None:
    x = gp.from_numpy(normal(np.random.default_rng(0), (300, 300), "float32"), device="cuda")
    y = x[:200, :200]
    calls: list[Any] = [gp.linalg.qr, gp.linalg.lu_factor]
    calls += [lambda x: gp.linalg.eigh(y), lambda x: gp.linalg.svd(y)]
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


def test_panels_in_a_graph() -> None:
    """Blocks of a panel find nothing of the replay before."""
    rng = np.random.default_rng(6)
    x = gp.from_numpy(normal(rng, (300, 40), "float32"), device="cuda")
    calls = [gp.linalg.qr, gp.linalg.lu_factor]
    for call in calls:
        call(x)  # kernels are loaded
    graph = gp.CudaGraph()
    with graph:
        results = [part for call in calls for part in call(x)]
    for _ in range(3):
        x[...] = gp.from_numpy(normal(rng, (300, 40), "float32"), device="cuda")
        graph.replay()
        want = [part for call in calls for part in call(x)]
        for a, b in zip(results, want, strict=True):
            np.testing.assert_array_equal(a.to_numpy(), b.to_numpy())


def test_part_of_a_graph() -> None:
    host = normal(np.random.default_rng(1), (70, 70), "float64")
    host = host @ host.T + np.eye(70)
    x = gp.from_numpy(host, device="cuda")
    gp.linalg.cholesky(x, check=False)  # kernels are loaded
    gp.linalg.qr(x)
    gp.linalg.eigvalsh(x, check=False)
    graph = gp.CudaGraph()
    with graph:
        factor = gp.linalg.cholesky(x, check=False)
        _, r = gp.linalg.qr(x)
        w = gp.linalg.eigvalsh(x, check=False)
    graph.replay()
    graph.replay()
    np.testing.assert_allclose(widen(w), np.linalg.eigvalsh(host), rtol=1e-10)
    f = widen(factor)
    np.testing.assert_allclose(f @ f.T, host, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(np.abs(np.linalg.qr(host).R), np.abs(widen(r)), atol=1e-9)
