"""The quick start of PyGPUkit 0.2, unchanged."""

from __future__ import annotations

import numpy as np

import pygpukit as gp

SCALE = """
extern "C" __global__
void scale(float* x, float factor, int n) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < n) x[idx] *= factor;
}
"""


def test_arrays() -> None:
    x = gp.zeros((1024, 1024), dtype="float32")
    y = gp.ones((1024, 1024), dtype="float32")
    z = gp.add(x, y)
    assert z.device == "cuda:0"
    assert np.array_equal(z.to_numpy(), np.ones((1024, 1024), np.float32))
    host = np.random.default_rng(0).random((3, 5), dtype=np.float32)
    assert np.array_equal(gp.from_numpy(host).to_numpy(), host)


def test_custom_kernel() -> None:
    kernel = gp.jit(SCALE, func="scale")
    host = np.random.default_rng(1).random(10_007, dtype=np.float32)
    x = gp.from_numpy(host)
    kernel(x, factor=0.5, n=x.size)
    assert np.array_equal(x.to_numpy(), host * np.float32(0.5))
