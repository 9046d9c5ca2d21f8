"""Methods of elementwise functions, files and CuPy's kernels on the GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpukit as gp

RNG = np.random.default_rng(6)
X = RNG.normal(size=(33, 70))
NAMES = ["add", "multiply", "maximum", "fmin", "hypot", "logaddexp", "subtract"]


def same(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_reduce_and_accumulate(name: str, axis: int) -> None:
    theirs, ours, x = getattr(np, name), getattr(gp, name), gp.from_numpy(X, device="cuda")
    same(ours.reduce(x, axis), theirs.reduce(X, axis))
    same(ours.accumulate(x, axis), theirs.accumulate(X, axis))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum"])
def test_at(name: str) -> None:
    want, at, values = X[0].copy(), RNG.integers(0, 70, 5000), RNG.uniform(0.9, 1.1, 5000)
    got = gp.from_numpy(want, device="cuda")
    getattr(np, name).at(want, at, values)
    operands = (gp.from_numpy(v, device="cuda") for v in (at, values))
    getattr(gp, name).at(got, *operands)
    np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-9, atol=1e-9)


def test_files(tmp_path: Path) -> None:
    gp.save(tmp_path / "x", gp.from_numpy(X, device="cuda"))
    got = gp.load(tmp_path / "x.npy", device="cuda")
    assert got.device.startswith("cuda")
    same(got, X)
    gp.savez_compressed(tmp_path / "y", x=got, t=got.T)
    with gp.load(tmp_path / "y.npz", device="cuda") as arrays:
        same(arrays["t"], X.T)


def test_kernels_of_cupy() -> None:
    x = gp.from_numpy(X, device="cuda")
    kernel = gp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_diff")
    same(kernel(x, x[0]), (X - X[0]) ** 2)
    same(kernel(x.T, 2.0), (X.T - 2.0) ** 2)
    gather = gp.ElementwiseKernel("raw T x, int64 at", "T y", "y = x[at]", "gather")
    at = gp.from_numpy(np.array([5, 0, 69]), device="cuda")
    same(gather(x, at), X[0][[5, 0, 69]])
    norm = gp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
    for axis in (None, 0, 1):
        same(norm(x, axis=axis), np.sqrt((X * X).sum(axis=axis)))
    source = """extern "C" __global__ void twice(double* x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] *= 2;
    }"""
    gp.RawKernel(source, "twice")((10,), (256,), (x, x.size))
    same(x, 2 * X)
