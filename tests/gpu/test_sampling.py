"""The sampling family on the GPU: case tables, the same tokens as CPU simulation, graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import run_sampling as run
from cases.must_raise import run_must_raise
from cases.sampling import CASES, FILTERS, LARGE_CASES, MUST_RAISE, Case, MustRaise

import pygpukit as gp
from pygpukit.ops import sampling

SIMPLE = {
    name: FILTERS[name](np.random.default_rng(0), 40)
    for name in ("plain", "top-k", "top-p", "min-p", "typical", "all")
}


@pytest.mark.parametrize("case", [*CASES, *LARGE_CASES], ids=str)
def test_case(case: Case) -> None:
    run.run_case(case, "cuda")


@pytest.mark.parametrize("case", [*CASES[::7], *LARGE_CASES], ids=str)
def test_the_same_as_on_the_cpu(case: Case) -> None:
    """Bit by bit: probabilities, and tokens of several seeds and steps."""
    logits, filters = case.draw()
    x, y = gp.from_numpy(logits, device="cuda"), gp.from_numpy(logits, device="cpu")
    here, there = run.on("cuda", filters), run.on("cpu", filters)
    np.testing.assert_array_equal(
        sampling.sampling_probs(x, **here).to_numpy(),
        sampling.sampling_probs(y, **there).to_numpy(),
    )
    for seed in range(5):
        got = sampling.sample(x, **here, seed=seed, step=seed).to_numpy()
        want = sampling.sample(y, **there, seed=seed, step=seed).to_numpy()
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case, "cuda")


@pytest.mark.parametrize("name", SIMPLE)
def test_chi_square(name: str) -> None:
    run.run_chi_square(SIMPLE[name], 100_000, "cuda")


@pytest.mark.parametrize(
    "filters", [{}, {"top_k": 5000, "temperature": 1.5}, {"top_p": 0.7}], ids=str
)
def test_chi_square_of_a_large_vocabulary(filters: dict[str, Any]) -> None:
    run.run_chi_square_of_a_vocabulary(filters, 151_936, 100_000, "cuda")


def test_chi_square_of_streams() -> None:
    run.run_chi_square_of_streams(100_000, "cuda")


@pytest.mark.parametrize(
    "check",
    [
        run.run_steps,
        run.run_special_values,
        run.run_counts,
        run.run_timestamp_rules,
        run.run_shapes,
        run.run_names_of_0_2,
    ],
)
def test_sampling(check: Any) -> None:
    check("cuda")


@pytest.mark.parametrize("width", [1000, 20001, 151936])
def test_rows_are_independent_of_the_batch(width: int) -> None:
    run.run_batch_invariance("cuda", width)
    run.run_logprobs("cuda", width)


@pytest.mark.parametrize("rows", [1, 8, 9, 32, 200])
def test_batches_of_a_large_vocabulary(rows: int) -> None:
    """Clusters of 16, of 8, and more rows than the GPU has room for at once."""
    rng = np.random.default_rng(rows)
    logits = gp.from_numpy(rng.normal(size=(rows, 151936)).astype(np.float32), device="cuda")
    x = gp.astype(logits * 3.0, "bfloat16")
    seeds = gp.from_numpy(rng.integers(0, 2**62, rows), device="cuda")
    filters = {"top_k": 50, "top_p": 0.9, "temperature": 0.8}
    got = sampling.sample(x, seed=seeds, **filters).to_numpy()
    for i in {0, rows // 2, rows - 1}:
        alone = sampling.sample(x[i : i + 1], seed=seeds[i : i + 1], **filters).to_numpy()
        assert alone[0] == got[i]
    np.testing.assert_array_equal(
        sampling.sample(x, temperature=0.0).to_numpy(), x.to_numpy().argmax(-1)
    )


def test_replays_of_a_graph_draw_anew() -> None:
    x = gp.zeros((2, 5000), device="cuda")
    out, steps = gp.zeros(2, "int32", device="cuda"), gp.zeros(2, "int64", device="cuda")
    want = [sampling.sample(x, seed=9, step=i, top_p=0.9).to_numpy() for i in range(5)]
    graph = gp.CudaGraph()
    with graph:
        sampling.sample(x, seed=9, step=steps, top_p=0.9, out=out)
    first = int(steps.to_numpy()[0])
    for i in range(first, 5):
        graph.replay()
        np.testing.assert_array_equal(out.to_numpy(), want[i])
