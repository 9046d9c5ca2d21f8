"""The sampling family on CPU simulation."""

from __future__ import annotations

import threading
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
    for name in ("top-k", "top-p", "min-p", "typical", "all")
}


@pytest.mark.parametrize("case", [*CASES, *LARGE_CASES[12:20]], ids=str)
def test_case(case: Case) -> None:
    run.run_case(case)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case)


@pytest.mark.parametrize("name", SIMPLE)
def test_chi_square_of_filters(name: str) -> None:
    run.run_chi_square(SIMPLE[name], 10_000)


@pytest.mark.parametrize("filters", [{}, {"top_k": 300, "temperature": 1.5}], ids=str)
def test_chi_square_of_a_vocabulary(filters: dict[str, Any]) -> None:
    run.run_chi_square_of_a_vocabulary(filters, 2000, 5_000)


def test_chi_square() -> None:
    run.run_chi_square({}, 100_000)
    run.run_chi_square_of_streams(10_000)


@pytest.mark.parametrize(
    "check",
    [
        run.run_batch_invariance,
        run.run_steps,
        run.run_special_values,
        run.run_logprobs,
        run.run_counts,
        run.run_timestamp_rules,
        run.run_shapes,
        run.run_names_of_0_2,
    ],
)
def test_sampling(check: object) -> None:
    assert callable(check)
    check()


def test_equal_logits_are_all_kept() -> None:
    x = gp.from_numpy(np.array([[2, 1, 2, 2, 0]], np.float32))
    for options in ({"top_k": 1}, {"top_k": 2}, {"top_p": 0.1}):
        kept = sampling.sampling_probs(x, **options).to_numpy()[0] > 0
        np.testing.assert_array_equal(kept, [True, False, True, True, False])


def test_tokens_without_a_seed_differ() -> None:
    x = gp.zeros((1, 100_000))
    assert len({sampling.sample(x).item() for _ in range(5)}) > 1


def test_every_thread_has_its_own_seeds() -> None:
    x = gp.zeros(100_000)
    drawn: list[int] = []

    def draw() -> None:
        sampling.set_sampling_seed(1)
        drawn.append(sampling.sample_multinomial(x, 1.0))

    threads = [threading.Thread(target=draw) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert drawn[0] == drawn[1]


def test_a_cpu_graph_counts_steps() -> None:
    x, steps = gp.zeros((2, 1000)), gp.zeros(2, "int64")
    out = gp.zeros(2, "int32")
    want = [sampling.sample(x, seed=9, step=i).to_numpy() for i in range(3)]
    graph = gp.CudaGraph()
    with graph:
        sampling.sample(x, seed=9, step=steps, out=out)
    first = int(steps.to_numpy()[0])
    for i in range(first, 3):
        graph.replay()
        np.testing.assert_array_equal(out.to_numpy(), want[i])
