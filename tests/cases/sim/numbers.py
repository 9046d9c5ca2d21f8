"""Binary floating point in integers: exact values, rounded once. The oracle of arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt


@dataclass(frozen=True)
class Format:
    exponent: int
    mantissa: int
    has_infinity: bool = True
    nan: int = -1  # of arithmetic; -1: all bits but the sign

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def sign_bit(self) -> int:
        return 1 << (self.exponent + self.mantissa)

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def quiet_nan(self) -> int:
        return self.sign_bit - 1 if self.nan < 0 else self.nan

    @property
    def largest(self) -> int:
        return self.infinity - 1 if self.has_infinity else self.sign_bit - 2


F64 = Format(11, 52, nan=0x7FF8000000000000)
F32 = Format(8, 23)
F16 = Format(5, 10)
BF16 = Format(8, 7)
TF32 = Format(8, 10)
E4M3 = Format(4, 3, has_infinity=False)
E5M2 = Format(5, 2)


@dataclass(frozen=True)
class Number:
    """(-1)^negative * magnitude * 2^exponent, or an infinity, or a NaN."""

    negative: bool = False
    magnitude: int = 0
    exponent: int = 0
    infinite: bool = False
    nan: bool = False
    sticky: bool = False  # something nonzero lies below the magnitude

    @property
    def signed(self) -> int:
        return -self.magnitude if self.negative else self.magnitude

    @property
    def zero(self) -> bool:
        return not (self.magnitude or self.infinite or self.nan)


NAN = Number(nan=True)


def integer(value: int) -> Number:
    return Number(value < 0, abs(value))


def decode(bits: int, fmt: Format, ftz: bool = False) -> Number:
    negative = bool(bits & fmt.sign_bit)
    body = bits & (fmt.sign_bit - 1)
    field, fraction = body >> fmt.mantissa, body & ((1 << fmt.mantissa) - 1)
    if body > (fmt.infinity if fmt.has_infinity else fmt.largest):
        return NAN
    if fmt.has_infinity and body == fmt.infinity:
        return Number(negative, infinite=True)
    if field == 0:
        return Number(negative, 0 if ftz else fraction, 1 - fmt.bias - fmt.mantissa)
    return Number(negative, fraction | 1 << fmt.mantissa, field - fmt.bias - fmt.mantissa)


def encode(
    x: Number, fmt: Format, mode: str = "rn", ftz: bool = False, finite: bool = False
) -> int:
    """Rounds once. finite: overflow gives the largest number, as .satfinite."""
    if x.nan:
        return fmt.quiet_nan
    sign = fmt.sign_bit if x.negative else 0
    if x.infinite:
        if finite or not fmt.has_infinity:
            return sign | (fmt.largest if finite else fmt.quiet_nan)
        return sign | fmt.infinity
    if x.magnitude == 0:
        return sign
    top = x.magnitude.bit_length() - 1 + x.exponent
    unit = max(top, 1 - fmt.bias) - fmt.mantissa
    kept, below, half = shift_right(x.magnitude, unit - x.exponent)
    inexact = below or half or x.sticky
    up = {
        "rn": half and (below or x.sticky or bool(kept & 1)),
        "rna": half,
        "rz": False,
        "rm": x.negative and inexact,
        "rp": not x.negative and inexact,
    }[mode]
    kept += up
    if kept >> (fmt.mantissa + 1):
        kept >>= 1
        unit += 1
    if kept >> fmt.mantissa:
        body = ((unit + fmt.mantissa + fmt.bias - 1) << fmt.mantissa) + kept
    else:
        body = 0 if ftz else kept
    if body > fmt.largest:
        away = mode in ("rn", "rna") or mode == ("rm" if x.negative else "rp")
        body = fmt.largest if finite or not away else fmt.largest + 1
    return sign | body


def shift_right(magnitude: int, shift: int) -> tuple[int, bool, bool]:
    """The quotient by 2^shift, whether anything but the half bit is lost, the half bit."""
    if shift <= 0:
        return magnitude << -shift, False, False
    rest = magnitude & ((1 << shift) - 1)
    return magnitude >> shift, bool(rest & ((1 << (shift - 1)) - 1)), bool(rest >> (shift - 1))


def fma(a: Number, b: Number, c: Number, mode: str = "rn") -> Number:
    if a.nan or b.nan or c.nan:
        return NAN
    negative = a.negative != b.negative
    if a.infinite or b.infinite:
        if a.zero or b.zero or (c.infinite and c.negative != negative):
            return NAN
        return Number(negative, infinite=True)
    if c.infinite:
        return c
    product = a.magnitude * b.magnitude
    low = min(a.exponent + b.exponent, c.exponent)
    sum_ = (-product if negative else product) << (a.exponent + b.exponent - low)
    sum_ += c.signed << (c.exponent - low)
    if sum_ == 0:
        if product == 0 and c.magnitude == 0 and negative == c.negative:
            return Number(negative)
        return Number(mode == "rm")
    return Number(sum_ < 0, abs(sum_), low)


def add(a: Number, b: Number, mode: str = "rn") -> Number:
    return fma(a, Number(False, 1), b, mode)


def negate(a: Number) -> Number:
    return Number(not a.negative, a.magnitude, a.exponent, a.infinite, a.nan)


def multiply(a: Number, b: Number, mode: str = "rn") -> Number:
    if a.zero or b.zero:
        return (
            NAN if a.nan or b.nan or a.infinite or b.infinite else Number(a.negative != b.negative)
        )
    return fma(a, b, Number(a.negative != b.negative), mode)


def divide(a: Number, b: Number) -> Number:
    negative = a.negative != b.negative
    if a.nan or b.nan or (a.infinite and b.infinite) or (a.zero and b.zero):
        return NAN
    if a.infinite or b.zero:
        return Number(negative, infinite=True)
    if b.infinite or a.zero:
        return Number(negative)
    scale = 120 + b.magnitude.bit_length()
    quotient, rest = divmod(a.magnitude << scale, b.magnitude)
    return Number(negative, quotient, a.exponent - b.exponent - scale, sticky=rest != 0)


def square_root(a: Number) -> Number:
    if a.nan or a.zero:
        return a
    if a.negative:
        return NAN
    if a.infinite:
        return a
    shift = 240 + (a.exponent & 1)
    scaled = a.magnitude << shift
    root = isqrt(scaled)
    return Number(False, root, (a.exponent - shift) // 2, sticky=root * root != scaled)


def compare(a: Number, b: Number) -> int | None:
    """-1, 0 or 1; None: unordered."""
    if a.nan or b.nan:
        return None
    if a.infinite or b.infinite:
        rank = [(-1 if x.negative else 1) if x.infinite else 0 for x in (a, b)]
        return (rank[0] > rank[1]) - (rank[0] < rank[1])
    low = min(a.exponent, b.exponent)
    x, y = a.signed << (a.exponent - low), b.signed << (b.exponent - low)
    return (x > y) - (x < y)


def extreme(a: Number, b: Number, largest: bool, nan: bool = False) -> Number:
    """min and max: -0 below +0; a NaN loses against a number unless `nan`."""
    if a.nan or b.nan:
        return NAN if nan or (a.nan and b.nan) else b if a.nan else a
    order = compare(a, b) or (b.negative - a.negative)
    return a if (order > 0) == largest else b


def saturate(x: Number) -> Number:
    """To [0, 1], NaN to +0."""
    if x.nan or x.negative or x.zero:
        return Number()
    return Number(False, 1) if (compare(x, Number(False, 1)) or 0) > 0 else x


def to_integral(x: Number, mode: str) -> Number:
    """rni, rzi, rmi, rpi: the sign of zero stays."""
    if x.nan or x.infinite or x.exponent >= 0:
        return x
    kept, below, half = shift_right(x.magnitude, -x.exponent)
    up = {
        "rni": half and (below or bool(kept & 1)),
        "rzi": False,
        "rmi": x.negative and (below or half),
        "rpi": not x.negative and (below or half),
    }[mode]
    return Number(x.negative, kept + up)


def to_integer(x: Number, bits: int, signed: bool, mode: str, of_double: bool) -> int:
    """cvt to an integer: clamped; NaN is 0, or the top bit from f64 and to 64 bits."""
    if x.nan:
        return 0 if not of_double and bits < 64 else 1 << (bits - 1)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if x.infinite:
        value = low if x.negative else high
    else:
        whole = to_integral(x, mode)
        value = min(max(whole.signed << max(whole.exponent, 0), low), high)
    return value & ((1 << bits) - 1)
