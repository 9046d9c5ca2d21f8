"""Faulty kernels: the simulator names the line, and says nothing of their repaired twins."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import RunPython

import pygpukit as gp

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")


@dataclass(frozen=True)
class Fault:
    """A kernel `f(float* x, int n)`: the marked line is wrong; `repair` replaces it."""

    name: str
    kind: str
    source: str  # the faulty line ends with "// !"
    repair: str
    grid: int = 1
    block: int = 64
    size: int = 64

    @property
    def line(self) -> int:
        lines = self.source.splitlines()
        return next(i for i, text in enumerate(lines, 1) if text.endswith("// !"))

    @property
    def repaired(self) -> str:
        lines = self.source.splitlines()
        lines[self.line - 1] = self.repair
        return "\n".join(lines)


GALLERY = [
    Fault(
        "off_by_one",
        "out of bounds",
        """__global__ void f(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) {
    x[i] = 1.0f;  // !
  }
}""",
        "    if (i < n) x[i] = 1.0f;",
        block=128,
    ),
    Fault(
        "negative_index",
        "out of bounds",
        """__global__ void f(float* x, int n) {
  int i = threadIdx.x;
  float left = x[i - 1];  // !
  x[i] = left;
}""",
        "  float left = i > 0 ? x[i - 1] : 0.0f; __syncthreads();",
        block=32,
    ),
    Fault(
        "null_pointer",
        "out of bounds",
        """__global__ void f(float* x, int n) {
  float* y = (float*)(long long)(n / 1000);
  y[threadIdx.x] = 1.0f;  // !
}""",
        "  x[threadIdx.x] = 1.0f;",
    ),
    Fault(
        "misaligned_vector",
        "misaligned",
        """__global__ void f(float* x, int n) {
  float4* v = (float4*)(x + 1);
  v[0] = make_float4(1, 2, 3, 4);  // !
}""",
        "  v = (float4*)x; v[0] = make_float4(1, 2, 3, 4);",
        block=1,
    ),
    Fault(
        "shared_out_of_bounds",
        "out of bounds",
        """__global__ void f(float* x, int n) {
  __shared__ float s[32];
  int i = threadIdx.x;
  s[i] = x[i];  // !
  __syncthreads();
  x[i] = s[(i + 1) % 32];
}""",
        "  if (i < 32) s[i] = x[i];",
        block=64,
    ),
    Fault(
        "failed_assert",
        "assert",
        """#include <assert.h>
__global__ void f(float* x, int n) {
  assert(n < 10);  // !
  x[0] = n;
}""".replace("#include <assert.h>\n", ""),
        "  assert(n > 10);",
        block=1,
    ),
    Fault(
        "trap",
        "trap",
        """__global__ void f(float* x, int n) {
  if (threadIdx.x == 3)
    __trap();  // !
  x[threadIdx.x] = 1.0f;
}""",
        "    x[3] = 2.0f;",
        block=32,
    ),
]


@pytest.mark.parametrize("fault", GALLERY, ids=lambda fault: fault.name)
def test_the_line_is_named(fault: Fault) -> None:
    kernel = gp.jit(fault.source, "f")
    x = gp.ones(fault.size)
    report = gp.sim.check(kernel, x, fault.size, grid=fault.grid, block=fault.block)
    assert not report
    first = report.findings[0]
    assert (first.kind, first.line) == (fault.kind, fault.line), str(report)
    assert first.kernel == "f" or "f" in first.kernel
    assert first.file == "f.cu"
    assert first.source.strip().endswith("// !")
    assert f"f.cu:{fault.line}: {fault.kind}" in str(report)


@pytest.mark.parametrize("fault", GALLERY, ids=lambda fault: fault.name)
def test_nothing_is_said_of_the_repaired_kernel(fault: Fault) -> None:
    kernel = gp.jit(fault.repaired, "f")
    report = gp.sim.check(
        kernel, gp.ones(fault.size), fault.size, grid=fault.grid, block=fault.block
    )
    assert report.ok, str(report)
    assert len(report.launches) == 1


def test_a_missing_barrier_is_a_race() -> None:
    source = """__global__ void f(float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float other = s[63 - threadIdx.x];
  BARRIER
  s[threadIdx.x] = other + 1.0f;
  x[threadIdx.x] = s[threadIdx.x];
}"""
    good = gp.jit(source.replace("BARRIER", "__syncthreads();"), "f")
    bad = gp.jit(source.replace("BARRIER", ""), "f")
    assert gp.sim.check(good, gp.ones(64), grid=1, block=64).ok
    report = gp.sim.check(bad, gp.ones(64), grid=1, block=64)
    assert [finding.kind for finding in report.findings][:1] == ["race"], str(report)
    assert report.findings[0].line in (5, 7)
    assert gp.sim.check(bad, gp.ones(64), grid=1, block=64, races=False).ok


def test_outside_of_a_check_a_fault_is_an_error() -> None:
    fault = GALLERY[0]
    kernel = gp.jit(fault.source, "f")
    x = gp.ones(64)
    with pytest.raises(
        gp.CudaError, match=r"f: CUDA_ERROR_ILLEGAL_ADDRESS: f.cu:4: out of bounds"
    ) as e:
        kernel(x, 64, block=128)
    assert e.value.code == 700
    assert "'x'" in str(e.value)
    kernel(x, 63, block=64)  # and the next call works
    assert x.tolist() == [1.0] * 64


def test_a_report_covers_every_launch_of_a_function() -> None:
    kernel = gp.jit(GALLERY[0].source, "f")

    def work(count: int) -> str:
        for _ in range(count):
            kernel(gp.ones(64), 63, block=64)
        return "done"

    report = gp.sim.check(work, 3)
    assert (len(report.launches), report.ok, report.result) == (3, True, "done")
    assert report.launches[0].block == (64, 1, 1)
    assert str(report) == "3 launches, no findings"


def test_profile_counts_by_line() -> None:
    kernel = gp.jit(
        """__global__ void f(const float* x, float* y, int stride) {
  int i = threadIdx.x;
  y[i] = x[i * stride];
}""",
        "f",
    )
    x = gp.ones(32 * 32)
    dense = gp.sim.profile(kernel, x, gp.zeros(32), 1, grid=1, block=32)
    strided = gp.sim.profile(kernel, x, gp.zeros(32), 32, grid=1, block=32)
    (line,) = [line for line in dense.lines if line.line == 3]
    (other,) = [line for line in strided.lines if line.line == 3]
    assert line.sectors == line.ideal_sectors == 8  # 4 sectors read, 4 written
    assert (other.sectors, other.ideal_sectors) == (36, 8)
    assert "y[i] = x[i * stride];" in str(dense)


def script(folder: Path, fault: str) -> Path:
    path = folder / "program.py"
    path.write_text(
        textwrap.dedent(f'''
        import sys
        import pygpukit as gp

        kernel = gp.jit("""__global__ void f(float* x, int n) {{
          int i = threadIdx.x;
          if (i {fault} n) x[i] = 2.0f;
        }}""", "f")
        x = gp.ones(8)
        kernel(x, x.size, block=32)
        print("argument", sys.argv[1], x.tolist()[0])
        ''')
    )
    return path


@pytest.mark.parametrize(("fault", "code"), [("<", 0), ("<=", 1)])
def test_the_command_line(tmp_path: Path, fault: str, code: int) -> None:
    command = [sys.executable, "-m", "pygpukit", "check", str(script(tmp_path, fault)), "one"]
    env = {key: value for key, value in os.environ.items() if key != "PYGPUKIT_DEVICE"}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "argument one" in done.stdout
    assert ("f.cu:3: out of bounds" in done.stderr) == (code == 1), done.stderr
    assert "1 launches" in done.stderr


def test_arrays_on_the_simulated_device_have_bounds_of_their_own(run_python: RunPython) -> None:
    """They share the blocks of a pool: of 1001 floats the block has 1024."""
    done = run_python(
        """
import pygpukit as gp
kernel = gp.jit('''
__global__ void f(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) x[i] = 1.0f;
}''', "f")
x = gp.zeros(1001)
assert str(x.device) == "cuda:0"
report = gp.sim.check(kernel, x, x.size, grid=4, block=256)
(first,) = report.findings
assert (first.kind, first.line, first.block, first.thread) == (
    "out of bounds", 4, (3, 0, 0), (233, 0, 0))
assert "an array of 4004 bytes" in first.text, first.text
""",
        PYGPUKIT_DEVICE="sim",
    )
    assert done.returncode == 0, done.stderr


GRID_BARRIER = """
__global__ void rounds(unsigned* arrived, int* sums, int count) {
    for (int round = 1; round <= count; ++round) {
        if (threadIdx.x == 0) {
            atomicAdd(&sums[round - 1], (int)blockIdx.x);
            __threadfence();
            atomicAdd(arrived, 1u);
            while (*(volatile unsigned*)arrived < round * gridDim.x) { }
            __threadfence();
        }
        __syncthreads();
    }
}"""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_blocks_that_wait_for_each_other_under_any_schedule(seed: int) -> None:
    """More blocks than threads of the host: those that poll make room for the others."""
    kernel = gp.jit(GRID_BARRIER, "rounds")
    arrived, sums = gp.zeros(1, dtype="uint32"), gp.zeros(3, dtype="int32")
    report = gp.sim.check(kernel, arrived, sums, 3, grid=12, block=64, seed=seed)
    assert report.ok, report
    assert sums.tolist() == [66, 66, 66]
