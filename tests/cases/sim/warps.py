"""Shuffles, votes, matches, reductions; atomics whose result does not depend on their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np

from .integers import widen
from .program import LANES, Bytes, Program, header, lane_source, seed_of, values, words

FULL = 0xFFFFFFFF


def warp_program(
    name: str, body: str, of: Callable[..., list[int]], small: int = 0, sm: int = 80
) -> Program:
    """`of(a, b, c, lanes)` gives what the lanes of one warp store. small: a is below it."""

    def image() -> Bytes:
        rng = np.random.default_rng(seed_of(name))
        columns = [values("int", rng) for _ in range(3)]
        if small:
            columns[0] = rng.integers(0, small, LANES).tolist()
        return words(*columns)

    def expect(image: Bytes) -> Bytes:
        a, b, c = (column.tolist() for column in image.view(np.uint64).reshape(3, LANES))
        out: list[int] = []
        for warp in (slice(0, 32), slice(32, 64)):
            out += of(a[warp], b[warp], c[warp])
        return words(out)

    return Program(name, lane_source(body, sm), image, 8 * LANES, expect, sm=sm)


def shuffled(mode: str, a: list[int], b: list[int], clamp: int) -> list[int]:
    """By the definition in the PTX manual: predicate << 32 | value."""
    out = []
    segment, limit = clamp >> 8 & 31, clamp & 31
    for lane in range(32):
        low = lane & segment
        high = low | (limit & ~segment & 31)
        n = b[lane] & 31
        at, inside = {
            "up": (lane - n, lane - n >= high),
            "down": (lane + n, lane + n <= high),
            "bfly": (lane ^ n, (lane ^ n) <= high),
            "idx": (low | (n & ~segment & 31), (low | (n & ~segment & 31)) <= high),
        }[mode]
        out.append(int(inside) << 32 | a[at if inside else lane] & FULL)
    return out


def shuffles() -> Iterator[Program]:
    for mode in ("up", "down", "bfly", "idx"):
        for width in (32, 16, 8, 4, 2):
            clamp = (32 - width) << 8 | (0 if mode == "up" else 31)
            yield warp_program(
                f"warp/shfl.{mode}-{width}",
                f"shfl.sync.{mode}.b32 %r7|%p1, %r4, %r5, {clamp}, {FULL};\n"
                "cvt.u64.u32 %rd7, %r7;\nselp.u64 %rd8, 0x100000000, 0, %p1;\n"
                "or.b64 %rd7, %rd7, %rd8;",
                lambda a, b, c, mode=mode, clamp=clamp: shuffled(mode, a, b, clamp),
            )
    # Half of the lanes, which diverge from the others first.
    yield warp_program(
        "warp/shfl-halves",
        "and.b32 %r8, %r0, 1;\nsetp.eq.u32 %p1, %r8, 0;\n@%p1 bra EVEN;\n"
        "shfl.sync.bfly.b32 %r7, %r4, 2, 31, 0xaaaaaaaa;\nbra DONE;\n"
        f"EVEN: shfl.sync.bfly.b32 %r7, %r4, 4, 31, 0x55555555;\nDONE:{widen(32)}",
        lambda a, b, c: [a[i ^ (4 if i % 2 == 0 else 2)] & FULL for i in range(32)],
    )


def votes() -> Iterator[Program]:
    def test(a: list[int], b: list[int]) -> list[bool]:
        return [(x & 3) < 2 for x in a]

    masks = (FULL, 0x0000FFFF, 0x00FF00F0)
    for mask in masks:
        lanes = [i for i in range(32) if mask >> i & 1]
        enter = f"mov.u32 %r9, %laneid;\nshr.u32 %r9, {mask}, %r9;\nand.b32 %r9, %r9, 1;\n"
        enter += "setp.eq.u32 %p5, %r9, 0;\n@%p5 bra DONE;\n"
        enter += "and.b32 %r8, %r4, 3;\nsetp.lt.u32 %p1, %r8, 2;\n"
        for mode, of in (
            ("all", lambda votes: all(votes)),
            ("any", lambda votes: any(votes)),
            ("uni", lambda votes: all(votes) or not any(votes)),
        ):
            yield warp_program(
                f"warp/vote.{mode}-{mask:x}",
                f"{enter}vote.sync.{mode}.pred %p2, !%p1, {mask};\nselp.u64 %rd7, 1, 2, %p2;\n"
                "DONE:",
                lambda a, b, c, of=of, lanes=lanes: [
                    (1 if of([not test(a, b)[k] for k in lanes]) else 2) if i in lanes else 0
                    for i in range(32)
                ],
                4,
            )
        yield warp_program(
            f"warp/vote.ballot-{mask:x}",
            f"{enter}vote.sync.ballot.b32 %r7, %p1, {mask};\nDONE:{widen(32)}",
            lambda a, b, c, lanes=lanes: [
                sum(1 << k for k in lanes if test(a, b)[k]) if i in lanes else 0 for i in range(32)
            ],
            4,
        )
        for bits, register in ((32, "r"), (64, "rd")):
            yield warp_program(
                f"warp/match.any.b{bits}-{mask:x}",
                f"{enter}match.any.sync.b{bits} %r7, %{register}4, {mask};\nDONE:{widen(32)}",
                lambda a, b, c, lanes=lanes: [
                    sum(1 << k for k in lanes if a[k] == a[i]) if i in lanes else 0
                    for i in range(32)
                ],
                4,
            )
        yield warp_program(
            f"warp/match.all.b32-{mask:x}",
            f"{enter}match.all.sync.b32 %r7|%p2, %r4, {mask};\n@%p2 add.u32 %r7, %r7, 1;\n"
            f"DONE:{widen(32)}",
            lambda a, b, c, lanes=lanes, mask=mask: [
                ((mask + 1) & FULL if len({a[k] for k in lanes}) == 1 else 0) if i in lanes else 0
                for i in range(32)
            ],
            2,
        )
        for name, kind, reduce in (
            ("add", "u32", lambda x: int(x.sum())),
            ("add", "s32", lambda x: int(x.sum())),
            ("min", "u32", lambda x: int(x.min())),
            ("max", "u32", lambda x: int(x.max())),
            ("min", "s32", lambda x: int(x.min())),
            ("max", "s32", lambda x: int(x.max())),
            ("and", "b32", lambda x: int(np.bitwise_and.reduce(x))),
            ("or", "b32", lambda x: int(np.bitwise_or.reduce(x))),
            ("xor", "b32", lambda x: int(np.bitwise_xor.reduce(x))),
        ):
            dtype = np.int32 if kind == "s32" else np.uint32
            yield warp_program(
                f"warp/redux.{name}.{kind}-{mask:x}",
                f"{enter}redux.sync.{name}.{kind} %r7, %r4, {mask};\nDONE:{widen(32)}",
                lambda a, b, c, lanes=lanes, reduce=reduce, dtype=dtype: [
                    reduce(np.array(a, np.uint64).astype(np.uint32).view(dtype)[lanes]) & FULL
                    if i in lanes
                    else 0
                    for i in range(32)
                ],
            )


ATOMICS = {
    "add": lambda x: x.sum(dtype=x.dtype),
    "min": np.min,
    "max": np.max,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}
DTYPES = {
    "u32": np.uint32,
    "s32": np.int32,
    "u64": np.uint64,
    "s64": np.int64,
    "b32": np.uint32,
    "b64": np.uint64,
    "f32": np.float32,
    "f64": np.float64,
    "f16x2": np.float16,
    "bf16x2": ml_dtypes.bfloat16,
}
ADDRESS = {
    "global": "and.b32 %r8, %r4, 7;\nmul.wide.u32 %rd8, %r8, 8;\nld.param.u64 %rd9, [out];\n"
    "add.u64 %rd8, %rd9, %rd8;\n",
    "shared": "and.b32 %r8, %r4, 7;\nshl.b32 %r8, %r8, 3;\nmov.u32 %r9, table;\n"
    "add.u32 %r9, %r9, %r8;\ncvt.u64.u32 %rd8, %r9;\n",
}


def atomic_program(name: str, kind: str, space: str, form: str, blocks: int = 1) -> Program:
    """Every thread adds its b to one of eight cells, picked by its a."""
    dtype = np.dtype(DTYPES[kind])
    register = {4: "r", 8: "rd"}[8 if kind[1:] == "64" else 4]
    noftz = ".noftz" if kind.endswith("x2") else ""
    spelled = {"f32": "f", "f64": "fd"}.get(kind, register)
    result = f"%{spelled}10, " if form == "atom" else ""
    body = f"""
.visible .entry k(.param .u64 in, .param .u64 out)
{{
.shared .align 8 .b64 table[8];
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<16>; .reg .f64 %fd<16>;
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mad.lo.u32 %r1, %r1, {LANES}, %r0;
mul.wide.u32 %rd3, %r1, 8;
ld.param.u64 %rd1, [in];
add.u64 %rd1, %rd1, %rd3;
ld.global.u32 %r4, [%rd1];
ld.global.u64 %rd5, [%rd1+{8 * LANES * blocks}];
cvt.u32.u64 %r5, %rd5;
mov.b32 %f5, %r5;
mov.b64 %fd5, %rd5;
mov.u32 %r9, table;
shl.b32 %r8, %r0, 3;
add.u32 %r9, %r9, %r8;
setp.lt.u32 %p1, %r0, 8;
@%p1 st.shared.u64 [%r9], 0;
bar.sync 0;
{ADDRESS[space]}{form}.{space}.{name}{noftz}.{kind} {result}[%rd8], %{spelled}5;
bar.sync 0;
"""
    if space == "shared":
        body += (
            "@!%p1 bra DONE;\nmov.u32 %r9, table;\nshl.b32 %r8, %r0, 3;\nadd.u32 %r9, %r9, %r8;\n"
            "ld.shared.u64 %rd6, [%r9];\nld.param.u64 %rd2, [out];\ncvt.u64.u32 %rd7, %r8;\n"
            "add.u64 %rd2, %rd2, %rd7;\nst.global.u64 [%rd2], %rd6;\nDONE:\n"
        )
    title = f"atomic/{form}.{space}.{name}.{kind}-{blocks}"
    lanes = LANES * blocks

    def image() -> Bytes:
        rng = np.random.default_rng(seed_of(title))
        cells = rng.integers(0, 8, lanes, dtype=np.uint64)
        if dtype.kind in "iu":
            data = rng.integers(0, 1 << 64, lanes, dtype=np.uint64)
        else:  # sums of small integers are exact in any order
            numbers = rng.integers(-2, 3, (lanes, 8 // dtype.itemsize)).astype(dtype)
            data = numbers.view(np.uint64).ravel()
        return np.concatenate([cells, data]).view(np.uint8)

    def expect(image: Bytes) -> Bytes:
        cells, data = image.view(np.uint64).reshape(2, lanes)
        parts = 2 if kind.endswith("x2") else 1
        typed = data.view(dtype).reshape(lanes, -1)[:, :parts]
        out = np.zeros((8, 8 // dtype.itemsize), dtype)
        for cell in range(8):
            mine = typed[cells == cell]
            for part in range(parts):
                column = np.append(mine[:, part], dtype.type(0))
                if dtype.kind in "iu":
                    out[cell, part] = ATOMICS[name](column)
                else:
                    out[cell, part] = column.astype(np.float64).sum().astype(dtype)
        return out.view(np.uint8).ravel()

    sm = 90 if kind == "bf16x2" else 80
    return Program(title, header(sm) + body + "ret;\n}\n", image, 64, expect, blocks, sm=sm)


def atomics() -> Iterator[Program]:
    for space in ("global", "shared"):
        for form in ("atom", "red"):
            for name, kinds in (
                ("add", ("u32", "s32", "u64", "f32", "f64", "f16x2", "bf16x2")),
                ("min", ("u32", "s32", "u64", "s64")),
                ("max", ("u32", "s32", "u64", "s64")),
                ("and", ("b32", "b64")),
                ("or", ("b32", "b64")),
                ("xor", ("b32", "b64")),
            ):
                for kind in kinds:
                    yield atomic_program(name, kind, space, form)
    for name, kind in (("add", "u32"), ("max", "s64"), ("add", "f32"), ("xor", "b64")):
        yield atomic_program(name, kind, "global", "red", 8)


def exchanges() -> Iterator[Program]:
    """Old values depend on the order; their sum does not."""
    last = "red.global.add.u32 [%rd9+8], %r7;\nadd.u64 %rd2, %rd9, 16;\nbar.sync 0;\n"
    for name, body, of in (
        (
            "inc",
            "atom.global.inc.u32 %r7, [%rd9], 9;",
            lambda n: (n % 10, sum(i % 10 for i in range(n))),
        ),
        (
            "exch-add",
            "atom.global.add.u32 %r7, [%rd9], 3;",
            lambda n: (3 * n, 3 * n * (n - 1) // 2),
        ),
        (
            "cas",
            (
                "LOOP: ld.volatile.global.u32 %r8, [%rd9];\nadd.u32 %r10, %r8, 5;\n"
                "atom.global.cas.b32 %r11, [%rd9], %r8, %r10;\nsetp.ne.u32 %p1, %r11, %r8;\n"
                "@%p1 bra LOOP;\nmov.u32 %r7, %r8;"
            ),
            lambda n: (5 * n, 5 * n * (n - 1) // 2),
        ),
    ):
        source = lane_source(f"ld.param.u64 %rd9, [out];\n{body}\n{last}mov.u64 %rd7, 0;", 80)

        def expect(image: Bytes, of: Callable[[int], tuple[int, int]] = of) -> Bytes:
            return words([*of(LANES), 0])

        yield Program(f"atomic/{name}", source, lambda: words([0] * 3 * LANES), 24, expect)


def programs() -> Iterator[Program]:
    for family in (shuffles, votes, atomics, exchanges):
        yield from family()
