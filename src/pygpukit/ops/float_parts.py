"""Floating-point and complex numbers taken apart: exponents, neighbours, angles, bits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.errors import InvalidTypeError
from pygpukit.ops.conversion import as_operands, asarray

if TYPE_CHECKING:
    from pygpukit._native import GPUArray

# Per dtype: unsigned integer of its size, bits of the fraction, bias of the exponent.
_LAYOUTS = {"float32": ("int32", 23, 127), "float64": ("int64", 52, 1023)}


def angle(z: Any, deg: bool = False) -> GPUArray:
    """The angle of complex numbers in the plane, in radians or degrees."""
    x = asarray(z)
    result = _native.atan2(_native.imag(x), _native.real(x))
    return _native.multiply(result, 180 / math.pi) if deg else result


def isreal(x: Any, /) -> GPUArray:
    """Whether the imaginary part is zero, elementwise."""
    return _native.equal(_native.imag(asarray(x)), 0)


def iscomplex(x: Any, /) -> GPUArray:
    """Whether the imaginary part is not zero, elementwise."""
    return _native.not_equal(_native.imag(asarray(x)), 0)


def isrealobj(x: Any, /) -> bool:
    """Whether the dtype is not complex, whatever the values are."""
    return not iscomplexobj(x)


def iscomplexobj(x: Any, /) -> bool:
    """Whether the dtype is complex, whatever the values are."""
    return asarray(x).dtype.name.startswith("complex")


def real_if_close(x: Any, /, tol: float = 100) -> GPUArray:
    """The real parts when all imaginary parts are below tol units of precision, else x.

    The dtype depends on the values, so this waits for the GPU.
    """
    from pygpukit.ops.data_types import finfo

    array = asarray(x)
    if not array.dtype.name.startswith("complex"):
        return array
    limit = tol * float(finfo(array.dtype).eps) if tol > 1 else tol
    close = _native.all(_native.less(_native.abs(_native.imag(array)), limit))
    return _native.real(array) if bool(close) else array


def modf(x: Any, /) -> tuple[GPUArray, GPUArray]:
    """(fraction, whole part), both with the sign of x."""
    value = as_floats("modf", asarray(x))
    whole = _native.trunc(value)
    rest = _native.where(_native.isinf(value), 0.0, _native.subtract(value, whole))
    return _native.copysign(rest, value), whole


def frexp(x: Any, /) -> tuple[GPUArray, GPUArray]:
    """(mantissa, int32 exponent): x = mantissa * 2**exponent, 0.5 <= abs(mantissa) < 1."""
    given = as_floats("frexp", asarray(x))
    value = _standard(given)
    word, bits, bias = _LAYOUTS[value.dtype.name]
    # Subnormal numbers are scaled into the range of normal ones first.
    tiny = _native.less(_native.abs(value), 2.0 ** (1 - bias))
    scaled = _native.where(tiny, _native.multiply(value, 2.0 ** (bits + 1)), value)
    code = scaled.view(word)
    mask = (1 << ((word == "int64" and 11) or 8)) - 1
    field = _native.bitwise_and(_native.bitwise_right_shift(code, bits), mask)
    exponent = _native.subtract(
        _native.subtract(field, bias - 1),
        _native.multiply(_native.astype(tiny, word), bits + 1),
    )
    kept = _native.bitwise_and(code, ~(mask << bits))
    mantissa = _native.bitwise_or(kept, (bias - 1) << bits).view(value.dtype)
    special = _native.logical_or(_native.equal(value, 0.0), ~_native.isfinite(value))
    return (
        _native.astype(_native.where(special, value, mantissa), given.dtype, False),
        _native.astype(_native.where(special, 0, exponent), "int32", False),
    )


def ldexp(x1: Any, x2: Any, /) -> GPUArray:
    """x1 * 2**x2 for integers x2, elementwise, rounded once for results that are normal."""
    from pygpukit.ops.data_types import iinfo

    given, power = as_operands(x1, x2)
    given = as_floats("ldexp", given)
    if "int" not in power.dtype.name:
        raise InvalidTypeError(f"ldexp: x2 has dtype {power.dtype}, expected integers")
    value = _standard(given)
    word, bits, bias = _LAYOUTS[value.dtype.name]
    # In three steps, since one power of two may be out of range where the result is not.
    most = min(4 * bias, int(iinfo(power.dtype).max))
    least = max(-4 * bias, int(iinfo(power.dtype).min))
    left = _native.astype(_native.clip(power, least, most), word)
    for _ in range(4):
        part = _native.clip(left, 1 - bias, bias)
        left = _native.subtract(left, part)
        two = _native.bitwise_left_shift(_native.add(part, bias), bits).view(value.dtype)
        value = _native.multiply(value, two)
    return _native.astype(value, given.dtype, False)


def spacing(x: Any, /) -> GPUArray:
    """The distance to the next number away from zero, with the sign of x."""
    value = as_floats("spacing", asarray(x))
    size = _native.abs(value)
    step = _native.subtract(_native.nextafter(size, float("inf")), size)
    return _native.where(_native.less(value, 0.0), _native.negative(step), step)


def float_power(x1: Any, x2: Any, /) -> GPUArray:
    """x1 ** x2 in float64, or in complex128 for complex numbers."""
    first, second = as_operands(x1, x2)
    names = (first.dtype.name, second.dtype.name)
    kind = "complex128" if any(n.startswith("complex") for n in names) else "float64"
    return _native.pow(
        _native.astype(first, kind, False),
        _native.astype(second, kind, False),
    )


def bitwise_count(x: Any, /) -> GPUArray:
    """The number of bits set in the absolute value, as uint8."""
    array = asarray(x)
    name = array.dtype.name
    if name != "bool" and "int" not in name:
        raise InvalidTypeError(f"bitwise_count: x has dtype {name}, expected integers")
    if name.startswith("int"):
        array = _native.abs(array)
        array = array.view(f"u{name}")
    count = _native.astype(array, "uint64", False)
    # Sums of neighbouring fields of 1, 2 and 4 bits; the product then adds the bytes.
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333)):
        high = _native.bitwise_and(_native.bitwise_right_shift(count, shift), mask)
        count = _native.add(_native.bitwise_and(count, mask), high)
    count = _native.add(count, _native.bitwise_right_shift(count, 4))
    count = _native.bitwise_and(count, 0x0F0F0F0F0F0F0F0F)
    count = _native.bitwise_right_shift(_native.multiply(count, 0x0101010101010101), 56)
    return _native.astype(count, "uint8")


def as_floats(op: str, x: GPUArray) -> GPUArray:
    """Integers as the float that NumPy pairs with them."""
    if x.dtype.name.startswith("complex"):
        raise InvalidTypeError(f"{op}: x has dtype {x.dtype}, expected real numbers")
    if "float" in x.dtype.name:
        return x
    return _native.astype(x, {1: "float16", 2: "float32"}.get(x.dtype.itemsize, "float64"))


def _standard(x: GPUArray) -> GPUArray:
    """16-bit floats as float32, whose bits are taken apart."""
    return x if x.dtype.name in _LAYOUTS else _native.astype(x, "float32")


__all__ = [
    "angle",
    "bitwise_count",
    "float_power",
    "frexp",
    "iscomplex",
    "iscomplexobj",
    "isreal",
    "isrealobj",
    "ldexp",
    "modf",
    "real_if_close",
    "spacing",
]

name_all(globals(), __all__)
