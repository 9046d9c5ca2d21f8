"""The recurrent family on the GPU: case tables, views, long sequences, batches, graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases.must_raise import run_must_raise
from cases.recurrent import CASES, MUST_RAISE, Case, MustRaise
from cases.run_recurrent import run_case, run_out, run_pieces
from cases.views import VIEWS

import pygpukit as gp
from pygpukit.ops import recurrent

SOME = [c for c in CASES if c.dtype == "float32" and c.name in ("1x7x20-33", "2x9x40-16")]


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


def test_sequences_in_pieces() -> None:
    run_pieces("cuda")


def test_out() -> None:
    run_out("cuda")


def layer(hidden: int, ins: int, dtype: str = "float32", directions: int = 2) -> list[Any]:
    rng = np.random.default_rng(hidden)
    shapes = ((4 * hidden, ins), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,))
    scale = 1 / np.sqrt(hidden)
    return [
        gp.astype(gp.from_numpy(rng.uniform(-scale, scale, s).astype("f4"), device="cuda"), dtype)
        for _ in range(directions)
        for s in shapes
    ]


def drawn(shape: tuple[int, ...], seed: int = 0) -> Any:
    host = np.random.default_rng(seed).normal(size=shape).astype("f4")
    return gp.from_numpy(host, device="cuda")


# Both directions at once, one after the other, and one launch for each step.
@pytest.mark.parametrize("hidden", [256, 512, 1000, 1024, 1500])
def test_long_sequences_agree_with_the_reference(hidden: int) -> None:
    x, weights = drawn((2, 60, 64)), layer(hidden, 64)
    host = [gp.from_numpy(w.to_numpy(), device="cpu") for w in weights]
    want = recurrent.lstm_bidirectional(gp.from_numpy(x.to_numpy(), device="cpu"), *host)
    got = recurrent.lstm_bidirectional(x, *weights)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours.to_numpy(), theirs.to_numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hidden", [200, 512])
def test_a_sample_has_the_same_bits_alone_and_among_others(hidden: int) -> None:
    x, weights = drawn((40, 20, 32)), layer(hidden, 32)
    together = recurrent.lstm_bidirectional(x, *weights)[0].to_numpy()
    again = recurrent.lstm_bidirectional(x, *weights)[0].to_numpy()
    np.testing.assert_array_equal(again, together)
    for i in (0, 31, 39):
        alone = recurrent.lstm_bidirectional(x[i : i + 1], *weights)[0].to_numpy()
        np.testing.assert_array_equal(alone[0], together[i])


def test_graph_replays() -> None:
    x, weights, out = drawn((1, 100, 64)), layer(512, 64), gp.zeros((1, 100, 1024), device="cuda")
    graph = gp.CudaGraph()
    with graph:
        recurrent.lstm_bidirectional(x, *weights, out=out)
    for seed in (1, 2):
        x[...] = drawn((1, 100, 64), seed)
        want = recurrent.lstm_bidirectional(x, *weights)[0].to_numpy()
        graph.replay()
        np.testing.assert_array_equal(out.to_numpy(), want)


def test_many_in_a_row_do_not_deadlock() -> None:
    x, weights = drawn((4, 50, 64)), layer(512, 64)
    first = recurrent.lstm_bidirectional(x, *weights)[0].to_numpy()
    streams = [gp.Stream() for _ in range(3)]
    results = []
    for i in range(60):
        with streams[i % 3]:
            results.append(recurrent.lstm_bidirectional(x, *weights)[0])
    for result in results[-3:]:
        np.testing.assert_array_equal(result.to_numpy(), first)


@pytest.mark.parametrize("length", [1023, 1024, 4099])
def test_chunks_of_a_scan_agree_with_the_reference(length: int) -> None:
    rng = np.random.default_rng(length)
    x, z = (rng.normal(size=(2, 96, length)).astype("f4") for _ in range(2))
    delta = rng.uniform(0.001, 0.1, x.shape).astype("f4")
    a = -rng.uniform(0.5, 16, (96, 16)).astype("f4")
    b, c = (rng.normal(size=(2, 16, length)).astype("f4") for _ in range(2))
    d = rng.normal(size=96).astype("f4")

    def run(device: str) -> Any:
        return recurrent.selective_scan(
            *(gp.from_numpy(v, device=device) for v in (x, delta, a, b, c, d, z))
        )

    for ours, theirs in zip(run("cuda"), run("cpu"), strict=True):
        np.testing.assert_allclose(ours.to_numpy(), theirs.to_numpy(), rtol=1e-4, atol=1e-4)
