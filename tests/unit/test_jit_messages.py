"""Kernels, fused functions and tasks given what they cannot use: errors name the argument."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import pygpukit as gp
from pygpukit.scheduler import submit

SCALE = "__global__ void scale(float* x, float f, int n) { x[n] *= f; }"
anything: Any = gp
needs_nvrtc = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: anything.jit(SCALE, None), TypeError, "jit: func is None, expected a str"),
        (lambda: anything.jit(b"x", "x"), TypeError, "jit: source is b'x', expected a str"),
        (lambda: gp.jit(SCALE + "\0", "scale"), ValueError, "jit: source has a NUL character"),
        (lambda: gp.jit("// \udcff", "scale"), TypeError, "jit: source is"),
        (lambda: gp.jit("", "scale"), ValueError, "it has no __global__ function"),
        (lambda: anything.jit(SCALE, "scale", None, "a"), TypeError, "jit: block_size is 'a'"),
        (
            lambda: gp.jit(SCALE, "scale", None, 2**40),
            ValueError,
            f"jit: block_size is {2**40}, ",
        ),
        (lambda: gp.jit(SCALE, "scale", None, 4096), ValueError, "jit: block_size is 4096"),
        (lambda: anything.fuse(3), TypeError, "fuse: function is int 3, expected a function"),
        (lambda: anything.scheduler.submit(3), TypeError, "submit: fn is int 3"),
        (lambda: submit(int, after=3), TypeError, "submit: after is int 3"),  # type: ignore[arg-type]
        (lambda: submit(int, after=[3]), TypeError, "submit: after has 3, expected a TaskFuture"),  # type: ignore[list-item]
        (lambda: submit(int, kwargs=3), TypeError, "submit: kwargs is 3, expected a dict"),  # type: ignore[arg-type]
        (lambda: submit(int, kwargs={1: 2}), TypeError, "submit: kwargs is {1: 2}, expected a"),  # type: ignore[dict-item]
    ],
)
def test_arguments(call: Callable[[], object], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=re.escape(says)):
        call()


@needs_nvrtc
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"grid": "a"}, "scale: grid is 'a', expected an integer"),
        ({"block": 1.5}, "scale: block is 1.5, expected an integer"),
        ({"grid": 2**40}, "scale: grid is (1099511627776,), each size must be at most 2**32 - 1"),
        ({"grid": 0}, "scale: grid is (0,), each size must be at least 1"),
        ({"grid": 32, "cluster": 32}, "scale: cluster is (32, 1, 1), expected 1 to 16 blocks"),
        ({"grid": 4, "cluster": 3}, "grid (4, 1, 1) is not a multiple of cluster (3, 1, 1)"),
    ],
)
def test_launch_options(options: dict[str, Any], says: str) -> None:
    kernel = gp.jit(SCALE, "scale")
    with pytest.raises((TypeError, ValueError), match=re.escape(says)):
        kernel(gp.ones(4, device="cpu"), 1.0, 0, **options)


@needs_nvrtc
def test_kernels_have_their_names_of_the_source() -> None:
    source = "template <class T> __global__ void f(T* x) { x[1 << 20] = 1; }"
    kernel = gp.RawModule(source, name_expressions=["f<float>"]).get_function("f<float>")
    x = gp.ones(4, device="cpu")
    with pytest.raises(gp.CudaError, match=re.escape("(kernel f<float>, block (0, 0, 0)")):
        kernel(x, grid=1, block=1)
    report = gp.sim.check(kernel, x, grid=1, block=1)
    assert report.findings[0].kernel == report.launches[0].kernel == "f<float>"
    plain = gp.jit('extern "C" __global__ void f(float* x) { x[1 << 20] = 1; }', "f")
    assert gp.sim.check(plain, x, grid=1, block=1).findings[0].kernel == "f"


@needs_nvrtc
def test_a_fault_leaves_no_trace_of_its_arguments() -> None:
    kernel = gp.jit(SCALE, "scale")
    x = gp.ones(1000, device="cpu")
    for view in (x[10:20], x, x[:500]):
        with pytest.raises(gp.CudaError, match=re.escape(f"'x' (float32 {view.shape})")):
            kernel(view, 1.0, 1 << 20, grid=1, block=1)
    y = gp.ones(1000, device="cpu")
    address = int(x.device_ptr)
    with pytest.raises(gp.CudaError, match="out of bounds"):  # x is no argument of this launch
        gp.jit("__global__ void f(float* y, float* x) { *y = *x; }", "f")(
            y, address, grid=1, block=1
        )
