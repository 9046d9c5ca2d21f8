"""Loads and stores of every width, cp.async, bulk and tensor copies, mbarriers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .program import LANES, Bytes, Program, TensorMap, header, lane_program, seed_of

Array = NDArray[np.generic]
WIDTH = {"8": "h", "16": "h", "32": "r", "64": "rd"}


def random_image(name: str, size: int) -> Bytes:
    return np.random.default_rng(seed_of(name)).integers(0, 256, size).astype(np.uint8)


def frame(body: str, sm: int = 80, declarations: str = "", params: str = "") -> str:
    return f"""{header(sm)}{declarations}.visible .entry k(.param .u64 in, .param .u64 out{params})
{{
.reg .pred %p<8>; .reg .b16 %h<32>; .reg .b32 %r<32>; .reg .b64 %rd<32>;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
mov.u32 %r0, %tid.x;
{body}
ret;
}}
"""


def accesses() -> Iterator[Program]:
    """A vector is loaded as one type, extended to its registers and stored whole."""
    for space in ("global", "shared", "local"):
        for sign in "us":
            for bits in ("8", "16", "32", "64"):
                for count in (1, 2, 4):
                    for register in [r for r in ("16", "32", "64") if int(r) >= int(bits)]:
                        if int(bits) * count <= 128:
                            yield access(space, sign, bits, count, register)


def access(space: str, sign: str, bits: str, count: int, register: str) -> Program:
    size, wide = int(bits) // 8 * count, int(register) // 8
    vector = "" if count == 1 else f".v{count}"
    letter = WIDTH[register]
    list_ = ", ".join(f"%{letter}{10 + i}" for i in range(count))
    list_ = list_ if count == 1 else f"{{{list_}}}"
    name = f"memory/ld.{space}{vector}.{sign}{bits}-{register}"
    body = f"mul.wide.u32 %rd3, %r0, {size};\nadd.u64 %rd3, %rd1, %rd3;\n"
    address = "%rd3"
    if space != "global":
        # Through bytes, so that only the load under test is wide.
        body += (
            f"mov.u32 %r1, cells;\nmad.lo.u32 %r1, %r0, {size if space == 'shared' else 0}, %r1;\n"
        )
        for i in range(size):
            body += f"ld.global.u8 %r3, [%rd3+{i}];\nst.{space}.u8 [%r1+{i}], %r3;\n"
        address = "%r1"
    body += f"ld.{space}{vector}.{sign}{bits} {list_}, [{address}];\n"
    body += f"mul.wide.u32 %rd4, %r0, {wide * count};\nadd.u64 %rd4, %rd2, %rd4;\n"
    for i in range(count):
        body += f"st.global.b{register} [%rd4+{wide * i}], %{letter}{10 + i};\n"
    cells = f".{space} .align 16 .b8 cells[{size * (LANES if space == 'shared' else 1)}];\n"
    source = frame(("" if space == "global" else cells) + body)

    def expect(image: Bytes) -> Bytes:
        kind = "i" if sign == "s" else "u"
        return image.view(f"{kind}{int(bits) // 8}").astype(f"{kind}{wide}").view(np.uint8)

    return Program(
        name, source, lambda: random_image(name, size * LANES), wide * count * LANES, expect
    )


def local_arrays() -> Iterator[Program]:
    """An array of each thread, indexed by data."""
    body = "mov.u32 %r8, stack;\n"
    for i in range(16):
        body += f"mad.lo.u32 %r9, %r4, {2 * i + 1}, %r5;\nst.local.u32 [%r8+{4 * i}], %r9;\n"
    body += "and.b32 %r10, %r6, 15;\nshl.b32 %r10, %r10, 2;\nadd.u32 %r10, %r10, %r8;\n"
    body += "ld.local.u32 %r7, [%r10];\ncvt.u64.u32 %rd7, %r7;"
    yield lane_program(
        "memory/local-array",
        ".local .align 4 .b8 stack[64];\n" + body,
        "int",
        lambda a, b, c: (a * (2 * (c & 15) + 1) + b) & 0xFFFFFFFF,
    )


def cp_async() -> Iterator[Program]:
    for cache, size, source_bytes in (
        *(("ca", 4, 4), ("ca", 8, 8), ("ca", 16, 16), ("cg", 16, 16)),
        *(("ca", 4, 1), ("ca", 8, 3), ("ca", 16, 0), ("cg", 16, 9), ("cg", 16, 12)),
    ):
        name = f"copy/cp.async.{cache}-{size}-{source_bytes}"
        body = f"""mul.wide.u32 %rd3, %r0, {size};
add.u64 %rd4, %rd1, %rd3;
add.u64 %rd5, %rd2, %rd3;
mov.u32 %r1, tile;
mad.lo.u32 %r2, %r0, {size}, %r1;
mov.u32 %r3, {source_bytes};
cp.async.{cache}.shared.global [%r2], [%rd4], {size}, %r3;
cp.async.commit_group;
cp.async.wait_group 0;
bar.sync 0;
"""
        for i in range(0, size, 4):
            body += f"ld.shared.u32 %r4, [%r2+{i}];\nst.global.u32 [%rd5+{i}], %r4;\n"

        def expect(image: Bytes, size: int = size, kept: int = source_bytes) -> Bytes:
            rows = image.reshape(LANES, size).copy()
            rows[:, kept:] = 0
            return rows.ravel()

        tile = f".shared .align 16 .b8 tile[{LANES * size}];\n"
        yield Program(
            name,
            frame(tile + body),
            lambda name=name, size=size: random_image(name, size * LANES),
            size * LANES,
            expect,
        )


WAIT = """WAIT: bar.sync 0;
POLL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra POLL;
"""


def load_tile(size: int, copy: str) -> str:
    """Thread 0 copies into `tile`, all wait, then all write it to out."""
    return f"""mov.u32 %r2, tile;
mov.u32 %r3, bar;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra WAIT;
mbarrier.init.shared::cta.b64 [%r3], 1;
fence.mbarrier_init.release.cluster;
fence.proxy.async.shared::cta;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {size};
{copy}
{WAIT}shl.b32 %r4, %r0, 2;
COPY: setp.ge.u32 %p3, %r4, {size};
@%p3 bra DONE;
add.u32 %r5, %r2, %r4;
ld.shared.u32 %r6, [%r5];
cvt.u64.u32 %rd3, %r4;
add.u64 %rd3, %rd2, %rd3;
st.global.u32 [%rd3], %r6;
add.u32 %r4, %r4, {4 * LANES};
bra COPY;
DONE:"""


def tile_of(size: int) -> str:
    return f".shared .align 1024 .b8 tile[{size}];\n.shared .align 8 .b64 bar;\n"


def bulk() -> Iterator[Program]:
    complete = "mbarrier::complete_tx::bytes"
    for size in (16, 256, 4096):
        name = f"copy/cp.async.bulk-{size}"
        copy = f"cp.async.bulk.shared::cluster.global.{complete} [%r2], [%rd1+32], {size}, [%r3];"
        yield Program(
            name,
            frame(tile_of(size) + load_tile(size, copy), 90),
            lambda name=name, size=size: random_image(name, size + 32),
            size,
            lambda image: image[32:],
            sm=90,
        )
    for name, kind, dtype in (
        ("add", "u32", np.uint32),
        ("add", "s32", np.int32),
        ("add", "u64", np.uint64),
        ("min", "s32", np.int32),
        ("max", "u32", np.uint32),
        ("and", "b32", np.uint32),
        ("or", "b32", np.uint32),
        ("xor", "b32", np.uint32),
        ("", "u32", np.uint32),
    ):
        yield bulk_out(name, kind, np.dtype(dtype))


def bulk_out(op: str, kind: str, dtype: np.dtype) -> Program:
    """Shared to global: stored, or twice reduced into the output."""
    size = 8 * LANES
    opcode = "cp.async.bulk.global.shared::cta.bulk_group"
    if op:
        opcode = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{kind}"
    name = f"copy/{opcode}"
    body = f"""mov.u32 %r2, tile;
mul.wide.u32 %rd3, %r0, 8;
add.u64 %rd4, %rd1, %rd3;
ld.global.u64 %rd5, [%rd4];
mad.lo.u32 %r4, %r0, 8, %r2;
st.shared.u64 [%r4], %rd5;
fence.proxy.async.shared::cta;
bar.sync 0;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra DONE;
{opcode} [%rd2], [%r2], {size};
{opcode} [%rd2], [%r2], {size};
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE:"""

    def expect(image: Bytes) -> Bytes:
        data = image.view(dtype)
        zero = np.zeros_like(data)
        of = {
            "add": lambda: data + data,
            "min": lambda: np.minimum(data, zero),
            "max": lambda: np.maximum(data, zero),
            "and": lambda: zero,
            "or": lambda: data,
            "xor": lambda: zero,
            "": lambda: data,
        }[op]
        return of().view(np.uint8)

    return Program(
        name, frame(tile_of(size) + body, 90), lambda: random_image(name, size), size, expect, sm=90
    )


def swizzled(tile: Bytes, width: int) -> Bytes:
    """16-byte chunks within 32, 64 or 128 bytes, exchanged by bits of the row's address."""
    chunks = tile.reshape(-1, 16)
    address = np.arange(len(chunks)) * 16
    result = np.zeros_like(chunks)
    result[(address ^ (address >> 7 & (width // 16 - 1)) << 4) // 16] = chunks
    return result.ravel()


def tensor(
    dtype: str, sizes: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...], swizzle: int
) -> Program:
    """A box of a tensor, zeros where it reaches outside. Sizes from the inside out."""
    number = {"u1": 0, "u2": 1, "u4": 2, "f4": 7, "f2": 6}[dtype]
    item = int(dtype[1])
    rank = len(sizes)
    size = int(np.prod(box)) * item
    pitches = tuple(int(np.prod(sizes[: i + 1])) * item for i in range(rank - 1))
    name = f"copy/tensor.{rank}d.{dtype}-{swizzle}-{'x'.join(map(str, (*sizes, *at)))}"
    coordinates = ", ".join(map(str, at))
    copy = (
        "mov.u64 %rd6, map;\ncvta.param.u64 %rd6, %rd6;\n"
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        f"[%r2], [%rd6, {{{coordinates}}}], [%r3];"
    )
    source = frame(
        tile_of(size) + load_tile(size, copy), 90, params=", .param .align 64 .b8 map[128]"
    )

    def expect(image: Bytes) -> Bytes:
        whole = image.reshape(*sizes[::-1], item)
        out = np.zeros((*box[::-1], item), np.uint8)
        for index in np.ndindex(*box[::-1]):
            where = tuple(i + o for i, o in zip(index, at[::-1], strict=True))
            if all(0 <= x < n for x, n in zip(where, sizes[::-1], strict=True)):
                out[index] = whole[where]
        return swizzled(out.ravel(), (16, 32, 64, 128)[swizzle]) if swizzle else out.ravel()

    return Program(
        name,
        source,
        lambda: random_image(name, int(np.prod(sizes)) * item),
        size,
        expect,
        sm=90,
        tensor_map=TensorMap(number, sizes, pitches, box, swizzle),
    )


def tensors() -> Iterator[Program]:
    for dtype, inner in (("u1", 1), ("u2", 2), ("u4", 4)):
        for swizzle, width in ((0, 64), (1, 32), (2, 64), (3, 128)):
            columns = width // inner
            # An H200 stops at columns that are no multiple of 16 bytes.
            for at in ((0, 0), (columns // 2, 3), (-16 // inner, -2)):
                yield tensor(dtype, (2 * columns, 12), (columns, 8), at, swizzle)
    yield tensor("u4", (256,), (64,), (224,), 0)
    yield tensor("u2", (32, 5, 6), (16, 4, 3), (8, 2, -1), 1)
    yield tensor("u4", (16, 4, 3, 5), (16, 2, 2, 2), (0, 3, 1, -1), 2)
    yield tensor("u1", (32, 3, 2, 2, 3), (32, 2, 2, 1, 2), (0, 1, 1, 1, 2), 0)


def programs() -> Iterator[Program]:
    for family in (accesses, local_arrays, cp_async, bulk, tensors):
        yield from family()
