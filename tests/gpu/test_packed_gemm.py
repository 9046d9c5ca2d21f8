"""Packed weights on a GPU: every plan of packed_gemm and sparse, layouts of x, epilogues."""

from __future__ import annotations

import numpy as np
import pytest
from cases import quantize as cases
from cases.run_quantize import host, rounding_limit

import pygpukit as gp
from pygpukit.ops.matmul_plan import explain_matmul, with_matmul_plan


def check_every_plan(
    fmt: cases.Format, shape: tuple[int, int, int], dtype: str, engine: str
) -> None:
    m, n, k = shape
    packed = gp.quantize(gp.from_numpy(cases.weights((n, k), dtype)), fmt.name, **fmt.options)
    x = gp.from_numpy(cases.weights((m, k), dtype, 5))
    bias = gp.from_numpy(cases.weights((1, n), dtype, 6)[0])
    residual = gp.from_numpy(cases.weights((m, n), dtype, 7))
    w = host(packed.dequantize("float32"))
    want = np.maximum(host(x) @ w.T + host(bias), 0) + host(residual)
    unit = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    limit = rounding_limit(host(x), w, dtype) + unit * (np.abs(want) + np.abs(host(bias)))

    def run() -> gp.GPUArray:
        return gp.linear(x, packed, bias, "relu", residual)

    plans = [c["text"] for c in explain_matmul(run).candidates if c["text"].startswith(engine)]
    assert len(plans) >= 2
    for plan in plans:
        got = host(with_matmul_plan(run, plan))
        assert (np.abs(got - want) <= limit).all(), plan
        np.testing.assert_array_equal(host(with_matmul_plan(run, plan)), got)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(65, 20, 136), (130, 132, 1288), (300, 640, 2048)], ids=str)
@pytest.mark.parametrize("fmt", cases.FORMATS, ids=str)
def test_every_plan(fmt: cases.Format, shape: tuple[int, int, int], dtype: str) -> None:
    check_every_plan(fmt, shape, dtype, "packed_gemm(")


@pytest.mark.parametrize("dtype", cases.SPARSE_DTYPES)
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (3, 7, 33), (1, 4096, 4096), (17, 40, 65), (65, 20, 136), (130, 132, 1288),
     (300, 640, 2048), (257, 1000, 514)],
    ids=str,
)  # fmt: skip
def test_every_sparse_plan(shape: tuple[int, int, int], dtype: str) -> None:
    check_every_plan(cases.SPARSE, shape, dtype, "sparse(")


@pytest.mark.parametrize("shape", [(8, 24, 64), (40, 136, 328)], ids=str)
def test_sparse_products_are_exact(shape: tuple[int, int, int]) -> None:
    """Small integers: every product and sum is exact, so a misplaced index is a wrong bit."""
    m, n, k = shape
    rng = np.random.default_rng(11)
    w = rng.integers(-4, 5, (n, k)).astype(np.float16)
    x = rng.integers(-4, 5, (m, k)).astype(np.float16)
    packed = gp.quantize(gp.from_numpy(w), "2:4")
    want = x.astype(np.float64) @ cases.pruned(w).astype(np.float64).T

    def run() -> gp.GPUArray:
        return gp.linear(gp.from_numpy(x), packed)

    plans = [c["text"] for c in explain_matmul(run).candidates if c["text"].startswith("sparse(")]
    assert len(plans) == 3
    for plan in plans:
        np.testing.assert_array_equal(host(with_matmul_plan(run, plan)), want, err_msg=plan)


@pytest.mark.parametrize(
    ("fmt", "engine"),
    [
        (cases.Format("int4", 128), "packed_gemm"),
        (cases.Format("fp8"), "packed_gemm"),
        (cases.SPARSE, "sparse"),
    ],
    ids=str,
)
def test_layouts(fmt: cases.Format, engine: str) -> None:
    packed = gp.quantize(gp.from_numpy(cases.weights((136, 264), "bfloat16")), fmt.name)
    wide = gp.from_numpy(cases.weights((264, 200), "bfloat16", 5))
    for x in (wide.T, wide.T[3:, :], gp.concat([wide.T, wide.T], 1)[:, 100:364]):
        assert x.shape[1] == 264
        got = host(with_matmul_plan(lambda x=x: gp.linear(x, packed), engine))
        w = host(packed.dequantize("float32"))
        assert (np.abs(got - host(x) @ w.T) <= rounding_limit(host(x), w, "bfloat16")).all()
        out = gp.zeros((136, x.shape[0]), dtype="bfloat16").T
        with_matmul_plan(lambda x=x, out=out: gp.linear(x, packed, out=out), engine)
        np.testing.assert_array_equal(host(out), got)


def test_many_rows_are_not_copied() -> None:
    packed = gp.quantize(gp.ones((4096, 4096), dtype="bfloat16"), "int4")
    x = gp.ones((96, 4096), dtype="bfloat16")
    first = explain_matmul(lambda: gp.linear(x, packed)).candidates[0]
    assert first["text"].startswith("packed_gemm")
