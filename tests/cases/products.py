"""Cases of GEMM with an epilogue: linear, addmm, dtype=, scales, groups of rows.

Oracles compute in float64 (longdouble for float64) and bound the error by what a sum of that many
terms, the activation and one rounding may add.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import pygpukit as gp
from cases.matmul import place

FLOATS = ("float16", "bfloat16", "float32", "float64")
FP8 = ("float8_e4m3fn", "float8_e5m2")
Shape = tuple[int, ...]


def seed_of(case: object) -> int:
    return zlib.crc32(str(case).encode())


def normal(shape: Shape, dtype: str, seed: int, scale: float = 1.0) -> Any:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(dtype)


def put(host: Any, layout: str, device: str | None) -> gp.GPUArray:
    """As place(); "u" is a view whose rows and first element are not aligned."""
    if layout != "u":
        return place(host, layout, device)
    wide = np.zeros((*host.shape[:-1], host.shape[-1] + 3), host.dtype)
    wide[..., 1:-2] = host
    return gp.from_numpy(wide, device=device)[..., 1:-2]


def wide(x: Any) -> Any:
    """A dtype in which sums of that dtype's products are practically exact."""
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


def half_step(dtype: Any, want: Any) -> Any:
    """Half the distance to the next number of the dtype, also where numbers are subnormal."""
    info = ml_dtypes.finfo(dtype)
    least = float(info.smallest_subnormal)
    return np.abs(want) * float(info.eps) / 2 + least / 2


def sum_error(size: Any, terms: int, dtype: Any, sums: float | None = None) -> Any:
    """What adding up terms of total magnitude `size` may cost."""
    eps = float(np.finfo(np.float64 if dtype == np.float64 else np.float32).eps)
    return size * (sums or eps * max(4.0, (terms + 4) ** 0.5))


# --- activations --------------------------------------------------------------------------------


def activated(name: str | None, v: Any) -> Any:
    if name is None:
        return v
    if name == "relu":
        return np.maximum(v, 0)
    if name == "silu":
        return v / (1 + np.exp(-v))
    return 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))


def activation_error(name: str | None, v: Any, error: Any, eps: float) -> Any:
    """From the error of v, and of an exponential whose argument is rounded."""
    if name in (None, "relu"):
        return error
    argument = np.abs(v) * (1 + 0.05 * v * v)
    return 1.2 * error + np.abs(activated(name, v)) * eps * (16 + 4 * argument)


# --- linear and addmm ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Linear:
    """activation(x w^T + bias) + residual."""

    dtype: str
    x: Shape
    n: int
    activation: str | None = None
    bias: bool = False
    residual: str = ""  # "full", "row" (broadcast), "out" (the result goes there)
    layout: str = "cc"  # of x and w
    gpu: bool = True

    def __str__(self) -> str:
        parts = (self.dtype, self.x, self.n, self.activation, self.bias, self.residual, self.layout)
        return "-".join(str(part) for part in parts).replace(" ", "")


SIZES: tuple[tuple[Shape, int], ...] = (
    ((1, 64), 48),
    ((3, 33), 31),
    ((65, 130), 70),
    ((2, 5, 24), 40),
    ((96,), 33),
)
ACTIVATIONS = (None, "relu", "gelu", "silu", "swiglu")


# On a GPU each combination of a dtype and an engine is a kernel to compile: all of them for
# bfloat16 at one size, these everywhere.
GPU_COMBINATIONS = ((True, None, ""), (True, "gelu", "full"), (False, "silu", "out"))


def linear_cases() -> Iterator[Linear]:
    for dtype in FLOATS:
        for bias in (False, True):
            for activation in ACTIVATIONS:
                for residual in ("", "full", "row", "out"):
                    few = activation == "swiglu" or (bias, activation, residual) in GPU_COMBINATIONS
                    every = dtype == "bfloat16" and residual in ("", "full")
                    for x, n in SIZES:
                        gpu = (few and n in (48, 70, 40)) or (every and n == 70)
                        yield Linear(dtype, x, n, activation, bias, residual, gpu=gpu)
        for layout in ("ct", "tc", "tt", "uu", "uc", "cu", "ss"):
            gpu = dtype == "bfloat16" and layout in ("tt", "uu")
            yield Linear(dtype, (65, 130), 70, "gelu", True, "", layout, gpu)
            yield Linear(dtype, (65, 130), 70, None, False, "", layout)
            yield Linear(dtype, (1, 64), 48, None, False, "", layout)
        for x, n in (((0, 5), 4), ((4, 5), 0), ((3, 0), 2), ((2, 0, 3), 4)):
            yield Linear(dtype, x, n, "relu", True, "full", gpu=dtype == "bfloat16")
            yield Linear(dtype, x, n, "swiglu", True, "full")


LINEAR = list(linear_cases())


def run_linear(case: Linear, device: str | None = None, **options: Any) -> Any:
    seed = seed_of(case)
    k = case.x[-1]
    pair = case.activation == "swiglu"
    rows = 2 * case.n if pair else case.n
    x = normal(case.x, case.dtype, seed)
    w = normal((rows, k), case.dtype, seed + 1, max(k, 1) ** -0.5)
    shape = (*case.x[:-1], case.n)
    bias = normal((rows,), case.dtype, seed + 2) if case.bias else None
    res_shape = shape[-1:] if case.residual == "row" else shape
    residual = normal(res_shape, case.dtype, seed + 3) if case.residual else None
    layouts = case.layout if x.ndim > 1 else "cc"

    ours = [put(x, layouts[0], device), put(w, layouts[1], device)]
    extra: dict[str, Any] = {"activation": case.activation, **options}
    if bias is not None:
        extra["bias"] = gp.from_numpy(bias, device=device)
    if residual is not None:
        extra["residual"] = gp.from_numpy(residual, device=device)
    if case.residual == "out":
        extra["out"] = extra["residual"]
    result = gp.linear(*ours, **extra)
    if case.residual == "out":
        assert result is extra["out"]
    assert result.dtype.name == case.dtype
    got = result.to_numpy()
    check_linear(case, got, x, w, bias, residual)
    for host, array in zip((x, w), ours, strict=True):
        np.testing.assert_array_equal(array.to_numpy(), host)
    return got


def check_linear(
    case: Linear, got: Any, x: Any, w: Any, bias: Any, residual: Any, allowance: Any = 0.0
) -> None:
    """`allowance`: what x w^T may be off by on top of its rounding."""
    dtype = x.dtype
    eps = float(np.finfo(np.float64 if dtype == np.float64 else np.float32).eps)
    v = np.matmul(wide(x), wide(w).T)
    error = sum_error(np.matmul(np.abs(wide(x)), np.abs(wide(w)).T), x.shape[-1], dtype)
    error = error + allowance
    if bias is not None:
        v = v + wide(bias)
        error = error + eps * np.abs(v)
    if case.activation == "swiglu":
        (gate, up), (gate_error, up_error) = np.split(v, 2, -1), np.split(error, 2, -1)
        silu_error = activation_error("silu", gate, gate_error, eps)
        v = activated("silu", gate) * up
        error = silu_error * np.abs(up) + np.abs(activated("silu", gate)) * up_error
        error = error + eps * np.abs(v) + silu_error * up_error
    else:
        error = activation_error(case.activation, v, error, eps)
        v = activated(case.activation, v)
    if residual is not None:
        v = v + wide(residual)
        error = error + eps * (np.abs(v) + np.abs(wide(residual)))
    assert_within(got, v, error, dtype)


def assert_within(got: Any, want: Any, error: Any, dtype: Any) -> None:
    assert got.shape == want.shape
    assert got.dtype == np.dtype(dtype)
    bound = half_step(np.dtype(dtype), want) + error
    off = np.abs(wide(got) - want)
    assert (off <= bound).all(), f"error {off.max()}, {(off / bound).max()} times what is allowed"


@dataclass(frozen=True)
class Addmm:
    """alpha * a @ b + beta * c."""

    dtype: str
    a: Shape
    b: Shape
    c: Shape
    alpha: float = 1.0
    beta: float = 1.0
    out: str = ""  # "c": the result goes into c

    def __str__(self) -> str:
        parts = (self.dtype, self.a, self.b, self.c, self.alpha, self.beta, self.out)
        return "-".join(str(part) for part in parts).replace(" ", "")


def addmm_cases() -> Iterator[Addmm]:
    for dtype in FLOATS:
        yield Addmm(dtype, (33, 65), (65, 40), (33, 40), 0.5, -2.0)
        yield Addmm(dtype, (33, 65), (65, 40), (40,), 1.0, 1.0)
        yield Addmm(dtype, (33, 65), (65, 40), (33, 40), 0.1, 0.3, "c")
        yield Addmm(dtype, (3, 4, 5), (5, 6), (3, 4, 6), 2.0, 1.0)
        yield Addmm(dtype, (4, 5), (3, 5, 6), (4, 1), 2.0, 0.5)
        yield Addmm(dtype, (2, 4, 5), (2, 5, 6), (2, 1, 6), 1.0, 0.5)
        yield Addmm(dtype, (4, 0), (0, 6), (4, 6), 2.0, 0.5, "c")
        yield Addmm(dtype, (5,), (5, 6), (6,), 1.5, 2.0)
        yield Addmm(dtype, (5,), (5,), (), 1.5, 2.0)
    for dtype in ("int8", "int32", "uint64", "complex64", "complex128"):
        beta = 2.0 if dtype == "uint64" else -2.0
        yield Addmm(dtype, (33, 65), (65, 40), (33, 40), 3.0, beta)
        yield Addmm(dtype, (3, 4, 5), (5, 6), (6,), 1.0, 1.0)
        yield Addmm(dtype, (3, 4, 5), (5, 6), (3, 4, 6), 2.0, 1.0, "c")
    yield Addmm("complex128", (3, 4), (4, 5), (3, 5), 0.1, 0.3)


ADDMM = list(addmm_cases())


def run_addmm(case: Addmm, device: str | None = None) -> None:
    seed = seed_of(case)
    dtype = np.dtype(case.dtype)
    hosts: list[Any] = []
    for i, shape in enumerate((case.a, case.b, case.c)):
        values = normal(shape, "float64", seed + i)
        if dtype.kind in "iu":
            values = np.round(values * 5)
        elif dtype.kind == "c":
            values = values + 1j * normal(shape, "float64", seed + 9 + i)
        with np.errstate(invalid="ignore"):
            hosts.append(np.asarray(values).astype(np.int64 if dtype.kind in "iu" else dtype))
            hosts[-1] = hosts[-1].astype(dtype)
    a, b, c = (gp.from_numpy(x, device=device) for x in hosts)
    out = c if case.out else None
    result = gp.addmm(c, a, b, alpha=case.alpha, beta=case.beta, out=out)
    if case.out:
        assert result is c
    got = result.to_numpy()
    if dtype.kind in "iu":
        with np.errstate(over="ignore"):
            want = int(case.alpha) * np.matmul(*(x.astype(np.int64) for x in hosts[:2]))
            want = (want + int(case.beta) * hosts[2].astype(np.int64)).astype(dtype)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, want)
        return
    up = {"complex64": np.complex128, "complex128": np.clongdouble}.get(case.dtype)
    x, y, z = (h.astype(up) if up else wide(h) for h in hosts)
    want = case.alpha * np.matmul(x, y) + case.beta * z
    part = np.dtype(np.float64 if case.dtype in ("float64", "complex128") else np.float32)
    size = np.matmul(np.abs(x), np.abs(y)) * abs(case.alpha)
    eps = float(np.finfo(part).eps)
    error = sum_error(size, case.a[-1], part) + 4 * eps * (size + np.abs(z * case.beta))
    if dtype.kind == "c":
        assert got.dtype == dtype
        assert (np.abs(got.astype(want.dtype) - want) <= error).all()
    else:
        assert_within(got, np.asarray(want), error, dtype)


# --- dtype= -------------------------------------------------------------------------------------

# Operands and what is computed in.
DTYPES = (
    ("float16", "float32"),
    ("bfloat16", "float32"),
    ("float32", "float64"),
    ("float32", "float16"),
    ("int8", "int32"),
    ("int8", "int64"),
    ("int8", "float32"),
    ("uint8", "int32"),
    ("uint8", "uint8"),
)
DTYPE_SHAPES: tuple[tuple[Shape, Shape], ...] = (
    ((33, 130), (130, 65)),
    ((1, 200), (200, 40)),
    ((3, 17, 40), (40, 21)),
    ((50,), (50,)),
    ((2, 0), (0, 3)),
)


def run_dtype(
    operand: str, dtype: str, a: Shape, b: Shape, layout: str = "cc", device: str | None = None
) -> None:
    seed = seed_of((operand, dtype, a, b))
    rng = np.random.default_rng(seed)
    if operand in ("int8", "uint8"):
        low, high = (-128, 128) if operand == "int8" else (0, 256)
        hosts = [rng.integers(low, high, s).astype(operand) for s in (a, b)]
    else:
        hosts = [normal(s, operand, seed + i) for i, s in enumerate((a, b))]
    ours = [put(h, kind, device) for h, kind in zip(hosts, layout, strict=True)]
    got = gp.matmul(*ours, dtype=dtype).to_numpy()
    cast = [h.astype(dtype) for h in hosts]
    if np.dtype(dtype).kind in "iu":
        with np.errstate(over="ignore"):
            want = np.matmul(*(h.astype(np.int64) for h in cast))
        np.testing.assert_array_equal(got, np.asarray(want).astype(dtype))
        assert got.dtype == np.dtype(dtype)
        return
    want = np.asarray(np.matmul(*map(wide, cast)))
    size = np.matmul(*(np.abs(wide(h)) for h in cast))
    part = np.float64 if dtype == "float64" else np.float32
    assert_within(got, want, sum_error(size, a[-1], part), dtype)


# --- scales -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scaled:
    """(scale_a * a) (scale_b * b) + bias."""

    a: str
    b: str
    x: Shape  # of a
    n: int
    scales: str = "oo"  # of a and b: "n" a number, "o" one element, "v" one per row or column
    bias: bool = False
    dtype: str | None = None
    layout: str = "ct"
    fast: bool = False

    def __str__(self) -> str:
        parts = (self.a, self.b, self.x, self.n, self.scales, self.bias, self.dtype, self.layout)
        parts += ("fast",) if self.fast else ()
        return "-".join(str(part) for part in parts).replace(" ", "")


def scaled_cases() -> Iterator[Scaled]:
    pairs = [(a, b) for a in FP8 for b in FP8] + [("int8", "int8")]
    for a, b in pairs:
        for scales in ("nn", "oo", "vv", "nv", "vo"):
            yield Scaled(a, b, (33, 65), 40, scales)
        yield Scaled(a, b, (64, 256), 128, "vv", True, "bfloat16")
        yield Scaled(a, b, (1, 128), 48, "oo", True, "float16")
        yield Scaled(a, b, (3, 5, 48), 17, "vv", True)
        yield Scaled(a, b, (64, 256), 128, "oo", False, "bfloat16", fast=True)
        yield Scaled(a, b, (4, 0), 3, "oo", True)
        yield Scaled(a, b, (0, 4), 3, "vv")
        for layout in ("cc", "tc", "tt", "uu"):
            yield Scaled(a, b, (65, 100), 70, "oo", layout=layout)


SCALED = list(scaled_cases())


def scaled_operands(case: Scaled) -> tuple[Any, ...]:
    seed = seed_of(case)
    rng = np.random.default_rng(seed)
    k = case.x[-1]
    shapes = (case.x, (k, case.n))
    hosts: list[Any] = []
    scales: list[Any] = []
    for i, dtype in enumerate((case.a, case.b)):
        if dtype == "int8":
            hosts.append(rng.integers(-128, 128, shapes[i]).astype(np.int8))
        else:
            hosts.append(normal(shapes[i], dtype, seed + i, 4.0))
        count = case.x[:-1] if i == 0 else (case.n,)
        kind = case.scales[i]
        shape = () if kind == "n" else (1,) if kind == "o" else count
        scales.append(rng.uniform(0.01, 0.1, shape).astype(np.float32))
    bias = normal((case.n,), case.dtype or "float32", seed + 7) if case.bias else None
    return (*hosts, *scales, bias)


def run_scaled(case: Scaled, device: str | None = None, sums: float | None = None) -> None:
    a, b, scale_a, scale_b, bias = scaled_operands(case)
    ours = [put(x, kind, device) for x, kind in zip((a, b), case.layout, strict=True)]
    scales = [
        float(s) if kind == "n" else gp.from_numpy(s, device=device)
        for s, kind in zip((scale_a, scale_b), case.scales, strict=True)
    ]
    extra = {} if bias is None else {"bias": gp.from_numpy(bias, device=device)}
    options = {"dtype": case.dtype, "fast_accum": case.fast, **extra}
    got = gp.scaled_matmul(*ours, *scales, **options).to_numpy()
    rows = wide(scale_a)[..., None] if case.scales[0] == "v" else wide(scale_a)
    factor = rows * wide(scale_b)
    want = np.matmul(wide(a), wide(b)) * factor
    size = np.matmul(np.abs(wide(a)), np.abs(wide(b))) * factor
    if case.a == "int8":
        sums = None
    error = sum_error(size, case.x[-1], np.float32, sums) + 4 * 2.0**-23 * np.abs(want)
    if bias is not None:
        want = want + wide(bias)
        error = error + 2.0**-22 * (np.abs(want) + np.abs(wide(bias)))
    assert_within(got, want, error, case.dtype or "float32")


# --- groups of rows -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Grouped:
    """How the rows get their experts: "host" and "sizes" (of groups, in order), "ids" (each)."""

    dtype: str
    k: int
    n: int
    sizes: tuple[int, ...]
    by: str
    layout: str = "cc"
    index: str = "int32"

    def __str__(self) -> str:
        sizes = ".".join(map(str, self.sizes)) if len(self.sizes) < 8 else len(self.sizes)
        return f"{self.by}-{self.dtype}-{self.k}-{self.n}-{sizes}-{self.layout}-{self.index}"


def grouped_cases() -> Iterator[Grouped]:
    many = tuple(int(s) for s in np.random.default_rng(1).integers(0, 9, 70))
    for dtype in FLOATS:
        for by in ("host", "sizes", "ids"):
            yield Grouped(dtype, 40, 70, (3, 0, 65, 130), by)
            yield Grouped(dtype, 17, 5, (1,), by)
    for by in ("host", "sizes", "ids"):
        for layout in ("tt", "uu", "ss"):
            yield Grouped("float32", 33, 31, (10, 20, 3), by, layout)
        for layout in ("rc", "cr"):
            yield Grouped("bfloat16", 64, 64, (200, 3, 70), by, layout)
        yield Grouped("bfloat16", 64, 66, many, by)
        yield Grouped("bfloat16", 64, 66, many, by, index="int64")
        yield Grouped("float32", 0, 3, (2, 2), by)
        yield Grouped("float32", 4, 3, (0, 0), by)
        yield Grouped("float32", 4, 0, (1, 2), by)


GROUPED = list(grouped_cases())


def group_argument(case: Grouped, ids: Any, device: str | None) -> dict[str, Any]:
    if case.by == "host":
        return {"group_sizes": list(case.sizes)}
    if case.by == "sizes":
        return {"group_sizes": gp.from_numpy(np.array(case.sizes, case.index), device=device)}
    return {"expert_ids": gp.from_numpy(ids.astype(case.index), device=device)}


def run_grouped(case: Grouped, device: str | None = None) -> Any:
    seed = seed_of(case)
    m, experts = sum(case.sizes), len(case.sizes)
    x = normal((m, case.k), case.dtype, seed)
    w = normal((experts, case.n, case.k), case.dtype, seed + 1)
    ids = np.repeat(np.arange(experts), case.sizes)
    if case.by == "ids":
        ids = np.random.default_rng(seed).permutation(ids)
    ours = [put(h, kind, device) for h, kind in zip((x, w), case.layout, strict=True)]
    result = gp.grouped_gemm(*ours, **group_argument(case, ids, device))
    check_grouped(result.to_numpy(), x, w, ids)
    return result.to_numpy()


def check_grouped(got: Any, x: Any, w: Any, ids: Any) -> None:
    """ids -1: the row is zero."""
    want = np.einsum("ik,ink->in", wide(x), wide(w)[ids]) * (ids >= 0)[:, None]
    size = np.einsum("ik,ink->in", np.abs(wide(x)), np.abs(wide(w))[ids])
    assert_within(got, want, sum_error(size, x.shape[1], x.dtype), x.dtype)
    assert (got[ids < 0] == 0).all()
