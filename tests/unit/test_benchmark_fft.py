"""python -m pygpukit.benchmark --fft: cases, correctness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.benchmark import BenchmarkSuite
from pygpukit.benchmark.fft import Transform, fft_case

TRANSFORMS = (
    Transform("fft", (6, 97), "complex64"),
    Transform("fft", (2, 64), "complex128"),
    Transform("rfft", (3, 400), "float32"),
    Transform("fft2", (2, 16, 16), "complex64"),
)


def test_the_suite_on_cpu_simulation() -> None:
    done = BenchmarkSuite(1, 2, quick=True).add_fft().run(verbose=False)
    assert {row.name for row in done.results} == {"fft", "rfft"}
    assert all(row.correct for row in done.results)
    assert all((row.bandwidth_gbps or 0) > 0 for row in done.results)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=str)
def test_wrong_results_are_found(transform: Transform) -> None:
    case = fft_case(transform)
    entry = case.entries[0]
    arrays = case.arrays()
    out: Any = entry.build(*arrays)()
    assert entry.error is not None
    assert entry.error(arrays, out) <= entry.tolerance
    host = out.to_numpy()
    assert entry.bytes == arrays[0].nbytes + host.nbytes
    host[-1, ..., 0] *= 1.001
    assert entry.error(arrays, gp.from_numpy(host)) > entry.tolerance
    assert entry.error(arrays, gp.from_numpy(np.zeros_like(host))) > entry.tolerance
