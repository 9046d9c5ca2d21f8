"""Ordinary CUDA C in the simulator against NumPy: mathematics, blocks, recursion, pointers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pygpukit as gp

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

N = 256
RNG = np.random.default_rng(56)
UNARY: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp")},
    **{name: getattr(np, name) for name in ("exp2", "expm1", "log", "log2", "log10", "log1p")},
    **{name: getattr(np, name) for name in ("cbrt", "sqrt", "fabs", "floor", "ceil", "trunc")},
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    **{name: np.vectorize(getattr(math, name)) for name in ("erf", "erfc", "lgamma")},
    "rint": np.rint,
    "tgamma": np.vectorize(math.gamma),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "atan2": np.arctan2,
    "pow": np.power,
    "fmod": np.fmod,
    "hypot": np.hypot,
}


def run(source: str, x: np.ndarray, dtype: str) -> np.ndarray:
    out = gp.zeros(N, dtype)
    gp.jit(source, "k")(gp.from_numpy(x), out, grid=1, block=N)
    return out.to_numpy()


@pytest.mark.parametrize(
    ("ctype", "suffix", "tolerance"), [("float", "f", 1e-5), ("double", "", 1e-12)]
)
def test_mathematics(ctype: str, suffix: str, tolerance: float) -> None:
    dtype = {"float": "float32", "double": "float64"}[ctype]
    names = [*UNARY, *BINARY]
    cases = "".join(
        f"case {i}: y = {name}{suffix}({'x, y' if name in BINARY else 'x'}); break;\n"
        for i, name in enumerate(names)
    )
    source = f"""__global__ void k(const {ctype}* in, {ctype}* out, int which) {{
  {ctype} x = in[threadIdx.x], y = 0.3{suffix};
  switch (which) {{ {cases} }}
  out[threadIdx.x] = y;
}}"""
    kernel = gp.jit(source, "k")
    x = RNG.uniform(0.05, 0.95, N).astype(dtype)
    wide = x.astype(np.float64)
    other = float(np.dtype(dtype).type(0.3))
    for which, name in enumerate(names):
        out = gp.zeros(N, dtype)
        kernel(gp.from_numpy(x), out, which, grid=1, block=N)
        wanted = BINARY[name](wide, other) if name in BINARY else UNARY[name](wide)
        error = np.abs(out.to_numpy() - wanted) / np.maximum(np.abs(wanted), 1e-3)
        assert error.max() < tolerance, name


def test_integers_of_64_bits() -> None:
    source = """__global__ void k(const long long* in, long long* out) {
  long long x = in[threadIdx.x];
  out[threadIdx.x] = x / 7 + (x >> 3) % 1000003 - (x << 2);
}"""
    x = RNG.integers(-(1 << 40), 1 << 40, N)
    floor_part = (x >> 3) - np.trunc((x >> 3) / 1000003).astype(np.int64) * 1000003
    wanted = (
        np.array([int(v / 7) if v >= 0 else -(-int(v) // 7) for v in x]) + floor_part - (x << 2)
    )
    np.testing.assert_array_equal(run(source, x, "int64"), wanted)


def test_switch_with_fall_through() -> None:
    source = """__global__ void k(const unsigned* in, unsigned* out) {
  unsigned y = in[threadIdx.x];
  switch (y % 6) {
    case 0: y += 1; break;
    case 1: y *= 3;
    case 2: y ^= 99; break;
    case 3: y = ~y; break;
    case 4: y >>= 3; break;
    default: y = 42;
  }
  out[threadIdx.x] = y;
}"""
    x = RNG.integers(0, 1 << 32, N, dtype=np.uint32)
    cases = [x + np.uint32(1), x * np.uint32(3) ^ 99, x ^ 99, ~x, x >> 3, np.full_like(x, 42)]
    np.testing.assert_array_equal(run(source, x, "uint32"), np.choose(x % 6, cases))


def test_loops_leave_at_different_times() -> None:
    source = """__global__ void k(const int* in, int* out) {
  int n = in[threadIdx.x], steps = 0;
  while (n != 1) n = n & 1 ? 3 * n + 1 : n / 2, ++steps;
  out[threadIdx.x] = steps;
}"""

    def steps(n: int) -> int:
        return 0 if n == 1 else 1 + steps(3 * n + 1 if n & 1 else n // 2)

    x = RNG.integers(1, 500, N, dtype=np.int32)
    np.testing.assert_array_equal(run(source, x, "int32"), [steps(int(n)) for n in x])


def test_bitonic_sort_in_shared_memory() -> None:
    source = """__global__ void __launch_bounds__(256) k(const int* in, int* out) {
  __shared__ int a[256];
  int t = threadIdx.x;
  a[t] = __ldg(in + t);
  __syncthreads();
  for (int size = 2; size <= 256; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      int other = t ^ step;
      if (other > t && (a[t] > a[other]) == ((t & size) == 0)) {
        int x = a[t]; a[t] = a[other]; a[other] = x;
      }
      __syncthreads();
    }
  out[t] = a[t];
}"""
    x = RNG.integers(-1000, 1000, N, dtype=np.int32)
    np.testing.assert_array_equal(run(source, x, "int32"), np.sort(x))


def test_maximum_by_compare_and_swap() -> None:
    source = """__global__ void k(const int* in, int* out) {
  __shared__ int best;
  int t = threadIdx.x;
  if (t == 0) best = in[0];
  __syncthreads();
  int seen = best;
  while (in[t] > seen) {
    int old = atomicCAS(&best, seen, in[t]);
    if (old == seen) break;
    seen = old;
  }
  __syncthreads();
  out[t] = best;
}"""
    x = RNG.integers(-(1 << 30), 1 << 30, N, dtype=np.int32)
    np.testing.assert_array_equal(run(source, x, "int32"), np.full(N, x.max()))


def test_recursion() -> None:
    source = """__device__ __noinline__ int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}
__global__ void k(const int* in, int* out) { out[threadIdx.x] = ackermann(2, in[threadIdx.x]); }"""
    x = RNG.integers(0, 6, N, dtype=np.int32)
    np.testing.assert_array_equal(run(source, x, "int32"), 2 * x + 3)


def test_function_pointers() -> None:
    source = """typedef int (*Function)(int, int);
__device__ int plus(int a, int b) { return a + b; }
__device__ int minus(int a, int b) { return a - b; }
__device__ int times(int a, int b) { return a * b; }
__device__ Function table[3] = {plus, minus, times};
__global__ void k(const int* in, int* out) {
  int i = threadIdx.x;
  out[i] = table[in[i] % 3](in[i], i);
}"""
    x, i = RNG.integers(0, 9999, N, dtype=np.int32), np.arange(N, dtype=np.int32)
    np.testing.assert_array_equal(run(source, x, "int32"), np.choose(x % 3, [x + i, x - i, x * i]))


def test_templates_structs_and_lambdas() -> None:
    source = """struct Pair { int a, b; };
template <class T, int kTimes> struct Repeat {
  __device__ static T run(T x) { for (int k = 0; k < kTimes; ++k) x = x * 3 + k; return x; }
};
template <class F> __device__ Pair both(int x, F f) { return {f(x), f(x + 1)}; }
__global__ void k(const int* in, int* out) {
  int i = threadIdx.x;
  Pair p = both(in[i], [=](int y) { return Repeat<int, 2>::run(y) ^ i; });
  out[i] = p.a + 17 * p.b;
}"""
    x, i = RNG.integers(0, 9999, N, dtype=np.int32), np.arange(N, dtype=np.int32)
    wanted = (9 * x + 1 ^ i) + 17 * (9 * (x + 1) + 1 ^ i)
    np.testing.assert_array_equal(run(source, x, "int32"), wanted)


def test_constants_and_local_arrays() -> None:
    source = """__constant__ int weights[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__global__ void k(const int* in, int* out) {
  int a[8], i = threadIdx.x;
  for (int j = 0; j < 8; ++j) a[j] = weights[(in[i] + j) & 7] * j;
  int sum = 0;
  for (int j = 0; j < in[i] % 9; ++j) sum += a[j ^ (i & 7)];
  out[i] = sum;
}"""
    weights = [3, 1, 4, 1, 5, 9, 2, 6]
    x = RNG.integers(0, 9999, N, dtype=np.int32)
    wanted = []
    for i, v in enumerate(x.tolist()):
        picks = [j ^ i & 7 for j in range(v % 9)]
        wanted.append(sum(weights[(v + j) & 7] * j for j in picks))
    np.testing.assert_array_equal(run(source, x, "int32"), wanted)


def test_a_lock_that_every_thread_takes() -> None:
    source = """__device__ int lock, total;
__global__ void k(const int* in, int* out) {
  for (bool done = false; !done;)
    if (atomicCAS(&lock, 0, 1) == 0) {
      *(volatile int*)&total += in[threadIdx.x];
      __threadfence();
      atomicExch(&lock, 0);
      done = true;
    }
  __syncthreads();
  out[threadIdx.x] = *(volatile int*)&total;
}"""
    x = RNG.integers(0, 999, N, dtype=np.int32)
    np.testing.assert_array_equal(run(source, x, "int32"), np.full(N, x.sum()))


def test_what_is_not_simulated_is_named() -> None:
    source = """__global__ void k(const unsigned* in, unsigned* out) {
  asm("vadd2.u32.u32.u32 %0, %1, %1, %1;" : "=r"(out[threadIdx.x]) : "r"(in[threadIdx.x]));
}"""
    with pytest.raises(gp.NvrtcError, match="vadd2"):
        run(source, np.zeros(N, np.uint32), "uint32")
