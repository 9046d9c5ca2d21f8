"""The moe family on the GPU: case tables, views, batch invariance, graphs, large arrays."""

from __future__ import annotations

import numpy as np
import pytest
from cases import moe as cases
from cases.must_raise import run_must_raise
from cases.run_moe import run_mlp, run_out, run_permute, run_route, run_steps
from cases.views import VIEWS

import pygpukit as gp
from pygpukit.ops import moe


@pytest.mark.parametrize("case", cases.ROUTES, ids=str)
def test_route(case: cases.Route) -> None:
    run_route(case, "cuda")


@pytest.mark.parametrize("case", cases.PERMUTES, ids=str)
def test_permute(case: cases.Permute) -> None:
    run_permute(case, "cuda")


@pytest.mark.parametrize("view", [name for name in VIEWS if name != "whole"])
def test_views(view: str) -> None:
    run_route(cases.Route(17, 64, 6, {"renormalize": True}), "cuda", view)
    run_permute(cases.Permute(19, 3, 5, 8, "bfloat16"), "cuda", view)
    run_permute(cases.Permute(1300, 2, 60, 24, "float16"), "cuda", view)


@pytest.mark.parametrize("case", cases.MUST_RAISE, ids=str)
def test_must_raise(case: cases.MustRaise) -> None:
    run_must_raise(case, "cuda")


def test_out() -> None:
    run_out("cuda")


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("tokens", [0, 1, 5, 37, 700])
def test_mlp(dtype: str, tokens: int) -> None:
    run_mlp(tokens, dtype, "cuda")


def test_mlp_in_groups() -> None:
    run_mlp(40, "bfloat16", "cuda", num_groups=4, top_groups=2)


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_steps(dtype: str) -> None:
    run_steps(dtype, "cuda")


def test_nan_is_chosen_last() -> None:
    logits = np.array([[np.nan, 1.0, np.nan, -np.inf]], np.float32)
    _, experts = moe.moe_route(gp.from_numpy(logits, device="cuda"), 4, scoring="sigmoid")
    np.testing.assert_array_equal(experts.to_numpy(), [[1, 3, 0, 2]])


def test_a_token_has_the_same_bits_alone_and_among_others() -> None:
    rng = np.random.default_rng(0)
    logits = gp.from_numpy(rng.normal(size=(99, 128)).astype("f4"), device="cuda")
    rows = gp.from_numpy(rng.normal(size=(99 * 8, 520)).astype("f4"), device="cuda")
    weights, experts = moe.moe_route(logits, 8, renormalize=True)
    _, _, row_map = moe.moe_permute(gp.zeros((99, 1), device="cuda"), experts, 128)
    together = moe.moe_unpermute(rows, row_map, weights).to_numpy()
    for t in (0, 50, 98):
        one = slice(t, t + 1)
        alone, same = moe.moe_route(logits[one], 8, renormalize=True)
        np.testing.assert_array_equal(alone.to_numpy(), weights.to_numpy()[one])
        np.testing.assert_array_equal(same.to_numpy(), experts.to_numpy()[one])
        got = moe.moe_unpermute(rows, row_map[one], weights[one]).to_numpy()
        np.testing.assert_array_equal(got, together[one])


@pytest.mark.parametrize("tokens", [16, 1500])
def test_graph(tokens: int) -> None:
    """A replay routes by the logits of the time, few tokens and many."""
    rng = np.random.default_rng(tokens)
    x, logits = (
        gp.from_numpy(rng.normal(size=(tokens, n)).astype("f4"), device="cuda").astype("bfloat16")
        for n in (128, 16)
    )
    gate_up = gp.from_numpy(rng.normal(size=(16, 128, 128)).astype("f4") / 12, device="cuda")
    down = gp.from_numpy(rng.normal(size=(16, 128, 64)).astype("f4") / 8, device="cuda")
    gate_up, down = gate_up.astype("bfloat16"), down.astype("bfloat16")
    out = gp.zeros((tokens, 128), "bfloat16", device="cuda")
    moe.moe_mlp(x, logits, gate_up, down, 2, out=out)
    graph = gp.CudaGraph()
    with graph:
        moe.moe_mlp(x, logits, gate_up, down, 2, out=out)
    logits[:] = gp.from_numpy(rng.normal(size=(tokens, 16)).astype("f4"), device="cuda")
    want = moe.moe_mlp(x, logits, gate_up, down, 2).to_numpy()
    graph.replay()
    np.testing.assert_array_equal(out.to_numpy(), want)


def test_many_rows() -> None:
    """More tiles of slots than one block scans at a time, against NumPy's stable sort."""
    rng = np.random.default_rng(1)
    ids = np.minimum(rng.geometric(0.05, (90_000, 2)) - 1, 63).astype(np.int32)
    x = rng.normal(size=(90_000, 16)).astype(np.float16)
    gx, gids = (gp.from_numpy(a, device="cuda") for a in (x, ids))
    rows, sizes, row_map = moe.moe_permute(gx, gids, 64)
    order = np.argsort(ids.ravel(), kind="stable")
    np.testing.assert_array_equal(row_map.to_numpy().ravel()[order], np.arange(ids.size))
    np.testing.assert_array_equal(sizes.to_numpy(), np.bincount(ids.ravel(), minlength=64))
    np.testing.assert_array_equal(rows.to_numpy(), x[order // 2])


@pytest.mark.alone
def test_more_than_two_to_the_31_elements() -> None:
    tokens, width = 2**15 + 5, 16384
    x = gp.zeros((tokens, width), "bfloat16", device="cuda")
    x[-1] = 3.0
    ids = gp.full((tokens, 4), 1, "int32", device="cuda")
    ids[-1] = 0
    rows, sizes, row_map = moe.moe_permute(x, ids, 2)
    np.testing.assert_array_equal(sizes.to_numpy(), [4, 4 * tokens - 4])
    assert bool((rows[:4] == 3.0).all())
    assert not bool((rows[4:] != 0.0).any())
    assert bool((moe.moe_unpermute(rows, row_map)[-1] == 12.0).all())
