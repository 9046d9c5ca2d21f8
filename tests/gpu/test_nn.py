"""The nn family on the GPU: case tables, views, batch invariance, graphs, large arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases.must_raise import run_must_raise
from cases.nn import CASES, DTYPES, FUNCTIONS, MUST_RAISE, Case, MustRaise
from cases.nn_fuzz import count, run_rows
from cases.run_nn import run_case, run_fp8, run_out
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


@pytest.mark.parametrize("number", range(count(300)))
def test_fuzz(number: int) -> None:
    run_rows(number, "cuda")


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


def test_embedding_in_a_graph() -> None:
    rng = np.random.default_rng(1)
    table, rows = (
        gp.from_numpy(rng.normal(size=(n, 64)).astype("f4"), device="cuda") for n in (100, 32)
    )
    ids, at = (gp.from_numpy(rng.integers(0, 32, (2, 5)), device="cuda") for _ in range(2))
    out = nn.embedding(table, ids, scale=8.0, position_table=rows, positions=at)
    graph = gp.CudaGraph()
    with graph:
        nn.embedding(table, ids, scale=8.0, position_table=rows, positions=at, out=out)
    assert [launch["name"] for launch in graph.launches] == ["embedding"]
    for _ in range(2):
        for indices in (ids, at):
            indices[...] = gp.from_numpy(rng.integers(0, 32, (2, 5)), device="cuda")
        graph.replay()
        want = nn.embedding(table, ids, scale=8.0, position_table=rows, positions=at)
        np.testing.assert_array_equal(out.to_numpy(), want.to_numpy())
    ids[1, 2] = 100
    graph.replay()
    with pytest.raises(IndexError, match=r"embedding: ids: index 100 is out of bounds .* size 100"):
        out.to_numpy()
    assert np.isnan(out.to_numpy()[1, 2]).all()


def test_alibi_in_a_graph() -> None:
    scores = gp.zeros((1, 8, 4, 10), device="cuda")

    def bias() -> tuple[gp.GPUArray, ...]:
        slopes = nn.alibi_init_slopes(8)
        scores[...] = 0.0
        nn.alibi_add_bias(scores, slopes, 6)
        return slopes, nn.alibi_compute_bias(10, 8, slopes), scores

    want = [x.to_numpy() for x in bias()]
    graph = gp.CudaGraph()
    with graph:
        found = bias()
    graph.replay()
    for got, expected in zip(found, want, strict=True):
        np.testing.assert_array_equal(got.to_numpy(), expected)


@pytest.mark.alone
@pytest.mark.parametrize("name", ["rmsnorm", "softmax", "layernorm", "silu"])
def test_more_than_two_to_the_31_elements(name: str) -> None:
    shape = (2**18 + 3, 8200)
    x: Any = gp.zeros(shape, "bfloat16", device="cuda")
    row = np.random.default_rng(0).normal(size=8200).astype("float32")
    last = gp.astype(gp.from_numpy(row, device="cuda"), "bfloat16")
    x[-1] = last
    want = FUNCTIONS[name](last[None]).to_numpy()[0]
    np.testing.assert_array_equal(FUNCTIONS[name](x, out=x)[-1].to_numpy(), want)
