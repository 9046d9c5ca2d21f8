"""gp.sim.step: what a warp did, instruction by instruction."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

SOURCE = """
__global__ void halve(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = x[i] * 0.5f;
}"""


def walk(n: int = 100, **options: object) -> gp.sim.Walk:
    x = gp.from_numpy(np.arange(100, dtype=np.float32))
    kernel = gp.jit(SOURCE, "halve")
    return gp.sim.step(kernel, x, gp.zeros(100), n, grid=2, block=64, **options)


def test_steps_have_source_and_values() -> None:
    steps = walk(block_index=(1, 0, 0)).steps
    loaded = next(step for step in steps if "ld.global" in step.ptx)
    assert (loaded.file, loaded.line, loaded.source) == ("halve.cu", 5, "    y[i] = x[i] * 0.5f;")
    assert loaded.active.all()
    (values,) = loaded.registers.values()
    np.testing.assert_array_equal(values.view(np.float32), np.arange(64, 96))
    product = next(step for step in steps if "mul" in step.ptx and "f32" in step.ptx)
    (values,) = product.registers.values()
    np.testing.assert_array_equal(values, np.arange(64, 96, dtype=np.float32) / 2)
    assert "halve.cu:5" in str(product)


def test_active_lanes() -> None:
    steps = walk(n=7).steps
    stored = next(step for step in steps if "st.global" in step.ptx)
    assert np.flatnonzero(stored.active).tolist() == list(range(7))
    assert not any("st.global" in step.ptx for step in walk(n=7, warp=1).steps)


def test_breakpoints_and_registers() -> None:
    stepping = walk(until=5)
    assert stepping.registers
    assert next(stepping).line == 5
    again = walk()
    found = again.until(5)
    assert found is not None
    assert found.line == 5
    assert list(found.registers) == [name for name in found.registers if name in again.registers]
    assert walk().until(99) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_index": (2, 0, 0)}, r"block_index is \(2, 0, 0\), the grid has \(2, 1, 1\)"),
        ({"block_index": (0, 0)}, "expected three indices"),
        ({"warp": 2}, r"warp is 2, a block of \(64, 1, 1\) has 2"),
        ({"max_steps": 3}, "more than max_steps=3"),
        ({"max_steps": 0}, "max_steps is 0, expected at least 1"),
    ],
)
def test_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        walk(**options)


def test_no_launch() -> None:
    with pytest.raises(ValueError, match="launched no kernel"):
        gp.sim.step(lambda: None)
