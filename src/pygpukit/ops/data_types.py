"""Dtypes: casts, promotion, limits and kinds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import DataType, GPUArray, safe_repr
from pygpukit.core.arguments import array_argument

if TYPE_CHECKING:
    from pygpukit._native import _ArrayLike, _DeviceLike, _DTypeLike, _ScalarLike


def astype(
    x: _ArrayLike,
    dtype: _DTypeLike,
    /,
    *,
    copy: bool = True,
    device: _DeviceLike = None,
) -> GPUArray:
    """x cast to another dtype, a new array; with copy=False x itself when nothing changes."""
    x = array_argument("astype", "x", x)
    moved = x if device is None else _native.to_device(x, device)
    kind = _native.result_type(dtype)
    if not copy and kind == x.dtype and moved.device == x.device:
        return x
    return _native.astype(moved, kind, copy and moved.device == x.device)


def result_type(*arrays_and_dtypes: GPUArray | _DTypeLike | _ScalarLike) -> DataType:
    """The common dtype of arrays, dtypes and Python numbers. Numbers are weak."""
    return _native.result_type(*arrays_and_dtypes)


def promote_types(a: _DTypeLike, b: _DTypeLike, /) -> DataType:
    """The smallest dtype that holds both."""
    return _native.result_type(_dtype(a), _dtype(b))


def can_cast(from_: GPUArray | _DTypeLike, to: _DTypeLike, casting: str = "safe") -> bool:
    """Whether a casting rule allows a cast: 'no', 'equiv', 'safe', 'same_kind' or 'unsafe'."""
    return _native.can_cast(from_, to, casting)


_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64", "int4"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64", "uint4"),
    "real floating": (
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "float8_e4m3fn",
        "float8_e5m2",
        "float4_e2m1fn",
    ),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def isdtype(dtype: _DTypeLike, kind: _DTypeLike | str | tuple[_DTypeLike | str, ...]) -> bool:
    """Whether a dtype is of a kind: a dtype, the name of a kind, or any in a tuple of these.

    Kinds: 'bool', 'signed integer', 'unsigned integer', 'integral', 'real floating',
    'complex floating', 'numeric'.
    """
    found = _dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, item) for item in kind)
    if isinstance(kind, str):
        if kind in _KINDS:
            return found.name in _KINDS[kind]
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(
            f"isdtype: kind is {safe_repr(kind)}, expected one of {', '.join(_KINDS)}"
        )
    return found == _dtype(kind)


def issubdtype(dtype: Any, kind: Any, /) -> bool:
    """numpy.issubdtype for our dtypes: issubdtype(x.dtype, numpy.floating).

    bfloat16, float8 and float4 are floating, int4 and uint4 integers; ml_dtypes does not say so.
    """
    import numpy as np

    given = dtype.dtype if isinstance(dtype, GPUArray) else dtype
    if isinstance(kind, DataType):
        kind = kind.to_numpy_dtype()
    if not isinstance(given, DataType):
        return bool(np.issubdtype(given, kind))
    host = given.to_numpy_dtype()
    if host.isbuiltin != 1 and isinstance(kind, type) and issubclass(kind, np.generic):
        ancestor = next(
            (base for name, base in _ANCESTORS.items() if given.name in _KINDS[name]), None
        )
        if ancestor is not None and kind is not host.type:
            return issubclass(getattr(np, ancestor), kind)
    return bool(np.issubdtype(host, kind))


# NumPy's abstract class of the kinds of the array API standard.
_ANCESTORS = {
    "signed integer": "signedinteger",
    "unsigned integer": "unsignedinteger",
    "real floating": "floating",
}


def _dtype(dtype: Any) -> DataType:
    return dtype if isinstance(dtype, DataType) else DataType.from_numpy_dtype(dtype)


class iinfo:
    """Limits of an integer dtype."""

    __slots__ = ("bits", "dtype", "max", "min")

    bits: int
    dtype: DataType
    max: int
    min: int

    def __init__(self, type: GPUArray | _DTypeLike, /) -> None:
        dtype = type.dtype if isinstance(type, GPUArray) else _dtype(type)
        if dtype.name not in _KINDS["integral"]:
            from pygpukit.core.errors import InvalidValueError

            raise InvalidValueError(f"iinfo: {dtype} is not an integer dtype")
        signed = dtype.name in _KINDS["signed integer"]
        self.bits = dtype.bits
        self.dtype = dtype
        self.max = 2 ** (dtype.bits - signed) - 1
        self.min = -(2 ** (dtype.bits - 1)) if signed else 0

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"


# Bits of the exponent and of the fraction, and the largest number.
_FORMATS = {
    "float16": (5, 10, 65504.0),
    "bfloat16": (8, 7, 2.0**127 * (2 - 2.0**-7)),
    "float32": (8, 23, 2.0**127 * (2 - 2.0**-23)),
    "float64": (11, 52, 2.0**1023 * (2 - 2.0**-52)),
    "float8_e4m3fn": (4, 3, 448.0),
    "float8_e5m2": (5, 2, 57344.0),
    "float4_e2m1fn": (2, 1, 6.0),
}


class finfo:
    """Limits of a floating-point dtype, or of the parts of a complex one."""

    __slots__ = (
        "bits",
        "dtype",
        "eps",
        "epsneg",
        "machep",
        "max",
        "maxexp",
        "min",
        "minexp",
        "negep",
        "nexp",
        "nmant",
        "smallest_normal",
        "smallest_subnormal",
    )

    bits: int
    dtype: DataType
    eps: float
    epsneg: float
    machep: int
    max: float
    maxexp: int
    min: float
    minexp: int
    negep: int
    nexp: int
    nmant: int
    smallest_normal: float
    smallest_subnormal: float

    def __init__(self, type: GPUArray | _DTypeLike, /) -> None:
        dtype = type.dtype if isinstance(type, GPUArray) else _dtype(type)
        if dtype.name in _KINDS["complex floating"]:
            dtype = _native.float32 if dtype.name == "complex64" else _native.float64
        if dtype.name not in _FORMATS:
            from pygpukit.core.errors import InvalidValueError

            raise InvalidValueError(f"finfo: {dtype} is not a floating-point dtype")
        exponent, fraction, largest = _FORMATS[dtype.name]
        self.bits = dtype.bits
        self.dtype = dtype
        self.eps = 2.0**-fraction
        self.smallest_normal = 2.0 ** (2 - 2 ** (exponent - 1))
        self.smallest_subnormal = self.smallest_normal * self.eps
        self.epsneg = max(2.0 ** (-fraction - 1), self.smallest_subnormal)
        self.machep = -fraction
        self.max = largest
        self.maxexp = math.frexp(largest)[1]
        self.min = -largest
        self.minexp = 2 - 2 ** (exponent - 1)
        self.negep = int(math.log2(self.epsneg))
        self.nexp = exponent
        self.nmant = fraction

    @property
    def tiny(self) -> float:
        """NumPy's name for smallest_normal."""
        return self.smallest_normal

    @property
    def resolution(self) -> float:
        """The decimal resolution: 10 ** -precision."""
        return 10.0**-self.precision

    @property
    def precision(self) -> int:
        """Decimal digits of precision."""
        return int(self.nmant * math.log10(2))

    def __repr__(self) -> str:
        return f"finfo(min={self.min}, max={self.max}, eps={self.eps}, dtype={self.dtype.name})"


__all__ = [
    "astype",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "issubdtype",
    "promote_types",
    "result_type",
]

name_all(globals(), __all__)
