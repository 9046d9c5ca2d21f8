"""The moe family on CPU simulation: case tables, out=, special values, the layer, 0.2's steps."""

from __future__ import annotations

import numpy as np
import pytest
from cases import moe as cases
from cases.must_raise import run_must_raise
from cases.run_moe import run_mlp, run_out, run_permute, run_route, run_steps

import pygpukit as gp
from pygpukit.ops import moe


@pytest.mark.parametrize("case", cases.ROUTES, ids=str)
def test_route(case: cases.Route) -> None:
    run_route(case)


@pytest.mark.parametrize("case", cases.PERMUTES, ids=str)
def test_permute(case: cases.Permute) -> None:
    run_permute(case)


@pytest.mark.parametrize("case", cases.MUST_RAISE, ids=str)
def test_must_raise(case: cases.MustRaise) -> None:
    run_must_raise(case)


def test_out() -> None:
    run_out()


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_mlp(dtype: str) -> None:
    run_mlp(37, dtype)
    run_mlp(5, dtype, num_groups=4, top_groups=2)


def test_mlp_of_no_tokens() -> None:
    assert run_mlp(0, "float32").shape == (0, 64)


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_steps(dtype: str) -> None:
    run_steps(dtype)


def test_steps_are_not_public() -> None:
    for name in cases.N:
        assert not hasattr(gp, name)


def test_equal_logits_go_to_the_lower_expert() -> None:
    weights, experts = moe.moe_route(gp.zeros((2, 6)), 3)
    np.testing.assert_array_equal(experts.to_numpy(), [[0, 1, 2]] * 2)
    np.testing.assert_allclose(weights.to_numpy(), 1 / 6, rtol=1e-6)


def test_nan_is_chosen_last() -> None:
    logits = gp.from_numpy(np.array([[np.nan, 1.0, np.nan, -np.inf]], np.float32))
    _, experts = moe.moe_route(logits, 4, scoring="sigmoid")
    np.testing.assert_array_equal(experts.to_numpy(), [[1, 3, 0, 2]])


def test_one_choice_in_one_dimension() -> None:
    x = gp.from_numpy(np.arange(8, dtype=np.float32).reshape(4, 2))
    ids = gp.from_numpy(np.array([2, 0, 2, 1]))
    rows, sizes, row_map = moe.moe_permute(x, ids, 3)
    np.testing.assert_array_equal(row_map.to_numpy(), [2, 0, 3, 1])
    np.testing.assert_array_equal(sizes.to_numpy(), [1, 1, 2])
    np.testing.assert_array_equal(moe.moe_unpermute(rows, row_map).to_numpy(), x.to_numpy())


def test_places_out_of_range_add_nothing() -> None:
    rows = gp.ones((2, 3))
    places = gp.from_numpy(np.array([[0, -1], [5, 1], [-1, 2]], np.int32))
    got = moe.moe_unpermute(rows, places).to_numpy()
    np.testing.assert_array_equal(got[:, 0], [1, 1, 0])
