"""Every op over its case table, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp


@pytest.mark.parametrize("count", [2**31 + 5])
def test_more_than_two_to_the_31_elements(count: int) -> None:
    a = gp.full(count, 3, "uint8")
    b = gp.full(count, 4, "uint8")
    gp.add(a, b, out=a)
    assert (a.to_numpy() == 7).all()


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_misaligned_views(offset: int, dtype: str) -> None:
    """Arrays that do not start on a 16-byte boundary take the narrow kernels."""
    size = gp.zeros(1, dtype).itemsize
    host = np.arange(1001).astype(dtype)
    source = gp.from_numpy(host)
    parts = gp.empty(2048, dtype)
    kernel = gp.jit(
        "__global__ void shift(unsigned char* out, const unsigned char* in, int bytes, int shift) {"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;"
        "  if (i < bytes) out[i + shift] = in[i];"
        "}",
        "shift",
    )
    kernel(
        parts.device_ptr, source.device_ptr, 1001 * size, offset * size, grid=(1001 * size + 255) // 256
    )
    doubled = gp.add(source, source)
    assert np.array_equal(doubled.to_numpy(), host + host)
    assert np.array_equal(parts.to_numpy()[offset : offset + 1001], host)
