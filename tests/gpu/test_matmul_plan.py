"""Every GEMM plan on the GPU: correct, reproducible, in graphs; measured choices; cuBLASLt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native
from pygpukit.ops.matmul import matmul
from pygpukit.ops.matmul_plan import explain_matmul, tune_matmul, with_matmul_plan

# Largest error in units of |a| @ |b|: one rounding of the result, and the sums'.
TOLERANCE = {"float64": 1e-14, "float32": 3e-6, "bfloat16": 2**-8, "float16": 2**-10}
SHAPES = [(64, 64, 64), (256, 384, 512), (1, 512, 1024), (8, 1000, 768), (130, 70, 33)]


@pytest.fixture(autouse=True)
def own_choices() -> Iterator[None]:
    _native.clear_matmul_tuning(False)
    yield
    _native.clear_matmul_tuning(False)


def has_cublaslt() -> bool:
    simulated = os.environ.get("PYGPUKIT_DEVICE", "").startswith("sim")
    return bool(_native.cublaslt_info()["available"]) and not simulated


def operands(
    dtype: str, m: int, n: int, k: int, layout: str
) -> tuple[gp.GPUArray, gp.GPUArray, Any, Any]:
    rng = np.random.default_rng(m * n + k)
    hosts = [
        rng.normal(size=shape).astype(dtype)
        for shape in (
            (m, k) if layout[0] == "n" else (k, m),
            (k, n) if layout[1] == "n" else (n, k),
        )
    ]
    arrays = [gp.from_numpy(host, device="cuda") for host in hosts]
    turned = [
        (x if c == "n" else x.T, (h if c == "n" else h.T).astype(np.float64))
        for x, h, c in zip(arrays, hosts, layout, strict=True)
    ]
    return turned[0][0], turned[1][0], turned[0][1], turned[1][1]


def check(result: gp.GPUArray, a: Any, b: Any, dtype: str) -> None:
    error = np.abs(result.to_numpy().astype(np.float64) - a @ b)
    assert (error <= TOLERANCE[dtype] * (np.abs(a) @ np.abs(b)) + 1e-30).all()


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_every_plan_is_right_and_repeats(dtype: str, layout: str) -> None:
    for m, n, k in SHAPES:
        a, b, host_a, host_b = operands(dtype, m, n, k, layout)
        plans = [plan["text"] for plan in explain_matmul(a, b).candidates]
        if has_cublaslt():
            plans.append("cublaslt")
        for plan in plans:
            first = with_matmul_plan(lambda a=a, b=b: matmul(a, b), plan)  # type: ignore[misc]
            check(first, host_a, host_b, dtype)
            again = with_matmul_plan(lambda a=a, b=b: matmul(a, b), plan)  # type: ignore[misc]
            np.testing.assert_array_equal(again.to_numpy(), first.to_numpy(), err_msg=plan)


@pytest.mark.parametrize(("m", "n", "k"), [(4096, 4096, 64), (4096, 1500, 100), (300, 9000, 72)])
@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_many_tiles_of_few_steps(m: int, n: int, k: int, layout: str) -> None:
    """Results leave while the next tile is made; small integers are exact in every type."""
    rng = np.random.default_rng(k)
    a = rng.integers(-1, 2, (m, k)).astype("bfloat16")
    b = rng.integers(-1, 2, (k, n)).astype("bfloat16")
    expected = (a.astype(np.float32) @ b.astype(np.float32)).astype("bfloat16")
    x = gp.from_numpy(a, device="cuda")
    y = gp.from_numpy(b if layout[1] == "n" else np.ascontiguousarray(b.T), device="cuda")
    y = y if layout[1] == "n" else y.T
    for plan in explain_matmul(x, y).candidates:
        for _ in range(5):
            result = with_matmul_plan(lambda: matmul(x, y), plan["text"])
            np.testing.assert_array_equal(result.to_numpy(), expected, err_msg=plan["text"])


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 4096, 4096), (16, 2048, 2048), (128, 1024, 4096), (512, 512, 8192)]
)
def test_a_hundred_runs_give_the_same_bits(m: int, n: int, k: int) -> None:
    a, b, _, _ = operands("bfloat16", m, n, k, "nt")
    first = matmul(a, b)
    for _ in range(99):
        assert bool((matmul(a, b) == first).all())


def test_measured_choices_are_used() -> None:
    a, b, host_a, host_b = operands("bfloat16", 256, 384, 512, "nt")
    (plans,) = tune_matmul(a, b)
    assert [us for _, us in plans] == sorted(us for _, us in plans)
    assert 0.5 < plans[0][1] < 1000
    explanation = explain_matmul(a, b)
    assert explanation.reason == "measured"
    assert explanation.choice is not None
    assert explanation.choice["text"] in [text for text, _ in plans]
    check(matmul(a, b), host_a, host_b, "bfloat16")


def test_measuring_makes_the_product_once() -> None:
    a, b, host_a, host_b = operands("float32", 64, 64, 64, "nn")
    c = gp.ones((64, 64), device="cuda")
    tune_matmul(lambda: gp.addmm(c, a, b, out=c))
    np.testing.assert_allclose(c.to_numpy(), host_a @ host_b + 1, rtol=1e-4, atol=1e-4)
    tune_matmul(gp.zeros((3, 0), device="cuda"), gp.zeros((0, 4), device="cuda"))


@pytest.mark.skipif(not has_cublaslt(), reason="there is no cuBLASLt")
@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
def test_cublaslt_in_a_graph(dtype: str) -> None:
    """Captured before it was ever used for this GEMM."""
    a, b, host_a, host_b = operands(dtype, 320, 192, 256, "nt")
    out = gp.zeros((320, 192), dtype, device="cuda")
    graph = gp.CudaGraph()
    with graph:
        with_matmul_plan(lambda: matmul(a, b, out=out), "cublaslt")
    assert not out.to_numpy().any()
    for _ in range(2):
        graph.replay()
        check(out, host_a, host_b, dtype)


@pytest.mark.skipif(not has_cublaslt(), reason="there is no cuBLASLt")
def test_cublaslt_stacks_and_turned_results() -> None:
    rng = np.random.default_rng(1)
    hosts = rng.normal(size=(3, 40, 50)), rng.normal(size=(3, 50, 60))
    a, b = (gp.from_numpy(x, device="cuda") for x in hosts)
    got = with_matmul_plan(lambda: matmul(a, b), "cublaslt")
    np.testing.assert_allclose(got.to_numpy(), hosts[0] @ hosts[1], rtol=1e-12, atol=1e-12)
    out = gp.zeros((60, 40), "float64", device="cuda").T
    with_matmul_plan(lambda: matmul(a[0], b[0], out=out), "cublaslt")
    np.testing.assert_allclose(out.to_numpy(), hosts[0][0] @ hosts[1][0], rtol=1e-12, atol=1e-12)


def test_int8_wraps() -> None:
    """Split-K: partial sums that the finish pass reduces to the result."""
    rng = np.random.default_rng(2)
    host = rng.integers(-128, 128, (70, 500)).astype(np.int8)
    x = gp.from_numpy(host, device="cuda")
    got = matmul(x, x.T).to_numpy()  # wraps
    np.testing.assert_array_equal(got, (host.astype(np.int64) @ host.T).astype(np.int8))
