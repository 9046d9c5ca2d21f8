"""NVRTC as seen from Python: codes, queries, absence, warm-up, driver requirements."""

from __future__ import annotations

import os

import pytest

import pygpukit as gp
from pygpukit import _native

SCALE = """
__global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""

needs_nvrtc = pytest.mark.skipif(
    not _native.nvrtc_info()["available"], reason="NVRTC is not installed"
)


def test_error_codes() -> None:
    names = {code.name: int(code) for code in gp.NvrtcErrorCode}
    assert names["Compilation"] == 6
    assert [
        names[n] for n in ("NotLoaded", "PtxLoadFailed", "FunctionNotFound", "LaunchFailed")
    ] == [
        1000,
        1001,
        1002,
        1003,
    ]
    assert sorted(names.values()) == [*range(12), 1000, 1001, 1002, 1003]
    error = gp.NvrtcError("message", gp.NvrtcErrorCode.NotLoaded, "log")
    assert (str(error), error.code, error.compilation_log) == ("[NotLoaded] message", 1000, "log")
    assert gp.NvrtcError("m").code is gp.NvrtcErrorCode.InternalError
    assert gp.NvrtcError("m", 4711).code is gp.NvrtcErrorCode.InternalError  # a later NVRTC's
    assert issubclass(gp.NvrtcError, RuntimeError)


@needs_nvrtc
def test_nvrtc_queries() -> None:
    major, minor = gp.get_nvrtc_version() or (0, 0)
    assert major >= 11
    assert minor >= 0
    path = gp.get_nvrtc_path()
    assert path is not None
    assert os.path.isfile(path)


def test_driver_requirements() -> None:
    needs = gp.get_driver_requirements()
    assert needs["min_driver_version"] == "11.0"
    assert set(needs) == {
        "min_driver_version",
        "min_gpu_architecture",
        "recommended_driver_version",
        "recommended_gpu",
        "supported_architectures",
        "notes",
    }
    assert all(isinstance(text, str) and text for text in needs.values())
    fine, why = gp.check_driver_compatibility()
    assert isinstance(why, str)
    assert why
    if gp.get_device_count() == 0:
        assert not fine


HIDDEN = "/nonexistent/folder"


def test_without_nvrtc(run_python) -> None:
    code = f"""
import pygpukit as gp
from pygpukit.jit import compiler
print(gp.is_nvrtc_available(), gp.get_nvrtc_version(), gp.get_nvrtc_path())
kernel = gp.jit({SCALE!r}, "scale", reference=lambda x, factor, n: x.__imul__(factor))
print(kernel.is_compiled, kernel)
x = gp.ones(3); kernel(x, 2.0, 3); print(x.to_numpy().tolist())
for call in (lambda: compiler.compile_to_ptx({SCALE!r}), lambda: kernel.ptx):
    try:
        call()
    except gp.NvrtcError as e:
        print(e.code.name, "NVRTC JIT compiler not available" in str(e), {HIDDEN!r} in str(e),
              "pip install" in str(e))
print(gp.warmup(), gp.is_warmup_done(), type(gp.get_warmup_error()).__name__, gp.warmup())
"""
    done = run_python(code, PYGPUKIT_NVRTC_PATH=HIDDEN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "False None None",
        "False JITKernel(scale, not compiled, cpu)",
        "[2.0, 2.0, 2.0]",
        "NotLoaded True True True",
        "NotLoaded True True True",
        "False True NvrtcError False",
    ]


@needs_nvrtc
def test_warmup(run_python) -> None:
    code = """
import threading, pygpukit as gp
print(gp.is_warmup_done(), gp.get_warmup_error())
called, main = [], threading.current_thread()
done = threading.Event()
def callback():
    called.append(threading.current_thread())
    done.set()
print(gp.warmup(background=True, callback=callback))
print(done.wait(60), gp.is_warmup_done(), gp.get_warmup_error())
print(called[0] is not main, called[0].daemon)
print(gp.warmup(), gp.warmup(callback=lambda: called.append(1)), len(called))
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "False None",
        "True",
        "True True None",
        "True True",
        "True True 2",
    ]
