"""Programs written for CuPy: asnumpy, get_array_module, get, and its kernel classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native

needs_nvrtc = pytest.mark.skipif(
    not _native.nvrtc_info()["available"], reason="NVRTC is not installed"
)


def test_conversions() -> None:
    x = gp.asarray([[1.0, 2.0], [3.0, 4.0]])
    host = gp.asnumpy(x)
    assert isinstance(host, np.ndarray)
    np.testing.assert_array_equal(host, x.get())
    assert gp.asnumpy(x, order="F").flags.f_contiguous
    out = np.empty((2, 2), np.float32)
    assert x.get(out=out) is out
    np.testing.assert_array_equal(out, host)
    np.testing.assert_array_equal(gp.asnumpy([1, 2]), [1, 2])
    assert gp.get_array_module(x, 3) is gp
    assert gp.get_array_module(np.ones(2), [1]) is np
    assert gp.get_array_module() is np


def squared_diff(**options: Any) -> gp.ElementwiseKernel:
    return gp.ElementwiseKernel(
        "T x, T y", "T z", "z = (x - y) * (x - y)", "squared_diff", **options
    )


def test_elementwise_kernel_by_its_reference() -> None:
    kernel = squared_diff(reference=lambda x, y: (x - y) ** 2)
    x, y = gp.arange(6, dtype="float32").reshape((2, 3)), gp.arange(3, dtype="float32")
    np.testing.assert_array_equal(kernel(x, y).to_numpy(), (x.to_numpy() - y.to_numpy()) ** 2)
    np.testing.assert_array_equal(kernel(x, 5).to_numpy(), (x.to_numpy() - 5) ** 2)
    out = gp.zeros((3, 2), "float32")
    assert kernel(x, y, out.T) is not None
    np.testing.assert_array_equal(out.to_numpy().T, (x.to_numpy() - y.to_numpy()) ** 2)
    assert kernel(gp.zeros((0, 3)), y).shape == (0, 3)
    two = gp.ElementwiseKernel(
        "int32 x", "int32 q, float64 r", "q = x / 2; r = 0.5 * x", "halves",
        reference=lambda x: (x // 2, 0.5 * x),
    )  # fmt: skip
    q, r = two(gp.arange(5, dtype="int32"))
    assert (q.tolist(), r.tolist()) == ([0, 0, 1, 1, 2], [0.0, 0.5, 1.0, 1.5, 2.0])
    assert r.dtype == gp.float64


def test_reduction_kernel_by_its_reference() -> None:
    kernel = gp.ReductionKernel(
        "T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm",
        reference=lambda rows: np.sqrt((rows * rows).sum(axis=1)),
    )  # fmt: skip
    host = np.random.default_rng(1).normal(size=(3, 4, 5)).astype(np.float32)
    x = gp.from_numpy(host)
    for axis in (None, 0, -1, (0, 2)):
        want = np.sqrt((host * host).sum(axis=axis))
        np.testing.assert_allclose(kernel(x, axis=axis).to_numpy(), want, rtol=1e-5)
        kept = kernel(x, axis=axis, keepdims=True)
        assert kept.shape == (host * host).sum(axis=axis, keepdims=True).shape
    out = gp.zeros(5)
    assert kernel(x, axis=(0, 1), out=out) is out


@needs_nvrtc
def test_generated_source_compiles() -> None:
    f32, f64, i64 = gp.ones(3), gp.ones(3, "float64"), gp.ones(3, "int64")
    sources = [
        (squared_diff(), (f32, f32)),
        (squared_diff(), (f64, 2.0)),
        (squared_diff(), (2, i64)),
        (gp.ElementwiseKernel("raw T x, raw int64 at", "T y", "y = x[at[i]] + _ind.size()",
                              "gather", preamble="#define TWO 2"), (f32, i64)),
        (gp.ElementwiseKernel("bool c, uint8 u", "raw float32 z", "if (c) z[i] = u", "scatter"),
         (gp.ones(3, "bool"), gp.ones(3, "uint8"))),
        (gp.ReductionKernel("T x, T y", "float64 z", "x * y", "a + b", "z = a / _in_ind.size()",
                            "0", "mean_product"), (f32, f32)),
        (gp.ReductionKernel("T x", "T y", "x", "a > b ? a : b", "y = a", "-1e30f", "largest",
                            reduce_type="float"), (f32,)),
    ]  # fmt: skip
    for kernel, args in sources:
        source = kernel.source(*args)
        compiled = gp.jit(source, kernel.name, reference=lambda *_: None)
        assert compiled.is_compiled
        assert kernel.name in compiled.ptx


@needs_nvrtc
def test_errors_of_the_source_are_reported() -> None:
    kernel = gp.ElementwiseKernel("T x", "T y", "y = no_such_name", "broken")
    with pytest.raises(gp.CompileError, match="no_such_name"):
        kernel(gp.ones(3))


@needs_nvrtc
def test_without_a_gpu_or_a_reference() -> None:
    assert squared_diff()(gp.ones(3), gp.zeros(3)).tolist() == [1.0] * 3


RAW = """
extern "C" __global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}"""


def test_raw_kernel() -> None:
    def scale(x: Any, factor: float, n: int) -> None:
        x[:n] *= factor

    kernel = gp.RawKernel(RAW, "scale", reference=scale)
    x = gp.ones(100)
    kernel((1,), (128,), (x, 3.0, 50))
    assert float(gp.sum(x)) == 200.0
    kernel(grid=1, block=128, args=(x, 2.0, x.size), shared_mem=0)
    assert float(gp.sum(x)) == 400.0
    assert kernel.name == "scale"
    assert kernel.attributes == {}
    with pytest.raises(ValueError, match="backend is 'nvcc'"):
        gp.RawKernel(RAW, "scale", backend="nvcc")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: gp.ElementwiseKernel("T", "T y", "y = 1"), ValueError, "in_params has 'T'"),
        (lambda: gp.ElementwiseKernel("T x", "", "y = 1"), ValueError, "out_params is empty"),
        (lambda: gp.ElementwiseKernel("T x", "T x", "x = 1"), ValueError, "occurs twice"),
        (lambda: squared_diff()(gp.ones(3)), TypeError, "1 arguments, expected 2 inputs"),
        (lambda: squared_diff()(gp.ones(3), gp.ones(3, "float64")), TypeError, "y has dtype"),
        (lambda: squared_diff()(gp.ones(3), gp.ones(4)), ValueError, "broadcast"),
        (lambda: squared_diff()(gp.ones(3), 1, gp.ones(4)), ValueError, "output has shape"),
        (lambda: squared_diff()(gp.ones(3, "bfloat16"), 1), TypeError, "has no C type"),
        (lambda: squared_diff()(1, 2), ValueError, "expected one device"),
        (lambda: gp.ElementwiseKernel("raw T x", "T y", "y = 1")(gp.ones(3)), ValueError, "size="),
        (lambda: gp.ElementwiseKernel("T x", "U y", "y = 1")(gp.ones(3)), TypeError, "type U"),
        (lambda: gp.ReductionKernel("raw T x", "T y", "x", "a+b", "y=a", "0"), ValueError, "raw"),
    ],
)  # fmt: skip
def test_errors(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
