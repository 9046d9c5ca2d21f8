"""Key/value caches on the GPU: case tables, views, pages, graphs."""

from __future__ import annotations

import numpy as np
import pytest
from cases import run_paged_cache as run
from cases.must_raise import run_must_raise
from cases.paged_cache import CASES, DTYPES, FP8, MUST_RAISE, Case, MustRaise

import pygpukit as gp
from pygpukit.ops import paged_cache


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run.run_case(case, "cuda")


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case, "cuda")


def test_views() -> None:
    run.run_views("cuda")


def test_fp8_saturates() -> None:
    run.run_fp8_saturates("cuda")


def test_slots() -> None:
    run.run_slots("cuda")


@pytest.mark.parametrize("dim", [3, 64])
@pytest.mark.parametrize("dtype", [*DTYPES, FP8])
def test_pages(dtype: str, dim: int) -> None:
    run.run_pages(dtype, dim, "cuda")


def test_names_of_0_2() -> None:
    run.run_names_of_0_2("cuda")


def test_a_token_has_the_same_bits_alone_and_among_others() -> None:
    case = Case("batch", "bfloat16", tokens=37, dim=128, half=64, norm=True)
    drawn = case.draw()
    together = run.to_device(drawn, "cuda")
    q = paged_cache.kv_cache_write(**together).to_numpy()
    for t in (0, 20, 36):
        per_token = ("k", "v", "q", "slots", "positions")
        one = {name: x[t : t + 1] if name in per_token else x for name, x in drawn.items()}
        alone = run.to_device(one, "cuda")
        np.testing.assert_array_equal(paged_cache.kv_cache_write(**alone).to_numpy()[0], q[t])


def test_replays_of_a_graph_follow_the_device() -> None:
    """Positions and tables change between replays."""
    k = gp.ones((1, 1, 8), device="cuda")
    caches = [gp.zeros((4, 16, 1, 8), device="cuda") for _ in range(2)]
    tables = gp.from_numpy(np.array([[2, 1]], np.int32), device="cuda")
    position = gp.zeros(1, "int32", device="cuda")
    slots = gp.zeros(1, "int32", device="cuda")
    graph = gp.CudaGraph()
    with graph:
        paged_cache.slot_mapping(tables, position, page=16, out=slots)
        paged_cache.kv_cache_write(k, k, *caches, slots)
    for cache in caches:
        cache[...] = 0.0
    for at in (3, 17):
        position[...] = at
        graph.replay()
    written = np.argwhere(caches[0].to_numpy()[..., 0, 0]).tolist()
    assert written == [[1, 1], [2, 3]]
