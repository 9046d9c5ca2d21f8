"""Elementwise ops. Most are declared in native/ops/elementwise/ops.def."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray
from pygpukit.core.arguments import array_argument, is_number, is_traced, whole
from pygpukit.ops._declared import elementwise as _declared
from pygpukit.ops._declared.elementwise import *  # noqa: F403

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from typing import Any

    from pygpukit._native import _ArrayLike

    Operand = GPUArray | bool | int | float | complex

# NumPy's names, and those of version 0.2.
absolute = _native.abs
arccos = _native.acos
arccosh = _native.acosh
arcsin = _native.asin
arcsinh = _native.asinh
arctan = _native.atan
arctan2 = _native.atan2
arctanh = _native.atanh
bitwise_not = invert = _native.bitwise_invert
conjugate = _native.conj
degrees = _native.rad2deg
div = true_divide = _native.divide
left_shift = _native.bitwise_left_shift
mod = _native.remainder
mul = _native.multiply
neg = _native.negative
power = _native.pow
radians = _native.deg2rad
right_shift = _native.bitwise_right_shift
sub = _native.subtract


def clip(
    x: _ArrayLike,
    /,
    min: Any = None,
    max: Any = None,
    out: GPUArray | None = None,
    *,
    a_min: Any = None,
    a_max: Any = None,
) -> GPUArray:
    """x clamped to [min, max], elementwise; None means no limit. a_min, a_max: NumPy's names."""
    if a_min is not None or a_max is not None:
        min, max = _one_of("min", min, a_min), _one_of("max", max, a_max)
    if not is_traced(x):
        x = array_argument("clip", "x", x)
    min, max = _within_dtype(x, min, max)
    if min is not None and max is not None:
        return _native.clip(x, min, max, out=out)
    if min is not None:
        return _native.maximum(x, min, out=out)
    if max is not None:
        return _native.minimum(x, max, out=out)
    return (
        _native.positive(x, out=out) if x.dtype.name != "bool" else _native.add(x, False, out=out)
    )


def _within_dtype(x: GPUArray, low: Any, high: Any) -> tuple[Any, Any]:
    """Limits below or above all integers of the array's dtype limit nothing."""
    if (type(low) is int or type(high) is int) and "int" in x.dtype.name:
        from pygpukit.ops.data_types import iinfo

        info = iinfo(x.dtype)
        if type(low) is int and low < info.min:
            low = int(info.min)
        if type(high) is int and high > info.max:
            high = int(info.max)
    return low, high


def _one_of(name: str, value: Any, other: Any) -> Any:
    if value is not None and other is not None:
        from pygpukit.core.errors import InvalidTypeError

        raise InvalidTypeError(f"clip: {name} and a_{name} are the same limit, both were given")
    return other if value is None else value


def clamp(a: GPUArray, min_val: Any, max_val: Any) -> GPUArray:
    """a clamped to [min_val, max_val], elementwise."""
    return _native.clip(a, min_val, max_val)


def round(x: _ArrayLike | complex, /, decimals: int = 0, out: GPUArray | None = None) -> GPUArray:
    """x rounded to `decimals` places, ties to even; integers change only if it is negative."""
    if is_number(x):
        x = _native.from_numpy(x)
    x = array_argument("round", "x", x)
    decimals = whole("round", "decimals", decimals, -(2**31), 2**31 - 1)
    if decimals == 0:
        return _native.rint(x, out=out)
    if x.dtype.name.startswith("complex"):
        return _round_parts(x, decimals, out)
    is_integer = x.dtype.name.lstrip("u").startswith("int")
    if is_integer and decimals > 0:
        return _native.positive(x, out=out)
    scale = _power_of_ten(-decimals if decimals < 0 else decimals)
    if decimals < 0:
        rounded = _native.multiply(_native.rint(_native.divide(x, scale)), scale)
    else:
        rounded = _native.divide(_native.rint(_native.multiply(x, scale)), scale)
    if is_integer:
        rounded = _native.astype(rounded, x.dtype)
    return rounded if out is None else _native.positive(rounded, out=out)


def _round_parts(x: GPUArray, decimals: int, out: GPUArray | None) -> GPUArray:
    """Each part by itself: the product of an infinite part and a number is NaN in both."""
    rounded = _native.empty(x.shape, x.dtype, device=x.device)
    round(x.real, decimals, rounded.real)
    round(x.imag, decimals, rounded.imag)
    return rounded if out is None else _native.positive(rounded, out=out)


def _power_of_ten(n: int) -> float:
    """As NumPy computes it, by repeated multiplication; infinite from 309 on."""
    power = 10.0 ** (n if n < 9 else 9)
    for _ in range(9, n if n < 309 else 309):
        power *= 10.0
    return power


def fix(x: GPUArray, /, out: GPUArray | None = None) -> GPUArray:
    """x rounded towards zero, elementwise."""
    return _native.trunc(x, out=out)


def fabs(x: _ArrayLike, /, out: GPUArray | None = None) -> GPUArray:
    """The absolute value of real numbers; integers give the floats that sqrt gives for them."""
    from pygpukit.ops.float_parts import as_floats

    return _native.abs(as_floats("fabs", array_argument("fabs", "x", x)), out=out)


def isposinf(x: GPUArray, /, out: GPUArray | None = None) -> GPUArray:
    """Whether x is positive infinity, elementwise."""
    return _native.equal(x, float("inf"), out=out)


def isneginf(x: GPUArray, /, out: GPUArray | None = None) -> GPUArray:
    """Whether x is negative infinity, elementwise."""
    return _native.equal(x, float("-inf"), out=out)


def divmod(x1: Operand, x2: Operand, /) -> tuple[GPUArray, GPUArray]:
    """(x1 // x2, x1 % x2), elementwise."""
    return _native.floor_divide(x1, x2), _native.remainder(x1, x2)


def nan_to_num(
    x: _ArrayLike | complex,
    /,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: GPUArray | None = None,
) -> GPUArray:
    """x with NaN and infinities replaced, by default with 0 and the largest finite numbers.

    copy=False writes to x itself.
    """
    if not copy and out is None and isinstance(x, GPUArray):
        out = x
    if is_number(x):
        x = _native.from_numpy(x)
    x = array_argument("nan_to_num", "x", x)
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
    _native.add(a, b, out=a)


def mul_inplace(a: GPUArray, b: GPUArray) -> None:
    """a *= b"""
    _native.multiply(a, b, out=a)


__all__ = [
    "absolute",
    "add_inplace",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "bitwise_not",
    "clamp",
    "clip",
    "conjugate",
    "degrees",
    "div",
    "divmod",
    "fabs",
    "fix",
    "invert",
    "isneginf",
    "isposinf",
    "left_shift",
    "mod",
    "mul",
    "mul_inplace",
    "nan_to_num",
    "neg",
    "power",
    "radians",
    "right_shift",
    "round",
    "sub",
    "true_divide",
]
__all__ += _declared.__all__

name_all(globals(), __all__)
