"""The special cases of the array API standard, on the GPU."""

from __future__ import annotations

from typing import Any

import pytest
from cases import standard_values as cases

import pygpukit as gp


def on_gpu(host: Any) -> gp.GPUArray:
    return gp.from_numpy(host, device="cuda")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", cases.REAL_CASES)
def test_real(op: str, dtype: str) -> None:
    cases.check(op, dtype, on_gpu)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("op", cases.COMPLEX_CASES)
def test_complex(op: str, dtype: str) -> None:
    cases.check(op, dtype, on_gpu)
