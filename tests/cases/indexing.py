"""Cases of indexing: keys on arrays, and the functions around them, as data.

A key is a Python object in which NumPy arrays stand for arrays on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np
import pytest

import pygpukit as gp

DTYPES = (
    "bool",
    "int8",
    "uint16",
    "float16",
    "bfloat16",
    "int32",
    "float32",
    "int64",
    "float64",
    "complex64",
    "complex128",
    "float8_e4m3fn",
)
INDEX_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

T, F = True, False


def ints(*values: Any, dtype: str = "int64") -> Any:
    return np.array(values, dtype)


def bools(*values: Any) -> Any:
    return np.array(values, bool)


def _grid(shape: tuple[int, ...], size: int, seed: int = 0, dtype: str = "int64") -> Any:
    low = -size if dtype.startswith("int") else 0
    return np.random.default_rng(seed).integers(low, size, shape).astype(dtype)


def _mask(shape: tuple[int, ...], share: float = 0.5, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random(shape) < share


@dataclass(frozen=True)
class Case:
    """An array's shape and a key; `prepare` makes a strided view of the array first."""

    shape: tuple[int, ...]
    key: Any
    prepare: Any = None  # a basic key that is applied first

    def __str__(self) -> str:
        def text(item: Any) -> str:
            if isinstance(item, tuple):
                return ",".join(text(i) for i in item) or "()"
            if isinstance(item, np.ndarray):
                return f"{item.dtype}{list(item.shape)}"
            if isinstance(item, slice):
                ends = (item.start, item.stop, item.step)
                return ":".join("" if v is None else str(v) for v in ends)
            return "..." if item is Ellipsis else str(item)

        before = "" if self.prepare is None else f"[{text(self.prepare)}]"
        shape = "x".join(map(str, self.shape))
        return f"{shape}{before}[{text(self.key)}]".replace(" ", "")


BASIC = [
    Case((), ()),
    Case((), ...),
    Case((), None),
    Case((0,), slice(None)),
    Case((1,), 0),
    Case((33,), 5),
    Case((33,), -1),
    Case((33,), np.int32(7)),
    Case((33,), slice(1, 9)),
    Case((33,), slice(None, None, -1)),
    Case((33,), slice(30, 2, -7)),
    Case((33,), slice(5, 5)),
    Case((33,), slice(100, 200)),
    Case((33,), slice(-(2**62), 2**62, 2**62)),
    Case((33,), slice(None, None, -(2**63) + 1)),
    Case((3, 0, 5), (1, slice(None), slice(1, 3))),
    Case((7, 11, 13), (2, ..., slice(None, None, 3))),
    Case((7, 11, 13), (slice(1, 5), None, -1, None, slice(None, None, -2))),
    Case((7, 11, 13), (..., 3)),
    Case((7, 11, 13), (1, 2, 3)),
    Case((7, 11, 13), (1, 2, 3, ...)),
    Case((7, 11, 13), ()),
    Case(
        (7, 11, 13),
        (slice(None, None, 2), slice(1, None)),
        (slice(None, None, -1), slice(None, None, 2)),
    ),
    Case((1, 1, 1, 1, 1, 1, 1, 1, 2, 1), (0, ..., slice(None, None, -1), 0)),
]

ADVANCED = [
    Case((33,), ints()),
    Case((33,), ints(0)),
    Case((33,), ints(3, 3, -1, 0)),
    Case((33,), [1, 2, -3]),
    Case((33,), []),
    Case((33,), _grid((31,), 33)),
    Case((4099,), _grid((4099,), 4099)),
    Case((33,), _grid((2, 3, 4), 33)),
    Case((33,), np.array(3)),
    Case((100, 64), _grid((37,), 100)),  # rows of 16-byte words
    Case((100, 3), _grid((37,), 100)),
    Case((100, 64), _grid((37,), 100), (slice(None), slice(1, None))),  # misaligned rows
    Case((100, 64), _grid((37,), 50), (slice(None, None, -2), slice(None, None, 2))),
    Case((6, 100), (slice(None), _grid((37,), 100))),
    Case((6, 100, 8), (slice(None), _grid((37,), 100))),
    Case((6, 100, 8), (slice(1, 5), _grid((5, 3), 100), slice(None, None, 2))),
    Case((6, 100, 8), (..., _grid((5,), 8))),
    Case((7, 11, 13), (_grid((5,), 7), _grid((5,), 11))),
    Case((7, 11, 13), (_grid((5, 1), 7), _grid((4,), 11), _grid((3, 1, 1), 13))),
    Case((7, 11, 13), (_grid((5,), 7), slice(None), _grid((5,), 13))),
    Case((7, 11, 13), (slice(None), _grid((5,), 11), _grid((2, 1), 13))),
    Case((7, 11, 13), (0, slice(None), _grid((5,), 13))),
    Case((7, 11, 13), (slice(None), 0, _grid((5,), 13))),
    Case((7, 11, 13), (_grid((5,), 7), 3)),
    Case((7, 11, 13), (None, _grid((5,), 7), None)),
    Case((7, 11, 13), (_grid((5,), 7), None, _grid((5,), 11))),
    Case(
        (4, 7, 5), (slice(None), _grid((2,), 7), ..., _grid((2,), 5))
    ),  # an empty ellipsis separates
    Case((3, 0, 5), ints(0, 2)),
    Case((3, 0, 5), (slice(None), ints())),
    Case((2, 3, 2, 3, 2, 3), tuple(_grid((4,), n, n) for n in (2, 3, 2, 3, 2, 3))),
    Case((2, 3, 2, 3, 2, 3), tuple(_grid((4,), n, n) for n in (2, 3, 2, 3, 2))),
    *[Case((50, 8), _grid((9,), 50, dtype=d)) for d in INDEX_DTYPES],
    *[
        Case((50, 8), (_grid((9,), 50, dtype=d), _grid((9,), 8, dtype="int32")))
        for d in INDEX_DTYPES
    ],
]

MASKS = [
    Case((33,), _mask((33,))),
    Case((33,), bools(*([F] * 33))),
    Case((33,), bools(*([T] * 33))),
    Case((0,), bools()),
    Case((3,), [T, F, T]),
    Case((4099,), _mask((4099,), 0.1)),
    Case((9000,), _mask((9000,))),
    Case((9001,), _mask((9000,)), slice(1, None)),
    Case((7, 11, 13), _mask((7, 11, 13))),
    Case((7, 11, 13), _mask((7, 11, 13)), (slice(None, None, -1),)),
    Case((7, 11, 16), _mask((7, 11))),
    Case((7, 11, 16), _mask((7,))),
    Case((7, 11, 16), (slice(None), _mask((11,)))),
    Case((7, 11, 16), (..., _mask((11, 16)))),
    Case((7, 11, 16), (slice(1, 6, 2), _mask((11,)), slice(None, None, -3))),
    Case((7, 11, 16), (0, slice(None), _mask((16,)))),
    Case((7, 11, 16), (_mask((7,)), 3)),
    Case((7, 11, 16), (None, _mask((7,)), None)),
    Case((7, 11, 16), (_mask((7,), 0.9), _grid((1,), 11))),
    Case((7, 11, 16), (_grid((2, 1), 7), _mask((11, 16)))),
    Case((7, 11, 16), T),
    Case((7, 11, 16), F),
    Case((7, 11, 16), (slice(None), T, ints(1, 2))),
    Case((7, 11, 16), (T, slice(None), ints(1, 2))),
    Case((), T),
    Case((), F),
    Case((3, 0, 5), _mask((3, 0))),
    Case((3, 0, 5), _mask((3,))),
]

KEYS = [*BASIC, *ADVANCED, *MASKS]


@dataclass(frozen=True)
class MustRaise:
    """A key, or an assignment, that is refused."""

    name: str
    call: Callable[[Any], object]  # gets an array of shape (3, 4)
    error: type[Exception]
    words: str


def _set(key: Any, value: Any) -> Callable[[Any], object]:
    return lambda x: x.__setitem__(key, value(x) if callable(value) else value)


MUST_RAISE = [
    MustRaise(
        "out of bounds",
        lambda x: x[3],
        IndexError,
        "getitem: index 3 is out of bounds for axis 0 with size 3",
    ),
    MustRaise(
        "below",
        lambda x: x[0, -5],
        IndexError,
        "getitem: index -5 is out of bounds for axis 1 with size 4",
    ),
    MustRaise(
        "too many",
        lambda x: x[0, 0, 0],
        IndexError,
        "getitem: too many indices for array: array is 2-dimensional, but 3 were indexed",
    ),
    MustRaise(
        "ellipses",
        lambda x: x[..., ...],
        IndexError,
        "an index can only have a single ellipsis ('...')",
    ),
    MustRaise(
        "float", lambda x: x[1.0], IndexError, "only integers, slices (`:`), ellipsis (`...`)"
    ),
    MustRaise("str", lambda x: x["a"], IndexError, "only integers, slices (`:`), ellipsis (`...`)"),
    MustRaise("huge", lambda x: x[2**70], IndexError, "only integers"),
    MustRaise("zero step", lambda x: x[::0], ValueError, "slice step cannot be zero"),
    MustRaise("float bound", lambda x: x[1.5:], TypeError, "slice indices must be integers"),
    MustRaise(
        "float array",
        lambda x: x[np.array([1.0])],
        IndexError,
        "arrays used as indices must be of integer (or boolean) type",
    ),
    MustRaise(
        "mask shape",
        lambda x: x[np.array([T, F])],
        IndexError,
        "size of axis is 3 but size of corresponding boolean axis is 2",
    ),
    MustRaise("mask rank", lambda x: x[np.ones((3, 4, 1), bool)], IndexError, "too many indices"),
    MustRaise(
        "no broadcast",
        lambda x: x[[0, 1], [0, 1, 2]],
        IndexError,
        "shape mismatch: indexing arrays could not be broadcast together with shapes",
    ),
    MustRaise(
        "empty axis", lambda x: x[3:][[0]], IndexError, "out of bounds for axis 0 with size 0"
    ),
    MustRaise("set out of bounds", _set(3, 1), IndexError, "setitem: index 3 is out of bounds"),
    MustRaise(
        "set shape",
        _set(slice(0, 2), lambda x: x),
        ValueError,
        "could not broadcast input array from shape (3, 4) into shape (2, 4)",
    ),
    MustRaise(
        "set index shape",
        _set([0, 1], lambda x: x),
        ValueError,
        "value array of shape (3, 4) could not be broadcast to indexing result of shape (2, 4)",
    ),
    MustRaise(
        "set mask count",
        _set(np.array([T, F, T]), lambda x: x),
        ValueError,
        "shape mismatch: value array of shape (3, 4)",
    ),
    MustRaise(
        "set full mask count",
        _set(np.ones((3, 4), bool), lambda x: x[0]),
        ValueError,
        "cannot assign 4 input values to the 12 output values",
    ),
    MustRaise(
        "set full mask rank",
        _set(np.ones((3, 4), bool), lambda x: x),
        TypeError,
        "requires a 0 or 1-dimensional input",
    ),
    MustRaise("set complex", _set(0, 1j), TypeError, "complex"),
    MustRaise("set str", _set(0, "x"), TypeError, "setitem: the value is str"),
    MustRaise("set NumPy", _set(0, np.array(["a"] * 4)), TypeError, "the value is numpy.ndarray"),
    MustRaise("delete", lambda x: x.__delitem__(0), TypeError, "cannot be deleted"),
]

BAD_VALUES: list[tuple[str, Any, type[Exception]]] = [  # dtype, value of an assignment
    ("int8", 300, OverflowError),
    ("int8", 300.7, OverflowError),
    ("uint8", -1, OverflowError),
    ("int32", float("nan"), ValueError),
    ("int32", float("inf"), OverflowError),
    ("int32", 1e20, OverflowError),
    ("int32", 1j, TypeError),
    ("float32", 1j, TypeError),
]
GOOD_VALUES: list[tuple[str, Any]] = [
    ("int32", 2.7),
    ("int32", -2.7),
    ("int32", True),
    ("bool", 2),
    ("bool", 0.5),
    ("bool", 0),
    ("float16", 1e9),
    ("float32", 2**64 - 1),
    ("complex64", 1 + 2j),
    ("uint64", 2**64 - 1),
]


def on_device(key: Any, device: str | None) -> Any:
    """The key with its NumPy arrays as arrays on the device; lists and scalars stay."""
    if isinstance(key, tuple):
        return tuple(on_device(item, device) for item in key)
    if isinstance(key, np.ndarray) and key.ndim > 0:
        return gp.from_numpy(key, device=device)
    return key


def array_of(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Small whole numbers, exact in every dtype."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2 if dtype == "bool" else 15, shape)
    if dtype.startswith("complex"):
        return np.asarray(values + 1j * values[..., ::-1] if shape else values).astype(dtype)
    return np.asarray(values).astype(dtype)


def combinations() -> Iterator[tuple[Case, str]]:
    """All keys with float32, all dtypes with one key of each kind."""
    for case in KEYS:
        yield case, "float32"
    for dtype in DTYPES:
        if dtype != "float32":
            for case in (
                Case((100, 64), _grid((37,), 100)),
                Case((100, 3), _grid((37,), 100, dtype="int32")),
                Case((7, 11, 13), (_grid((5,), 7), slice(None), _grid((5,), 13))),
                Case((7, 11, 13), _mask((7, 11, 13))),
                Case((7, 11, 13), (slice(None), _mask((11,)))),
                Case((7, 11, 13), (slice(1, 5), 2, slice(None, None, -2))),
            ):
                yield case, dtype


def equal(got: Any, want: Any) -> None:
    """Same shape, dtype and bits (ml_dtypes compare as float64)."""
    got = got.contiguous().to_numpy()
    want = np.asarray(want)
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if want.dtype.kind == "V":
        got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(got, want)


def prepared(case: Case, dtype: str, device: str | None) -> tuple[Any, Any, Any, Any]:
    """The array on the host and on the device, and the views that the key is for."""
    host = array_of(case.shape, dtype)
    array = gp.from_numpy(host, device=device)
    if case.prepare is None:
        return host, array, host, array
    return host, array, host[case.prepare], array[case.prepare]


def run_get(case: Case, dtype: str, device: str | None = None) -> None:
    host, array, host_view, view = prepared(case, dtype, device)
    got = view[on_device(case.key, device)]
    want = host_view[case.key]
    equal(got, want)
    equal(array, host)
    assert got.device == array.device
    if any(case is basic for basic in BASIC) and got.size:  # a view: shares memory
        assert array.device_ptr <= got.device_ptr < array.device_ptr + array.nbytes
        for ours, theirs, size in zip(
            got.strides, np.asarray(want).strides, want.shape, strict=True
        ):
            assert ours == theirs or size == 1


def values_for(shape: tuple[int, ...], dtype: str) -> Iterator[Any]:
    """What can be assigned to a selection of that shape: all, and broadcast in every way."""
    full = array_of(shape, dtype, 1)
    yield full
    yield 1
    if shape:
        yield array_of(shape[1:], dtype, 2)
        yield array_of((1, *shape), dtype, 3)
        yield array_of((*shape[:-1], 1), dtype, 4)
        yield array_of((1,) * len(shape), "int32", 5)  # cast
    yield array_of(shape, "float64", 6)[..., ::-1] if shape else array_of((), "float64", 6)


def run_set(case: Case, dtype: str, device: str | None = None) -> None:
    want_shape = np.asarray(prepared(case, dtype, "cpu")[2][case.key]).shape
    for value in values_for(want_shape, dtype):
        host, array, host_view, view = prepared(case, dtype, device)
        try:
            host_view[case.key] = value
        except (TypeError, ValueError):  # NumPy's own limits for masks of all axes
            continue
        given = value if isinstance(value, int) else gp.from_numpy(value, device=device)
        view[on_device(case.key, device)] = given
        equal(array, host)


def run_must_raise(case: MustRaise, device: str | None = None) -> None:
    x = gp.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4), device=device)
    with pytest.raises(case.error) as caught:
        case.call(x)
    assert case.words in str(caught.value)
    equal(x, np.arange(12, dtype=np.float32).reshape(3, 4))
