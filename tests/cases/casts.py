"""Casts between any two dtypes: values that both hold, or every code of the small ones."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from cases.elementwise import COMPUTE, INTEGERS, STORAGE, numpy_type, special_values

ALL = (*COMPUTE, *STORAGE)
# astype refuses complex to real, as the array API standard does.
PAIRS = [
    (source, target)
    for source in ALL
    for target in ALL
    if not source.startswith("complex") or target.startswith(("complex", "bool"))
]
EXHAUSTIVE = ("int8", "uint8", *STORAGE)


def every_code(dtype: str) -> Any:
    type_ = numpy_type(dtype)
    bits = 4 if dtype in ("int4", "uint4", "float4_e2m1fn") else 8
    return np.arange(2**bits, dtype=np.uint8).view(type_)


def _values(source: str) -> Any:
    """All of them, or special and random ones over the whole range."""
    type_ = numpy_type(source)
    if source in EXHAUSTIVE:
        return every_code(source)
    if source in ("float16", "bfloat16"):
        return np.arange(2**16, dtype=np.uint16).view(type_)
    rng = np.random.default_rng(len(source))
    special = np.array(special_values(source))
    if source == "bool":
        return np.array([False, True] * 50)
    if source in INTEGERS:
        info = np.iinfo(source)
        wide = rng.integers(info.min, info.max, 500, dtype=type_, endpoint=True)
        near = rng.integers(max(info.min, -300), 300, 500).astype(type_)
        return np.concatenate([np.array(special_values(source), type_), wide, near])
    scale = 10.0 ** rng.uniform(-12, 6, 4000)
    values = rng.normal(size=4000) * scale
    # Halfway between neighbours of the narrow formats, and just beside: where rounding is decided.
    halves = np.arange(1, 2**12) * 2.0**-9
    limits = [
        5.0,
        6.0,
        448,
        463.9,
        464,
        464.1,
        480,
        57344,
        61439,
        61440,
        61441,
        65504,
        65519,
        65520,
    ]
    values = np.concatenate(
        [
            values,
            halves,
            halves * (1 + 2.0**-20),
            halves * (1 - 2.0**-20),
            limits,
            np.negative(limits),
        ]
    )
    if type_.kind == "c":
        values = values + 1j * rng.normal(size=values.size)
    return np.concatenate([special.astype(type_), values.astype(type_)])


def _in_range(values: Any, target: str) -> Any:
    """Without what no integer of the target equals after truncation: NumPy leaves that open."""
    if target == "float4_e2m1fn" and values.dtype.kind not in "biu":  # the sign of a NaN is chance
        return values[~np.isnan(values.astype(np.complex128))]
    type_ = numpy_type(target)
    whole = target in (*INTEGERS, "int4", "uint4")
    if not whole or values.dtype.kind in "biu":
        return values
    info = ml_dtypes.iinfo(type_)
    real = (values.real if values.dtype.kind == "c" else values).astype(np.float64)
    with np.errstate(invalid="ignore"):
        keep = (np.trunc(real) >= info.min) & (np.trunc(real) < float(int(info.max) + 1))
    return values[keep]


def cast_pair(source: str, target: str) -> tuple[Any, Any]:
    """Input and expected output, one axis."""
    type_ = numpy_type(target)
    with np.errstate(all="ignore"):
        values = _in_range(_values(source), target)
        if target in ("int4", "uint4") and (values.dtype.kind in "biu" or "int4" in source):
            low = (values.astype(np.int64) & 15).astype(np.uint8)
            return values, low.view(type_)
        return values, values.astype(type_)


def same_bits(got: Any, want: Any) -> None:
    """Equal codes, but any NaN equals any other."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype.kind not in "biu" and got.dtype.name not in ("int4", "uint4"):
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            mine, other = got.astype(wide), want.astype(wide)
        np.testing.assert_array_equal(mine, other)
        for part in ("real", "imag"):
            a, b = getattr(mine, part), getattr(other, part)
            np.testing.assert_array_equal(
                np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b)
            )
    else:
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
