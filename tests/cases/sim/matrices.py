"""mma.sync, wgmma, ldmatrix and stmatrix of every shape and type."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .program import Bytes, Program, header, seed_of

Array = NDArray[np.generic]
TYPES: dict[str, np.dtype] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "f32": np.dtype(np.float32),
    "s32": np.dtype(np.int32),
}


def small(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    """Numbers whose products and sums are exact in every accumulator."""
    if kind == "u8":
        return rng.integers(0, 256, shape).astype(np.uint8)
    if kind == "s8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    if kind == "s32":
        return rng.integers(-1000, 1000, shape).astype(np.int32)
    return (rng.integers(-4, 5, shape) / 2).astype(TYPES[kind])


def product(a: Array, b: Array, c: Array, kind: str, saturate: bool = False) -> Array:
    wide = np.int64 if kind == "s32" else np.float64
    sums = a.astype(wide) @ b.astype(wide) + c.astype(wide)
    if saturate:
        sums = sums.clip(-(1 << 31), (1 << 31) - 1)
    return sums.astype(TYPES[kind])


def registers(count: int, first: int, letter: str) -> str:
    return "{" + ", ".join(f"%{letter}{first + i}" for i in range(count)) + "}"


def fragments(rows: int, depth: int, bits: int) -> tuple[Array, Array]:
    """[lane, register, element]: row and column of A (the manual's figures in one formula)."""
    per = max(1, 32 // bits)
    count = rows * depth * bits // (32 * max(32, bits))
    lane, register, element = np.ogrid[:32, :count, :per]
    group, thread = lane // 4, lane % 4
    tall = rows == 16
    row = group + (8 * (register % 2) if tall else 0) + 0 * element
    column = thread * per + element + 4 * per * (register // 2 if tall else register)
    return np.broadcast_arrays(row, column)


def accumulators(rows: int) -> tuple[Array, Array]:
    lane, element = np.ogrid[:32, : rows // 4]
    return np.broadcast_arrays(lane // 4 + 8 * (element // 2), lane % 4 * 2 + element % 2)


def mma(shape: str, d: str, a: str, b: str, satfinite: bool = False, exact: bool = True) -> Program:
    rows, depth = int(shape[1 : shape.index("n")]), int(shape[shape.index("k") + 1 :])
    bits = TYPES[a].itemsize * 8
    wide = bits == 64
    letter, word = ("rd", 8) if wide else ("r", 4)
    a_at = fragments(rows, depth, bits)
    b_at = fragments(8, depth, bits)
    d_at = accumulators(rows)
    counts = [a_at[0].shape[1], b_at[0].shape[1], d_at[0].shape[1] // (2 if d == "f16" else 1)]
    total = sum(counts)
    sat = ".satfinite" if satfinite else ""
    opcode = f"mma.sync.aligned.{shape}.row.col{sat}.{d}.{a}.{b}.{d}"
    name = f"mma/{opcode.removeprefix('mma.sync.aligned.')}{'' if exact else '-rounded'}"
    loads = "".join(
        f"ld.global.b{8 * word} %{letter}{10 + i}, [%rd1+{word * i}];\n" for i in range(total)
    )
    stores = "".join(
        f"st.global.b{8 * word} [%rd2+{word * i}], %{letter}{40 + i};\n" for i in range(counts[2])
    )
    # The registers of .f32 and .f64 operands are of those types.
    typed = {"f32": ("f", "f32"), "f64": ("fd", "f64")}.get(d)
    sm = 89 if a in ("e4m3", "e5m2") else 90 if wide and shape != "m8n8k4" else 80
    at_c = 10 + counts[0] + counts[1]
    operand_a, operand_b = (
        registers(counts[0], 10, letter),
        registers(counts[1], 10 + counts[0], letter),
    )
    into, out_of = "", ""
    target, addend = registers(counts[2], 40, letter), registers(counts[2], at_c, letter)
    if typed:
        for i in range(counts[2]):
            into += f"mov.b{8 * word} %{typed[0]}{at_c + i}, %{letter}{at_c + i};\n"
            out_of += f"mov.b{8 * word} %{letter}{40 + i}, %{typed[0]}{40 + i};\n"
        target, addend = registers(counts[2], 40, typed[0]), registers(counts[2], at_c, typed[0])
    if wide:
        for i in range(counts[0] + counts[1]):
            into += f"mov.b64 %fd{10 + i}, %rd{10 + i};\n"
        operand_a = registers(counts[0], 10, "fd")
        operand_b = registers(counts[1], 10 + counts[0], "fd")
    source = f"""{header(sm)}.visible .entry k(.param .u64 in, .param .u64 out)
{{
.reg .b32 %r<64>; .reg .b64 %rd<64>; .reg .f32 %f<64>; .reg .f64 %fd<64>;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd3, %r0, {word * total};
add.u64 %rd1, %rd1, %rd3;
mul.wide.u32 %rd3, %r0, {word * counts[2]};
add.u64 %rd2, %rd2, %rd3;
{loads}{into}{opcode} {target}, {operand_a}, {operand_b}, {addend};
{out_of}{stores}ret;
}}
"""

    def matrices() -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(seed_of(name))
        if exact:
            c = small(rng, d, (rows, 8))
            if satfinite:
                c = rng.choice(np.array([-(1 << 31), (1 << 31) - 1], np.int32), (rows, 8))
            return small(rng, a, (rows, depth)), small(rng, b, (depth, 8)), c
        shapes = ((a, (rows, depth)), (b, (depth, 8)), (d, (rows, 8)))
        left, right, c = (rng.standard_normal(s).astype(TYPES[k]) for k, s in shapes)
        if a == "tf32":
            left, right = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (left, right))
        return left, right, c

    def image() -> Bytes:
        left, right, c = matrices()
        parts = [
            np.ascontiguousarray(values).view(np.uint8).reshape(32, -1)
            for values in (left[a_at], right.T[b_at], c[d_at])
        ]
        return np.concatenate(parts, axis=1).ravel()

    def expect(_: Bytes) -> Bytes:
        left, right, c = matrices()
        result = product(left, right, c, d, satfinite)
        return np.ascontiguousarray(result[d_at]).view(np.uint8).ravel()

    # Sums of fp8 products may be kept to 14 bits.
    bound = 2e-3 if d == "f16" or bits == 8 else 1e-5
    tolerance = None if exact else (TYPES[d].name, bound)
    return Program(
        name, source, image, 32 * word * counts[2], expect, 1, (32, 1, 1), 0, sm,
        approximate=tolerance,
    )  # fmt: skip


def prune(rng: np.random.Generator, a: Array) -> tuple[Array, Array, Array]:
    """Two of every four columns of `a` [16, k]: the others as zeros, values [16, k / 2], places."""
    groups = a.reshape(16, -1, 4)
    place = np.sort(rng.random(groups.shape).argsort(-1)[..., :2], axis=-1)
    values = np.take_along_axis(groups, place, -1)
    kept = np.zeros_like(groups)
    np.put_along_axis(kept, place, values, -1)
    return kept.reshape(a.shape), values.reshape(16, -1), place


def metadata(rng: np.random.Generator, place: Array, selector: int) -> Array:
    """A word for each lane; lanes that the selector does not name have any bits.

    16 columns of a row are 16 bits, lowest first: the lower half of a word is for row lane / 4, the
    upper for row lane / 4 + 8. The lanes of a quad that count have the columns in order.
    """
    bits = place[..., 0] | place[..., 1] << 2
    halves = (bits.reshape(16, -1, 4) << np.array([0, 4, 8, 12])).sum(-1).astype(np.uint32)
    words = halves.shape[1]
    found = rng.integers(0, 1 << 32, (8, 4), dtype=np.uint32)
    found[:, selector * words : (selector + 1) * words] = halves[:8] | halves[8:] << np.uint32(16)
    return found.reshape(32, 1)


def sparse_mma(
    depth: int, d: str, a: str, selector: int, ordered: bool = True, exact: bool = True
) -> Program:
    """mma.sp: the oracle multiplies the matrix with its zeros."""
    count = depth // 8  # registers of a and of b
    counts = [count, count, 2 if d == "f16" else 4]
    total = sum(counts) + 1
    sp = "sp::ordered_metadata" if ordered else "sp"
    opcode = f"mma.{sp}.sync.aligned.m16n8k{depth}.row.col.{d}.{a}.{a}.{d}"
    short = opcode.removeprefix("mma.").replace(".sync.aligned", "")
    name = f"mma/{short}-{selector}{'' if exact else '-rounded'}"
    at_c = 10 + 2 * count
    at_e = at_c + counts[2]
    letter = "f" if d == "f32" else "r"
    loads = "".join(f"ld.global.b32 %r{10 + i}, [%rd1+{4 * i}];\n" for i in range(total))
    stores = "".join(f"st.global.b32 [%rd2+{4 * i}], %r{40 + i};\n" for i in range(counts[2]))
    into, out_of = "", ""
    if d == "f32":
        for i in range(counts[2]):
            into += f"mov.b32 %f{at_c + i}, %r{at_c + i};\n"
            out_of += f"mov.b32 %r{40 + i}, %f{40 + i};\n"
    source = f"""{header(80).replace("8.4", "8.5")}
.visible .entry k(.param .u64 in, .param .u64 out)
{{
.reg .b32 %r<64>; .reg .b64 %rd<8>; .reg .f32 %f<64>;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd3, %r0, {4 * total};
add.u64 %rd1, %rd1, %rd3;
mul.wide.u32 %rd3, %r0, {4 * counts[2]};
add.u64 %rd2, %rd2, %rd3;
{loads}{into}{opcode} {registers(counts[2], 40, letter)}, {registers(count, 10, "r")}, \
{registers(count, 10 + count, "r")}, {registers(counts[2], at_c, letter)}, %r{at_e}, {selector:#x};
{out_of}{stores}ret;
}}
"""

    def matrices() -> tuple[Array, Array, Array, Array, Array]:
        rng = np.random.default_rng(seed_of(name))
        shapes = ((a, (16, depth)), (a, (depth, 8)), (d, (16, 8)))
        if exact:
            left, right, c = (small(rng, k, s) for k, s in shapes)
        else:
            left, right, c = (rng.standard_normal(s).astype(TYPES[k]) for k, s in shapes)
        kept, values, place = prune(rng, left)
        return kept, values, metadata(rng, place, selector), right, c

    def image() -> Bytes:
        _, values, words, right, c = matrices()
        a_at, b_at = fragments(16, depth // 2, 16), fragments(8, depth, 16)
        parts = [
            np.ascontiguousarray(x).view(np.uint8).reshape(32, -1)
            for x in (values[a_at], right.T[b_at], c[accumulators(16)], words)
        ]
        return np.concatenate(parts, axis=1).ravel()

    def expect(_: Bytes) -> Bytes:
        kept, _, _, right, c = matrices()
        result = product(kept, right, c, d)[accumulators(16)]
        return np.ascontiguousarray(result).view(np.uint8).ravel()

    bound = 2e-3 if d == "f16" else 1e-5
    return Program(
        name, source, image, 128 * counts[2], expect, 1, (32, 1, 1), 0, 80,
        approximate=None if exact else (TYPES[d].name, bound),
    )  # fmt: skip


def sparse_mmas() -> Iterator[Program]:
    for d, a in (("f32", "f16"), ("f16", "f16"), ("f32", "bf16")):
        for depth, selectors in ((16, 4), (32, 2)):
            for selector in range(selectors):
                yield sparse_mma(depth, d, a, selector)
                yield sparse_mma(depth, d, a, selector, exact=False)
            yield sparse_mma(depth, d, a, 1, ordered=False)


def mmas() -> Iterator[Program]:
    for exact in (True, False):
        for d in ("f32", "f16"):
            for shape in ("m16n8k8", "m16n8k16"):
                yield mma(shape, d, "f16", "f16", exact=exact)
        for shape in ("m16n8k8", "m16n8k16"):
            yield mma(shape, "f32", "bf16", "bf16", exact=exact)
        for shape in ("m16n8k4", "m16n8k8"):
            yield mma(shape, "f32", "tf32", "tf32", exact=exact)
        for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"):
            yield mma(shape, "f64", "f64", "f64", exact=exact)
        for a in ("e4m3", "e5m2"):
            for b in ("e4m3", "e5m2"):
                yield mma("m16n8k32", "f32", a, b, exact=exact)
    for shape in ("m8n8k16", "m16n8k16", "m16n8k32"):
        for a in ("s8", "u8"):
            for b in ("s8", "u8"):
                for satfinite in (False, True):
                    yield mma(shape, "s32", a, b, satfinite)


def core_layout(matrix: Array, swizzle: int) -> Bytes:
    """Rows of 32 bytes, K-major, as a wgmma descriptor describes them. swizzle: 0, 32, 64, 128."""
    rows = np.ascontiguousarray(matrix).view(np.uint8).reshape(len(matrix), 32)
    if swizzle == 0:  # core matrices of 8 rows of 16 bytes; along k 128 apart, then 256
        return rows.reshape(-1, 8, 2, 16).swapaxes(1, 2).ravel()
    out = np.zeros((len(rows), swizzle), np.uint8)
    out[:, :32] = rows
    chunks = out.reshape(-1, 16)
    address = np.arange(len(chunks)) * 16
    moved = address ^ (address >> 7 & (swizzle // 16 - 1)) << 4
    result = np.zeros_like(chunks)
    result[moved // 16] = chunks
    return result.ravel()


SWIZZLE = {0: (128, 256, 0), 32: (16, 256, 3), 64: (16, 512, 2), 128: (16, 1024, 1)}


def wgmma(n: int, d: str, a: str, b: str, swizzle: int, from_registers: bool = False) -> Program:
    depth = 32 // TYPES[a].itemsize
    leading, stride, mode = SWIZZLE[swizzle]
    name = f"wgmma/m64n{n}k{depth}.{d}.{a}.{b}-{swizzle}{'r' * from_registers}"
    count = n // (4 if d == "f16" else 2)
    letter = "f" if d == "f32" else "r"
    pitch = swizzle or 32
    a_bytes, b_bytes = 64 * pitch, n * pitch
    copied = a_bytes + b_bytes
    scales = "" if d == "s32" else ", 1, 1"
    transposes = "" if TYPES[a].itemsize != 2 else ", 0" if from_registers else ", 0, 0"
    operand = registers(4, 10, "r") if from_registers else "%rd10"
    target = registers(count, 0, "d")
    one = f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{d}.{a}.{b} {target}, {operand}, %rd11, "
    stores = "".join(f"st.global.b32 [%rd2+{4 * i}], %d{i};\n" for i in range(count))
    source = f"""{header(90)}.extern .shared .align 1024 .b8 tile[];
.visible .entry k(.param .u64 in, .param .u64 out)
{{
.reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<32>;
.reg .{"f32" if letter == "f" else "b32"} %d<{count}>;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
mov.u32 %r0, %tid.x;
mov.u32 %r1, tile;
mul.lo.u32 %r2, %r0, 16;
LOOP:
setp.ge.u32 %p1, %r2, {copied};
@%p1 bra COPIED;
cvt.u64.u32 %rd3, %r2;
add.u64 %rd3, %rd1, %rd3;
ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd3];
add.u32 %r3, %r1, %r2;
st.shared.v4.u32 [%r3], {{%r10, %r11, %r12, %r13}};
add.u32 %r2, %r2, 2048;
bra LOOP;
COPIED:
fence.proxy.async.shared::cta;
bar.sync 0;
mul.wide.u32 %rd3, %r0, 16;
add.u64 %rd3, %rd1, %rd3;
ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd3+{copied}];
shr.u32 %r4, %r1, 4;
cvt.u64.u32 %rd10, %r4;
and.b64 %rd10, %rd10, 0x3fff;
or.b64 %rd10, %rd10, {(leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62};
add.u64 %rd11, %rd10, {a_bytes >> 4};
setp.ne.u32 %p2, %r1, %r1;
setp.eq.u32 %p3, %r1, %r1;
wgmma.fence.sync.aligned;
{one}%p2{scales}{transposes};
{one}%p3{scales}{transposes};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mul.wide.u32 %rd3, %r0, {4 * count};
add.u64 %rd2, %rd2, %rd3;
{stores}ret;
}}
"""

    def matrices() -> tuple[Array, Array]:
        rng = np.random.default_rng(seed_of(name))
        return small(rng, a, (64, depth)), small(rng, b, (n, depth))

    def image() -> Bytes:
        left, right = matrices()
        at = fragments(16, depth, TYPES[a].itemsize * 8)
        own = [
            np.ascontiguousarray(left[16 * w : 16 * w + 16][at]).view(np.uint8) for w in range(4)
        ]
        held = np.concatenate([x.ravel() for x in own])
        return np.concatenate([core_layout(left, swizzle), core_layout(right, swizzle), held])

    def expect(_: Bytes) -> Bytes:
        left, right = matrices()
        once = product(left, right.T, np.zeros((64, n)), "s32" if d == "s32" else "f64")
        result = (once + once).astype(TYPES[d])
        thread, i = np.ogrid[:128, : n // 2]
        row = thread // 32 * 16 + thread % 32 // 4 + 8 * (i % 4 // 2)
        column = i // 4 * 8 + thread % 4 * 2 + i % 2
        return np.ascontiguousarray(result[row, column]).view(np.uint8).ravel()

    return Program(name, source, image, 128 * 4 * count, expect, 1, (128, 1, 1), copied + 1024, 90)


def wgmmas() -> Iterator[Program]:
    kinds = [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16")]
    kinds += [("f32", "tf32", "tf32")]
    kinds += [(d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
    kinds += [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
    for d, a, b in kinds:
        for n, swizzle in ((8, 0), (16, 32), (32, 64), (64, 128), (96, 0), (128, 128), (256, 128)):
            yield wgmma(n, d, a, b, swizzle)
        yield wgmma(64, d, a, b, 128, True)


def moves() -> Iterator[Program]:
    for count in (1, 2, 4):
        for trans in ("", ".trans"):
            for load in (True, False):
                yield matrix_move(count, trans, load)


def matrix_move(count: int, trans: str, load: bool) -> Program:
    """ldmatrix: shared rows to registers. stmatrix: the other way round."""
    kind = "ldmatrix" if load else "stmatrix"
    name = f"matrix/{kind}.x{count}{trans}"
    sm = 80 if load else 90
    list_ = registers(count, 10, "r")
    opcode = f"{kind}.sync.aligned.m8n8.x{count}{trans}.shared.b16"
    size = 128 * count
    move = f"{opcode} {list_}, [%r3];" if load else f"{opcode} [%r3], {list_};"
    loads = "".join(f"ld.global.b32 %r{10 + i}, [%rd4+{4 * i}];\n" for i in range(count))
    stores = "".join(f"st.global.b32 [%rd5+{4 * i}], %r{10 + i};\n" for i in range(count))
    copy_in = """LOOP: setp.ge.u32 %p1, %r2, {size};
@%p1 bra COPIED;
cvt.u64.u32 %rd3, %r2;
add.u64 %rd3, {base}, %rd3;
add.u32 %r4, %r1, %r2;
{body}
add.u32 %r2, %r2, 128;
bra LOOP;
COPIED: bar.sync 0;
"""
    to_shared = copy_in.format(
        size=size, base="%rd1", body="ld.global.u32 %r5, [%rd3];\nst.shared.u32 [%r4], %r5;"
    )
    to_global = copy_in.format(
        size=size, base="%rd2", body="ld.shared.u32 %r5, [%r4];\nst.global.u32 [%rd3], %r5;"
    )
    own = f"mul.wide.u32 %rd4, %r0, {4 * count};\n"
    own += "add.u64 %rd5, %rd2, %rd4;\nadd.u64 %rd4, %rd1, %rd4;\n"
    body = to_shared + move + stores if load else loads + move + "\nbar.sync 0;\n" + to_global
    source = f"""{header(sm)}.visible .entry k(.param .u64 in, .param .u64 out)
{{
.shared .align 16 .b8 tile[512];
.reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<32>;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
mov.u32 %r0, %tid.x;
mov.u32 %r1, tile;
shl.b32 %r2, %r0, 2;
rem.u32 %r3, %r0, {8 * count};
shl.b32 %r3, %r3, 4;
add.u32 %r3, %r1, %r3;
{own}{body}
ret;
}}
"""

    def image() -> Bytes:
        return np.random.default_rng(seed_of(name)).integers(0, 256, size).astype(np.uint8)

    def expect(image: Bytes) -> Bytes:
        lane, matrix, element = np.ogrid[:32, :count, :2]
        row, column = np.broadcast_arrays(lane // 4 + 0 * element, lane % 4 * 2 + element)
        if trans:
            row, column = column, row
        if load:
            tiles = image.view(np.uint16).reshape(count, 8, 8)
            return tiles[matrix, row, column].view(np.uint8).ravel()
        tiles = np.zeros((count, 8, 8), np.uint16)
        tiles[matrix, row, column] = image.view(np.uint16).reshape(32, count, 2)
        return tiles.view(np.uint8).ravel()

    return Program(name, source, image, size, expect, 1, (32, 1, 1), 0, sm)


def programs() -> Iterator[Program]:
    for family in (mmas, sparse_mmas, wgmmas, moves):
        yield from family()
