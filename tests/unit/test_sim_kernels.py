"""Real CUDA C on arrays in host memory: kernels in the simulator, with no GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import pygpukit as gp

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

RNG = np.random.default_rng(20)

SAXPY = """
__global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""


def test_saxpy_works_in_place() -> None:
    host_x = RNG.standard_normal(1000, dtype=np.float32)
    host_y = RNG.standard_normal(1000, dtype=np.float32)
    x, y = gp.from_numpy(host_x), gp.from_numpy(host_y)
    gp.jit(SAXPY, "saxpy")(2.0, x, y, 1000)
    np.testing.assert_allclose(y.to_numpy(), 2 * host_x + host_y, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(x.to_numpy(), host_x)


def test_reference_wins() -> None:
    x = gp.ones(4)
    gp.jit(SAXPY, "saxpy", reference=lambda a, x, y, n: y.fill(7))(2.0, gp.ones(4), x, 4)
    assert x.tolist() == [7.0] * 4


def test_views_pass_their_first_element() -> None:
    y = gp.zeros(10)
    gp.jit(SAXPY, "saxpy")(3.0, gp.ones(10), y[5:], 3)
    assert y.tolist() == [0.0] * 5 + [3.0] * 3 + [0.0] * 2


def test_reduction_in_shared_memory() -> None:
    kernel = gp.jit(
        """
        __global__ void block_sums(const float* x, float* sums, int n) {
          extern __shared__ float part[];
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          part[threadIdx.x] = i < n ? x[i] : 0.0f;
          __syncthreads();
          for (int half = blockDim.x / 2; half > 0; half /= 2) {
            if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
            __syncthreads();
          }
          if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
        }""",
        "block_sums",
    )
    host = RNG.standard_normal(2000, dtype=np.float32)
    sums = gp.zeros(8)
    kernel(gp.from_numpy(host), sums, 2000, grid=8, block=256, shared_mem=1024)
    padded = np.pad(host, (0, 48)).reshape(8, 256).sum(axis=1)
    np.testing.assert_allclose(sums.to_numpy(), padded, rtol=1e-5, atol=1e-4)


def test_more_shared_memory_than_48_kib() -> None:
    kernel = gp.jit(
        """
        __global__ void last(float* out) {
          extern __shared__ float wide[];
          wide[15000 + threadIdx.x] = threadIdx.x;
          __syncthreads();
          out[threadIdx.x] = wide[15031 - threadIdx.x];
        }""",
        "last",
    )
    out = gp.zeros(32)
    kernel(out, grid=1, block=32, shared_mem=64 * 1024)
    assert out.tolist() == list(range(31, -1, -1))
    with pytest.raises(ValueError, match="shared_mem"):
        kernel(out, grid=1, block=32, shared_mem=1 << 20)


def test_histogram_with_atomics() -> None:
    kernel = gp.jit(
        """
        __global__ void histogram(const int* x, int* bins, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) atomicAdd(&bins[x[i]], 1);
        }""",
        "histogram",
    )
    host = RNG.integers(0, 16, 5000, dtype=np.int32)
    bins = gp.zeros(16, "int32")
    kernel(gp.from_numpy(host), bins, 5000)
    np.testing.assert_array_equal(bins.to_numpy(), np.bincount(host, minlength=16))


def test_warp_shuffles_and_votes() -> None:
    kernel = gp.jit(
        """
        __global__ void warp(const float* x, float* sum, unsigned* positive) {
          float v = x[threadIdx.x];
          unsigned votes = __ballot_sync(0xffffffffu, v > 0.0f);
          for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
          if (threadIdx.x % 32 == 0) {
            sum[threadIdx.x / 32] = v;
            positive[threadIdx.x / 32] = __popc(votes);
          }
        }""",
        "warp",
    )
    host = RNG.standard_normal(64, dtype=np.float32)
    sums, positive = gp.zeros(2), gp.zeros(2, "uint32")
    kernel(gp.from_numpy(host), sums, positive, grid=1, block=64)
    rows = host.reshape(2, 32)
    np.testing.assert_allclose(sums.to_numpy(), rows.sum(axis=1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(positive.to_numpy(), (rows > 0).sum(axis=1))


def test_naive_gemm() -> None:
    kernel = gp.jit(
        """
        __global__ void gemm(const float* a, const float* b, float* c, int n) {
          int row = blockIdx.y * blockDim.y + threadIdx.y;
          int column = blockIdx.x * blockDim.x + threadIdx.x;
          float sum = 0.0f;
          for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
          c[row * n + column] = sum;
        }""",
        "gemm",
    )
    a, b = (RNG.standard_normal((64, 64), dtype=np.float32) for _ in range(2))
    c = gp.zeros((64, 64))
    kernel(gp.from_numpy(a), gp.from_numpy(b), c, 64, grid=(4, 4), block=(16, 16))
    np.testing.assert_allclose(c.to_numpy(), a @ b, rtol=1e-4, atol=1e-4)


def test_printf(capfd: pytest.CaptureFixture[str]) -> None:
    kernel = gp.jit(
        r"""
        __global__ void hello(int n) { printf("thread %d of %d, %.2f\n", threadIdx.x, n, 0.5); }
        """,
        "hello",
    )
    kernel(3, grid=1, block=3)
    lines = sorted(capfd.readouterr().out.splitlines())
    assert lines == [f"thread {i} of 3, 0.50" for i in range(3)]


def test_raw_module_with_templates_and_variables() -> None:
    module = gp.RawModule(
        """
        __constant__ float table[4];
        __device__ int counter;
        template <typename T> __global__ void fill(T* x, T value, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) x[i] = value;
        }
        __global__ void look_up(float* x) {
          x[threadIdx.x] = table[threadIdx.x];
          atomicAdd(&counter, 1);
        }""",
        name_expressions=["fill<double>"],
    )
    module.set_global("table", np.arange(4, dtype=np.float32))
    x, y = gp.empty(10, "float64"), gp.empty(4)
    module.get_function("fill<double>")(x, 2.5, 10)
    module.get_function("look_up")(y, grid=1, block=4)
    assert x.tolist() == [2.5] * 10
    assert y.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert module.get_global("counter", "int32").tolist() == [4]


def test_raw_kernel_and_elementwise_kernel() -> None:
    raw = gp.RawKernel(
        'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }', "twice"
    )
    x = gp.ones(8)
    raw((1,), (8,), (x,))
    assert x.tolist() == [2.0] * 8
    squared = gp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_diff")
    assert squared(x, gp.ones(8)).tolist() == [1.0] * 8


def test_structs_have_their_compiled_size() -> None:
    kernel = gp.jit(
        "struct P { int a; float b; }; __global__ void f(P p, float* x) { x[0] = p.a + p.b; }", "f"
    )
    x = gp.zeros(1)
    kernel(np.array((3, 0.5), [("a", "i4"), ("b", "f4")]), x, grid=1, block=1)
    assert x.tolist() == [3.5]
    with pytest.raises(ValueError, match="8 bytes"):
        kernel(b"123", x)


def test_graphs_replay_kernels() -> None:
    kernel = gp.jit(SAXPY, "saxpy")
    x, y = gp.ones(100), gp.zeros(100)
    graph = gp.CudaGraph()
    with graph:
        kernel(1.0, x, y, 100)
    assert y.tolist() == [0.0] * 100
    graph.replay()
    graph.replay()
    assert y.tolist() == [2.0] * 100
    graph.set_args(0, 5.0, x, y, 100)
    graph.replay()
    assert y.tolist() == [7.0] * 100


def test_a_bound_kernel_launches_again() -> None:
    x, y = gp.ones(10), gp.zeros(10)
    bound = gp.jit(SAXPY, "saxpy").bind(1.0, x, y, 10)
    bound()
    bound()
    assert y.tolist() == [2.0] * 10


def test_attributes() -> None:
    kernel = gp.jit(
        "__global__ void __launch_bounds__(128) f(float* x) { __shared__ float s[64];"
        " s[threadIdx.x % 64] = x[0]; __syncthreads(); x[0] = s[(threadIdx.x + 1) % 64]; }",
        "f",
    )
    assert kernel.attributes["shared_bytes"] == 256
    assert kernel.attributes["max_threads_per_block"] == 128
    assert kernel.get_suggested_block_size() == 128
    with pytest.raises(ValueError, match="this kernel allows 128"):
        kernel(gp.ones(1), grid=1, block=129)


def test_what_the_simulator_refuses_is_named() -> None:
    source = '__global__ void f(float* x) { asm volatile("brkpt.nothing;"); x[0] = 1; }'
    with pytest.raises(gp.NvrtcError, match="brkpt"):
        gp.jit(source, "f")(gp.ones(1))


def test_without_nvrtc_the_message_says_what_to_install() -> None:
    program = (
        "import pygpukit as gp\n"
        "kernel = gp.jit('__global__ void f(float* x) { x[0] = 1; }', 'f')\n"
        "try:\n    kernel(gp.ones(1))\n"
        "except gp.GpuUnavailable as error:\n    print(error)\n"
    )
    env = dict(os.environ, PYGPUKIT_DEVICE="cpu", PYGPUKIT_NVRTC_PATH="/nonexistent")
    env["PYGPUKIT_CACHE_DISABLE"] = "1"
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert "pip install" in done.stdout, done.stdout + done.stderr
    assert "reference=" in done.stdout
