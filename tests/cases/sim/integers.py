"""Integer arithmetic, bits and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .program import Program, lane_program, seed_of

REGISTER = {16: "h", 32: "r", 64: "rd"}
TYPES = tuple(f"{sign}{bits}" for bits in (16, 32, 64) for sign in "us")


def cut(value: int, kind: str) -> int:
    """The low bits of `value` as a number of type `kind`: u32, s16, ..."""
    bits = int(kind[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def widen(bits: int) -> str:
    return "" if bits == 64 else f"\ncvt.u64.u{bits} %rd7, %{REGISTER[bits]}7;"


Op = Callable[[int, int, int], int]


def typed(name: str, kind: str, of: Op, operands: int = 2, before: str = "") -> Program:
    """``name.kind d, a, b, c`` where `of` takes and gives numbers of the type."""
    bits = int(kind[1:])
    register = REGISTER[bits]
    sources = ", ".join(f"%{register}{4 + i}" for i in range(operands))
    body = f"{before}{name}.{kind} %{register}7, {sources};{widen(bits)}"
    return lane_program(
        f"integer/{name}.{kind}",
        body,
        "int",
        lambda a, b, c: of(cut(a, kind), cut(b, kind), cut(c, kind)) & ((1 << bits) - 1),
    )


def divided(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def arithmetic() -> Iterator[Program]:
    for kind in TYPES:
        bits = int(kind[1:])
        yield typed("add", kind, lambda a, b, c: a + b)
        yield typed("sub", kind, lambda a, b, c: a - b)
        yield typed("mul.lo", kind, lambda a, b, c: a * b)
        yield typed("mul.hi", kind, lambda a, b, c, n=bits: a * b >> n)
        yield typed("mad.lo", kind, lambda a, b, c: a * b + c, 3)
        yield typed("mad.hi", kind, lambda a, b, c, n=bits: (a * b >> n) + c, 3)
        yield typed("min", kind, lambda a, b, c: min(a, b))
        yield typed("max", kind, lambda a, b, c: max(a, b))
        yield typed("sad", kind, lambda a, b, c: c + abs(a - b), 3)
        # A divisor of 0 gives nothing defined.
        odd = f"or.b{bits} %{REGISTER[bits]}5, %{REGISTER[bits]}5, 1;\n"
        yield typed("div", kind, lambda a, b, c: divided(a, b | 1), before=odd)
        yield typed("rem", kind, lambda a, b, c: a - divided(a, b | 1) * (b | 1), before=odd)
        if kind[0] == "s":
            yield typed("neg", kind, lambda a, b, c: -a, 1)
            yield typed("abs", kind, lambda a, b, c: abs(a), 1)
        if bits < 64:
            yield from wide(kind)
    for name, of in (
        ("add.sat", lambda a, b, c: clamp(a + b)),
        ("sub.sat", lambda a, b, c: clamp(a - b)),
    ):
        yield typed(name, "s32", of)
    yield typed("mad.hi.sat", "s32", lambda a, b, c: clamp((a * b >> 32) + c), 3)
    for kind in ("u32", "s32"):
        low = kind[0] + "24"
        yield typed("mul24.lo", kind, lambda a, b, c, low=low: cut(a, low) * cut(b, low))


def clamp(value: int) -> int:
    return min(max(value, -(1 << 31)), (1 << 31) - 1)


def wide(kind: str) -> Iterator[Program]:
    bits = int(kind[1:])
    source, target = REGISTER[bits], REGISTER[2 * bits]
    for name, mad in (("mul.wide", ""), ("mad.wide", f", %{target}6")):
        body = f"{name}.{kind} %{target}7, %{source}4, %{source}5{mad};{widen(2 * bits)}"

        def of(a: int, b: int, c: int, kind: str = kind, mad: str = mad, bits: int = bits) -> int:
            sum_ = cut(a, kind) * cut(b, kind) + (c if mad else 0)
            return sum_ & ((1 << 2 * bits) - 1)

        yield lane_program(f"integer/{name}.{kind}", body, "int", of)


def logic() -> Iterator[Program]:
    for bits in (16, 32, 64):
        kind = f"b{bits}"
        yield typed("and", kind, lambda a, b, c: a & b)
        yield typed("or", kind, lambda a, b, c: a | b)
        yield typed("xor", kind, lambda a, b, c: a ^ b)
        yield typed("not", kind, lambda a, b, c: ~a, 1)
        yield typed("cnot", kind, lambda a, b, c: int(a == 0), 1)
        register = REGISTER[bits]
        for name, kind in (("shl", f"b{bits}"), ("shr", f"u{bits}"), ("shr", f"s{bits}")):
            body = f"{name}.{kind} %{register}7, %{register}4, %r8;{widen(bits)}"

            def of(a: int, b: int, c: int, name: str = name, kind: str = kind) -> int:
                n = b & 127
                value = cut(a, kind)
                value = value << n if name == "shl" else value >> n
                return value & ((1 << int(kind[1:])) - 1)

            yield lane_program(f"bits/{name}.{kind}", "and.b32 %r8, %r5, 127;\n" + body, "int", of)


def counts() -> Iterator[Program]:
    def find(value: int, kind: str, shift: bool) -> int:
        value = cut(value, kind)
        length = (~value if value < 0 else value).bit_length()
        if length == 0:
            return 0xFFFFFFFF
        return int(kind[1:]) - length if shift else length - 1

    for bits in (32, 64):
        register, mask = REGISTER[bits], (1 << bits) - 1
        for name, of in (
            ("popc", lambda a, n: a.bit_count()),
            ("clz", lambda a, n: n - a.bit_length()),
        ):
            yield lane_program(
                f"bits/{name}.b{bits}",
                f"{name}.b{bits} %r7, %{register}4;{widen(32)}",
                "int",
                lambda a, b, c, of=of, bits=bits, mask=mask: of(a & mask, bits),
            )
        yield typed("brev", f"b{bits}", lambda a, b, c, n=bits: int(f"{a:0{n}b}"[::-1], 2), 1)
        for kind in (f"u{bits}", f"s{bits}"):
            for shift in ("", ".shiftamt"):
                yield lane_program(
                    f"bits/bfind{shift}.{kind}",
                    f"bfind{shift}.{kind} %r7, %{register}4;{widen(32)}",
                    "int",
                    lambda a, b, c, kind=kind, shift=shift: find(a, kind, bool(shift)),
                )


def extracted(value: int, kind: str, position: int, length: int) -> int:
    """bfe, bit by bit: past the end come copies of the sign bit of the field."""
    bits = int(kind[1:])
    top = min(position + length - 1, bits - 1)
    sign = value >> top & 1 if kind[0] == "s" and length else 0
    result = 0
    for i in range(bits):
        inside = i < length and position + i < bits
        result |= (value >> (position + i) & 1 if inside else sign) << i
    return result


def inserted(field: int, into: int, position: int, length: int, bits: int) -> int:
    for i in range(length):
        if position + i < bits:
            into = into & ~(1 << (position + i)) | (field >> i & 1) << (position + i)
    return into


def fields() -> Iterator[Program]:
    # Positions and lengths of 0 .. 63 and of whole bytes.
    for mask in (0x3F, 0xFF):
        cut_both = f"and.b32 %r8, %r5, {mask};\nand.b32 %r9, %r6, {mask};\n"
        for kind in ("u32", "s32", "u64", "s64"):
            bits = int(kind[1:])
            register = REGISTER[bits]
            yield lane_program(
                f"bits/bfe.{kind}-{mask}",
                f"{cut_both}bfe.{kind} %{register}7, %{register}4, %r8, %r9;{widen(bits)}",
                "int",
                lambda a, b, c, kind=kind, m=mask, n=bits: extracted(
                    a & ((1 << n) - 1), kind, b & m, c & m
                ),
            )
        for bits in (32, 64):
            register = REGISTER[bits]
            yield lane_program(
                f"bits/bfi.b{bits}-{mask}",
                f"{cut_both}bfi.b{bits} %{register}7, %{register}4, %{register}6, %r8, %r9;"
                + widen(bits),
                "int",
                lambda a, b, c, m=mask, n=bits: inserted(a, c & ((1 << n) - 1), b & m, c & m, n),
            )
    for clamped in ("clamp", "wrap"):
        for way in "lr":
            yield lane_program(
                f"bits/shf.{way}.{clamped}.b32",
                f"shf.{way}.{clamped}.b32 %r7, %r4, %r5, %r6;{widen(32)}",
                "int",
                lambda a, b, c, way=way, clamped=clamped: funnel(a, b, c, way, clamped),
            )
        yield lane_program(
            f"bits/bmsk.{clamped}.b32",
            f"bmsk.{clamped}.b32 %r7, %r4, %r5;{widen(32)}",
            "int",
            lambda a, b, c, w=clamped: (((1 << limit(b, w)) - 1) << limit(a, w)) & 0xFFFFFFFF,
        )
        for kind in ("u32", "s32"):
            yield lane_program(
                f"bits/szext.{clamped}.{kind}",
                f"szext.{clamped}.{kind} %r7, %r4, %r5;{widen(32)}",
                "int",
                lambda a, b, c, w=clamped, kind=kind: extended(a, limit(b, w), kind),
            )


def limit(value: int, how: str) -> int:
    return min(value & 0xFFFFFFFF, 32) if how == "clamp" else value & 31


def extended(value: int, width: int, kind: str) -> int:
    return cut(value, f"{kind[0]}{width}") & 0xFFFFFFFF if width else 0


def funnel(a: int, b: int, c: int, way: str, how: str) -> int:
    n = limit(c, how)
    pool = (b & 0xFFFFFFFF) << 32 | a & 0xFFFFFFFF
    return (pool << n >> 32 if way == "l" else pool >> n) & 0xFFFFFFFF


def permuted(a: int, b: int, selector: int) -> int:
    pool = [x >> 8 * i & 0xFF for x in (a, b) for i in range(4)]
    result = 0
    for i in range(4):
        pick = selector >> 4 * i & 15
        byte = pool[pick & 7]
        result |= ((0xFF if byte & 0x80 else 0) if pick & 8 else byte) << 8 * i
    return result


def bytes_and_tables() -> Iterator[Program]:
    yield lane_program(
        "bits/prmt.b32",
        f"prmt.b32 %r7, %r4, %r5, %r6;{widen(32)}",
        "int",
        lambda a, b, c: permuted(a, b, c),
    )
    modes = {
        "f4e": lambda s: [s + i for i in range(4)],
        "b4e": lambda s: [(s - i) & 7 for i in range(4)],
        "rc8": lambda s: [s] * 4,
        "ecl": lambda s: [max(i, s) for i in range(4)],
        "ecr": lambda s: [min(i, s) for i in range(4)],
        "rc16": lambda s: [2 * (s & 1), 2 * (s & 1) + 1] * 2,
    }
    for mode, picks in modes.items():
        yield lane_program(
            f"bits/prmt.b32.{mode}",
            f"prmt.b32.{mode} %r7, %r4, %r5, %r6;{widen(32)}",
            "int",
            lambda a, b, c, picks=picks: permuted(
                a, b, sum(pick << 4 * i for i, pick in enumerate(picks(c & 3)))
            ),
        )
    rng = np.random.default_rng(seed_of("lop3"))
    for table in sorted({0xC0, 0xFC, 0x3C, 0x96, 0xE8, 0xCA, *rng.integers(1, 255, 40).tolist()}):
        yield lane_program(
            f"bits/lop3.b32-{table:#04x}",
            f"lop3.b32 %r7, %r4, %r5, %r6, {table};{widen(32)}",
            "int",
            lambda a, b, c, table=table: sum(
                (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i
                for i in range(32)
            ),
        )
    for first in ("u32", "s32"):
        for second in ("u32", "s32"):
            yield lane_program(
                f"bits/dp4a.{first}.{second}",
                f"dp4a.{first}.{second} %r7, %r4, %r5, %r6;{widen(32)}",
                "int",
                lambda a, b, c, p=first[0], q=second[0]: (
                    (c + sum(cut(a >> 8 * i, p + "8") * cut(b >> 8 * i, q + "8") for i in range(4)))
                    & 0xFFFFFFFF
                ),
            )
            for half in ("lo", "hi"):
                yield lane_program(
                    f"bits/dp2a.{half}.{first}.{second}",
                    f"dp2a.{half}.{first}.{second} %r7, %r4, %r5, %r6;{widen(32)}",
                    "int",
                    lambda a, b, c, p=first[0], q=second[0], at=16 if half == "hi" else 0: (
                        (
                            c
                            + sum(
                                cut(a >> 16 * i, p + "16") * cut(b >> (8 * i + at), q + "8")
                                for i in range(2)
                            )
                        )
                        & 0xFFFFFFFF
                    ),
                )


COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
COMBINE = {
    "and": lambda p, q: p and q,
    "or": lambda p, q: p or q,
    "xor": lambda p, q: p != q,
}


def comparisons() -> Iterator[Program]:
    for kind in TYPES:
        register = REGISTER[int(kind[1:])]
        a, b = f"%{register}4", f"%{register}5"
        for name, test in COMPARE.items():
            yield lane_program(
                f"compare/setp.{name}.{kind}",
                f"setp.{name}.{kind} %p1|%p2, {a}, {b};\nselp.u64 %rd8, 1, 0, %p1;\n"
                "selp.u64 %rd9, 2, 0, %p2;\nor.b64 %rd7, %rd8, %rd9;",
                "int",
                lambda a, b, c, test=test, kind=kind: 1 if test(cut(a, kind), cut(b, kind)) else 2,
            )
    for combine, join in COMBINE.items():
        for name, test in COMPARE.items():
            yield lane_program(
                f"compare/setp.{name}.{combine}.s32",
                f"setp.lt.u32 %p3, %r5, %r6;\nsetp.{name}.{combine}.s32 %p1|%p2, %r4, %r5, !%p3;\n"
                "selp.u64 %rd8, 1, 0, %p1;\nselp.u64 %rd9, 2, 0, %p2;\nor.b64 %rd7, %rd8, %rd9;",
                "int",
                lambda a, b, c, test=test, join=join: combined(a, b, c, test, join),
            )
    for name, test in COMPARE.items():
        yield lane_program(
            f"compare/set.{name}.u32.s32",
            f"set.{name}.u32.s32 %r7, %r4, %r5;{widen(32)}",
            "int",
            lambda a, b, c, test=test: 0xFFFFFFFF if test(cut(a, "s32"), cut(b, "s32")) else 0,
        )
    for bits in (16, 32, 64):
        register = REGISTER[bits]
        yield lane_program(
            f"compare/slct.u{bits}.s32",
            f"slct.u{bits}.s32 %{register}7, %{register}4, %{register}5, %r6;{widen(bits)}",
            "int",
            lambda a, b, c, n=bits: (a if cut(c, "s32") >= 0 else b) & ((1 << n) - 1),
        )


def combined(a: int, b: int, c: int, test: Op, join: Op) -> int:
    here = test(cut(a, "s32"), cut(b, "s32"))
    other = not cut(b, "u32") < cut(c, "u32")
    return int(join(here, other)) | 2 * int(join(not here, other))


def carries() -> Iterator[Program]:
    split = (
        "mov.b64 {%r10, %r11}, %rd4;\nmov.b64 {%r12, %r13}, %rd5;\nmov.b64 {%r14, %r15}, %rd6;\n"
    )
    pack = "mov.b64 %rd7, {%r16, %r17};"
    for name, of in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b)):
        yield lane_program(
            f"carry/{name}.cc",
            f"{split}{name}.cc.u32 %r16, %r10, %r12;\n{name}c.u32 %r17, %r11, %r13;\n{pack}",
            "int",
            lambda a, b, c, of=of: of(a, b),
        )
        yield lane_program(
            f"carry/{name}c.cc",
            f"{split}{name}.cc.u32 %r18, %r10, %r12;\n{name}c.cc.u32 %r16, %r11, %r13;\n"
            f"{name}c.u32 %r17, 0, 0;\n{pack}",
            "int",
            lambda a, b, c, of=of: of(a, b) >> 32,
        )
    yield lane_program(
        "carry/mad.cc",
        f"{split}mad.lo.cc.u32 %r16, %r10, %r12, %r14;\n"
        f"madc.hi.u32 %r17, %r10, %r12, %r15;\n{pack}",
        "int",
        lambda a, b, c: (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF) + c,
    )


def programs() -> Iterator[Program]:
    for family in (*(arithmetic, logic, counts, fields, bytes_and_tables, comparisons, carries),):
        yield from family()
