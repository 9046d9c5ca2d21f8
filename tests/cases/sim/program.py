"""A program: PTX (or CUDA C), a launch, an input image and what is expected of the output."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
LANES = 64  # threads of a lane program: two warps


@dataclass(frozen=True)
class TensorMap:
    """Of the input, as cuTensorMapEncodeTiled takes it; sizes and box from the inside out."""

    dtype: int
    sizes: tuple[int, ...]
    pitches: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0


@dataclass(frozen=True)
class Program:
    """entry ``k(in, out)``; a tensor map is a third parameter. `out` starts as zeros."""

    name: str
    source: str
    image: Callable[[], Bytes]
    out_bytes: int
    expect: Callable[[Bytes], Bytes] | None = field(default=None, compare=False)
    grid: int = 1
    block: tuple[int, int, int] = (LANES, 1, 1)
    shared_bytes: int = 0
    sm: int = 80
    cuda: bool = False  # the source is CUDA C
    tensor_map: TensorMap | None = None
    approximate: tuple[str, float] | None = None  # dtype of the output, relative tolerance

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]


def seed_of(name: str) -> int:
    return zlib.crc32(name.encode())


def header(sm: int) -> str:
    return f".version 8.4\n.target sm_{sm}{'a' if sm == 90 else ''}\n.address_size 64\n"


LANE_FRAME = """.visible .entry k(.param .u64 in, .param .u64 out)
{{
.reg .pred %p<16>; .reg .b16 %h<32>; .reg .b32 %r<64>; .reg .b64 %rd<32>;
.reg .f32 %f<32>; .reg .f64 %fd<32>;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
cvta.to.global.u64 %rd1, %rd1;
cvta.to.global.u64 %rd2, %rd2;
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mad.lo.u32 %r1, %r1, %r2, %r0;
mul.wide.u32 %rd3, %r1, 8;
add.s64 %rd1, %rd1, %rd3;
add.s64 %rd2, %rd2, %rd3;
ld.global.u64 %rd4, [%rd1];
ld.global.u64 %rd5, [%rd1+512];
ld.global.u64 %rd6, [%rd1+1024];
{unpack}mov.u64 %rd7, 0;
mov.u32 %r7, 0;
{body}
st.global.u64 [%rd2], %rd7;
ret;
}}
"""


def unpack() -> str:
    """a, b and c in registers 4, 5 and 6 of every kind."""
    lines = []
    for k in (4, 5, 6):
        lines += [f"cvt.u32.u64 %r{k}, %rd{k};", f"cvt.u16.u64 %h{k}, %rd{k};"]
        lines += [f"mov.b32 %f{k}, %r{k};", f"mov.b64 %fd{k}, %rd{k};"]
    return "\n".join(lines) + "\n"


def lane_source(body: str, sm: int = 80, declarations: str = "") -> str:
    """`body` computes %rd7 from a, b and c: %rd4-6, %r4-6, %h4-6, %f4-6, %fd4-6. %r0: thread."""
    return header(sm) + declarations + LANE_FRAME.format(unpack=unpack(), body=body)


INTERESTING = {
    "int": (
        *(0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 1 << 63),
        *((1 << 64) - 1, 0xFFFFFFFF80000000, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF),
    ),
    "f32": (
        *(0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7FA00000),
        *(1, 0x80000001, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3EFFFFFF, 0x3F000000),
        *(0x3FC00000, 0x40200000, 0x4B000001, 0x4F000000, 0xCF000000, 0x5F000000, 0x34000000),
    ),
    "f64": (
        *(0, 1 << 63, 0x3FF << 52, 0xBFF << 52, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 1),
        *((1 << 63) + 1, (1 << 52) - 1, 1 << 52, (0x7FF << 52) - 1, 0x3FE << 52, 0x4004 << 48),
        *(0x41EFFFFFFFE00000, 0xC1E0000000000000, 0x43E << 52, 0x36A << 52, 0x3FEFFFFFFFFFFFFF),
    ),
    "f16": (
        *(0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 1, 0x8001, 0x3FF, 0x400, 0x7BFF),
        *(0xFBFF, 0x3BFF, 0x3555, 0x3E00, 0x4100, 0x1400),
    ),
    "bf16": (
        *(0, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 1, 0x8001, 0x7F, 0x80, 0x7F7F),
        *(0xFF7F, 0x3EAB, 0x3FC0, 0x4020, 0x3400),
    ),
}


def values(kind: str, rng: np.random.Generator, count: int = LANES) -> list[int]:
    """64-bit words: known corners, neighbours in magnitude, random bits."""
    corners = INTERESTING[kind]
    out = []
    for _ in range(count):
        how = rng.integers(0, 4)
        bits = int(rng.integers(0, 1 << 64, dtype=np.uint64))
        if how == 0:
            bits = corners[rng.integers(0, len(corners))]
            if kind in ("f16", "bf16"):
                bits |= corners[rng.integers(0, len(corners))] << 16
        elif how == 1 and kind == "int":
            bits >>= int(rng.integers(0, 64))
        elif how != 3 and kind != "int":
            bits = near_one(kind, rng)
        out.append(bits)
    return out


def near_one(kind: str, rng: np.random.Generator) -> int:
    """Magnitudes between 2^-20 and 2^20, where operands interact."""
    number = float(rng.standard_normal() * 2.0 ** rng.integers(-20, 21))
    if kind == "f64":
        return int(np.float64(number).view(np.uint64))
    if kind == "f32":
        return int(np.float32(number).view(np.uint32))
    halves = [number / 64, float(rng.standard_normal())]
    if kind == "f16":
        return sum(int(np.float16(x).view(np.uint16)) << 16 * i for i, x in enumerate(halves))
    return sum(int(np.float32(x).view(np.uint32)) >> 16 << 16 * i for i, x in enumerate(halves))


def words(*columns: Sequence[int]) -> Bytes:
    return np.array([x for column in columns for x in column], dtype=np.uint64).view(np.uint8)


def lane_program(
    name: str,
    body: str,
    kinds: str | tuple[str, str, str],
    of: Callable[[int, int, int], int],
    sm: int = 80,
    declarations: str = "",
    approximate: tuple[str, float] | None = None,
) -> Program:
    """64 threads of three inputs; `of` says what a thread stores, from the 64-bit words."""
    three = (kinds,) * 3 if isinstance(kinds, str) else kinds

    def image() -> Bytes:
        rng = np.random.default_rng(seed_of(name))
        return words(*(values(kind, rng) for kind in three))

    def expect(image: Bytes) -> Bytes:
        a, b, c = (column.tolist() for column in image.view(np.uint64).reshape(3, LANES))
        return words([of(x, y, z) & ((1 << 64) - 1) for x, y, z in zip(a, b, c, strict=True)])

    source = lane_source(body, sm, declarations)
    return Program(name, source, image, 8 * LANES, expect, sm=sm, approximate=approximate)
