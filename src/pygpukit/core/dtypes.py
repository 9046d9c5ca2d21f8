"""Element types."""

from __future__ import annotations

from enum import Enum

from pygpukit import _native
from pygpukit._native import (
    DataType,
    bfloat16,
    complex64,
    complex128,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int4,
    int8,
    int16,
    int32,
    int64,
    uint4,
    uint8,
    uint16,
    uint32,
    uint64,
)

bool_: DataType = getattr(_native, "bool")  # noqa: B009 - a builtin's name


class DataTypeKind(Enum):
    """The kinds of element types; the value is the dtype's name."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    INT4 = "int4"
    UINT4 = "uint4"
    FLOAT4_E2M1FN = "float4_e2m1fn"


__all__ = [
    "DataType",
    "DataTypeKind",
    "bfloat16",
    "bool_",
    "complex64",
    "complex128",
    "float4_e2m1fn",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
