"""Every elementwise op on the GPU: the case table, alignment, size."""

from __future__ import annotations

import numpy as np
import pytest
from cases import elementwise
from cases.run import run_case, run_must_raise

import pygpukit as gp


@pytest.mark.parametrize("case", elementwise.CASES, ids=str)
def test_case(case: elementwise.Case) -> None:
    run_case(case, "cuda")


@pytest.mark.parametrize("op", elementwise.OPS)
@pytest.mark.parametrize("case", elementwise.MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: elementwise.MustRaise, op: str) -> None:
    run_must_raise(case, op, "cuda")


def test_more_than_two_to_the_31_elements() -> None:
    count = 2**31 + 5
    a = gp.full(count, 3, "uint8")
    b = gp.full(count, 4, "uint8")
    gp.add(a, b, out=a)
    assert (a.to_numpy() == 7).all()


@pytest.mark.parametrize("count", [1, 31, 1000, 4099])
@pytest.mark.parametrize(("dtype", "shift"), [("uint8", 1), ("float16", 2), ("float32", 4)])
def test_misaligned_arrays_take_the_narrow_kernels(count: int, dtype: str, shift: int) -> None:
    """A variable whose data does not start on a 16-byte boundary, seen as an array."""
    size = np.dtype(dtype).itemsize
    module = gp.RawModule(
        f'extern "C" {{ __device__ unsigned char first[{shift}]; '
        f"__device__ __align__({size}) unsigned char odd[{count * size}]; }}\n"
        "__global__ void touch(unsigned char* x) { x[0] = first[0] + odd[0]; }"
    )
    odd = module.get_global("odd", dtype)
    host = (np.arange(count) % 100).astype(dtype)
    module.set_global("odd", host)
    assert np.array_equal(gp.add(odd, odd).to_numpy(), host + host)
    assert np.array_equal(gp.mul(odd, 2).to_numpy(), host * np.dtype(dtype).type(2))
    gp.add(odd, odd, out=odd)
    assert np.array_equal(odd.to_numpy(), host + host)
