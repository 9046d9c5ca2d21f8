"""Products on the GPU: the case table, sizes beyond 32 bits, repeatability, graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import matmul as cases
from cases.must_raise import Refused

import pygpukit as gp
from pygpukit.ops.matmul import einsum, matmul, matrix_transpose, tensordot, vecdot


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_case(case: cases.Case) -> None:
    cases.run_case(case, "cuda")


@pytest.mark.parametrize("case", cases.MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: Refused) -> None:
    cases.run_must_raise(case, "cuda")


BIG = [
    ("float32", (1000, 3000), (3000, 700)),
    ("float32", (513, 515), (515, 517)),
    ("float64", (512, 513), (513, 511)),
    ("bfloat16", (1024, 1024), (1024, 1024)),
    ("float16", (30, 20000), (20000, 40)),
    ("int8", (700, 800), (800, 600)),
    ("complex64", (300, 400), (400, 500)),
    ("float32", (1, 20000), (20000, 3000)),
    ("float32", (3000, 20000), (20000, 1)),
    ("float32", (70000, 3, 5), (70000, 5, 4)),
    ("float32", (300, 64, 64), (300, 64, 64)),
]


@pytest.mark.parametrize(("dtype", "a", "b"), BIG, ids=str)
@pytest.mark.parametrize("layout", ["cc", "tt"])
def test_larger_and_the_same_bits_twice(dtype: str, a: Any, b: Any, layout: str) -> None:
    case = cases.Case("matmul", dtype, a, b, layout)
    first = cases.run_case(case, "cuda")
    np.testing.assert_array_equal(cases.run_case(case, "cuda"), first)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_long_dot_products_repeat(dtype: str) -> None:
    case = cases.Case("vecdot", dtype, (10_000_000,), (10_000_000,))
    first = cases.run_case(case, "cuda")
    np.testing.assert_array_equal(cases.run_case(case, "cuda"), first)


def test_operand_of_more_than_two_to_the_31_elements() -> None:
    rows, columns = 2**16 + 3, 2**15 + 1
    a = gp.full((rows, columns), 3, "uint8", device="cuda")
    x = gp.full(columns, 5, "uint8", device="cuda")
    assert (matmul(a, x).to_numpy() == (15 * columns) % 256).all()
    y = gp.full(rows, 5, "uint8", device="cuda")
    assert (matmul(y, a).to_numpy() == (15 * rows) % 256).all()
    assert (
        matmul(matrix_transpose(a), gp.full((rows, 16), 1, "uint8", device="cuda")).to_numpy()
        == (3 * rows) % 256
    ).all()


def test_result_of_more_than_two_to_the_32_elements() -> None:
    n = 2**16 + 3
    a = gp.from_numpy((np.arange(n) % 7).astype(np.uint8)[:, None], device="cuda")
    b = gp.from_numpy((np.arange(n) % 5).astype(np.uint8)[None, :], device="cuda")
    c = matmul(a, b)
    assert c.size > 2**32
    want_last = np.outer((np.arange(n)[-3:] % 7), (np.arange(n) % 5)).astype(np.uint8)
    np.testing.assert_array_equal(c[-3:].to_numpy(), want_last)
    np.testing.assert_array_equal(
        c[::4096, -1].to_numpy(), (np.arange(n)[::4096] % 7 * ((n - 1) % 5))
    )


def test_dot_of_more_than_two_to_the_31_elements() -> None:
    n = 2**31 + 11
    x = gp.ones(n, "int8", device="cuda")
    assert int(vecdot(x, x).to_numpy()) == n % 256 - (256 if n % 256 > 127 else 0)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("bqhd,bkhd->bhqk", [(2, 30, 4, 64), (2, 50, 4, 64)]),
        ("ij,jk,kl->li", [(30, 40), (40, 50), (50, 60)]),
        ("iij,jk->ik", [(30, 30, 20), (20, 40)]),
        ("ij->j", [(1000, 33)]),
        ("ij->", [(1000, 333)]),
        ("ijk,ijk->jk", [(20, 30, 40), (20, 30, 40)]),
        ("...ij,...jk->...ki", [(4, 1, 20, 30), (5, 30, 20)]),
    ],
)
def test_einsum(subscripts: str, shapes: Any) -> None:
    rng = np.random.default_rng(3)
    hosts = [rng.normal(size=shape) for shape in shapes]
    got = einsum(subscripts, *(gp.from_numpy(x, device="cuda") for x in hosts)).to_numpy()
    np.testing.assert_allclose(got, np.einsum(subscripts, *hosts), rtol=1e-10, atol=1e-10)


def test_tensordot() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(20, 30, 40)), rng.normal(size=(40, 20, 50))
    got = tensordot(
        gp.from_numpy(a, device="cuda"), gp.from_numpy(b, device="cuda"), axes=((0, 2), (1, 0))
    )
    np.testing.assert_allclose(
        got.to_numpy(), np.tensordot(a, b, axes=((0, 2), (1, 0))), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("shape", [(64, 64), (1, 5000), (5000, 1), (300, 5000), (3, 2)])
def test_in_a_graph(shape: Any) -> None:
    """Also with split-K, whose partial sums live in the graph."""
    a = gp.from_numpy(np.random.default_rng(1).normal(size=shape), device="cuda")
    out = gp.zeros((shape[0], shape[0]), "float64", device="cuda")
    matmul(a, matrix_transpose(a), out=out)
    want = out.to_numpy()
    graph = gp.CudaGraph()
    with graph:
        matmul(a, matrix_transpose(a), out=out)
    out2 = gp.zeros((shape[0], shape[0]), "float64", device="cuda")
    matmul(a, matrix_transpose(a), out=out2)
    for _ in range(3):
        graph.replay()
        np.testing.assert_array_equal(out.to_numpy(), want)
    np.testing.assert_array_equal(out2.to_numpy(), want)
