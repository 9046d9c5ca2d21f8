"""cvt between every two types, with every rounding and saturation that PTX has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import numbers as num
from .floats import FINISH, FORMATS, MODES, REGISTER
from .integers import REGISTER as INTEGER_REGISTER
from .integers import cut, widen
from .program import Program, lane_program

INTEGERS = tuple(f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in "us")
INTEGRAL = ("rni", "rzi", "rmi", "rpi")


def integer_register(kind: str) -> str:
    return INTEGER_REGISTER[max(16, int(kind[1:]))]


def finish_integer(kind: str) -> str:
    """8-bit results lie extended in 16 bits."""
    return widen(max(16, int(kind[1:])))


def holds(to: str, source: str) -> bool:
    """Every number of type `source` is one of type `to`."""
    signs, bits = (to[0], source[0]), int(to[1:]) - int(source[1:])
    return signs != ("u", "s") and bits >= (signs == ("s", "u"))


def between_integers() -> Iterator[Program]:
    for to in INTEGERS:
        for source in INTEGERS:
            # ptxas has no .sat where nothing can saturate.
            for sat in ("",) if holds(to, source) else ("", ".sat"):
                target, origin = integer_register(to), integer_register(source)
                body = f"cvt{sat}.{to}.{source} %{target}7, %{origin}4;{finish_integer(to)}"

                def of(a: int, b: int, c: int, to=to, source=source, sat=sat) -> int:
                    value = cut(a, source)
                    bits = int(to[1:])
                    if sat:
                        low = -(1 << (bits - 1)) if to[0] == "s" else 0
                        value = min(max(value, low), (1 << (bits - (to[0] == "s"))) - 1)
                    return cut(value, to) & ((1 << max(16, bits)) - 1)

                yield lane_program(f"convert/cvt{sat}.{to}.{source}", body, "int", of)


def integers_from_floats() -> Iterator[Program]:
    for source in ("f32", "f64", "f16", "bf16"):
        fmt = FORMATS[source]
        for to in INTEGERS:
            if source == "bf16" and to[1:] == "8":
                continue  # not in PTX
            for mode in INTEGRAL:
                for ftz in ("", ".ftz") if source == "f32" and mode in ("rni", "rpi") else ("",):
                    target = integer_register(to)
                    opcode = f"cvt.{mode}{ftz}.{to}.{source}"
                    body = f"{opcode} %{target}7, %{REGISTER[source]}4;{finish_integer(to)}"

                    def of(a: int, b: int, c: int, fmt=fmt, to=to, mode=mode, ftz=ftz) -> int:
                        x = num.decode(a & (2 * fmt.sign_bit - 1), fmt, bool(ftz))
                        bits = int(to[1:])
                        value = num.to_integer(x, bits, to[0] == "s", mode, fmt is num.F64)
                        return cut(value, to) & ((1 << max(16, bits)) - 1)

                    yield lane_program(
                        f"convert/{opcode}",
                        nan_is_zero(source, to) + body,
                        source,
                        lambda a, b, c, of=of, fmt=fmt: of(without_nan(a, fmt), b, c),
                        90 if source == "bf16" else 80,
                    )


def nan_is_zero(source: str, to: str) -> str:
    """PTX does not say what a NaN becomes in narrow integers: f16 and bf16 leave it out."""
    if source == "f64":
        return "setp.nan.f64 %p8, %fd4, %fd4;\n@%p8 mov.f64 %fd4, 0d0000000000000000;\n"
    if source == "f32":
        return "setp.nan.f32 %p8, %f4, %f4;\n@%p8 mov.f32 %f4, 0f00000000;\n"
    return f"setp.nan.{source} %p8, %h4, %h4;\n@%p8 mov.b16 %h4, 0;\n"


def without_nan(word: int, fmt: num.Format) -> int:
    return 0 if num.decode(word & (2 * fmt.sign_bit - 1), fmt).nan else word


def nan_to_integers() -> Iterator[Program]:
    """The documented ones: 0 from f32 below 64 bits, the top bit else."""
    for source, to in (("f32", "s32"), ("f32", "u32"), ("f32", "s64"), ("f64", "s64")):
        fmt = FORMATS[source]
        opcode = f"cvt.rzi.{to}.{source}"
        yield lane_program(
            f"convert/{opcode}-nan",
            f"{opcode} %{integer_register(to)}7, %{REGISTER[source]}4;{finish_integer(to)}",
            source,
            lambda a, b, c, fmt=fmt, to=to: num.to_integer(
                num.decode(a & (2 * fmt.sign_bit - 1), fmt),
                int(to[1:]),
                to[0] == "s",
                "rzi",
                fmt is num.F64,
            ),
        )


def floats_from_integers() -> Iterator[Program]:
    for to in ("f32", "f64", "f16", "bf16"):
        for source in INTEGERS:
            for mode in MODES:
                if to == "bf16" and source[1:] == "8":
                    continue
                opcode = f"cvt.{mode}.{to}.{source}"
                body = f"{opcode} %{REGISTER[to]}7, %{integer_register(source)}4;\n{FINISH[to]}"
                yield lane_program(
                    f"convert/{opcode}",
                    body,
                    "int",
                    lambda a, b, c, to=to, source=source, mode=mode: num.encode(
                        num.integer(cut(a, source)), FORMATS[to], mode
                    ),
                    90 if to == "bf16" else 80,
                )


def float_of(
    fmt: num.Format, to: num.Format, mode: str, ftz: bool = False, sat: bool = False
) -> Callable[..., int]:
    def of(a: int, b: int, c: int) -> int:
        x = num.decode(a & (2 * fmt.sign_bit - 1), fmt, ftz and fmt is num.F32)
        if sat:
            x = num.saturate(x)
        if x.nan and fmt is num.F64:  # keeps its sign and the upper bits of its payload
            payload = (a & ((1 << fmt.mantissa) - 1)) >> (fmt.mantissa - to.mantissa)
            sign = to.sign_bit if a >> 63 else 0
            return sign | ((1 << to.exponent) - 1) << to.mantissa | 1 << (to.mantissa - 1) | payload
        return num.encode(x, to, mode, ftz and to is num.F32)

    return of


def between_floats() -> Iterator[Program]:
    def one(opcode: str, to: str, source: str, of: Callable[..., int], sm: int = 80) -> Program:
        body = f"{opcode} %{REGISTER[to]}7, %{REGISTER[source]}4;\n{FINISH[to]}"
        return lane_program(f"convert/{opcode}", body, source, of, sm)

    for mode in MODES:
        for ftz in ("", ".ftz"):
            for sat in ("", ".sat"):
                of = float_of(num.F64, num.F32, mode, bool(ftz), bool(sat))
                yield one(f"cvt.{mode}{ftz}{sat}.f32.f64", "f32", "f64", of)
        yield one(f"cvt.{mode}.f16.f64", "f16", "f64", float_of(num.F64, num.F16, mode))
    for ftz in ("", ".ftz"):
        for sat in ("", ".sat"):
            of = float_of(num.F32, num.F64, "rn", bool(ftz), bool(sat))
            yield one(f"cvt{ftz}{sat}.f64.f32", "f64", "f32", of)
    for mode in ("rn", "rz"):
        yield one(f"cvt.{mode}.f16.f32", "f16", "f32", float_of(num.F32, num.F16, mode))
        yield one(f"cvt.{mode}.bf16.f32", "bf16", "f32", float_of(num.F32, num.BF16, mode))
    yield one("cvt.f32.f16", "f32", "f16", float_of(num.F16, num.F32, "rn"))
    yield one("cvt.f64.f16", "f64", "f16", float_of(num.F16, num.F64, "rn"))
    for kind in ("f32", "f64"):
        fmt = FORMATS[kind]
        for mode in INTEGRAL:

            def of(a: int, b: int, c: int, fmt=fmt, mode=mode) -> int:
                x = num.decode(a & (2 * fmt.sign_bit - 1), fmt)
                return num.encode(num.to_integral(x, mode), fmt)

            yield one(f"cvt.{mode}.{kind}.{kind}", kind, kind, of)
    yield one("cvt.rn.bf16.f64", "bf16", "f64", float_of(num.F64, num.BF16, "rn"), 90)
    yield lane_program(
        "convert/cvt.rna.tf32.f32",
        # Infinities and NaN are left out: what becomes of the low bits is not said.
        "and.b32 %r4, %r4, 0xbfffffff;\nmov.b32 %f4, %r4;\ncvt.rna.tf32.f32 %r7, %f4;\n"
        "cvt.u64.u32 %rd7, %r7;",
        "f32",
        lambda a, b, c: num.encode(num.decode(a & 0xBFFFFFFF, num.F32), num.TF32, "rna") << 13,
    )


def pairs() -> Iterator[Program]:
    for kind, fmt in (("f16x2", num.F16), ("bf16x2", num.BF16)):
        for mode in ("rn", "rz"):
            for relu in ("", ".relu"):
                opcode = f"cvt.{mode}{relu}.{kind}.f32"

                def of(a: int, b: int, c: int, fmt=fmt, mode=mode, relu=relu) -> int:
                    halves = [narrowed(x, num.F32, fmt, mode, bool(relu)) for x in (a, b)]
                    return halves[0] << 16 | halves[1]

                body = f"{opcode} %r7, %f4, %f5;\n{FINISH[kind]}"
                yield lane_program(f"convert/{opcode}", body, "f32", of)
    for kind, fmt in (("e4m3x2", num.E4M3), ("e5m2x2", num.E5M2)):
        for relu in ("", ".relu"):
            opcode = f"cvt.rn.satfinite{relu}.{kind}"

            def of(a: int, b: int, c: int, fmt=fmt, relu=relu) -> int:
                parts = [narrowed(x, num.F32, fmt, "rn", bool(relu), True) for x in (a, b)]
                return parts[0] << 8 | parts[1]

            body = f"{opcode}.f32 %h7, %f4, %f5;\ncvt.u64.u16 %rd7, %h7;"
            yield lane_program(f"convert/{opcode}.f32", body, "f32", of, 89)

            def of_halves(a: int, b: int, c: int, fmt=fmt, relu=relu) -> int:
                halves = (a >> 16 & 0xFFFF, a & 0xFFFF)
                parts = [narrowed(x, num.F16, fmt, "rn", bool(relu), True) for x in halves]
                return parts[0] << 8 | parts[1]

            body = f"{opcode}.f16x2 %h7, %r4;\ncvt.u64.u16 %rd7, %h7;"
            yield lane_program(f"convert/{opcode}.f16x2", body, "f16", of_halves, 89)

            def widened(a: int, b: int, c: int, fmt=fmt, relu=relu) -> int:
                parts = (a >> 8 & 0xFF, a & 0xFF)
                high, low = (narrowed(x, fmt, num.F16, "rn", bool(relu)) for x in parts)
                return high << 16 | low

            opcode = f"cvt.rn{relu}.f16x2.{kind}"
            body = f"{opcode} %r7, %h4;\n{FINISH['f16x2']}"
            yield lane_program(f"convert/{opcode}", body, "int", widened, 89)


def narrowed(
    word: int, source: num.Format, to: num.Format, mode: str, relu: bool, finite: bool = False
) -> int:
    x = num.decode(word & (2 * source.sign_bit - 1), source)
    if relu and x.negative and not x.nan:
        x = num.Number()
    return num.encode(x, to, mode, finite=finite)


def packs() -> Iterator[Program]:
    for to in ("u8", "s8", "u16", "s16"):
        bits = int(to[1:])
        chained = bits == 8

        def of(a: int, b: int, c: int, to=to, bits=bits, chained=chained) -> int:
            low = -(1 << (bits - 1)) if to[0] == "s" else 0
            high = (1 << (bits - (to[0] == "s"))) - 1
            x, y = (min(max(cut(w, "s32"), low), high) & ((1 << bits) - 1) for w in (a, b))
            rest = (c & 0xFFFFFFFF) << 2 * bits if chained else 0
            return (rest | x << bits | y) & 0xFFFFFFFF

        opcode = f"cvt.pack.sat.{to}.s32" + ".b32" * chained
        operands = "%r4, %r5" + ", %r6" * chained
        yield lane_program(f"convert/{opcode}", f"{opcode} %r7, {operands};{widen(32)}", "int", of)


def programs() -> Iterator[Program]:
    for family in (
        between_integers,
        integers_from_floats,
        nan_to_integers,
        floats_from_integers,
        between_floats,
        pairs,
        packs,
    ):
        yield from family()
