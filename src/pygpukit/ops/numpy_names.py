"""NumPy's names for types and settings, so that a program finds them where it looks for them.

The dtypes are ours, the abstract classes (floating, integer, ...) and the settings are NumPy's:
issubdtype takes the former, set_printoptions applies to our arrays too, and there are no warnings
that errstate could turn off.
"""

from numpy import (
    base_repr,
    binary_repr,
    complexfloating,
    dtype,
    errstate,
    floating,
    generic,
    get_printoptions,
    geterr,
    inexact,
    integer,
    ndindex,
    number,
    printoptions,
    set_printoptions,
    seterr,
    signedinteger,
    unsignedinteger,
)

from pygpukit._native import (
    GPUArray,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from pygpukit.core.dtypes import bool_

ndarray = GPUArray
half, single, double = float16, float32, float64
csingle, cdouble = complex64, complex128
byte, short, intc, int_, intp, longlong = int8, int16, int32, int64, int64, int64
ubyte, ushort, uintc, uint, uintp, ulonglong = uint8, uint16, uint32, uint64, uint64, uint64

__all__ = [
    "base_repr",
    "binary_repr",
    "bool_",
    "byte",
    "cdouble",
    "complexfloating",
    "csingle",
    "double",
    "dtype",
    "errstate",
    "floating",
    "generic",
    "get_printoptions",
    "geterr",
    "half",
    "inexact",
    "int_",
    "intc",
    "integer",
    "intp",
    "longlong",
    "ndarray",
    "ndindex",
    "number",
    "printoptions",
    "set_printoptions",
    "seterr",
    "short",
    "signedinteger",
    "single",
    "ubyte",
    "uint",
    "uintc",
    "uintp",
    "ulonglong",
    "unsignedinteger",
    "ushort",
]
