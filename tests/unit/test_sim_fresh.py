"""Uninitialised reads of global memory: what counts as written, on the CPU and on the device."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pygpukit as gp

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

ADD_ONE = """__global__ void add_one(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x] + 1;
}"""
HALF = "__global__ void half(float* x) { if (threadIdx.x < 32) x[threadIdx.x] = 1; }"


def reads(x: gp.GPUArray) -> gp.sim.Report:
    """A kernel reads 64 elements of x."""
    return gp.sim.check(gp.jit(ADD_ONE, "add_one"), x, gp.empty(64), grid=1, block=64)


def test_the_report_names_the_array_the_offset_and_the_line() -> None:
    (finding,) = reads(gp.empty(128)[32:]).findings
    assert (finding.kind, finding.line, finding.thread) == ("uninitialised", 2, (0, 0, 0))
    assert "at byte 128 of argument 'x' (float32 (96,)) before it is written" in finding.text


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.fill(0),
        lambda x: x.__setitem__(slice(0, 1), 0),
        lambda x: np.asarray(x),
        lambda x: gp.add(gp.ones(64), 1.0, out=x),
        lambda x: gp.jit(HALF, "half")(x, grid=1, block=64),
        lambda x: x.device_ptr,
    ],
    ids=["fill", "assignment", "view", "out", "launch without a check", "address"],
)
def test_what_cannot_be_known_counts_as_written(write: Callable[[gp.GPUArray], Any]) -> None:
    x = gp.empty(64)
    write(x)
    assert reads(x).ok


def test_what_a_checked_kernel_writes_is_written_and_nothing_else() -> None:
    x = gp.empty(64)
    assert gp.sim.check(gp.jit(HALF, "half"), x, grid=1, block=64).ok
    report = reads(x)
    assert [finding.thread[0] for finding in report.findings] == [32]
    assert gp.sim.check(gp.jit(HALF, "half"), x[32:], grid=1, block=64).ok
    assert reads(x).ok


def test_memory_used_again_is_unwritten() -> None:
    for _ in range(3):  # the pool hands out the same block
        x = gp.empty(64)
        assert not reads(x).ok
        x.fill(0)
        assert reads(x).ok
        del x


def test_a_value_that_nobody_uses_is_no_finding() -> None:
    source = """__global__ void k(const float* x, float* y, int n) {
      float v = x[threadIdx.x];
      y[threadIdx.x] = threadIdx.x < n ? v : 0;
    }"""
    x = gp.empty(64)
    assert gp.sim.check(gp.jit(HALF, "half"), x, grid=1, block=64).ok
    assert gp.sim.check(gp.jit(source, "k"), x, gp.empty(64), 32, grid=1, block=64).ok
    assert not gp.sim.check(gp.jit(source, "k"), x, gp.empty(64), 33, grid=1, block=64).ok


def test_an_exchange_needs_no_old_value_unless_it_is_used() -> None:
    plain = "__global__ void k(int* x, int* y) { atomicExch(x, 1); }"
    used = "__global__ void k(int* x, int* y) { *y = atomicExch(x, 1); }"
    for source, ok in ((plain, True), (used, False)):
        x, y = gp.empty(1, "int32"), gp.empty(1, "int32")
        assert gp.sim.check(gp.jit(source, "k"), x, y, grid=1, block=1).ok == ok


ON_THE_DEVICE = f"""
import numpy as np
import pygpukit as gp
add_one = gp.jit('''{ADD_ONE}''', "add_one")
half = gp.jit('''{HALF}''', "half")
def reads(x):
    return gp.sim.check(add_one, x, gp.empty(64), grid=1, block=64)
report = reads(gp.empty(128)[32:])
assert [finding.line for finding in report.findings] == [2], report
assert "at byte 128 of an array of 512 bytes" in report.findings[0].text, report
assert reads(gp.zeros(64)).ok and reads(gp.from_numpy(np.ones(64, "float32"))).ok
x = gp.empty(64)
assert gp.sim.check(half, x, grid=1, block=64).ok
assert [finding.thread[0] for finding in reads(x).findings] == [32]
x[32:] = 1
assert reads(x).ok
address = x.device_ptr
del x
again = gp.empty(64)
assert again.device_ptr == address and not reads(again).ok   # a block of the pool, handed out anew
half(again, grid=1, block=64)       # nobody watched
assert reads(again).ok
"""


def test_blocks_of_the_pool_are_unwritten_when_handed_out() -> None:
    env = dict(os.environ, PYGPUKIT_DEVICE="sim")
    code = ON_THE_DEVICE
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
