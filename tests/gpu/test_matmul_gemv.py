"""Products with few rows or columns: every kernel of the gemv engine, against float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pygpukit as gp
from pygpukit.ops.matmul import matmul

TOLERANCE = {"bfloat16": 4e-3, "float16": 5e-4, "float32": 2e-6}
SHAPES = [  # m, n, k
    (1, 4096, 2048),
    (1, 1000, 4104),
    (1, 333, 4099),
    (1, 40, 40000),
    (1, 3, 300000),
    (2, 2048, 1024),
    (4, 700, 8200),
    (5, 2050, 520),
    (8, 1024, 4096),
    (16, 515, 1030),
]


def normal(shape: tuple[int, ...], dtype: str, seed: int) -> NDArray[Any]:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32).astype(kind)


def check(got: Any, x: NDArray[Any], w: NDArray[Any], dtype: str) -> None:
    ref = x.astype(np.float64) @ w.astype(np.float64)
    out = got.to_numpy().astype(np.float64)
    assert out.shape == ref.shape
    assert np.isfinite(out).all()
    assert np.linalg.norm(out - ref) <= TOLERANCE[dtype] * np.linalg.norm(ref)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_both_layouts_both_sides_and_the_same_bits_twice(
    m: int, n: int, k: int, dtype: str
) -> None:
    x, w = normal((m, k), dtype, 1), normal((k, n), dtype, 2)
    gx = gp.asarray(x, device="cuda")
    by_columns = gp.asarray(w, device="cuda")
    by_rows = gp.asarray(np.ascontiguousarray(w.T), device="cuda").T
    for gw in (by_columns, by_rows):
        first = matmul(gx, gw)
        check(first, x, w, dtype)
        np.testing.assert_array_equal(matmul(gx, gw).to_numpy(), first.to_numpy())
        check(matmul(gw.T, gx.T).T, x, w, dtype)  # few columns


def test_rows_that_do_not_start_at_16_bytes() -> None:
    x, w = normal((3, 2049), "bfloat16", 1), normal((1026, 2049), "bfloat16", 2)
    gx, gw = gp.asarray(x, device="cuda"), gp.asarray(w, device="cuda")
    for first in (0, 1, 2, 4):
        check(matmul(gx[:, first:], gw[:, first:].T), x[:, first:], w[:, first:].T, "bfloat16")
    check(matmul(gx[:, 1:], gw[1:, 1:].T), x[:, 1:], w[1:, 1:].T, "bfloat16")


def test_strided_input_and_result() -> None:
    x, w = normal((4096, 6), "float32", 1), normal((1000, 2048), "float32", 2)
    gx, gw = gp.asarray(x, device="cuda"), gp.asarray(w, device="cuda")
    for columns in (slice(0, 1), slice(0, 6, 2)):
        picked = x[::2, columns].T
        out = gp.full((picked.shape[0], 2000), float("nan"), "float32", device="cuda")
        matmul(gx[::2, columns].T, gw.T, out=out[:, ::2])
        check(out[:, ::2], picked, w.T, "float32")
        assert np.isnan(out.to_numpy()[:, 1::2]).all()


@pytest.mark.parametrize("turned", [False, True])
def test_stacks(turned: bool) -> None:
    x, w = normal((5, 2, 512), "bfloat16", 1), normal((5, 512, 640), "bfloat16", 2)
    gx = gp.asarray(x, device="cuda")
    gw = gp.asarray(w, device="cuda")
    if turned:
        gw = gp.asarray(np.ascontiguousarray(w.transpose(0, 2, 1)), device="cuda").mT
    got = matmul(gx, gw)
    for i in range(5):
        check(got[i], x[i], w[i], "bfloat16")


def test_in_a_graph() -> None:
    x, w = normal((1, 4096), "bfloat16", 1), normal((4096, 2048), "bfloat16", 2)
    gx, gw = gp.asarray(x, device="cuda"), gp.asarray(w, device="cuda")
    out = gp.full((1, 2048), float("nan"), "bfloat16", device="cuda")
    matmul(gx, gw, out=out)
    expected = out.to_numpy()
    graph = gp.CudaGraph()
    with graph:
        matmul(gx, gw, out=out)
    out[...] = float("nan")
    graph.replay()
    np.testing.assert_array_equal(out.to_numpy(), expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("n", "k"), [(4096, 14336), (2048, 2048), (1000, 4104)])
def test_frozen_weights_give_the_same_bits(dtype: str, n: int, k: int) -> None:
    """Weights are prefetched, but x is waited for: each GEMM depends on the previous one."""
    weights = [gp.asarray(normal((n, k), dtype, i), device="cuda") for i in range(4)]
    start = gp.asarray(normal((1, k), dtype, 9), device="cuda")

    def layers() -> list[Any]:
        x, found = start, []
        for w in weights:
            found.append(gp.linear(x, w))
            x = start + found[-1][:, :1]
        return found

    expected = [y.to_numpy() for y in layers()]
    for w in weights:
        gp.memory.freeze(w)
    graph = gp.CudaGraph()
    with graph:
        results = layers()
    for _ in range(20):
        for y, want in zip(layers(), expected, strict=True):
            np.testing.assert_array_equal(y.to_numpy(), want)
        graph.replay()
        for y, want in zip(results, expected, strict=True):
            np.testing.assert_array_equal(y.to_numpy(), want)
