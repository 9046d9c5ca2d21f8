"""Creation on CPU simulation, against NumPy."""

from __future__ import annotations

import array as python_array
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cases.elementwise import COMPUTE
from cases.manipulation import numpy_type, to_host
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp

REALS = [d for d in COMPUTE if d not in ("bool", "complex64", "complex128")]


# --- asarray -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, "bool"),
        (3, "int64"),
        (2**63, "uint64"),
        (2.5, "float32"),
        (1j, "complex64"),
        ([], "float32"),
        ([[]], "float32"),
        ([True, False], "bool"),
        ([True, 2], "int64"),
        ([1, 2.5], "float32"),
        ([[1.0, 2], [3, True]], "float32"),
        ([1, 2j], "complex64"),
        ((1, 2), "int64"),
        (range(4), "int64"),
        ([(1, 2), [3, 4]], "int64"),
        (np.float64(2.5), "float64"),
        (np.int8(3), "int8"),
        ([np.float64(1), 2], "float64"),
        ([np.int8(1), np.int8(2)], "int8"),
        (np.arange(3, dtype=np.uint16), "uint16"),
        (np.zeros((2, 0)), "float64"),
        (np.zeros(2, ml_dtypes.bfloat16), "bfloat16"),
        (np.arange(6, dtype=">i4").reshape(2, 3), "int32"),
        (np.asfortranarray(np.arange(6).reshape(2, 3)), "int64"),
        (b"abc", "uint8"),
        (bytearray(b"abc"), "uint8"),
        (memoryview(b"abc"), "uint8"),
        (python_array.array("d", [1, 2]), "float64"),
    ],
    ids=repr,
)
def test_asarray(value: Any, dtype: str) -> None:
    x = gp.asarray(value)
    assert x.dtype.name == dtype
    want = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else np.asarray(value)
    assert x.shape == want.shape
    np.testing.assert_array_equal(x.to_numpy(), want.astype(numpy_type(dtype)))


@pytest.mark.parametrize("dtype", COMPUTE)
@pytest.mark.parametrize("value", [True, 1, [0, 1], [[1.0], [0.0]], np.ones(3, np.int16)], ids=repr)
def test_asarray_with_dtype(value: Any, dtype: str) -> None:
    x = gp.asarray(value, dtype=dtype)
    assert x.dtype.name == dtype
    np.testing.assert_array_equal(x.to_numpy(), np.asarray(value, numpy_type(dtype)))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1j, "float32"),
        (float("nan"), "int32"),
        (float("inf"), "int32"),
        (300, "uint8"),
        (-1, "uint64"),
        (2**64, "float32"),
        ("text", None),
        (None, None),
        ({}, None),
        ([[1, 2], [3]], None),
        ([1, "x"], None),
        (np.array(["x"]), None),
        ([2**64], None),
        (1, "no dtype"),
    ],
    ids=repr,
)
def test_asarray_refuses(value: Any, dtype: str | None) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        gp.asarray(value, dtype=dtype)


def test_asarray_of_arrays() -> None:
    x = gp.arange(3, dtype="float32")
    assert gp.asarray(x) is x
    assert gp.asarray(x, dtype="float32", device="cpu", copy=False) is x
    assert gp.asarray(x, copy=True) is not x
    assert not gp.shares_memory(gp.asarray(x, copy=True), x)
    assert gp.asarray(x, dtype="int8").dtype is gp.int8
    with pytest.raises(ValueError, match="copy is False"):
        gp.asarray(x, dtype="int8", copy=False)
    with pytest.raises(ValueError, match="copy is False"):
        gp.asarray([1], copy=False)
    with pytest.raises(ValueError, match="copy is False"):
        gp.asarray(1, copy=False)
    y = gp.array(x)
    assert not gp.shares_memory(x, y)
    assert gp.array(1, ndmin=2).shape == (1, 1)


def test_asarray_of_sequences_of_arrays() -> None:
    zero_d = [gp.asarray(n, dtype="float64") for n in range(4)]
    x = gp.asarray(zero_d)
    assert x.dtype is gp.float64
    assert x.to_numpy().tolist() == [0, 1, 2, 3]
    x = gp.asarray([zero_d[:2], [2, zero_d[3]]], dtype="int16")
    assert x.dtype is gp.int16
    assert x.to_numpy().tolist() == [[0, 1], [2, 3]]
    row = gp.arange(3)
    assert gp.asarray([row, [3, 4, 5]]).to_numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match=r"^asarray: .*shape"):
        gp.asarray([row, zero_d[0]])


# --- filled --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, "bool"),
        (3, "int64"),
        (2.5, "float32"),
        (1j, "complex64"),
        (np.float64(2), "float64"),
        (np.int8(2), "int8"),
        (2**63, "uint64"),
    ],
    ids=repr,
)
def test_full_takes_the_dtype_of_its_value(value: Any, dtype: str) -> None:
    x = gp.full((2, 3), value)
    assert x.dtype.name == dtype
    assert (x.to_numpy() == value).all()
    assert gp.full((2,), value, "complex128").dtype is gp.complex128


def test_full_of_an_array_stays_on_the_device() -> None:
    value = gp.asarray(2.5, dtype="float64")
    x = gp.full((2, 3), value)
    assert x.dtype is gp.float64
    assert x.to_numpy().tolist() == [[2.5] * 3] * 2
    assert gp.full((2,), value, "int8").to_numpy().tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"full: shape \(2,\) cannot be broadcast"):
        gp.full((3,), gp.ones(2))


def test_defaults_are_float32() -> None:
    for x in (gp.zeros(2), gp.ones(2), gp.empty(2), gp.eye(2), gp.linspace(0, 1, 3)):
        assert x.dtype is gp.float32
    assert gp.zeros(2, dtype=None).dtype is gp.float32
    assert gp.arange(3).dtype is gp.int64
    assert gp.arange(3.0).dtype is gp.float32


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like"])
def test_like(name: str) -> None:
    x = gp.permute_dims(gp.zeros((2, 3), "int8"), (1, 0))
    like = getattr(gp, name)
    assert (like(x).shape, like(x).dtype) == ((3, 2), gp.int8)
    assert like(x, dtype=gp.float64).dtype is gp.float64
    assert like(x, shape=(4,)).shape == (4,)
    if name != "empty_like":
        assert (like(x).to_numpy() == (name == "ones_like")).all()


def test_full_like() -> None:
    x = gp.zeros((2, 3), "int8")
    assert gp.full_like(x, 5).to_numpy().tolist() == [[5] * 3] * 2
    assert gp.full_like(x, 2.5, dtype="float32").to_numpy().tolist() == [[2.5] * 3] * 2
    with pytest.raises(TypeError, match="full"):
        gp.full_like(x, 2.5)
    with pytest.raises(OverflowError, match="300"):
        gp.full_like(x, 300)


# --- evenly spaced -------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    start=st.integers(-(2**62), 2**62),
    count=st.integers(0, 50),
    step=st.integers(-(2**40), 2**40).filter(bool),
    slack=st.integers(0, 3),
)
def test_arange_of_integers(start: int, count: int, step: int, slack: int) -> None:
    stop = start + step * count - (slack % abs(step)) * (1 if step > 0 else -1) * (count > 0)
    got = gp.arange(start, stop, step).to_numpy()
    np.testing.assert_array_equal(got, np.arange(start, stop, step))


@settings(max_examples=200, deadline=None)
@given(
    start=st.floats(-1e6, 1e6),
    count=st.integers(0, 60),
    step=st.floats(1e-3, 1e3),
    sign=st.booleans(),
)
def test_arange_of_floats(start: float, count: int, step: float, sign: bool) -> None:
    by = -step if sign else step
    stop = start + by * count
    want = np.arange(start, stop, by)
    got = gp.arange(start, stop, by, dtype="float64").to_numpy()
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(gp.arange(start, stop, by).to_numpy(), want.astype(np.float32))


@pytest.mark.parametrize("dtype", [d for d in COMPUTE if d != "bool"])
def test_arange_dtypes(dtype: str) -> None:
    np.testing.assert_array_equal(
        gp.arange(2, 40, 3, dtype=dtype).to_numpy(), np.arange(2, 40, 3).astype(numpy_type(dtype))
    )
    assert gp.arange(5, 2, dtype=dtype).shape == (0,)


def test_arange_odd_ends() -> None:
    assert gp.arange(2**63, 2**63 + 3, dtype="uint64").to_numpy().tolist() == [
        2**63,
        2**63 + 1,
        2**63 + 2,
    ]
    assert gp.arange(0.5, 3.5, dtype="int32").to_numpy().tolist() == [0, 1, 2]
    assert gp.arange(np.int8(3), np.float32(5)).to_numpy().tolist() == [3, 4]
    assert gp.arange(2, dtype="bool").to_numpy().tolist() == [False, True]
    with pytest.raises(TypeError, match="real"):
        gp.arange(1j)
    with pytest.raises(ValueError, match="more than memory"):
        gp.arange(2**64)


@settings(max_examples=200, deadline=None)
@given(
    start=st.floats(-1e300, 1e300),
    stop=st.floats(-1e300, 1e300),
    num=st.integers(0, 60),
    endpoint=st.booleans(),
)
def test_linspace(start: float, stop: float, num: int, endpoint: bool) -> None:
    with np.errstate(all="ignore"):
        want = np.linspace(start, stop, num, endpoint=endpoint)
        narrow = want.astype(np.float32)
    got = gp.linspace(start, stop, num, endpoint=endpoint, dtype=gp.float64)
    np.testing.assert_array_equal(got.to_numpy(), want)
    np.testing.assert_array_equal(
        gp.linspace(start, stop, num, endpoint=endpoint).to_numpy(), narrow
    )


@pytest.mark.parametrize("dtype", REALS)
def test_linspace_dtypes(dtype: str) -> None:
    want = np.linspace(0, 100, 33)
    want = np.floor(want) if "int" in dtype else want
    got = gp.linspace(0, 100, 33, dtype=dtype).to_numpy()
    np.testing.assert_array_equal(got, want.astype(numpy_type(dtype)))


def test_linspace_complex_and_bad() -> None:
    got = gp.linspace(0, 1 + 2j, 5)
    assert got.dtype is gp.complex64
    np.testing.assert_array_equal(got.to_numpy(), np.linspace(0, 1 + 2j, 5).astype(np.complex64))
    with pytest.raises(TypeError, match="complex"):
        gp.linspace(0, 1j, 5, dtype="float32")


def test_logspace_and_geomspace() -> None:
    np.testing.assert_allclose(
        gp.logspace(0, 3, 7, dtype="float64").to_numpy(), np.logspace(0, 3, 7), rtol=1e-14
    )
    np.testing.assert_allclose(
        gp.logspace(0, 3, 7, base=2).to_numpy(), np.logspace(0, 3, 7, base=2), rtol=1e-6
    )
    for start, stop in ((1, 1000), (-2, -32), (5, 5)):
        got = gp.geomspace(start, stop, 6, dtype="float64").to_numpy()
        np.testing.assert_allclose(got, np.geomspace(start, stop, 6), rtol=1e-14)
        assert got[[0, -1]].tolist() == [start, stop]
    with pytest.raises(ValueError, match="geomspace"):
        gp.geomspace(-1, 1)


# --- matrices and grids --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "float32", "complex128"])
@pytest.mark.parametrize("k", [0, 1, -2, 9, -9, 2**62, -(2**62)])
@pytest.mark.parametrize("size", [(3, 3), (2, 5), (5, 2), (0, 4)], ids=str)
def test_eye(size: tuple[int, int], k: int, dtype: str) -> None:
    want = np.eye(*size, k=int(np.clip(k, -99, 99)), dtype=numpy_type(dtype))
    np.testing.assert_array_equal(gp.eye(*size, k=k, dtype=dtype).to_numpy(), want)


def test_eye_of_a_storage_type_and_relatives() -> None:
    got = gp.eye(3, dtype="float8_e4m3fn").to_numpy().astype(np.float32)
    np.testing.assert_array_equal(got, np.eye(3))
    np.testing.assert_array_equal(gp.identity(3, "int8").to_numpy(), np.identity(3, np.int8))
    np.testing.assert_array_equal(gp.tri(3, 4, 1).to_numpy(), np.tri(3, 4, 1))
    np.testing.assert_array_equal(
        gp.vander(gp.asarray([1, 2, 3]), 4).to_numpy(), np.vander([1, 2, 3], 4)
    )
    np.testing.assert_array_equal(
        gp.vander(gp.asarray([1.0, 2.0]), increasing=True).to_numpy(),
        np.vander([1.0, 2.0], increasing=True),
    )


@pytest.mark.parametrize("k", [2**63 - 1, -(2**63), 2**62, 4, -3])
def test_triangles_of_far_diagonals(k: int) -> None:
    x = gp.ones((2, 3, 4), "int16")
    near = max(-9, min(k, 9))
    for ours, theirs in ((gp.tril, np.tril), (gp.triu, np.triu)):
        np.testing.assert_array_equal(ours(x, k).to_numpy(), theirs(np.ones((2, 3, 4)), near))
    np.testing.assert_array_equal(gp.tri(3, 4, k).to_numpy(), np.tri(3, 4, near))


def test_indices() -> None:
    np.testing.assert_array_equal(to_host(gp.indices((2, 3))), np.indices((2, 3)))
    for got, want in zip(
        gp.indices((2, 3), sparse=True), np.indices((2, 3), sparse=True), strict=True
    ):
        np.testing.assert_array_equal(to_host(got), want)
    assert gp.indices(()).shape == (0,)
    assert gp.indices((2,), dtype="int8").dtype is gp.int8
