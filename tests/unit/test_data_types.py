"""Dtype functions on CPU simulation, against NumPy and ml_dtypes."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cases.elementwise import COMPUTE, STORAGE
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp

NUMPY = [d for d in COMPUTE if d != "bfloat16"]
FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")


@settings(max_examples=300, deadline=None)
@given(names=st.lists(st.sampled_from(NUMPY), min_size=1, max_size=5))
def test_result_type_as_numpy(names: list[str]) -> None:
    got = gp.result_type(*(getattr(gp, name) for name in names))
    assert got.name == np.result_type(*names).name
    assert gp.result_type(*(gp.zeros(1, name) for name in names)) == got
    assert gp.result_type(*reversed(names)) == got


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("number", [True, 1, 1.5, 1j])
def test_numbers_are_weak(dtype: str, number: Any) -> None:
    want = np.result_type(np.zeros(1, dtype), number).name
    assert gp.result_type(gp.zeros(1, dtype), number).name == want
    assert gp.result_type(number, dtype).name == want


def test_numbers_alone() -> None:
    assert gp.result_type(True) is gp.bool
    assert gp.result_type(True, 1) is gp.int64
    assert gp.result_type(1, 2.5) is gp.float32
    assert gp.result_type(1, 1j) is gp.complex64
    with pytest.raises(ValueError, match="at least one"):
        gp.result_type()


@pytest.mark.parametrize("other", [d for d in COMPUTE if d not in ("float16", "bfloat16")])
def test_bfloat16_promotes_as_float16_does(other: str) -> None:
    want = np.result_type(np.float16, other).name
    want = "bfloat16" if want == "float16" else want
    assert gp.result_type("bfloat16", other).name == want


def test_no_common_dtype() -> None:
    assert gp.result_type("float16", "bfloat16") is gp.float32
    assert gp.result_type("int4", "int4") is gp.int4
    with pytest.raises(TypeError, match="no common dtype of float8_e5m2 and float32"):
        gp.result_type("float8_e5m2", "float32")


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
def test_can_cast_as_numpy(casting: Any) -> None:
    for a, b in itertools.product(NUMPY, NUMPY):
        want = np.can_cast(a, b, casting)
        assert gp.can_cast(getattr(gp, a), b, casting=casting) == want, (a, b)
        assert gp.can_cast(gp.zeros(1, a), b, casting) == want
    with pytest.raises(ValueError, match="casting is 'x'"):
        gp.can_cast(gp.int8, gp.int8, casting="x")


@pytest.mark.parametrize("dtype", [*FLOATS, "float4_e2m1fn"])
def test_finfo(dtype: str) -> None:
    got, want = gp.finfo(dtype), ml_dtypes.finfo(dtype)
    for name in ("bits", "nexp", "nmant"):
        assert getattr(got, name) == getattr(want, name), name
    for name in ("eps", "max", "min", "smallest_normal", "smallest_subnormal", "tiny"):
        assert getattr(got, name) == float(getattr(want, name)), name
        assert type(getattr(got, name)) is float
    assert got.dtype.name == dtype
    assert str(got.max) in repr(got)


def test_finfo_of_other_things() -> None:
    assert gp.finfo(gp.complex64).dtype is gp.float32
    assert gp.finfo(gp.complex128).max == np.finfo(np.float64).max
    assert gp.finfo(gp.zeros(1)).precision == np.finfo(np.float32).precision
    for bad in ("int8", "bool"):
        with pytest.raises(ValueError, match=f"finfo: {bad}"):
            gp.finfo(bad)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint64"])
def test_iinfo(dtype: str) -> None:
    got, want = gp.iinfo(dtype), np.iinfo(dtype)
    assert (got.bits, got.min, got.max) == (want.bits, want.min, want.max)
    assert gp.iinfo(gp.zeros(1, dtype)).dtype.name == dtype
    assert str(got.max) in repr(got)


def test_iinfo_of_other_things() -> None:
    assert (gp.iinfo("int4").min, gp.iinfo("int4").max, gp.iinfo("uint4").max) == (-8, 7, 15)
    for bad in ("float32", "bool"):
        with pytest.raises(ValueError, match=f"iinfo: {bad}"):
            gp.iinfo(bad)


KINDS = ("bool", "signed integer", "unsigned integer", "integral", "real floating")
KINDS += ("complex floating", "numeric")


@pytest.mark.parametrize("dtype", NUMPY)
def test_isdtype_as_numpy(dtype: str) -> None:
    ours, theirs = getattr(gp, dtype), np.dtype(dtype)
    for kind in KINDS:
        assert gp.isdtype(ours, kind) == np.isdtype(theirs, kind)
    for pair in itertools.combinations(KINDS, 2):
        assert gp.isdtype(ours, pair) == np.isdtype(theirs, pair)
    assert gp.isdtype(ours, ours)
    assert gp.isdtype(ours, (gp.bool, ours))
    assert not gp.isdtype(ours, gp.bfloat16)


def test_isdtype_of_our_own() -> None:
    assert gp.isdtype(gp.bfloat16, "real floating")
    assert gp.isdtype(gp.int4, "signed integer")
    with pytest.raises(ValueError, match="kind is 'float'"):
        gp.isdtype(gp.float32, "float")


@pytest.mark.parametrize(("a", "b"), list(itertools.product(COMPUTE, COMPUTE)))
def test_astype(a: str, b: str) -> None:
    host = np.array([0, 1, 2, 100, 3], np.int32).astype(getattr(ml_dtypes, a, a))
    x = gp.from_numpy(host)
    if "complex" in a and "complex" not in b and b != "bool":
        with pytest.raises(TypeError, match=f"astype: {a} cannot be cast to {b}"):
            gp.astype(x, b)
        return
    got = gp.astype(x, getattr(gp, b))
    assert got.dtype.name == b
    np.testing.assert_array_equal(got.to_numpy(), host.astype(getattr(ml_dtypes, b, b)))


@pytest.mark.parametrize("dtype", STORAGE)
def test_storage_types_can_be_cast(dtype: str) -> None:
    host = np.array([0, 1, 2, 3, 4, 1], np.float32)
    got = gp.from_numpy(host).astype(dtype)
    assert got.dtype.name == dtype
    np.testing.assert_array_equal(got.astype("float32").to_numpy(), host)


def test_astype_copies_as_told() -> None:
    x = gp.ones(3)
    assert gp.astype(x, gp.float32, copy=False) is x
    assert gp.astype(x, gp.float32, copy=False, device=x.device) is x
    assert not gp.shares_memory(gp.astype(x, gp.float32), x)
    assert gp.astype(x, gp.float64, copy=False).dtype is gp.float64
    assert gp.promote_types("int8", "uint8") is gp.int16
