"""Floating-point arithmetic of every format and rounding mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import numbers as num
from .numbers import Number
from .program import Program, lane_program

FORMATS = {"f32": num.F32, "f64": num.F64, "f16": num.F16, "bf16": num.BF16}
REGISTER = {"f32": "f", "f64": "fd", "f16": "h", "bf16": "h", "f16x2": "r", "bf16x2": "r"}
MODES = ("rn", "rz", "rm", "rp")
FINISH = {
    "f32": "mov.b32 %r7, %f7;\ncvt.u64.u32 %rd7, %r7;",
    # The payload of a NaN in f64 is nowhere defined.
    "f64": "setp.nan.f64 %p9, %fd7, %fd7;\nmov.b64 %rd7, %fd7;\n"
    "selp.b64 %rd7, 0x7ff8000000000000, %rd7, %p9;",
    "f16": "cvt.u64.u16 %rd7, %h7;",
    "bf16": "cvt.u64.u16 %rd7, %h7;",
    "f16x2": "cvt.u64.u32 %rd7, %r7;",
    "bf16x2": "cvt.u64.u32 %rd7, %r7;",
}
Exact = Callable[[Number, Number, Number, str], Number]

EXACT: dict[str, tuple[int, Exact]] = {
    "add": (2, lambda a, b, c, m: num.add(a, b, m)),
    "sub": (2, lambda a, b, c, m: num.add(a, num.negate(b), m)),
    "mul": (2, lambda a, b, c, m: num.multiply(a, b, m)),
    "fma": (3, lambda a, b, c, m: num.fma(a, b, c, m)),
    "div": (2, lambda a, b, c, m: num.divide(a, b)),
    "rcp": (1, lambda a, b, c, m: num.divide(Number(False, 1), a)),
    "sqrt": (1, lambda a, b, c, m: num.square_root(a)),
}


def of_words(fmt: num.Format, exact: Exact, mode: str, ftz: bool, sat: bool) -> Callable[..., int]:
    mask = 2 * fmt.sign_bit - 1

    def of(*words: int) -> int:
        a, b, c = (num.decode(x & mask, fmt, ftz) for x in words)
        result = exact(a, b, c, mode)
        if not sat:
            return num.encode(result, fmt, mode, ftz)
        rounded = num.decode(num.encode(result, fmt, mode, ftz), fmt)
        return num.encode(num.saturate(rounded), fmt)

    return of


def scalar(
    name: str, opcode: str, kind: str, operands: int, of: Callable[..., int], sm: int = 80
) -> Program:
    register = REGISTER[kind]
    sources = ", ".join(f"%{register}{4 + i}" for i in range(operands))
    body = f"{opcode} %{register}7, {sources};\n{FINISH[kind]}"
    return lane_program(name, body, kind.removesuffix("x2"), of, sm)


def paired(of: Callable[..., int]) -> Callable[..., int]:
    return lambda a, b, c: of(a >> 16, b >> 16, c >> 16) << 16 | of(a, b, c)


def rounded_arithmetic() -> Iterator[Program]:
    for name, (operands, exact) in EXACT.items():
        for mode in MODES:
            for ftz in ("", ".ftz"):
                for sat in ("", ".sat") if name in ("add", "sub", "mul", "fma") else ("",):
                    of = of_words(num.F32, exact, mode, bool(ftz), bool(sat))
                    opcode = f"{name}.{mode}{ftz}{sat}.f32"
                    yield scalar(f"float/{opcode}", opcode, "f32", operands, of)
            of = of_words(num.F64, exact, mode, False, False)
            opcode = f"{name}.{mode}.f64"
            yield scalar(f"float/{opcode}", opcode, "f64", operands, of)


def narrow_arithmetic() -> Iterator[Program]:
    for name in ("add", "sub", "mul", "fma"):
        operands, exact = EXACT[name]
        for kind in ("f16", "f16x2", "bf16", "bf16x2"):
            fmt = FORMATS[kind.removesuffix("x2")]
            half = kind.startswith("f")
            for ftz in ("", ".ftz") if half else ("",):
                for sat in ("", ".sat") if half else ("",):
                    of = of_words(fmt, exact, "rn", bool(ftz), bool(sat))
                    opcode = f"{name}.rn{ftz}{sat}.{kind}"
                    sm = 80 if half or name == "fma" else 90
                    of = paired(of) if kind.endswith("x2") else of
                    yield scalar(f"float/{opcode}", opcode, kind, operands, of, sm)
            if name == "fma":
                of = relu_of(fmt, exact)
                of = paired(of) if kind.endswith("x2") else of
                opcode = f"fma.rn.relu.{kind}"
                yield scalar(f"float/{opcode}", opcode, kind, 3, of)


def relu_of(fmt: num.Format, exact: Exact) -> Callable[..., int]:
    plain = of_words(fmt, exact, "rn", False, False)

    def of(*words: int) -> int:
        bits = plain(*words)
        is_nan = bits & (fmt.sign_bit - 1) > fmt.infinity
        return 0 if bits & fmt.sign_bit and not is_nan else bits

    return of


def extremes() -> Iterator[Program]:
    for name in ("min", "max"):
        largest = name == "max"
        for kind in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2"):
            fmt = FORMATS[kind.removesuffix("x2")]
            for nan in ("", ".NaN") if kind != "f64" else ("",):
                for ftz in ("", ".ftz") if kind == "f32" else ("",):

                    def exact(
                        a: Number, b: Number, c: Number, m: str, big: bool = largest, n: str = nan
                    ) -> Number:
                        return num.extreme(a, b, big, bool(n))

                    of = of_words(fmt, exact, "rn", bool(ftz), False)
                    of = paired(of) if kind.endswith("x2") else of
                    opcode = f"{name}{ftz}{nan}.{kind}"
                    yield scalar(f"float/{opcode}", opcode, kind, 2, of)


def signs() -> Iterator[Program]:
    for kind in ("f32", "f64"):
        fmt = FORMATS[kind]
        top, mask = fmt.sign_bit, 2 * fmt.sign_bit - 1

        def kept(word: int, fmt: num.Format = fmt, mask: int = mask) -> int:
            return fmt.quiet_nan if num.decode(word & mask, fmt).nan else word & mask

        # neg and abs may or may not keep the payload of a NaN: the programs do not look at it.
        clean = (
            "" if kind == "f64" else "setp.nan.f32 %p9, %f7, %f7;\n@%p9 mov.b32 %f7, 0x7fffffff;\n"
        )
        register = REGISTER[kind]
        for name, of in (
            ("neg", lambda a, b, c, k=kept, t=top, m=mask, f=fmt: nan_or(f, k(a), k(a) ^ t)),
            ("abs", lambda a, b, c, k=kept, t=top, m=mask, f=fmt: nan_or(f, k(a), k(a) & ~t)),
        ):
            body = f"{name}.{kind} %{register}7, %{register}4;\n{clean}{FINISH[kind]}"
            yield lane_program(f"float/{name}.{kind}", body, kind, of)
        yield scalar(
            f"float/copysign.{kind}",
            f"copysign.{kind}",
            kind,
            2,
            lambda a, b, c, k=kept, t=top, f=fmt: (
                nan_or(f, k(b), k(b) & ~t | a & t) if f is num.F64 else (b & (t - 1)) | a & t
            ),
        )
    for kind in ("f16", "bf16", "f16x2", "bf16x2"):
        for name, of in (("neg", lambda a: a ^ 0x8000), ("abs", lambda a: a & 0x7FFF)):
            one = lambda a, b, c, of=of: of(a & 0xFFFF)  # noqa: E731
            sm = 80
            # Numbers only, as above: infinities and NaN are cut off.
            register = REGISTER[kind]
            cut = "0xbbff" if kind.startswith("f") else "0xbf7f"
            width = "32" if kind.endswith("x2") else "16"
            cut = cut + cut[2:] if width == "32" else cut
            limit = int(cut, 16)
            full = paired(one) if width == "32" else one
            body = f"and.b{width} %{register}4, %{register}4, {cut};\n"
            body += f"{name}.{kind} %{register}7, %{register}4;\n{FINISH[kind]}"
            yield lane_program(
                f"float/{name}.{kind}",
                body,
                kind.removesuffix("x2"),
                lambda a, b, c, full=full, limit=limit: full(a & limit, b, c),
                sm,
            )


def nan_or(fmt: num.Format, bits: int, otherwise: int) -> int:
    return bits if bits == fmt.quiet_nan else otherwise


ORDERED = {
    "eq": (0,),
    "ne": (-1, 1),
    "lt": (-1,),
    "le": (-1, 0),
    "gt": (1,),
    "ge": (0, 1),
}


def comparisons() -> Iterator[Program]:
    tests: dict[str, tuple[int | None, ...]] = dict(ORDERED)
    tests |= {name + "u": (*orders, None) for name, orders in ORDERED.items()}
    tests |= {"num": (-1, 0, 1), "nan": (None,)}
    for kind in ("f32", "f64", "f16", "bf16"):
        fmt = FORMATS[kind]
        mask = 2 * fmt.sign_bit - 1
        for name, orders in tests.items():
            for ftz in ("", ".ftz") if kind == "f32" else ("",):
                register = REGISTER[kind]
                both = "%p1|%p2" if kind in ("f32", "f64") else "%p1"  # the others give one only
                body = f"setp.{name}{ftz}.{kind} {both}, %{register}4, %{register}5;\n"
                if both == "%p1":
                    body += "not.pred %p2, %p1;\n"
                body += "selp.u64 %rd8, 1, 0, %p1;\nselp.u64 %rd9, 2, 0, %p2;\n"
                body += "or.b64 %rd7, %rd8, %rd9;"

                def of(
                    a: int, b: int, c: int, fmt=fmt, mask=mask, orders=orders, ftz=bool(ftz)
                ) -> int:
                    x, y = (num.decode(w & mask, fmt, ftz) for w in (a, b))
                    return 1 if num.compare(x, y) in orders else 2

                sm = 90 if kind == "bf16" else 80
                yield lane_program(f"compare/setp.{name}{ftz}.{kind}", body, kind, of, sm)
    for kind in ("f32", "f64"):
        fmt = FORMATS[kind]
        for name in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            register = REGISTER[kind]
            yield lane_program(
                f"compare/testp.{name}.{kind}",
                f"testp.{name}.{kind} %p1, %{register}4;\nselp.u64 %rd7, 1, 0, %p1;",
                kind,
                lambda a, b, c, fmt=fmt, name=name: int(classified(a, fmt, name)),
            )


def classified(word: int, fmt: num.Format, name: str) -> bool:
    x = num.decode(word & (2 * fmt.sign_bit - 1), fmt)
    field = word >> fmt.mantissa & ((1 << fmt.exponent) - 1)
    return {
        "finite": not (x.nan or x.infinite),
        "infinite": x.infinite,
        "number": not x.nan,
        "notanumber": x.nan,
        # A zero in float64 counts, in float32 it does not: so an H200 has it.
        "normal": not (x.nan or x.infinite)
        and (field != 0 or (fmt is num.F64 and x.magnitude == 0)),
        "subnormal": field == 0 and x.magnitude != 0,
    }[name]


def programs() -> Iterator[Program]:
    for family in (rounded_arithmetic, narrow_arithmetic, extremes, signs, comparisons):
        yield from family()
