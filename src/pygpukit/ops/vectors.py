"""Products of vectors, and bits of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.conversion import as_operands, asarray

if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def cross(
    a: Any,
    b: Any,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> GPUArray:
    """The cross product of vectors of three elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    first, second = as_operands(a, b)
    for name, x in (("a", first), ("b", second)):
        if x.ndim == 0:
            raise InvalidValueError(f"cross: {name} is 0-d, at least one axis is required")
    first = _native.moveaxis(first, axisa, -1)
    second = _native.moveaxis(second, axisb, -1)
    if first.shape[-1] != 3 or second.shape[-1] != 3:
        raise InvalidValueError(
            f"cross: vectors of {first.shape[-1]} and {second.shape[-1]} elements, both must have 3"
        )
    x1, y1, z1 = (first[..., n] for n in range(3))
    x2, y2, z2 = (second[..., n] for n in range(3))
    parts = [_minor(y1, z2, z1, y2), _minor(z1, x2, x1, z2), _minor(x1, y2, y1, x2)]
    return _native.moveaxis(_native.stack(parts, -1), -1, axisc)


def _minor(a: GPUArray, b: GPUArray, c: GPUArray, d: GPUArray) -> GPUArray:
    return _native.subtract(_native.multiply(a, b), _native.multiply(c, d))


def matvec(x1: Any, x2: Any, /) -> GPUArray:
    """Matrices times vectors: the last axes of both are contracted."""
    matrix, vector = _two("matvec", x1, x2, 2, 1)
    return _native.squeeze(_native.matmul(matrix, _native.expand_dims(vector, -1)), -1)


def vecmat(x1: Any, x2: Any, /) -> GPUArray:
    """Conjugated vectors times matrices."""
    vector, matrix = _two("vecmat", x1, x2, 1, 2)
    if vector.dtype.name.startswith("complex"):  # conj of bool is int8
        vector = _native.conj(vector)
    row = _native.expand_dims(vector, -2)
    return _native.squeeze(_native.matmul(row, matrix), -2)


def _two(op: str, x1: Any, x2: Any, first: int, second: int) -> tuple[GPUArray, GPUArray]:
    a, b = as_operands(x1, x2)
    for name, x, least in (("x1", a, first), ("x2", b, second)):
        if x.ndim < least:
            raise InvalidValueError(
                f"{op}: {name} has shape {x.shape}, expected {least} axes or more"
            )
    return a, b


def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> GPUArray:
    """Eight elements per byte, 1 where they are not zero; the last byte is filled with zeros."""
    x, at = _bit_axis("packbits", a, axis, bitorder)
    rows = _native.astype(_native.moveaxis(x, at, -1), "bool", False)
    size = rows.shape[-1]
    if size % 8:
        edge = _native.zeros((*rows.shape[:-1], 8 - size % 8), "bool", device=x.device)
        rows = _native.concat([rows, edge], -1)
    groups = _native.reshape(rows, (*rows.shape[:-1], rows.shape[-1] // 8, 8))
    weights = _weights(x.device, bitorder)
    values = _native.sum(_native.where(groups, weights, 0), -1)
    return _native.moveaxis(_native.astype(values, "uint8", False), -1, at)


def unpackbits(
    a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> GPUArray:
    """The bits of uint8 elements, as uint8. count: how many, negative ones dropped at the end."""
    x, at = _bit_axis("unpackbits", a, axis, bitorder)
    if x.dtype.name != "uint8":
        raise InvalidTypeError(f"unpackbits: a has dtype {x.dtype}, expected uint8")
    rows = _native.moveaxis(x, at, -1)
    masked = _native.bitwise_and(_native.expand_dims(rows, -1), _weights(x.device, bitorder))
    bits = _native.astype(_native.not_equal(masked, 0), "uint8")
    bits = _native.reshape(bits, (*rows.shape[:-1], rows.shape[-1] * 8))
    if count is not None:
        total = bits.shape[-1]
        kept = total + count if count < 0 else count
        if kept < 0:
            raise InvalidValueError(f"unpackbits: count {count} for {total} bits")
        if kept > total:
            edge = _native.zeros((*bits.shape[:-1], kept - total), "uint8", device=x.device)
            bits = _native.concat([bits, edge], -1)
        bits = _native.slice_axis(bits, -1, 0, kept)
    return _native.moveaxis(bits, -1, at)


def _bit_axis(op: str, a: Any, axis: int | None, bitorder: str) -> tuple[GPUArray, int]:
    if bitorder not in ("big", "little"):
        raise InvalidValueError(
            f"{op}: bitorder is {safe_repr(bitorder)}, expected 'big' or 'little'"
        )
    x = asarray(a)
    if x.dtype.name != "bool" and "int" not in x.dtype.name:
        raise InvalidTypeError(f"{op}: a has dtype {x.dtype}, expected integers or bool")
    return (_native.reshape(x, (-1,)), 0) if axis is None else (x, axis)


def _weights(device: str, bitorder: str) -> GPUArray:
    powers = _native.bitwise_left_shift(1, _native.arange(8, 0, 1, "uint8", device))
    return powers if bitorder == "little" else _native.flip(powers, 0)


__all__ = ["cross", "matvec", "packbits", "unpackbits", "vecmat"]

name_all(globals(), __all__)
