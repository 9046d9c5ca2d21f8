"""Attention on CPU simulation: every combination of masks, layouts, errors, 0.2's names."""

from __future__ import annotations

import numpy as np
import pytest
from cases.attention import CASES, MUST_RAISE, Case, MustRaise
from cases.must_raise import run_must_raise
from cases.nn_fuzz import count, run_attention_case
from cases.run_attention import run_case, run_sdpa, run_steps, run_views

import pygpukit as gp
from pygpukit.ops import nn


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run_case(case)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case)


@pytest.mark.parametrize("number", range(count(40)))
def test_fuzz(number: int) -> None:
    run_attention_case(number)


def test_views() -> None:
    run_views()


def test_steps() -> None:
    run_steps()


def test_sdpa() -> None:
    run_sdpa()


def test_sdpa_refuses() -> None:
    x, out = gp.ones((2, 3, 8)), gp.empty((2, 3, 8))
    with pytest.raises(ValueError, match="sdpa_causal: Q has shape"):
        nn.sdpa_causal(x[0], x, x)
    with pytest.raises(TypeError, match="sdpa_causal: V is of type"):
        nn.sdpa_causal(x, x, np.ones(3))
    with pytest.raises(TypeError, match="sdpa_causal: scale is str 'x'"):
        nn.sdpa_causal(x, x, x, "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sdpa_causal: scale is nan"):
        nn.sdpa_causal(x, x, x, float("nan"))
    with pytest.raises(ValueError, match="context_len is 4, expected 3"):
        nn.sdpa_causal_fixed_cache(x, x, x, out, 4)
    with pytest.raises(ValueError, match="max_kv_len is 0"):
        nn.sdpa_causal_fixed_cache_ptr(x, x, x, out, gp.ones(1, "int32"), 0)
    with pytest.raises(ValueError, match="context_len_buf has shape"):
        nn.sdpa_causal_fixed_cache_ptr(x, x, x, out, gp.ones(2, "int32"), 3)


@pytest.mark.parametrize("block", [3, 99, -1])
def test_blocks_that_the_cache_does_not_have(block: int) -> None:
    q, pages = gp.ones((2, 1, 4, 8)), gp.ones((3, 16, 2, 8))
    table = np.array([[0, 1], [2, block]], np.int32)

    def attend(length: int) -> gp.GPUArray:
        lengths = gp.from_numpy(np.array([20, length], np.int32))
        return nn.attention(q, pages, pages, lengths=lengths, block_table=gp.from_numpy(table))

    assert (attend(16).to_numpy() == 1).all()  # it is not looked at
    with pytest.raises(IndexError, match=f"attention: block_table of sequence 1 has block {block}"):
        attend(17)


def test_infinite_and_nan_scores() -> None:
    q, v = gp.ones((1, 1, 1, 8)), gp.from_numpy(np.arange(16, dtype="f4").reshape(1, 2, 1, 8))
    k = gp.from_numpy(np.array([np.full(8, -1e30), np.zeros(8)], "f4").reshape(1, 2, 1, 8))
    np.testing.assert_array_equal(nn.attention(q, k, v).to_numpy(), v.to_numpy()[:, 1:])
    nan = gp.from_numpy(np.full((1, 2, 1, 8), np.nan, "f4"))
    assert np.isnan(nn.attention(q, nan, v).to_numpy()).all()
