"""The GEMM shapes that are timed: squares, layouts, LLM projections, odd sizes."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LAYOUTS = ("nn", "nt", "tn", "tt")  # t: the operand is a transposed view
FP8 = "float8_e4m3fn"
DTYPES = ("bfloat16", "float16", "float32", "tf32")
EIGHT_BITS = (FP8, "int8")
TOLERANCE = {"bfloat16": 6e-3, "float16": 1e-3, "float32": 1e-5, "tf32": 2e-3}
TOLERANCE |= {"float64": 1e-13, FP8: 6e-3, "int8": 0.0}
ITEMSIZE = {"bfloat16": 2, "float16": 2, "float32": 4, "tf32": 4, "float64": 8, FP8: 1, "int8": 1}
# precision= of matmul, on arrays of the dtype.
SPLIT = {"3xtf32": "float32", "float64_int8": "float64"}
TOLERANCE |= {name: TOLERANCE[dtype] for name, dtype in SPLIT.items()}
ITEMSIZE |= {name: ITEMSIZE[dtype] for name, dtype in SPLIT.items()}
# Dtype of the arrays, where it differs from the name.
OPERAND = {"tf32": "float32", **SPLIT}
RESULT = {**OPERAND, FP8: "bfloat16", "int8": "int32"}


class Projection(NamedTuple):
    """A linear layer: y[m, n] = x[m, k] w[n, k]^T."""

    name: str
    k: int
    n: int


PROJECTIONS = (
    Projection("llama-1b qkv", 2048, 3072),
    Projection("llama-1b o", 2048, 2048),
    Projection("llama-1b gate_up", 2048, 16384),
    Projection("llama-1b down", 8192, 2048),
    Projection("llama-8b qkv", 4096, 6144),
    Projection("llama-8b o", 4096, 4096),
    Projection("llama-8b gate", 4096, 14336),
    Projection("llama-8b gate_up", 4096, 28672),
    Projection("llama-8b down", 14336, 4096),
    Projection("llama-70b qkv", 8192, 10240),
    Projection("llama-70b o", 8192, 8192),
    Projection("llama-70b gate", 8192, 28672),
    Projection("llama-70b down", 28672, 8192),
    Projection("qwen3-0.6b qkv", 1024, 4096),
    Projection("qwen3-0.6b o", 2048, 1024),
    Projection("qwen3-0.6b gate_up", 1024, 6144),
    Projection("qwen3-0.6b down", 3072, 1024),
    Projection("qwen3-8b kv", 4096, 1024),
    Projection("qwen3-8b gate_up", 4096, 24576),
    Projection("qwen3-8b down", 12288, 4096),
)
FEW_ROWS = (1, 8, 32)
MANY_ROWS = (128, 512, 4096)

SQUARES = (512, 1024, 2048, 4096, 8192, 16384)
LAYOUT_SQUARES = (1024, 2048, 4096, 8192)
ODD = (  # m, n, k
    (1000, 1000, 1000),
    (1023, 1025, 1021),
    (2047, 2047, 2047),
    (3000, 5000, 1777),
    (4095, 4097, 4096),
    (4097, 4097, 4097),
    (4096, 4096, 100),
    (8191, 8193, 4099),
    (128, 30000, 4096),
    (7168, 2112, 7168),
    (512, 512, 32768),
    (6144, 6144, 6144),
)

PROBES = (  # m, n, k, layout
    # The last step of k is not whole, and the last tile neither; one of them; none.
    (1990, 8928, 144, "nn"),
    (1990, 8928, 144, "nt"),
    (1984, 8960, 144, "nn"),
    (1990, 8928, 128, "nn"),
    (1984, 8960, 128, "nt"),
    (581, 4832, 136, "nn"),
    (581, 4832, 136, "nt"),
    (576, 4864, 128, "nn"),
    # Few rows, w by columns; long k.
    (1, 9216, 2304, "nn"),
    (1, 9216, 2304, "nt"),
    (1, 3584, 16384, "nt"),
    (4, 9216, 2304, "nn"),
    # Epilogue and latency bound.
    (557, 4888, 600, "nt"),
    (90, 14424, 600, "nt"),
    (2032, 264, 168, "nt"),
    # Few tiles, or a little more than whole waves.
    (100, 9216, 2304, "nt"),
    (260, 8736, 10944, "nn"),
    (315, 1208, 10744, "nt"),
    (384, 3072, 8192, "nt"),
    (384, 14336, 5120, "nt"),
    (1504, 1232, 3264, "nt"),
    (100, 1536, 24576, "nt"),
)


@dataclass(frozen=True)
class Case:
    """c[m, n] = a[m, k] b[k, n]."""

    name: str
    m: int
    n: int
    k: int
    layout: str = "nn"
    dtype: str = "bfloat16"

    @property
    def flops(self) -> int:
        """2 m n k."""
        return 2 * self.m * self.n * self.k

    @property
    def weight_bytes(self) -> int:
        """Of b."""
        return self.k * self.n * ITEMSIZE[self.dtype]

    @property
    def input_bytes(self) -> int:
        """Of a and b."""
        return self.m * self.k * ITEMSIZE[self.dtype] + self.weight_bytes


def gemm_cases(
    sizes: Sequence[int] | None,
    dtypes: Sequence[str] | None,
    layouts: Sequence[str] | None,
) -> list[Case]:
    """With sizes: squares in all requested layouts and dtypes (default: bf16 nn)."""
    if sizes:
        return [
            Case("square", n, n, n, layout, dtype)
            for dtype in dtypes or ("bfloat16",)
            for layout in layouts or ("nn",)
            for n in sizes
        ]
    every = [
        *(Case("square", n, n, n) for n in SQUARES),
        *(Case("square", n, n, n, x) for x in LAYOUTS[1:] for n in LAYOUT_SQUARES),
        *(Case("square", n, n, n, dtype="float16") for n in SQUARES),
        *(Case("square", n, n, n, dtype=d) for d in ("tf32", "float32") for n in SQUARES[:-1]),
        *(Case(p.name, m, p.n, p.k, "nt") for m in MANY_ROWS for p in PROJECTIONS),
        *(Case("odd", m, n, k) for m, n, k in ODD),
        *(Case("odd", m, n, k, "nt") for m, n, k in ODD[:6]),
    ]
    return selected(every, dtypes, layouts)


def random_cases(
    count: int,
    seed: int,
    dtypes: Sequence[str] | None,
    layouts: Sequence[str] | None,
    *,
    small: bool = False,
) -> list[Case]:
    """m of 1 to 8192, n and k of 128 to 16384, log-uniform; half of them multiples of 8.

    Operands that would take more than 4 GiB together are drawn again. small: up to 256, for CPU
    simulation.
    """
    most_m, most = (256, 256) if small else (8192, 16384)
    rng = random.Random(seed)

    def draw(least: int, most: int, step: int) -> int:
        size = round(math.exp(rng.uniform(math.log(least), math.log(most))))
        return max(least, size // step * step)

    cases: list[Case] = []
    while len(cases) < count:
        step = rng.choice((1, 8))
        m, n, k = draw(1, most_m, 1), draw(128, most, step), draw(128, most, step)
        layout = rng.choice(list(layouts or LAYOUTS))
        case = Case("random", m, n, k, layout, rng.choice(list(dtypes or ("bfloat16",))))
        if case.input_bytes <= 2**32:
            cases.append(case)
    return cases


def probe_cases(dtypes: Sequence[str] | None) -> list[Case]:
    """Shapes that cost models have been wrong about, each with one property isolated."""
    dtype = dtypes[0] if dtypes else "bfloat16"
    return [Case("probe", m, n, k, layout, dtype) for m, n, k, layout in PROBES]


def eight_bit_cases(
    sizes: Sequence[int] | None,
    dtypes: Sequence[str] | None,
    layouts: Sequence[str] | None,
) -> list[Case]:
    """FP8 with one scale per operand, and INT8; K-major weights [n, k], as tensor cores require."""
    every = [
        *(Case("square", n, n, n, "nt", d) for d in EIGHT_BITS for n in sizes or SQUARES[1:-1]),
        *(
            Case(p.name, m, p.n, p.k, "nt", FP8)
            for m in MANY_ROWS
            for p in PROJECTIONS
            if not sizes and p.name.startswith("llama-8b")
        ),
    ]
    return selected(every, dtypes, layouts)


def gemv_cases(
    sizes: Sequence[int] | None,
    dtypes: Sequence[str] | None,
    layouts: Sequence[str] | None,
) -> list[Case]:
    """One to 32 rows; with sizes: n = k = size."""
    if sizes:
        return [
            Case("square", m, n, n, layout, dtype)
            for dtype in dtypes or ("bfloat16",)
            for layout in layouts or ("nt",)
            for n in sizes
            for m in FEW_ROWS
        ]
    every = [
        *(Case(p.name, m, p.n, p.k, "nt") for m in FEW_ROWS for p in PROJECTIONS),
        *(Case(p.name, 1, p.n, p.k, "nn") for p in PROJECTIONS),
        *(Case(p.name, 1, p.n, p.k, "nt", d) for d in ("float16", "float32") for p in PROJECTIONS),
        *(Case("odd", 1, n, k, x) for x in ("nt", "nn") for n, k in ((4095, 4097), (5000, 4100))),
    ]
    return selected(every, dtypes, layouts)


def small_cases(
    name: str, dtypes: Sequence[str] | None, layouts: Sequence[str] | None
) -> list[Case]:
    """Cases small enough for CPU simulation."""
    rows = (1, 8) if name == "gemv" else (24, 65)
    usual, all_layouts = {"fp8": (EIGHT_BITS, ("nt",))}.get(
        name, (("bfloat16", "float32"), LAYOUTS)
    )
    every = [
        Case("small", m, 48, 33, layout, dtype)
        for dtype in dtypes or usual
        for layout in layouts or all_layouts
        for m in rows
    ]
    return selected(every, dtypes, layouts)


def quick_cases(cases: Iterable[Case]) -> list[Case]:
    """One in eight, and every square in the first layout and dtype."""
    kept = list(cases)
    return [
        case
        for i, case in enumerate(kept)
        if i % 8 == 0
        or (case.name == "square" and (case.layout, case.dtype) == (kept[0].layout, kept[0].dtype))
    ]


def selected(
    cases: Iterable[Case], dtypes: Sequence[str] | None, layouts: Sequence[str] | None
) -> list[Case]:
    """The cases of the requested dtypes and layouts, without duplicates, in order."""
    kept = (
        case
        for case in cases
        if (not dtypes or case.dtype in dtypes) and (not layouts or case.layout in layouts)
    )
    return list(dict.fromkeys(kept))
