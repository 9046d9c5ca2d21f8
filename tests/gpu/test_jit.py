"""Custom kernels on the GPU: arguments, launch options, templates, globals, attributes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native

SCALE = """
__global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""

SCALARS = [
    ("bool", True, "uint8"),
    ("char", -5, "int8"),
    ("signed char", -128, "int8"),
    ("unsigned char", 255, "uint8"),
    ("short", -32768, "int16"),
    ("unsigned short", 65535, "uint16"),
    ("int", -(2**31), "int32"),
    ("unsigned int", 2**32 - 1, "uint32"),
    ("long", -(2**63), "int64"),
    ("long long", 2**63 - 1, "int64"),
    ("unsigned long long", 2**64 - 1, "uint64"),
    ("size_t", 2**64 - 1, "uint64"),
    ("float", 1.5, "float32"),
    ("double", 1e300, "float64"),
]


@pytest.mark.parametrize(("ctype", "value", "dtype"), SCALARS)
def test_scalar_types(ctype: str, value: float, dtype: str) -> None:
    stored = "unsigned char" if ctype == "bool" else ctype
    source = f"__global__ void store({stored}* out, char pad, {ctype} value) {{ *out = value; }}"
    out = gp.zeros(1, dtype)
    gp.jit(source, "store")(out, 1, value)
    assert out.to_numpy()[0] == np.dtype(dtype).type(value)


def test_positional_keyword_and_mixed_arguments() -> None:
    kernel = gp.jit(SCALE, "scale")
    for call in (
        lambda x: kernel(x, 2.0, 4),
        lambda x: kernel(x, factor=2.0, n=4),
        lambda x: kernel(n=4, factor=2, x=x),
        lambda x: kernel(x, np.float32(2), n=np.int64(4)),
        lambda x: kernel(x, 2.0, 4, grid=(1,), block=(32, 1, 1)),
        lambda x: kernel(x, 2.0, 4, grid_size=1),
    ):
        x = gp.ones(4)
        call(x)
        assert x.to_numpy().tolist() == [2, 2, 2, 2]


def test_struct_by_bytes() -> None:
    source = """
    struct Params { float a; int b; double c; };
    __global__ void use(double* out, Params p) { out[0] = p.a; out[1] = p.b; out[2] = p.c; }
    """
    layout = np.dtype([("a", "f4"), ("b", "i4"), ("c", "f8")])
    value = np.array((1.5, -7, 2.25), layout)
    out = gp.zeros(3, "float64")
    kernel = gp.jit(source, "use")
    kernel(out, value)
    assert out.to_numpy().tolist() == [1.5, -7, 2.25]
    with pytest.raises(ValueError, match=r"use: argument 'p' .* expected 16 bytes, not 8"):
        kernel(out, value.tobytes()[:8])


def test_half_precision_arguments_and_headers() -> None:
    if not _native.nvrtc_info()["include_folder"]:
        pytest.skip("no CUDA headers here")
    source = """
    #include <cuda_fp16.h>
    __global__ void twice(__half* x, __half f) { x[threadIdx.x] = __hmul(x[threadIdx.x], f); }
    """
    x = gp.full(8, 1.5, "float16")
    gp.jit(source, "twice")(x, 2.0, grid=1, block=8)
    assert x.to_numpy().tolist() == [3.0] * 8


def test_templates_globals_and_several_kernels() -> None:
    module = gp.RawModule(
        """
        __constant__ float table[4];
        __device__ int counter;
        namespace inner { __constant__ int bias; }
        template <typename T> __global__ void fill(T* x, T v, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = v + (T)table[i % 4] + (T)inner::bias;
        }
        __global__ void count() { atomicAdd(&counter, 1); }
        """,
        name_expressions=["fill<float>", "fill<double>", "&inner::bias"],
    )
    module.set_global("table", np.arange(4, dtype=np.float32))
    module.set_global("inner::bias", np.int32(10))
    x = gp.zeros(8, "float64")
    module.get_function("fill<double>")(x, 0.5, 8)
    assert x.to_numpy().tolist() == [10.5, 11.5, 12.5, 13.5] * 2
    module.set_global("counter", np.int32(0))
    module.get_function("count")(grid=3, block=32)
    assert module.get_global("counter", "int32").to_numpy().tolist() == [96]
    with pytest.raises(gp.NvrtcError, match="no_such"):
        module.get_global("no_such")


def test_launch_options() -> None:
    source = """
    extern __shared__ char dynamic[];
    __global__ void shape(int* out) {
        if (blockIdx.x + blockIdx.y + blockIdx.z + threadIdx.x + threadIdx.y + threadIdx.z == 0) {
            unsigned bytes; asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
            unsigned cluster; asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(cluster));
            out[0] = gridDim.x; out[1] = gridDim.y; out[2] = gridDim.z;
            out[3] = blockDim.x; out[4] = blockDim.y; out[5] = blockDim.z;
            out[6] = bytes; out[7] = cluster;
        }
    }
    """
    kernel = gp.jit(source, "shape")
    out = gp.zeros(8, "int32")
    kernel(out, grid=(4, 3, 2), block=(8, 4, 2), shared_mem=100_000, cluster=2)
    assert out.to_numpy().tolist() == [4, 3, 2, 8, 4, 2, 100_000, 2]
    kernel(out, grid=(16,), block=32, cluster=(16, 1, 1))
    assert out.to_numpy().tolist()[7] == 16


def test_cooperative_and_programmatic_launches() -> None:
    source = """
    __global__ void step(int* x) {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        if (threadIdx.x == 0 && blockIdx.x == 0) *x += 1;
        asm volatile("griddepcontrol.launch_dependents;");
    }
    """
    kernel = gp.jit(source, "step")
    x = gp.zeros(1, "int32")
    for _ in range(100):
        kernel(x, grid=4, block=32, programmatic=True)
    kernel(x, grid=4, block=32, cooperative=True)
    assert x.to_numpy().tolist() == [101]
    with pytest.raises(gp.CudaError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        kernel(x, grid=100_000, block=1024, cooperative=True)
    assert x.to_numpy().tolist() == [101]


def test_attributes_and_ptx() -> None:
    kernel = gp.jit(SCALE, "scale")
    attributes = kernel.attributes
    assert attributes["registers"] > 0
    assert attributes["local_bytes"] == 0
    assert attributes["max_threads_per_block"] == 1024
    assert attributes["binary_version"] == gp.get_sm_version()
    assert ".entry" in kernel.ptx
    assert kernel.get_suggested_block_size() % 32 == 0


def test_bound_kernel_launches_the_same() -> None:
    kernel = gp.jit(SCALE, "scale")
    x = gp.ones(1000)
    bound = kernel.bind(x, factor=2.0, n=1000)
    for _ in range(10):
        bound()
    assert (x.to_numpy() == 1024).all()
    with pytest.raises(TypeError, match="takes no arguments"):
        bound(1)


def test_empty_arrays_launch_nothing() -> None:
    kernel = gp.jit(SCALE, "scale")
    kernel(gp.zeros(0), 2.0, 0)
    kernel.bind(gp.zeros(0), 2.0, 0)()
    assert gp.ones(3).to_numpy().sum() == 3


def test_bad_arguments_raise_before_any_launch() -> None:
    kernel = gp.jit(SCALE, "scale")
    x = gp.ones(8)
    cases = [
        (TypeError, "missing arguments: 'factor', 'n'", lambda: kernel(x)),
        (TypeError, "got 4 positional arguments, expected 3", lambda: kernel(x, 1, 2, 3)),
        (TypeError, "given twice", lambda: kernel(x, 1.0, 8, factor=2.0)),
        (TypeError, "unknown argument 'size'", lambda: kernel(x, 1.0, 8, size=2)),
        (TypeError, "dtype float64", lambda: kernel(gp.ones(8, "float64"), 1.0, 8)),
        (TypeError, "expected an integer", lambda: kernel(x, 1.0, 2.5)),
        (TypeError, "expected a number", lambda: kernel(x, "a", 8)),
        (ValueError, "from -2147483648 to 2147483647", lambda: kernel(x, 1.0, 2**31)),
        (TypeError, "expected a GPUArray", lambda: kernel(np.ones(8), 1.0, 8)),
        (ValueError, "block is", lambda: kernel(x, 1.0, 8, block=2048)),
        (ValueError, "grid is", lambda: kernel(x, 1.0, 8, grid=0)),
        (ValueError, "shared_mem", lambda: kernel(x, 1.0, 8, shared_mem=10**7)),
        (ValueError, "cluster", lambda: kernel(x, 1.0, 8, grid=3, cluster=2)),
        (TypeError, "stream", lambda: kernel(x, 1.0, 8, stream="main")),
    ]
    for kind, message, call in cases:
        with pytest.raises(kind, match=message):
            call()
    assert (x.to_numpy() == 1).all()


def test_block_larger_than_the_kernel_allows() -> None:
    kernel = gp.jit("__global__ void __launch_bounds__(64) small(int* x) { *x = 1; }", "small")
    with pytest.raises(ValueError, match=r"128 threads, this kernel allows 64"):
        kernel(gp.zeros(1, "int32"), block=128)


def test_compile_errors() -> None:
    with pytest.raises(gp.CompileError) as caught:
        gp.jit("__global__ void bad(float* x) {\n  x[0] = oops;\n}", "bad", options=["-lineinfo"])
    text = str(caught.value)
    assert 'identifier "oops" is undefined' in caught.value.compilation_log
    assert "   2 |   x[0] = oops;" in text
    assert "-lineinfo" in text
    with pytest.raises(ValueError, match="Function 'other' not found"):
        gp.jit(SCALE, "other")


def test_foreign_streams() -> None:
    class Foreign:
        def __init__(self, stream: gp.Stream) -> None:
            self.stream = stream

        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, self.stream.handle)

    own = gp.Stream()
    kernel = gp.jit(SCALE, "scale")
    x = gp.ones(1000)
    gp.synchronize()
    kernel(x, 2.0, 1000, stream=Foreign(own))
    kernel(x, 2.0, 1000, stream=own.handle)
    own.synchronize()
    assert (x.to_numpy() == 4).all()


def test_concurrent_first_uses_agree() -> None:
    source = SCALE.replace("scale", "scale_threads")
    results: list[float] = []

    def work() -> None:
        kernel = gp.jit(source, "scale_threads")
        x = gp.ones(100)
        kernel(x, 3.0, 100)
        results.append(float(x.to_numpy().sum()))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [300.0] * 8


def test_printf(run_python) -> None:  # type: ignore[no-untyped-def]
    program = (
        "import pygpukit as gp\n"
        "hi = gp.jit('__global__ void hi(int a) { printf(\"hi %d\\\\n\", a); }', 'hi')\n"
        "hi(7, grid=1, block=2)\n"
    )
    done = run_python(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hi 7\nhi 7\n"
