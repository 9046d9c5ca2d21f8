"""CUDA C beyond arithmetic: the heap, four-bit products, bytes in words, inline PTX."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

RNG = np.random.default_rng(11)


def check(source: str, *args: object, block: int = 32) -> gp.sim.Report:
    return gp.sim.check(gp.jit(source, "k"), *args, grid=2, block=block)


MALLOC = """__global__ void k(int* y) {
  int n = threadIdx.x + 1;
  int* p = (int*)malloc(n * sizeof(int));
  for (int i = 0; i < n; i++) p[i] = i;
  int sum = 0;
  for (int i = 0; i < n; i++) sum += p[i];
  FREE
  y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}"""


def test_malloc_and_free() -> None:
    y = gp.zeros(64, "int32")
    assert check(MALLOC.replace("FREE", "free(p);"), y).ok
    n = np.tile(np.arange(32), 2)
    np.testing.assert_array_equal(y.to_numpy(), n * (n + 1) // 2)


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("free(p); sum += p[0];", "out of bounds", "memory of malloc, which was freed"),
        ("free(p); free(p);", "invalid", "which was freed"),
        ("free(p + 1);", "invalid", "which malloc did not return"),
        ("free(y);", "invalid", "which malloc did not return"),
        ("sum += p[n];", "out of bounds", "memory of malloc (4 bytes at"),
    ],
)
def test_misuse_of_the_heap(line: str, kind: str, words: str) -> None:
    report = check(MALLOC.replace("FREE", line), gp.zeros(64, "int32"))
    assert report.findings[0].kind == kind, str(report)
    assert report.findings[0].line == 7
    assert words in report.findings[0].text


def test_memory_of_malloc_outlives_its_launch_and_has_an_end() -> None:
    module = gp.RawModule(
        """extern "C" {
__device__ int* kept;
__global__ void make(int* y) {
  kept = (int*)malloc(16);
  kept[3] = 5;
  y[0] = malloc(16 << 20) == 0;
}
__global__ void use(int* y) { y[1] = kept[3]; free(kept); free(0); }
}"""
    )
    y = gp.zeros(2, "int32")
    module.get_function("make")(y, grid=1, block=1)
    module.get_function("use")(y, grid=1, block=1)
    assert y.tolist() == [1, 5]


def test_new_delete_and_virtual_functions() -> None:
    source = """struct A {
  int v;
  __device__ virtual int f(int x) { return x; }
  __device__ virtual ~A() {}
};
struct B : A { __device__ int f(int x) override { return 2 * x + v; } };
__global__ void k(int* y) {
  int t = threadIdx.x;
  A* a = t & 1 ? new A : new B;
  a->v = 3;
  int* all = new int[t + 1];
  all[t] = a->f(t);
  y[t] = all[t];
  delete[] all;
  delete a;
}"""
    y = gp.zeros(32, "int32")
    gp.jit(source, "k")(y, grid=1, block=32)
    assert y.tolist() == [t if t & 1 else 2 * t + 3 for t in range(32)]


def nibbles(values: np.ndarray) -> np.ndarray:
    """Eight values of four bits to a word, the first one lowest."""
    words = (values.astype(np.int64) & 15).reshape(*values.shape[:-1], -1, 8)
    return (words << (4 * np.arange(8))).sum(-1).astype(np.uint32).view(np.int32)


@pytest.mark.parametrize("k", [32, 64])
@pytest.mark.parametrize(("a_type", "b_type"), [("s4", "s4"), ("u4", "s4")])
def test_products_of_four_bit_integers(k: int, a_type: str, b_type: str) -> None:
    low = {"s4": -8, "u4": 0}
    a = RNG.integers(low[a_type], low[a_type] + 16, (16, k))
    b = RNG.integers(low[b_type], low[b_type] + 16, (8, k))  # columns of B
    c = RNG.integers(-1000, 1000, (16, 8), dtype=np.int32)
    registers = k // 32
    a_names = [f"a[{i}]" for i in range(2 * registers)]
    source = f"""__global__ void k(const int* A, const int* B, const int* C, int* D) {{
  int g = threadIdx.x / 4, t = threadIdx.x % 4, a[4], b[2], d[4];
  for (int r = 0; r < {2 * registers}; r++)
    a[r] = A[(g + r % 2 * 8) * {4 * registers} + r / 2 * 4 + t];
  for (int r = 0; r < {registers}; r++) b[r] = B[g * {4 * registers} + r * 4 + t];
  for (int i = 0; i < 4; i++) d[i] = C[(g + i / 2 * 8) * 8 + t * 2 + i % 2];
  asm("mma.sync.aligned.m16n8k{k}.row.col.s32.{a_type}.{b_type}.s32 {{%0,%1,%2,%3}},"
      "{{{",".join(f"%{4 + i}" for i in range(2 * registers))}}},"
      "{{{",".join(f"%{4 + 2 * registers + i}" for i in range(registers))}}},{{%0,%1,%2,%3}};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : {", ".join(f'"r"({name})' for name in a_names)},
        {", ".join(f'"r"(b[{i}])' for i in range(registers))});
  for (int i = 0; i < 4; i++) D[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
}}"""
    d = gp.zeros((16, 8), "int32")
    operands = [gp.from_numpy(x) for x in (nibbles(a), nibbles(b), c)]
    gp.jit(source, "k")(*operands, d, grid=1, block=32)
    np.testing.assert_array_equal(d.to_numpy(), a @ b.T + c)


def test_bytes_in_words() -> None:
    words = RNG.integers(0, 1 << 32, (2, 64), dtype=np.uint32)
    source = """__global__ void k(const unsigned* x, const unsigned* z, unsigned* y) {
  int t = threadIdx.x;
  y[t] = __vabsdiffu4(x[t], z[t]);
  y[64 + t] = __vsadu4(x[t], z[t]);
  y[128 + t] = __vabsdiffs4(x[t], z[t]);
}"""
    y = gp.zeros((3, 64), "uint32")
    gp.jit(source, "k")(*(gp.from_numpy(row) for row in words), y, grid=1, block=64)
    unsigned = np.abs(np.diff(words.view("uint8").reshape(2, 64, 4).astype(int), axis=0))[0]
    signed = np.abs(np.diff(words.view("int8").reshape(2, 64, 4).astype(int), axis=0))[0]
    found = y.to_numpy()
    np.testing.assert_array_equal(found[0], unsigned.astype("uint8").view("uint32")[:, 0])
    np.testing.assert_array_equal(found[1], unsigned.sum(-1))
    np.testing.assert_array_equal(found[2], signed.astype("uint8").view("uint32")[:, 0])


def test_directives_of_inline_ptx_need_no_space() -> None:
    source = """__global__ void k(int* y) {
  int r;
  asm("{.reg.b32 t; add.s32 t, %1, 1; mov.b32 %0, t;}" : "=r"(r) : "r"(threadIdx.x));
  y[threadIdx.x] = r;
}"""
    y = gp.zeros(32, "int32")
    gp.jit(source, "k")(y, grid=1, block=32)
    assert y.tolist() == list(range(1, 33))


def test_integers_of_128_bits() -> None:
    source = """__global__ void k(unsigned* y) {
  unsigned __int128 a = threadIdx.x + 12345678901234ull;
  a = a * a / 7;
  for (int i = 0; i < 4; i++) y[threadIdx.x * 4 + i] = (unsigned)(a >> (32 * i));
}"""
    y = gp.zeros((32, 4), "uint32")
    gp.jit(source, "k", options=["--device-int128"])(y, grid=1, block=32)
    found = [sum(int(w) << (32 * i) for i, w in enumerate(row)) for row in y.to_numpy()]
    assert found == [(t + 12345678901234) ** 2 // 7 for t in range(32)]


def test_half_words() -> None:
    words = RNG.integers(0, 1 << 32, (2, 64), dtype=np.uint32)
    source = """__global__ void k(const unsigned* x, const unsigned* z, unsigned* y) {
  int t = threadIdx.x;
  y[t] = __vadd2(x[t], z[t]);
  y[64 + t] = __vmaxs2(x[t], z[t]);
  y[128 + t] = __vminu2(x[t], z[t]);
  y[192 + t] = __vsadu2(x[t], z[t]);
  y[256 + t] = __vimax_s16x2_relu(x[t], z[t]);
}"""
    y = gp.zeros((5, 64), "uint32")
    gp.jit(source, "k")(*(gp.from_numpy(row) for row in words), y, grid=1, block=64)
    u, s = (words.view(dtype).reshape(2, 64, 2) for dtype in ("uint16", "int16"))
    found = y.to_numpy()
    for row, expected in enumerate((u[0] + u[1], s.max(0), u.min(0))):
        np.testing.assert_array_equal(found[row].view(expected.dtype), expected.reshape(-1))
    np.testing.assert_array_equal(found[3], np.abs(np.diff(u.astype(int), axis=0)[0]).sum(-1))
    np.testing.assert_array_equal(found[4].view("int16"), s.max(0).clip(0).reshape(-1))


def test_the_size_of_a_warp() -> None:
    y = gp.zeros(1, "int32")
    gp.jit("__global__ void k(int* y) { *y = warpSize + 1; }", "k")(y, grid=1, block=1)
    assert y.tolist() == [33]
