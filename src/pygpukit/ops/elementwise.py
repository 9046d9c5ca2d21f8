"""Ops element by element. Most are the C++ core's own functions; see docs/ops.md."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._native import (
    GPUArray,
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    cbrt,
    ceil,
    conj,
    copysign,
    cos,
    cosh,
    deg2rad,
    divide,
    equal,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    floor,
    floor_divide,
    fmax,
    fmin,
    fmod,
    gcd,
    gelu,
    greater,
    greater_equal,
    heaviside,
    hypot,
    imag,
    isfinite,
    isinf,
    isnan,
    lcm,
    less,
    less_equal,
    lgamma,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logaddexp2,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    pow,
    rad2deg,
    real,
    reciprocal,
    relu,
    relu2,
    remainder,
    rint,
    rsqrt,
    sigmoid,
    sign,
    signbit,
    silu,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
    where,
)
from pygpukit.core.arguments import require_arrays

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from typing import Any

    Operand = GPUArray | bool | int | float | complex

# NumPy's names, and those of version 0.2.
absolute = fabs = abs
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
bitwise_not = invert = bitwise_invert
conjugate = conj
degrees = rad2deg
div = true_divide = divide
left_shift = bitwise_left_shift
mod = remainder
mul = multiply
neg = negative
power = pow
radians = deg2rad
right_shift = bitwise_right_shift
sub = subtract


def clip(
    x: GPUArray,
    /,
    min: Any = None,
    max: Any = None,
    *,
    out: GPUArray | None = None,
) -> GPUArray:
    """x limited to [min, max], element by element; a limit of None is none."""
    require_arrays("clip", x=x)
    if min is not None and max is not None:
        return _native.clip(x, min, max, out=out)
    if min is not None:
        return maximum(x, min, out=out)
    if max is not None:
        return minimum(x, max, out=out)
    return positive(x, out=out) if x.dtype.name != "bool" else _native.add(x, False, out=out)


def clamp(a: GPUArray, min_val: Any, max_val: Any) -> GPUArray:
    """a limited to [min_val, max_val], element by element."""
    return _native.clip(a, min_val, max_val)


def round(x: GPUArray, /, decimals: int = 0, *, out: GPUArray | None = None) -> GPUArray:
    """x rounded to `decimals` places, halves to even; of integers only places before the point."""
    require_arrays("round", x=x)
    if decimals == 0:
        return rint(x, out=out)
    is_integer = x.dtype.name.lstrip("u").startswith("int")
    if is_integer and decimals > 0:
        return positive(x, out=out)
    scale = 10.0 ** (-decimals if decimals < 0 else decimals)
    if decimals < 0:
        rounded = multiply(rint(divide(x, scale)), scale)
    else:
        rounded = divide(rint(multiply(x, scale)), scale)
    if is_integer:
        rounded = _native.astype(rounded, x.dtype)
    return rounded if out is None else positive(rounded, out=out)


def fix(x: GPUArray, /, *, out: GPUArray | None = None) -> GPUArray:
    """x rounded towards zero, element by element."""
    return trunc(x, out=out)


def isposinf(x: GPUArray, /, *, out: GPUArray | None = None) -> GPUArray:
    """Whether x is positive infinity, element by element."""
    return equal(x, float("inf"), out=out)


def isneginf(x: GPUArray, /, *, out: GPUArray | None = None) -> GPUArray:
    """Whether x is negative infinity, element by element."""
    return equal(x, float("-inf"), out=out)


def divmod(x1: Operand, x2: Operand, /) -> tuple[GPUArray, GPUArray]:
    """(x1 // x2, x1 % x2), element by element."""
    return floor_divide(x1, x2), remainder(x1, x2)


def nan_to_num(
    x: GPUArray,
    /,
    *,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    out: GPUArray | None = None,
) -> GPUArray:
    """x with NaN and infinities replaced; by default by 0 and the largest finite numbers."""
    require_arrays("nan_to_num", x=x)
    name = x.dtype.name
    if name == "bool" or "int" in name:
        return _native.add(x, False, out=out)
    from pygpukit.ops.data_types import finfo

    largest = float(finfo(x.dtype).max)
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    return _native.nan_to_num(x, nan, high, low, out=out)


def add_inplace(a: GPUArray, b: GPUArray) -> None:
    """a += b"""
    add(a, b, out=a)


def mul_inplace(a: GPUArray, b: GPUArray) -> None:
    """a *= b"""
    multiply(a, b, out=a)


__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "add_inplace",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clamp",
    "clip",
    "conj",
    "conjugate",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "div",
    "divide",
    "divmod",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "fix",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "gcd",
    "gelu",
    "greater",
    "greater_equal",
    "heaviside",
    "hypot",
    "imag",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "lcm",
    "left_shift",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "mul",
    "mul_inplace",
    "multiply",
    "nan_to_num",
    "neg",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "power",
    "rad2deg",
    "radians",
    "real",
    "reciprocal",
    "relu",
    "relu2",
    "remainder",
    "right_shift",
    "rint",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
    "where",
]
