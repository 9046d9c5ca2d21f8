"""The special cases of the array API standard, on CPU simulation."""

from __future__ import annotations

import pytest
from cases import standard_values as cases

import pygpukit as gp


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", cases.REAL_CASES)
def test_real(op: str, dtype: str) -> None:
    cases.check(op, dtype, gp.from_numpy)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("op", cases.COMPLEX_CASES)
def test_complex(op: str, dtype: str) -> None:
    cases.check(op, dtype, gp.from_numpy)
