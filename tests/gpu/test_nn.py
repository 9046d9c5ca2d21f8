"""The nn family on the GPU: case tables, views, batch invariance, graphs, large arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases.nn import CASES, DTYPES, FUNCTIONS, MUST_RAISE, Case, MustRaise
from cases.run_nn import run_case, run_fp8, run_must_raise, run_out
from cases.views import VIEWS

import pygpukit as gp
from pygpukit.ops import nn

SOME = [c for c in CASES if c.dtype != "float16" and c.name in ("2x3x128", "3x1000", "3x8x5-by-2")]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run_case(case, "cuda")


@pytest.mark.parametrize("view", [name for name in VIEWS if name != "whole"])
@pytest.mark.parametrize("case", SOME, ids=str)
def test_views(case: Case, view: str) -> None:
    run_case(case, "cuda", view)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case, "cuda")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(8,), (3, 64), (2, 2, 100), (5, 4096), (1, 70000)])
def test_rmsnorm_fp8(shape: tuple[int, ...], dtype: str) -> None:
    run_fp8(shape, dtype, "cuda")


def test_out() -> None:
    run_out("cuda")


@pytest.mark.parametrize("width", [64, 1000, 4096, 70000])
@pytest.mark.parametrize("name", ["rmsnorm", "layernorm", "softmax", "log_softmax"])
def test_a_row_has_the_same_bits_alone_and_among_others(name: str, width: int) -> None:
    rng = np.random.default_rng(width)
    x = gp.from_numpy(rng.normal(size=(37, width)).astype(np.float32), device="cuda")
    together = FUNCTIONS[name](x).to_numpy()
    for i in (0, 5, 36):
        np.testing.assert_array_equal(FUNCTIONS[name](x[i : i + 1]).to_numpy()[0], together[i])


def test_graph() -> None:
    x = gp.from_numpy(np.random.default_rng(0).normal(size=(4, 512)).astype("f4"), device="cuda")
    weight, out, total = gp.ones(512, device="cuda"), gp.empty_like(x), gp.empty_like(x)
    want = nn.softmax(nn.add_rmsnorm(x, x, weight)[0]).to_numpy()
    graph = gp.CudaGraph()
    with graph:
        nn.add_rmsnorm(x, x, weight, out=out, sum_out=total)
        nn.softmax(out, out=out)
    graph.replay()
    np.testing.assert_array_equal(out.to_numpy(), want)


@pytest.mark.alone
@pytest.mark.parametrize("name", ["rmsnorm", "softmax"])
def test_more_than_two_to_the_31_elements(name: str) -> None:
    shape = (2**18 + 3, 8200)
    x: Any = gp.zeros(shape, "bfloat16", device="cuda")
    row = np.random.default_rng(0).normal(size=8200).astype("float32")
    last = gp.astype(gp.from_numpy(row, device="cuda"), "bfloat16")
    x[-1] = last
    want = FUNCTIONS[name](last[None]).to_numpy()[0]
    np.testing.assert_array_equal(FUNCTIONS[name](x, out=x)[-1].to_numpy(), want)
