"""NumPy arrays and GPUArrays in one call: what is an error, what is asked for by name, and what
allow_implicit_conversion() allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpukit as gp

HOST = np.arange(6, dtype=np.float64).reshape(2, 3)


def array() -> gp.GPUArray:
    return gp.from_numpy(HOST)


def same(got: Any, want: Any) -> None:
    assert isinstance(got, gp.GPUArray)
    assert (got.shape, got.dtype) == (np.shape(want), np.asarray(want).dtype)
    np.testing.assert_allclose(got.to_numpy(), want, atol=1e-12)


MIXED = {
    "operator": lambda x, h: x + h,
    "reflected operator": lambda x, h: h - x,
    "comparison": lambda x, h: h >= x,
    "ufunc": np.maximum,
    "concatenate": lambda x, h: np.concatenate([x, h], axis=1),
    "where": lambda x, h: np.where(h > 2, x, h),
    "tensordot": np.tensordot,
    "lstsq": lambda x, h: np.linalg.lstsq(h.T, x.T, rcond=None)[0],
}


@pytest.mark.parametrize("name", MIXED)
def test_mixing_is_a_transfer_that_has_to_be_allowed(name: str) -> None:
    with pytest.raises(TypeError, match=r"from_numpy\(\)"):
        MIXED[name](array(), HOST)
    with gp.allow_implicit_conversion():
        same(MIXED[name](array(), HOST), MIXED[name](HOST, HOST))


def test_arguments_that_are_no_data_may_be_on_the_host() -> None:
    """Positions, fractions, edges: our functions take them, so NumPy's names for them do."""
    x = array()
    same(np.take(x, np.array([2, 0]), 1), HOST[:, [2, 0]])
    same(np.quantile(x, np.array([0.2, 0.7])), np.quantile(HOST, [0.2, 0.7]))
    same(np.histogram(x, np.array([0.0, 2.0, 9.0]))[0], [2, 4])
    same(np.digitize(x, np.array([1.0, 4.0])), np.digitize(HOST, [1.0, 4.0]))
    same(x[np.array([1, 0])], HOST[::-1])
    total = gp.zeros(3, "float64")
    np.add.at(total, np.array([0, 0, 2]), 1.0)
    same(total, [2.0, 0.0, 1.0])


def test_out_is_never_converted() -> None:
    with (
        gp.allow_implicit_conversion(),
        pytest.raises(TypeError, match=r"numpy\.add: a numpy\.ndarray"),
    ):
        np.add(array(), array(), out=HOST.copy())


LIKE = {
    "asarray": lambda like: np.asarray([1.5, 2.5], like=like),
    "asarray of an array": lambda like: np.asarray(HOST, dtype="float32", like=like),
    "asarray of a number": lambda like: np.asarray(2, like=like),
    "array": lambda like: np.array([[1, 2]], "int8", ndmin=3, like=like),
    "zeros": lambda like: np.zeros((2, 3), like=like),
    "ones": lambda like: np.ones(3, "int32", like=like),
    "full": lambda like: np.full((1, 2), 7.5, like=like),
    "arange": lambda like: np.arange(1, 7, 2, like=like),
    "eye": lambda like: np.eye(2, 3, 1, like=like),
    "identity": lambda like: np.identity(2, like=like),
    "tri": lambda like: np.tri(3, like=like),
    "frombuffer": lambda like: np.frombuffer(b"abc", "uint8", like=like),
    "fromiter": lambda like: np.fromiter(iter([1, 2]), "int16", like=like),
}


@pytest.mark.parametrize("name", LIKE)
def test_like_asks_for_our_arrays(name: str) -> None:
    same(LIKE[name](array()), LIKE[name](HOST))


def test_like_with_arrays_of_ours() -> None:
    x = array()
    assert np.asarray(x, like=x) is x
    same(np.array(x, like=x, dtype="float32"), HOST.astype(np.float32))
    same(np.asarray([x[0], x[1]], like=x), HOST)
    copy = np.array(x, like=x)
    assert not gp.may_share_memory(copy, x)


def test_shared_memory() -> None:
    host = HOST.copy()
    x, view = gp.from_numpy(host), gp.from_dlpack(host)
    for share in (np.may_share_memory, np.shares_memory):
        assert share(view, host)
        assert share(host, view[:, 1:])
        assert not share(x, host)
        assert not share(view, host.copy())
        assert share(x, x[1:])
    assert not np.shares_memory(view[:, :1], host[:, 1:])
    assert np.shares_memory(view[:, :1], host[:1])


def test_the_dtype_of_a_ufunc() -> None:
    x = gp.from_numpy(np.array([100, 100], np.int8))
    same(np.add(x, x, dtype="int64"), [200, 200])
    same(np.add(x, 1.5, dtype="float32"), np.array([101.5, 101.5], np.float32))
    same(np.multiply(x, np.int64(2), dtype=np.float64), [200.0, 200.0])
    same(np.add(array(), 1, dtype="float32"), (HOST + 1).astype(np.float32))
    same(np.add(array(), 1, dtype="int8", casting="unsafe"), (HOST + 1).astype(np.int8))
    with pytest.raises(TypeError, match=r"cannot cast float64 to dtype int8 .*'same_kind'"):
        np.add(array(), 1, dtype="int8")


def test_archives_by_name(tmp_path: Any) -> None:
    np.savez(tmp_path / "x.npz", array(), second=array() + 1)
    with np.load(tmp_path / "x.npz") as arrays:
        np.testing.assert_array_equal(arrays["second"], HOST + 1)
        np.testing.assert_array_equal(arrays["arr_0"], HOST)
    np.savetxt(tmp_path / "x.txt", array())
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "x.txt"), HOST)


# --- NumPy's names ----------------------------------------------------------------------------


def test_names_of_types() -> None:
    for name in ("half", "single", "double", "csingle", "cdouble", "byte", "short", "intc", "intp",
                 "int_", "longlong", "ubyte", "ushort", "uintc", "uint", "uintp", "ulonglong",
                 "bool_"):  # fmt: skip
        assert isinstance(getattr(gp, name), gp.DataType)
        assert getattr(gp, name) == getattr(np, name)
    assert isinstance(array(), gp.ndarray)
    assert gp.issubdtype(gp.float32, gp.floating)
    assert gp.issubdtype(array().dtype, gp.inexact)
    assert not gp.issubdtype(gp.int8, gp.unsignedinteger)
    assert gp.zeros(2, gp.dtype("i2")).dtype == gp.short
    with gp.errstate(divide="ignore"), gp.printoptions(precision=2):
        assert str(gp.ones(1) / 3) == "[0.33]"
    assert list(gp.ndindex(1, 2)) == [(0, 0), (0, 1)]


def test_testing() -> None:
    x = array()
    gp.testing.assert_allclose(x, HOST)
    gp.testing.assert_allclose(x + 1e-9, x, rtol=0, atol=1e-8)
    gp.testing.assert_array_equal(x, x)
    gp.testing.assert_equal({"a": [x, 1]}, {"a": [HOST, 1]})
    gp.testing.assert_array_almost_equal(x, HOST + 1e-9)
    gp.testing.assert_array_less(x, HOST + 1)
    for wrong in (
        lambda: gp.testing.assert_allclose(x, x + 1),
        lambda: gp.testing.assert_array_equal(x, x.T),
        lambda: gp.testing.assert_array_equal(x, HOST.astype(np.float32), strict=True),
        lambda: gp.testing.assert_equal([x], [x + 1]),
        lambda: gp.testing.assert_array_almost_equal(x, x + 1),
        lambda: gp.testing.assert_array_less(x, x),
    ):
        with pytest.raises(AssertionError):
            wrong()
