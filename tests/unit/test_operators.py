"""Python's operators and conversions on GPUArray: as on a NumPy array."""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from cases.elementwise import COMPUTE, numpy_type
from cases.elementwise_ops import OPS
from cases.run import on_host
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp

BINARY = {
    "+": (operator.add, operator.iadd),
    "-": (operator.sub, operator.isub),
    "*": (operator.mul, operator.imul),
    "/": (operator.truediv, operator.itruediv),
    "//": (operator.floordiv, operator.ifloordiv),
    "%": (operator.mod, operator.imod),
    "**": (operator.pow, operator.ipow),
    "<<": (operator.lshift, operator.ilshift),
    ">>": (operator.rshift, operator.irshift),
    "&": (operator.and_, operator.iand),
    "|": (operator.or_, operator.ior),
    "^": (operator.xor, operator.ixor),
}
COMPARISONS = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)
DTYPES = [np.dtype(name) for name in COMPUTE if name != "bfloat16"]


def values(dtype: np.dtype[Any]) -> Any:
    """Small positive numbers: every operator is defined for them."""
    return np.array([[1, 2, 3], [1, 0, 2]]).astype(dtype)


def assert_same(got: Any, want: Any) -> None:
    assert isinstance(got, gp.GPUArray)
    want = np.asarray(want)
    assert (got.shape, got.dtype.name) == (want.shape, want.dtype.name)
    np.testing.assert_array_equal(on_host(got), want)


def kind_of(error: Exception) -> type[Exception]:
    return next(kind for kind in (OverflowError, ValueError, TypeError) if isinstance(error, kind))


def same_outcome(
    function: Any, ours: tuple[Any, ...], theirs: tuple[Any, ...], like: Any = None
) -> None:
    """The same array as NumPy's (of `like`), or an exception of the same class."""
    try:
        with np.errstate(all="ignore"):
            want = (like or function)(*theirs)
    except (TypeError, ValueError, OverflowError) as error:
        with pytest.raises(kind_of(error)):
            function(*ours)
        return
    assert_same(function(*ours), want)


@pytest.mark.parametrize("symbol", BINARY)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_binary_operators(symbol: str, dtype: np.dtype[Any]) -> None:
    function, _ = BINARY[symbol]
    a, b = values(dtype), values(dtype)[::-1]
    x, y = gp.from_numpy(a), gp.from_numpy(b)
    same_outcome(function, (x, y), (a, b))
    # NumPy turns x ** 2 and x ** 0.5 into other ops, with other dtypes for bool.
    few = (3, 1.5) if symbol == "**" else (True, 2, 0.5, 1j, np.int8(1), np.float32(2))
    for number in few:
        same_outcome(function, (x, number), (a, number))
        if not isinstance(number, np.generic):
            same_outcome(function, (number, x), (number, a))


@pytest.mark.parametrize("symbol", BINARY)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_in_place_operators(symbol: str, dtype: np.dtype[Any]) -> None:
    """The array itself changes; what does not cast to its dtype raises."""
    _, in_place = BINARY[symbol]
    numbers = (3, 1.5) if symbol == "**" else (2, 0.5, 1j)
    for other in (values(dtype)[::-1].copy(), values(np.dtype("float64")), *numbers):
        a = values(dtype)
        x = gp.from_numpy(a)
        operand = gp.from_numpy(other) if isinstance(other, np.ndarray) else other
        try:
            with np.errstate(all="ignore"):
                want = in_place(a, other)
        except (TypeError, ValueError, OverflowError) as error:
            with pytest.raises(kind_of(error)):
                in_place(x, operand)
            continue
        alias = x
        result = in_place(x, operand)
        assert result is alias
        assert_same(result, want)


@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_comparisons(compare: Any, dtype: np.dtype[Any]) -> None:
    a, b = values(dtype), values(dtype)[::-1]
    x, y = gp.from_numpy(a), gp.from_numpy(b)
    assert_same(compare(x, y), compare(a, b))
    for number in (True, 2, 0.5, -1, 1000, 1j, np.float64(2)):
        same_outcome(compare, (x, number), (a, number))


@pytest.mark.parametrize("function", [operator.neg, operator.pos, abs, operator.invert])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_unary_operators(function: Any, dtype: np.dtype[Any]) -> None:
    same_outcome(function, (gp.from_numpy(values(dtype)),), (values(dtype),))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_divmod(dtype: np.dtype[Any]) -> None:
    a = values(dtype)
    x = gp.from_numpy(a)
    for pair, host in (((x, 2), (a, 2)), ((7, x), (7, a)), ((x, x), (a, a))):
        try:
            with np.errstate(all="ignore"):
                want = divmod(*host)
        except TypeError:
            with pytest.raises(TypeError):
                divmod(*pair)
            continue
        got = divmod(*pair)
        assert isinstance(got, tuple)
        for ours, theirs in zip(got, want, strict=True):
            assert_same(ours, theirs)


def test_bfloat16_stays() -> None:
    x = gp.from_numpy(np.array([1, 2, 3], numpy_type("bfloat16")))
    for result in (x + 1, 2.5 * x, x / 3, x**2, -x, x % 2, x // 2):
        assert result.dtype is gp.bfloat16
    assert (x < 2).dtype.name == "bool"
    x += 0.5
    assert x.to_numpy().astype(float).tolist() == [1.5, 2.5, 3.5]


@settings(max_examples=200, deadline=None)
@given(
    symbol=st.sampled_from(["+", "-", "*", "&", "|", "^", "//", "%"]),
    pair=st.tuples(
        hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(max_dims=3, max_side=4)),
        hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(max_dims=3, max_side=4)),
    ),
)
def test_operators_on_anything(symbol: str, pair: tuple[Any, Any]) -> None:
    try:
        np.broadcast_shapes(*(x.shape for x in pair))
    except ValueError:  # of two errors NumPy reports the dtypes first
        pair = (pair[0], pair[1].reshape(-1)[0].reshape(()))
    like = OPS["floor_divide"].function if symbol == "//" else None  # the standard's infinities
    same_outcome(BINARY[symbol][0], tuple(map(gp.from_numpy, pair)), pair, like)


def test_power_with_modulus() -> None:
    with pytest.raises(TypeError):
        pow(gp.ones(3, "int32"), 2, 5)
    x = gp.full(3, 3, "int32")
    assert pow(x, 2).to_numpy().tolist() == [9, 9, 9]
    assert (2**x).to_numpy().tolist() == [8, 8, 8]


# --- other objects ------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [None, "x", {}, {1.0}, object()])
def test_operators_with_something_else(other: Any) -> None:
    x = gp.ones(2)
    for function in (operator.add, operator.truediv, operator.and_, operator.lt, divmod):
        with pytest.raises(TypeError, match=r"unsupported operand|not supported between"):
            function(x, other)
    for function in (operator.sub, operator.pow, operator.ge):
        with pytest.raises(TypeError, match=r"unsupported operand|not supported between"):
            function(other, x)
    assert (x == other) is False
    assert (x != other) is True


class Reflecting:
    def __radd__(self, other: object) -> str:
        return "radd"

    def __lt__(self, other: object) -> str:
        return "lt"


def test_other_objects_get_their_turn() -> None:
    assert gp.ones(2) + Reflecting() == "radd"
    assert (gp.ones(2) > Reflecting()) == "lt"


def test_numpy_arrays_are_refused_both_ways() -> None:
    x, y = gp.ones(2), np.ones(2, np.float32)
    for call in (lambda: x + y, lambda: y + x, lambda: x < y):
        with pytest.raises(TypeError):
            call()


def test_messages_name_the_op_and_both_shapes() -> None:
    with pytest.raises(ValueError, match=r"^floor_divide: .*\(2,\) and \(3,\)"):
        gp.ones(2) // gp.ones(3)
    with pytest.raises(
        TypeError, match=r"^bitwise_and: not defined for dtype float32, expected an int"
    ):
        gp.ones(2) & gp.ones(2)
    with pytest.raises(
        TypeError, match=r"^divide: out has dtype int32, which the result's float64"
    ):
        operator.itruediv(gp.ones(2, "int32"), 2)
    with pytest.raises(
        ValueError, match=r"^add: out has shape \(3,\), the result has shape \(2, 3\)"
    ):
        operator.iadd(gp.ones(3), gp.ones((2, 3)))


# --- conversions --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("dtype", COMPUTE)
def test_conversions(dtype: str, shape: tuple[int, ...]) -> None:
    for value in (0, 1):
        x = gp.full(shape, bool(value) if dtype == "bool" else value, dtype)
        assert bool(x) is bool(value)
        assert complex(x) == value
        assert type(complex(x)) is complex
        if not dtype.startswith("complex"):
            assert (int(x), type(int(x))) == (value, int)
            assert (float(x), type(float(x))) == (float(value), float)
        else:
            for function in (int, float):
                with pytest.raises(TypeError):
                    function(x)


def test_conversions_keep_all_bits() -> None:
    assert int(gp.full((), 2**64 - 1, "uint64")) == 2**64 - 1
    assert int(gp.full((), -(2**63), "int64")) == -(2**63)
    assert float(gp.full((), 0.1, "float64")) == 0.1
    assert float(gp.full((), 0.1, "float32")) == float(np.float32(0.1))
    assert float(gp.full((), 1e-7, "float16")) == float(np.float16(1e-7))
    assert float(gp.full((), 0.1, "bfloat16")) == float(numpy_type("bfloat16").type(0.1))
    assert complex(gp.full((), 1 - 2j, "complex64")) == 1 - 2j
    assert math.isnan(float(gp.full((), float("nan"))))
    assert int(gp.full((), -2.9)) == -2
    with pytest.raises(ValueError, match="NaN"):
        int(gp.full((), float("nan")))
    with pytest.raises(OverflowError):
        int(gp.full((), float("inf")))


@pytest.mark.parametrize("shape", [(0,), (2,), (1, 2)], ids=str)
def test_only_one_element_converts(shape: tuple[int, ...]) -> None:
    x = gp.ones(shape)
    for function in (int, float, complex):
        with pytest.raises((TypeError, ValueError), match=f"^{function.__name__}: ") as caught:
            function(x)
        assert str(shape) in str(caught.value)
    with pytest.raises(ValueError, match=r"^bool: the truth value of an"):
        bool(x)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x == x)


@pytest.mark.parametrize("dtype", COMPUTE)
def test_index(dtype: str) -> None:
    x = gp.full((), True if dtype == "bool" else 2, dtype)
    if numpy_type(dtype).kind in "iu":
        assert operator.index(x) == 2
        assert "abc"[x] == "c"
        assert list(range(5))[: gp.full((), 3, dtype)] == [0, 1, 2]
    else:
        with pytest.raises(TypeError, match=r"^index: .*shape \(\) and dtype"):
            operator.index(x)
    with pytest.raises(TypeError, match=r"^index: .*shape \(1,\)"):
        operator.index(gp.ones(1, dtype))


def test_arrays_have_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(gp.ones(2))
    assert not isinstance(gp.ones(2), Hashable)


# --- lists ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize("other", [[1, 2, 3], (3, 2, 1), [[1.5], [0]], [[1, 0, 3], [1, 0, 2]]])
def test_lists_compare_by_element(compare: Any, other: Any) -> None:
    host = values(np.dtype("float32"))
    x = gp.from_numpy(host)
    assert_same(compare(x, other), compare(host, other))
    assert_same(compare(other, x), compare(other, host))


def test_arithmetic_with_lists() -> None:
    host = values(np.dtype("float32"))
    x = gp.from_numpy(host)
    assert_same(operator.add(x, [1, 2, 3]), host + np.array([1, 2, 3]))
    assert_same([4.0, 5.0, 6.0] - x, np.array([4.0, 5.0, 6.0]) - host)
    x *= (2.0, 0.0, 1.0)
    assert x.tolist() == [[2, 0, 3], [2, 0, 2]]


def test_lists_that_are_no_operands() -> None:
    x = gp.ones(3)
    with pytest.raises(TypeError, match=r"^equal: a list as an operand: .*dtype"):
        assert x == ["a", "b", "c"]
    with pytest.raises(ValueError, match="broadcast"):
        assert x == [1, 2]


@pytest.mark.parametrize(
    ("op", "call"),
    [
        ("equal", lambda x: x == [1, [2]]),
        ("add", lambda x: operator.add(x, [[1], [2, 3]])),
        ("matmul", lambda x: x @ [[1], [2, 3]]),
        ("matmul", lambda x: ((1,), (2, 3)) @ x),
    ],
)
def test_rows_of_different_lengths_are_no_operands(op: str, call: Any) -> None:
    with pytest.raises(gp.InvalidArgument, match=rf"^{op}: a list as an operand is .*expected"):
        call(gp.ones((2, 2)))


@pytest.mark.parametrize("other", ["abc", None, object(), {1: 2}, {1, 2}])
def test_equality_with_what_is_no_operand(other: Any) -> None:
    """Python's answer: not the same object."""
    x = gp.ones(3)
    assert (x == other) is False
    assert (x != other) is True
    assert (other == x) is False
