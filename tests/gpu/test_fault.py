"""What happens when a kernel breaks the GPU context, and modes with parts missing."""

from __future__ import annotations

import json

import pytest

from pygpukit import _native

FAULT = """
import pygpukit as gp
kernel = gp.jit("__global__ void wild(float* x, long long at) { x[at] = 1.0f; }", "wild")
x = gp.zeros(16)
kernel(x, 1 << 40, grid=3, block=64)
kinds = []
for _ in range(4):
    try:
        x.to_numpy()
    except Exception as e:
        kinds.append(type(e).__name__)
        if not isinstance(e, gp.DeviceLostError):
            print(e.call, e.name, e.code, "|", e.launches[0])
        else:
            lost = str(e)
try:
    gp.zeros(4) + gp.zeros(4)
except gp.DeviceLostError:
    kinds.append("op lost")
print(kinds)
print(lost)
"""


@pytest.mark.hardware("it reports the fault on stderr")
def test_fault_out_of_bounds_write(run_python) -> None:  # type: ignore[no-untyped-def]
    done = run_python(FAULT)
    assert done.returncode == 0, done.stderr
    first, kinds, lost = done.stdout.strip().splitlines()
    assert "CUDA_ERROR_ILLEGAL_ADDRESS 700" in first
    assert "wild<<<(3,1,1), (64,1,1)>>>" in first
    assert kinds == str(["CudaError", *["DeviceLostError"] * 3, "op lost"])
    assert "wild" in lost
    assert done.stderr == ""


def test_fault_launch_blocking_names_the_launch(run_python) -> None:  # type: ignore[no-untyped-def]
    program = """
import pygpukit as gp
kernel = gp.jit("__global__ void wild(float* x, long long at) { x[at] = 1.0f; }", "wild")
x = gp.zeros(16)
try:
    kernel(x, 1 << 40, grid=1, block=1)
except gp.CudaError as e:
    print(e.call)
"""
    done = run_python(program, PYGPUKIT_LAUNCH_BLOCKING="1")
    assert done.stdout == "cuStreamSynchronize\n", done.stderr


def test_fault_device_assert(run_python) -> None:  # type: ignore[no-untyped-def]
    program = """
import pygpukit as gp
kernel = gp.jit("__global__ void stop() { __trap(); }", "stop")
kernel(grid=1, block=1)
try:
    gp.synchronize()
except gp.CudaError as e:
    print(e.name)
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("CUDA_ERROR_")


def test_driver_only_mode(run_python) -> None:  # type: ignore[no-untyped-def]
    """NVRTC hidden: every built-in op runs from the PTX bundle, custom kernels explain."""
    if _native.bundle_info()["kernels"] == 0:
        pytest.skip("this build has no PTX bundle")
    program = """
import json, numpy as np, pygpukit as gp
from pygpukit import _native
done = []
for dtype in ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 "
              "float64 complex64 complex128").split():
    a = gp.ones(4099, dtype)
    host = np.ones(4099, a.dtype.to_numpy_dtype())
    assert np.array_equal((a + a).to_numpy(), host + host), dtype
    assert np.array_equal((a * True).to_numpy(), host), dtype
    done.append(dtype)
try:
    gp.jit("__global__ void f() {}", "f")
    message = ""
except gp.NvrtcError as e:
    message = str(e)
    assert e.code == gp.NvrtcErrorCode.NotLoaded
print(json.dumps([len(done), _native.nvrtc_info()["available"], message]))
"""
    done = run_python(program, PYGPUKIT_NVRTC_PATH="/nonexistent/libnvrtc.so")
    assert done.returncode == 0, done.stderr
    count, available, message = json.loads(done.stdout)
    assert count == 15
    assert available is False
    assert "NVRTC JIT compiler not available" in message
    assert "/nonexistent/libnvrtc.so" in message
    assert "pip install pygpukit[jit]" in message


def test_fork_after_use_is_refused(run_python) -> None:  # type: ignore[no-untyped-def]
    program = """
import os
import pygpukit as gp
x = gp.ones(3)
x.to_numpy()
child = os.fork()
if child == 0:
    try:
        gp.ones(3)
        code = 1
    except gp.GpuUnavailable as e:
        code = 0 if "spawn" in str(e) else 2
    del x
    os._exit(code)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert (x.to_numpy() == 1).all()
"""
    done = run_python(program)
    assert done.stdout == "0\n", done.stderr
