"""The fft family on the GPU: case tables, batches, graphs, equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases.fft import CASES, MUST_RAISE, Case, MustRaise
from cases.must_raise import run_must_raise
from cases.run_fft import (
    assert_accurate,
    run_case,
    run_helpers,
    run_out,
    run_round_trips,
)

import pygpukit as gp


def drawn(shape: tuple[int, ...], seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run_case(case, "cuda")


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case, "cuda")


def test_out() -> None:
    run_out("cuda")


def test_round_trips() -> None:
    run_round_trips("cuda")


def test_helpers() -> None:
    run_helpers("cuda")


@pytest.mark.parametrize("power", [*range(1, 23), 24])
def test_powers_of_two(power: int) -> None:
    n = 2**power
    host = drawn((max(1, 2**15 // n), n), power)
    x = gp.from_numpy(host, device="cuda")
    want = np.fft.fft(host.astype(np.complex128))
    assert_accurate(gp.fft.fft(x).to_numpy(), want, n, "fft")
    back = gp.fft.ifft(gp.fft.fft(x)).to_numpy()
    assert_accurate(back, host.astype(np.complex128), n * n, "ifft")


@pytest.mark.parametrize("power", [4, 10, 15, 20, 22, 23])
def test_real_powers_of_two(power: int) -> None:
    n = 2**power
    host = np.ascontiguousarray(drawn((max(1, 2**14 // n), n), power).real)
    x = gp.from_numpy(host, device="cuda")
    spectrum = gp.fft.rfft(x)
    assert_accurate(spectrum.to_numpy(), np.fft.rfft(host.astype(np.float64)), n, "rfft")
    assert_accurate(gp.fft.irfft(spectrum).to_numpy(), host.astype(np.float64), n * n, "irfft")


@pytest.mark.parametrize("n", [7, 64, 100, 1009, 4096, 65536, 65537])
def test_a_transform_has_the_same_bits_alone_and_among_others(n: int) -> None:
    host = drawn((9, n))
    x = gp.from_numpy(host, device="cuda")
    together = gp.fft.fft(x).to_numpy()
    np.testing.assert_array_equal(gp.fft.fft(x).to_numpy(), together)
    for i in (0, 4, 8):
        np.testing.assert_array_equal(gp.fft.fft(x[i : i + 1]).to_numpy()[0], together[i])


@pytest.mark.parametrize("shape", [(512, 512), (100, 240), (33, 65, 17), (2, 4096, 64)])
def test_several_axes(shape: tuple[int, ...]) -> None:
    host = drawn(shape)
    got = gp.fft.fftn(gp.from_numpy(host, device="cuda")).to_numpy()
    assert_accurate(got, np.fft.fftn(host.astype(np.complex128)), host.size, "fftn")


@pytest.mark.parametrize("n", [4096, 6000, 1009, 65536, 65537])
def test_graph_replays(n: int) -> None:
    x = gp.from_numpy(drawn((4, n)), device="cuda")
    out = gp.zeros((4, n), "complex64", device="cuda")
    graph = gp.CudaGraph()
    with graph:
        gp.fft.fft(x, out=out)
    for seed in (1, 2):
        x[...] = gp.from_numpy(drawn((4, n), seed), device="cuda")
        graph.replay()
        np.testing.assert_array_equal(out.to_numpy(), gp.fft.fft(x).to_numpy())
