"""Random products: formats x layouts x pitches x epilogues x kinds, against float64."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import pygpukit as gp
from cases import quantize as cases
from cases.run_quantize import host, rounded_rows

# GPK_FUZZ_PRODUCTS=100000 for the long run; GPK_FUZZ_SEED for others than those of CI.
SEED = int(os.environ.get("GPK_FUZZ_SEED", "19"))
SUMS = 2e-6  # of float32 sums, over the sum of magnitudes
FP8_SUMS = 2.0**-11  # of tensor cores' FP8 sums, which keep fewer bits
PER_ROW = (cases.Format("int8"), cases.Format("fp8"), cases.Format("fp8", block=True))
SLOPE = 1.13  # of any activation, at most


def count(default: int) -> int:
    return int(os.environ.get("GPK_FUZZ_PRODUCTS", str(default)))


class Draw:
    """What a product is made of: a generator, the largest sizes, and a text that says what."""

    def __init__(self, number: int, most_rows: int, most: int) -> None:
        self.rng = np.random.default_rng([SEED, number])
        self.most_rows, self.most = most_rows, most
        self.about = f"product {number} of seed {SEED}:"

    def say(self, *words: object) -> None:
        self.about += " " + " ".join(map(str, words))

    def one(self, choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def coin(self) -> bool:
        return bool(self.rng.integers(2))

    def rows(self, most: int | None = None) -> int:
        return int(np.exp(self.rng.uniform(0, np.log(most or self.most_rows))))

    def size(self) -> int:
        return int(self.rng.integers(1, self.most)) * int(self.one((1, 8)))

    def normal(self, shape: tuple[int, ...], dtype: str) -> gp.GPUArray:
        return gp.from_numpy(self.rng.standard_normal(shape).astype(np.float32)).astype(dtype)

    def placed(self, shape: tuple[int, int], dtype: str) -> gp.GPUArray:
        """Random numbers: contiguous, with a pitch, transposed, or off their alignment."""
        rows, cols = shape
        kind = self.one(["plain", "pitch", "transposed", "offset", "reversed"])
        more = int(self.rng.integers(1, 20))
        whole = {
            "pitch": (rows, cols + more),
            "transposed": (cols, rows),
            "offset": (rows + 1, cols + more),
        }.get(kind, shape)
        numbers = self.normal(whole, dtype)
        if kind == "pitch":
            return numbers[:, :cols]
        if kind == "transposed":
            return numbers.T
        if kind == "offset":
            return numbers[1:, more:]
        return numbers[::-1] if kind == "reversed" else numbers

    def out(self, m: int, n: int, dtype: str) -> gp.GPUArray | None:
        if self.coin():
            return None
        turned = self.coin()
        whole = gp.zeros((n, m) if turned else (m, n + 3), dtype=dtype)
        return whole.T if turned else whole[:, 3:]

    def check(self, got: gp.GPUArray, want: NDArray[Any], limit: Any, dtype: str) -> None:
        assert str(got.dtype) == dtype, self.about
        assert got.shape == want.shape, self.about
        wrong = ~(np.abs(host(got) - want) <= limit)
        assert not wrong.any(), f"{self.about}: {int(wrong.sum())} of {wrong.size} wrong"


class Epilogue(NamedTuple):
    bias: gp.GPUArray | None
    activation: str | None
    residual: gp.GPUArray | None

    def apply(
        self, sums: NDArray[Any], limit: NDArray[Any], unit: float
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The result, and how far it may be off where sums may be by `limit`."""
        if self.bias is not None:
            sums = sums + host(self.bias)
            limit = limit + unit * np.abs(host(self.bias))
        if self.activation == "swiglu":
            gate, up = np.split(sums, 2, axis=-1)
            of_gate, of_up = np.split(limit, 2, axis=-1)
            want = activated("silu", gate) * up
            limit = SLOPE * of_gate * (np.abs(up) + of_up) + of_up * np.abs(gate)
        else:
            want, limit = activated(self.activation, sums), SLOPE * limit
        if self.residual is not None:
            want = want + host(self.residual)
        return want, limit + 2 * unit * np.abs(want) + 1e-6


def draw_epilogue(draw: Draw, m: int, n: int, dtype: str, activations: Any) -> Epilogue:
    """Of n rows of weights; with swiglu, for even n, there are n / 2 columns."""
    activation = draw.one([name for name in activations if name != "swiglu" or n % 2 == 0])
    columns = n // 2 if activation == "swiglu" else n
    bias = draw.placed((1, n), dtype)[0] if draw.coin() else None
    residual = None
    if draw.coin():
        residual = draw.placed((m, columns) if draw.coin() else (1, columns), dtype)
    draw.say(activation, "bias" * (bias is not None), "residual" * (residual is not None))
    return Epilogue(bias, activation, residual)


def activated(name: str | None, x: NDArray[Any]) -> NDArray[Any]:
    if name == "relu":
        return np.maximum(x, 0)
    if name == "silu":
        return x / (1 + np.exp(-x))
    if name == "gelu":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x


ACTIVATIONS = (None, "relu", "silu", "gelu", "swiglu")


def sum_limit(x: NDArray[Any], w: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Weights are rounded to x's dtype by some engines: by up to unit / 2, evenly spread, so that
    the error of a sum has a deviation of 0.29 unit times the root of the sum of squares."""
    unit, size = cases.UNITS[dtype], np.abs(x) @ np.abs(w).T
    roundings = 3 * unit * np.sqrt(np.square(x) @ np.square(w).T)
    return np.asarray(SUMS * size + roundings + 1.2 * unit * np.abs(x @ w.T) + 1e-6)


def run_linear(draw: Draw) -> None:
    """Packed and 2:4 weights, few rows that do not depend on their number, batch invariance."""
    fmt = draw.one((*cases.FORMATS, cases.SPARSE))
    few = draw.one((False, False, True))
    dtypes = cases.SPARSE_DTYPES if few or fmt == cases.SPARSE else cases.DTYPES
    dtype = draw.one(dtypes)
    m, n, k = draw.rows(64 if few else None), draw.size(), draw.size()
    draw.say("linear", fmt, dtype, m, n, k, "few_rows" * few)
    packed = gp.quantize(draw.placed((n, k), dtype), fmt.name, **fmt.options)
    x = draw.placed((m, k), dtype)
    epilogue = draw_epilogue(draw, m, n, dtype, ACTIVATIONS)
    w = host(packed.dequantize("float32"))
    want, limit = epilogue.apply(host(x) @ w.T, sum_limit(host(x), w, dtype), cases.UNITS[dtype])
    options = {"few_rows": few, "batch_invariant": not few and draw.coin()}
    got = gp.linear(x, packed, *epilogue, out=draw.out(*want.shape, dtype), **options)
    draw.check(got, want, limit, dtype)


def run_quantize_input(draw: Draw) -> None:
    """Both sides in one format."""
    fmt = draw.one((*PER_ROW, *map(cases.Format, cases.BLOCK_FORMATS)))
    dtype = draw.one(cases.DTYPES)
    m, n, k = min(draw.rows(), 60), draw.size(), draw.size()
    draw.say("quantize_input", fmt, dtype, m, n, k)
    packed = gp.quantize(draw.placed((n, k), dtype), fmt.name, **fmt.options)
    x = draw.placed((m, k), dtype)
    epilogue = draw_epilogue(draw, m, n, dtype, ACTIVATIONS)
    if fmt in PER_ROW:
        rows = host(
            gp.quantize(x, fmt.name, group=128 if fmt.block else None).dequantize("float32")
        )
    else:
        rows = rounded_rows(x, fmt.name)
    w = host(packed.dequantize("float32"))
    sums = (FP8_SUMS if fmt.name == "fp8" else SUMS) * (np.abs(rows) @ np.abs(w).T) + 1e-6
    want, limit = epilogue.apply(rows @ w.T, sums, cases.UNITS[dtype])
    got = gp.linear(x, packed, *epilogue, out=draw.out(*want.shape, dtype), quantize_input=True)
    draw.check(got, want, limit, dtype)


def run_grouped(draw: Draw) -> None:
    """Stacks of experts, however the groups are given."""
    fmt = draw.one([fmt for fmt in cases.FORMATS if not fmt.block])
    dtype = draw.one(cases.DTYPES)
    experts = draw.one((1, 3, 8))
    sizes = draw.rng.multinomial(draw.rows(), draw.rng.dirichlet(np.full(experts, 0.4)))
    m, n, k = int(sizes.sum()), max(draw.size() // 4, 1), max(draw.size() // 2, 1)
    draw.say("grouped", fmt, dtype, list(sizes), n, k)
    w = draw.normal((experts, n, k), dtype)
    packed = gp.quantize(w, fmt.name, **fmt.options)
    x = draw.placed((m, k), dtype)
    owner = np.repeat(np.arange(experts), sizes)
    kind = draw.one(("host", "int32", "int64", "ids"))
    if kind == "ids":
        draw.rng.shuffle(owner)
        given: dict[str, Any] = {"expert_ids": gp.from_numpy(owner.astype(np.int32))}
    elif kind == "host":
        given = {"group_sizes": sizes.tolist()}
    else:
        given = {"group_sizes": gp.from_numpy(sizes.astype(kind))}
    draw.say(kind)
    numbers = host(packed.dequantize("float32"))
    want, limit = np.zeros((m, n)), np.zeros((m, n))
    for expert in range(experts):
        rows = owner == expert
        want[rows] = host(x)[rows] @ numbers[expert].T
        limit[rows] = sum_limit(host(x)[rows], numbers[expert], dtype)
    draw.check(gp.grouped_gemm(x, packed, **given), want, limit, dtype)


def run_scaled(draw: Draw) -> None:
    """FP8 and int8 with scales of the tensor, of rows and columns, of blocks of 128."""
    kind = draw.one(("float8_e4m3fn", "float8_e5m2", "int8"))
    dtype = draw.one(cases.DTYPES)
    m, n, k = draw.rows(), draw.size(), draw.size()
    per = draw.one(("tensor", "row", "block") if kind == "float8_e4m3fn" else ("tensor", "row"))
    draw.say("scaled_matmul", kind, dtype, m, n, k, "per", per)
    numpy_type = np.int8 if kind == "int8" else getattr(ml_dtypes, kind)
    a, b = (
        (draw.rng.standard_normal((rows, k)) * (30 if kind == "int8" else 1)).astype(numpy_type)
        for rows in (m, n)
    )
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    blocks = -(-k // 128)
    shapes = {
        "tensor": ((1,), (1,)),
        "row": ((m,), (n,)),
        "block": ((m, blocks), (-(-n // 128), blocks)),
    }
    scale_a, scale_b = (
        (draw.rng.uniform(0.1, 2, shape) / (30 if kind == "int8" else 1)).astype(np.float32)
        for shape in shapes[per]
    )
    if per == "block":
        wide_a *= np.repeat(scale_a.astype(np.float64), 128, 1)[:, :k]
        spread = np.repeat(np.repeat(scale_b.astype(np.float64), 128, 0), 128, 1)
        wide_b *= spread[:n, :k]
        scale_b = np.ascontiguousarray(scale_b.T)
    else:
        wide_a *= scale_a.astype(np.float64).reshape(-1, 1)
        wide_b *= scale_b.astype(np.float64).reshape(-1, 1)
    right = gp.from_numpy(b).T if draw.coin() else gp.from_numpy(np.ascontiguousarray(b.T))
    bias = draw.normal((n,), dtype) if draw.coin() else None
    got = gp.scaled_matmul(
        gp.from_numpy(a),
        right,
        gp.from_numpy(scale_a),
        gp.from_numpy(scale_b),
        bias=bias,
        dtype=dtype,
        out=draw.out(m, n, dtype),
    )
    sums = (SUMS if kind == "int8" else FP8_SUMS) * (np.abs(wide_a) @ np.abs(wide_b).T) + 1e-6
    want, limit = Epilogue(bias, None, None).apply(wide_a @ wide_b.T, sums, cases.UNITS[dtype])
    draw.check(got, want, limit, dtype)


# Of the sum of magnitudes.
PRECISIONS = {
    "float32": ("float32", SUMS),
    "tf32": ("float32", 2.0**-10),
    "3xtf32": ("float32", 2 * SUMS),
    "float64_int8": ("float64", 1e-13),
}


def run_precision(draw: Draw) -> None:
    """Dense float32 and float64 in the precisions that can be asked for."""
    precision = draw.one(list(PRECISIONS))
    dtype, share = PRECISIONS[precision]
    m, n, k = draw.rows(), draw.size(), draw.size()
    draw.say("matmul", precision, m, n, k)
    a, b = draw.placed((m, k), dtype), draw.placed((k, n), dtype)
    limit = share * (np.abs(host(a)) @ np.abs(host(b))) + 1e-30
    got = gp.matmul(a, b, out=draw.out(m, n, dtype), precision=precision)
    draw.check(got, host(a) @ host(b), limit, dtype)


KINDS: tuple[Callable[[Draw], None], ...] = (
    *(run_linear,) * 4,
    *(run_quantize_input,) * 2,
    run_grouped,
    run_scaled,
    run_precision,
)


def run_product(number: int, most_rows: int = 200, most: int = 300) -> None:
    """Product `number` of the seed; its message names what can be drawn again."""
    draw = Draw(number, most_rows, most)
    draw.one(KINDS)(draw)
