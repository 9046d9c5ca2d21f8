"""Random numbers on the GPU: the CPU's numbers, sizes beyond 32 bits, alignment, graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import random as cases

import pygpukit as gp
from pygpukit.random import Generator, default_rng


@pytest.mark.parametrize("size", cases.SIZES, ids=str)
@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_the_same_numbers_as_the_cpu(case: cases.Case, size: Any) -> None:
    rngs = [Generator(0xFEDCBA9876543210, 2**64 - 3, device=d) for d in ("cuda", "cpu")]
    for _ in range(2):
        got, want = (case.call(rng, size).to_numpy() for rng in rngs)
        cases.assert_same(case, got, want)
    assert rngs[0].state == rngs[1].state


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_a_million_numbers(case: cases.Case) -> None:
    got, want = (
        case.call(default_rng(99, device=d), 1_000_003).to_numpy() for d in ("cuda", "cpu")
    )
    cases.assert_same(case, got, want)


@pytest.mark.parametrize("case", cases.MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: cases.MustRaise) -> None:
    cases.run_must_raise(case, default_rng(1, device="cuda"))


def test_known_answers() -> None:
    words = Generator(0, device="cuda").integers(2**32, size=4, dtype="uint32").to_numpy()
    np.testing.assert_array_equal(words, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])


@pytest.mark.parametrize("method", ["random", "standard_normal", "standard_exponential"])
@pytest.mark.parametrize("dtype", cases.FLOATS)
@pytest.mark.parametrize("start", [1, 3, 4])
def test_out_may_be_a_view(method: str, dtype: str, start: int) -> None:
    """Not on a 16-byte boundary, and not contiguous."""
    want = getattr(default_rng(7, device="cuda"), method)(4000, dtype).to_numpy()
    whole = gp.zeros(4100, dtype, device="cuda")
    getattr(default_rng(7, device="cuda"), method)(out=whole[start : start + 4000])
    values = whole.to_numpy().astype(np.float64)
    np.testing.assert_array_equal(values[start : start + 4000], want.astype(np.float64))
    assert not values[:start].any()
    assert not values[start + 4000 :].any()
    spread = gp.zeros((4000, 2), dtype, device="cuda")
    getattr(default_rng(7, device="cuda"), method)(out=spread[::-1, 1])
    np.testing.assert_array_equal(spread.to_numpy()[::-1, 1], want)


def test_more_than_two_to_the_32_numbers() -> None:
    count = 2**32 + 7
    x = default_rng(5, device="cuda").integers(0, 256, count, "uint8")
    block = (count - 4099) // 4  # the last ones, by their position
    want = default_rng(5, device="cpu").advance(block).integers(0, 256, count - 4 * block, "uint8")
    np.testing.assert_array_equal(x[4 * block :].to_numpy(), want.to_numpy())


def test_statistics_of_many() -> None:
    z = default_rng(5, device="cuda").standard_normal(2**24).to_numpy().astype(np.float64)
    assert abs(z.mean()) < 1.5e-3
    assert abs(z.var() - 1.0) < 2e-3
    assert abs((z**4).mean() - 3.0) < 0.02
    assert abs(z).max() < 6.8


def test_in_a_graph() -> None:
    rng, out = default_rng(1, device="cuda"), gp.zeros(1000, device="cuda")
    want = default_rng(1, device="cuda").random(1000).to_numpy()
    graph = gp.CudaGraph()
    with graph:
        rng.random(out=out)
    for _ in range(2):
        graph.replay()
        np.testing.assert_array_equal(out.to_numpy(), want)


def test_permutation_and_choice_as_on_the_cpu() -> None:
    for call in (
        lambda r: r.permutation(5000),
        lambda r: r.choice(50, 300),
        lambda r: r.choice(500, 300, replace=False),
        lambda r: r.choice(4, 300, p=[0.1, 0.2, 0.3, 0.4]),
    ):
        got, want = (call(default_rng(3, device=d)).to_numpy() for d in ("cuda", "cpu"))
        np.testing.assert_array_equal(got, want)
