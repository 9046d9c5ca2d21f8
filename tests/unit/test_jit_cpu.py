"""jit on CPU simulation: signatures, compile errors, reference functions, NVRTC queries."""

from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native
from pygpukit.jit import compiler

SCALE = """
__global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""

needs_nvrtc = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")


def scale_reference(x: Any, factor: float, n: int) -> None:
    x[:n] *= np.float32(factor)


@pytest.fixture
def scale() -> gp.JITKernel:
    return gp.jit(SCALE, "scale", reference=scale_reference)


# --- the kernel object ---


def test_properties() -> None:
    kernel = gp.jit(SCALE, "scale", ["-DX=1"], 128)
    assert isinstance(kernel, gp.JITKernel)
    assert (kernel.source, kernel.name, kernel.block_size) == (SCALE, "scale", 128)
    assert kernel.options == ["-DX=1"]
    assert kernel.signature == [("x", "float*", 8), ("factor", "float", 4), ("n", "int", 4)]
    assert kernel.is_compiled == gp.is_nvrtc_available()
    assert "scale" in repr(kernel)
    assert ("not compiled" in repr(kernel)) != kernel.is_compiled
    assert (kernel.attributes != {}) == kernel.is_compiled
    assert gp.jit(SCALE, "scale", reference=scale_reference).attributes == {}
    assert gp.JITKernel(SCALE, func_name="scale", options=None, block_size=256).options == []


@needs_nvrtc
def test_ptx(scale: gp.JITKernel) -> None:
    assert ".entry" in scale.ptx
    assert not scale.ptx.endswith("\\0")
    ptx, log = compiler.compile_to_ptx(SCALE, options=["-DX=1"])
    assert ".version" in ptx
    assert isinstance(log, str)


@needs_nvrtc
@pytest.mark.parametrize(
    "source",
    [
        "#include <cuda_fp16.h>\n__global__ void f(__half* x) { x[0] = __float2half(1.0f); }",
        "#include <cuda_bf16.h>\n__global__ void f(__nv_bfloat16* x) { x[0] = x[1]; }",
    ],
    ids=["cuda_fp16.h", "cuda_bf16.h"],
)
def test_cuda_headers(source: str) -> None:
    if not _native.nvrtc_info()["include_folder"]:  # the error explains how to get the headers
        with pytest.raises(gp.CompileError, match=r"pip install .*nvidia-cuda-runtime"):
            gp.jit(source, "f")
        return
    kernel = gp.jit(source, "f", reference=lambda x: None)
    dtype = "float16" if "fp16" in source else "bfloat16"
    kernel(gp.zeros(4, dtype))
    with pytest.raises(TypeError, match=f"expected a GPUArray of dtype {dtype}"):
        kernel(gp.zeros(4, "float32"))


# --- what is refused ---


@pytest.mark.parametrize(
    ("source", "function"),
    [
        (SCALE, "nope"),
        (SCALE, "scal"),
        (SCALE, ""),
        ("", "scale"),
        ("// __global__ void scale(float* x) {}", "scale"),
        ("__device__ void scale(float* x) {}", "scale"),
    ],
)
def test_missing_function(source: str, function: str) -> None:
    with pytest.raises(ValueError, match=f"Function '{function}' not found"):
        gp.jit(source, function)


def test_missing_function_names_the_others() -> None:
    with pytest.raises(ValueError, match="it has scale"):
        gp.jit(SCALE, "nope")


@needs_nvrtc
def test_compile_error() -> None:
    source = "// first line\n__global__ void f(float* x) {\n  x[0] = undefined_thing;\n}\n"
    with pytest.raises(gp.CompileError) as caught:
        gp.jit(source, "f", options=["-DSOMETHING=1", "--std=c++20"])
    error = caught.value
    assert isinstance(error, gp.NvrtcError)
    assert isinstance(error, RuntimeError)
    assert error.code is gp.NvrtcErrorCode.Compilation
    assert 'identifier "undefined_thing" is undefined' in error.compilation_log
    assert error.source == source
    assert "-DSOMETHING=1" in error.flags
    text = str(error)
    assert text.startswith("[Compilation] ")
    assert error.compilation_log.strip() in text
    assert "3 |   x[0] = undefined_thing;" in text
    assert "-DSOMETHING=1 --std=c++20" in text
    with pytest.raises(gp.CompileError):  # a failure is not cached
        gp.jit(source, "f", options=["-DSOMETHING=1", "--std=c++20"])


@needs_nvrtc
def test_bad_flag() -> None:
    with pytest.raises(gp.NvrtcError, match="--nonsense") as caught:
        gp.jit(SCALE, "scale", options=["--nonsense"])
    assert caught.value.code is gp.NvrtcErrorCode.InvalidOption


@needs_nvrtc
@pytest.mark.parametrize(
    "options",
    [
        ["-O3"],
        ["-O", "3"],
        ["--optimize=3"],
        ["-x", "cu"],
        ["-m64"],
        ["-std", "c++14"],
        ["-std=c++11", "-lineinfo", "-use_fast_math", "-maxrregcount=32", "-Xptxas=-v"],
    ],
)
def test_nvcc_spellings(options: list[str]) -> None:
    kernel = gp.jit(SCALE, "scale", options=options)
    assert kernel.is_compiled
    assert kernel.options == options


@needs_nvrtc
@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("-O1", "--ptxas-options=-O1"),
        ("-gencode=arch=compute_90,code=sm_90", "-arch=sm_90"),
        ("-Xcompiler=-Wall", "there is no host compiler"),
        ("-lcudart", "nothing is linked"),
        ("-ptx", "kernel.ptx"),
        ("-g", "-lineinfo"),
        ("-v", "--ptxas-options=-v"),
        ("--expt-relaxed-constexpr", "-default-device"),
        ("-arch=sm_1", "gpu-architecture"),
    ],
)
def test_nvcc_options_that_nvrtc_lacks(option: str, advice: str) -> None:
    with pytest.raises(gp.NvrtcError, match=r"scale\.cu: options: ") as caught:
        gp.jit(SCALE, "scale", options=[option])
    assert caught.value.code is gp.NvrtcErrorCode.InvalidOption
    text = str(caught.value)
    assert advice in text
    assert "NVRTC's options are -D, -U, -I" in text


@needs_nvrtc
def test_missing_header() -> None:
    with pytest.raises(gp.CompileError, match="nowhere"):
        gp.jit('#include "nowhere.h"\n' + SCALE, "scale")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((3, "scale"), TypeError),
        ((SCALE, None), TypeError),
        ((SCALE, "scale", "-G"), TypeError),
        ((SCALE, "scale", [1]), TypeError),
        ((SCALE, "scale", None, 0), ValueError),
        ((SCALE, "scale", None, 1025), ValueError),
        ((SCALE, "scale", None, "x"), TypeError),
    ],
    ids=["source", "func", "options str", "options int", "block 0", "block 1025", "block str"],
)
def test_bad_arguments_of_jit(arguments: Any, error: Any) -> None:
    with pytest.raises(error):
        gp.jit(*arguments)


def test_reference_must_be_callable() -> None:
    with pytest.raises(TypeError, match="reference"):
        gp.jit(SCALE, "scale", reference=3)  # type: ignore[arg-type]
    module = gp.RawModule(SCALE)
    with pytest.raises(TypeError, match="reference is 3"):
        module.get_function("scale", reference=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="block_size is 0"):
        module.get_function("scale", block_size=0)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "words"),
    [
        (
            (),
            {},
            TypeError,
            ("missing arguments: 'x', 'factor', 'n'", "float* x, float factor, int n"),
        ),
        (("X", 1.0), {}, TypeError, ("missing arguments: 'n'",)),
        (("X", 1.0, 4, 5), {}, TypeError, ("got 4 positional arguments, expected 3",)),
        (("X", 1.0, 4), {"n": 4}, TypeError, ("'n' was given twice",)),
        (("X", 1.0, 4), {"foo": 4}, TypeError, ("unknown argument 'foo'",)),
        (("F64", 1.0, 4), {}, TypeError, ("'x' (float*)", "float64", "float32")),
        ((np.ones(4, np.float32), 1.0, 4), {}, TypeError, ("'x' (float*)", "ndarray", "GPUArray")),
        (("X", "a", 4), {}, TypeError, ("'factor' (float)", "'a'", "a number")),
        (("X", "X", 4), {}, TypeError, ("'factor' (float)", "GPUArray")),
        (("X", 1.0, 0.5), {}, TypeError, ("'n' (int)", "0.5", "an integer")),
        (("X", 1.0, 2**31), {}, ValueError, ("'n' (int)", "2147483648", "2147483647")),
        (("X", 1.0, 4), {"grid": 0}, ValueError, ("grid is (0,)",)),
        (("X", 1.0, 4), {"grid": (1, 1, 1, 1)}, ValueError, ("one to three",)),
        (("X", 1.0, 4), {"block": (1, -1)}, ValueError, ("block is (1, -1)",)),
        (("X", 1.0, 4), {"shared_mem": -1}, TypeError, ("shared_mem is -1",)),
        (("X", 1.0, 4), {"stream": "x"}, TypeError, ("stream is 'x'",)),
        (("X", 1.0, 4), {"block": 2048}, ValueError, ("block", "2048")),
        (("X", 1.0, 4), {"block": (1, 1, 128)}, ValueError, ("block", "128")),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_call(scale: gp.JITKernel, args: Any, kwargs: Any, error: Any, words: Any) -> None:
    x = gp.ones(4)
    given = {"X": x, "F64": gp.ones(4, "float64")}
    values = [given.get(a, a) if isinstance(a, str) else a for a in args]
    for call in (scale, scale.bind):
        with pytest.raises(error, match=r"^scale: ") as caught:
            call(*values, **kwargs)
        assert isinstance(caught.value, gp.InvalidArgument)
        for word in words:
            assert word in str(caught.value)
    assert x.to_numpy().tolist() == [1] * 4


def test_grid_is_needed_without_arrays() -> None:
    kernel = gp.jit("__global__ void f(int n) {}", "f", reference=lambda n: None)
    kernel(3, grid=1)
    with pytest.raises(TypeError, match="f: grid= is required"):
        kernel(3)


# --- calls ---


def test_reference_runs(scale: gp.JITKernel) -> None:
    x = gp.ones(6)
    assert scale(x, 2.0, 4) is None
    scale(x, n=2, factor=np.float32(3.0))
    scale(x, factor=1, n=np.int64(1), grid=(1, 2), block=32, stream=gp.Stream(), shared_mem=16)
    scale(x, 1.0, 6, grid_size=4)
    assert x.to_numpy().tolist() == [6, 6, 2, 2, 1, 1]


def test_reference_gets_views_of_the_arrays() -> None:
    seen: list[Any] = []
    source = "__global__ void f(float* a, const double* b, void* c, long long n, bool flag) {}"
    kernel = gp.jit(source, "f", reference=lambda *a: seen.extend(a))
    a = gp.ones((2, 3))
    kernel(a, gp.ones(4, "float64"), gp.ones(2, "bfloat16"), 2**40, True, grid=1)
    assert [type(value) for value in seen] == [np.ndarray] * 3 + [int, bool]
    assert (seen[0].shape, seen[0].dtype, seen[2].dtype) == ((2, 3), np.float32, ml_dtypes.bfloat16)
    assert seen[3:] == [2**40, True]
    seen[0][1, 2] = 5
    assert a.to_numpy()[1, 2] == 5
    del a
    assert seen[0].sum() == 10  # the view keeps the memory


def test_reference_with_packed_arrays_stays_inside_its_memory() -> None:
    """Two int4 values share a byte: a view of one byte per element would run past the end."""
    seen: list[Any] = []
    kernel = gp.jit("__global__ void f(void* x) {}", "f", reference=seen.append)
    x = gp.zeros(7, "int4")
    try:
        kernel(x)
    except gp.InvalidArgument:
        return  # refusing is fine
    assert seen[0].nbytes <= x.nbytes


def test_reference_errors_come_through() -> None:
    def bad(x: Any) -> None:
        raise KeyError("boom")

    kernel = gp.jit("__global__ void f(float* x) {}", "f", reference=bad)
    with pytest.raises(KeyError, match="boom"):
        kernel(gp.ones(1))


def test_null_pointers_and_addresses() -> None:
    seen: list[Any] = []
    kernel = gp.jit("__global__ void f(float* x) {}", "f", reference=seen.append)
    kernel(None, grid=1)
    kernel(1 << 40, grid=1)
    assert seen == [None, 1 << 40]


def test_struct_arguments() -> None:
    seen: list[Any] = []
    source = "struct P { int a; float b; }; __global__ void f(P p, float* x) { x[0] = p.b; }"
    kernel = gp.jit(source, "f", reference=lambda p, x: seen.append(p))
    record = np.zeros(1, [("a", "i4"), ("b", "f4")])
    kernel(record, gp.ones(1))
    kernel(record.tobytes(), gp.ones(1))
    assert len(seen) == 2
    with pytest.raises(TypeError, match=r"'p' \(P\)"):
        kernel(3.5, gp.ones(1))


@needs_nvrtc
def test_without_reference() -> None:
    kernel = gp.jit(SCALE, "scale")
    x = gp.ones(4)
    kernel(x, 2.0, 4)
    with pytest.raises(TypeError):
        kernel(x)
    kernel.bind(x, 3.0, 2)()
    assert x.tolist() == [6.0, 6.0, 2.0, 2.0]


def test_bound_kernel(scale: gp.JITKernel) -> None:
    x = gp.ones(4)
    bound = scale.bind(x, factor=2.0, n=4)
    assert isinstance(bound, gp.BoundKernel)
    assert "scale" in repr(bound)
    bound()
    bound()
    assert x.to_numpy().tolist() == [4] * 4
    with pytest.raises(TypeError, match="takes no arguments"):
        bound(1)


def test_kernels_are_recorded_in_graphs(scale: gp.JITKernel) -> None:
    x = gp.ones(4)
    bound = scale.bind(x, 5.0, 1)
    graph = gp.CudaGraph()
    with graph:
        scale(x, 2.0, 4)
        bound()
        gp.add(x, 1.0, out=x)
    assert (graph.num_nodes, x.to_numpy().tolist()) == (3, [1] * 4)
    del scale, bound
    graph.replay()
    graph.replay()
    assert x.to_numpy().tolist() == [111, 7, 7, 7]


def test_error_while_replaying() -> None:
    def bad(x: Any) -> None:
        raise KeyError("boom")

    kernel = gp.jit("__global__ void f(float* x) {}", "f", reference=bad)
    graph = gp.CudaGraph()
    with graph:
        kernel(gp.ones(1))
    with pytest.raises(KeyError, match="boom"):
        graph.replay()


def test_calls_from_many_threads(scale: gp.JITKernel) -> None:
    arrays = [gp.ones(100) for _ in range(8)]

    def work(x: gp.GPUArray) -> None:
        for _ in range(20):
            scale(x, 1.5, 100)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    want = np.ones(100, np.float32)
    for _ in range(20):
        want *= np.float32(1.5)
    for x in arrays:
        np.testing.assert_array_equal(x.to_numpy(), want)


# --- RawModule ---


@needs_nvrtc
def test_raw_module() -> None:
    source = SCALE + "template <typename T> __global__ void fill(T* x, T v) { x[0] = v; }"
    module = gp.RawModule(source, name_expressions=["fill<double>"])
    seen: list[Any] = []
    module.get_function("scale", reference=scale_reference)(gp.ones(4), 2.0, 4)
    fill = module.get_function("fill<double>", reference=lambda x, v: seen.append((x.dtype, v)))
    fill(gp.ones(1, "float64"), 2.5)
    assert seen == [(np.float64, 2.5)]
    with pytest.raises(ValueError, match="Function 'nope' not found"):
        module.get_function("nope")
    with pytest.raises(gp.NvrtcError, match="no __device__ or __constant__ variable 'table'"):
        module.get_global("table")
    assert module.source == source
    assert ".entry" in module.ptx
