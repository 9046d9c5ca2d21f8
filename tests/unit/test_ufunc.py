"""Elementwise functions as objects: call, attributes, reduce, reduceat, accumulate, outer, at."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pygpukit as gp

RNG = np.random.default_rng(5)
M = RNG.normal(size=(4, 6, 5))
POSITIVE = np.abs(M) + 0.5
INTEGERS = RNG.integers(1, 60, (4, 6, 5))
BOOL = INTEGERS > 30

# Operands on which a function of that name can be reduced.
OPERANDS: dict[str, Any] = {
    "add": M, "multiply": M, "maximum": M, "minimum": M, "fmax": M, "fmin": M, "subtract": M,
    "divide": POSITIVE, "hypot": M, "logaddexp": M, "logaddexp2": M, "power": POSITIVE,
    "logical_and": BOOL, "logical_or": BOOL, "logical_xor": BOOL, "bitwise_and": INTEGERS,
    "bitwise_or": INTEGERS, "bitwise_xor": INTEGERS, "gcd": INTEGERS, "floor_divide": INTEGERS,
    "remainder": INTEGERS, "lcm": INTEGERS[:3],
}  # fmt: skip


def same(got: Any, want: Any, close: float = 1e-12) -> None:
    ours = got.to_numpy()
    assert (ours.shape, ours.dtype) == (np.shape(want), np.asarray(want).dtype)
    np.testing.assert_allclose(ours, want, rtol=close, atol=close)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", OPERANDS)
def test_reduce_and_accumulate(name: str, axis: int) -> None:
    theirs, ours, x = getattr(np, name), getattr(gp, name), OPERANDS[name]
    scan = theirs.accumulate(x, axis)
    # NumPy 2.4 has wrong values for power.reduce along contiguous axes, not for accumulate.
    want = scan.take(-1, axis) if name == "power" else theirs.reduce(x, axis)
    same(ours.reduce(gp.from_numpy(x), axis), want)
    same(ours.reduce(gp.from_numpy(x), axis, keepdims=True), np.expand_dims(want, axis))
    same(ours.accumulate(gp.from_numpy(x), axis), scan)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "bitwise_or", "hypot"])
@pytest.mark.parametrize("axis", [None, (0, 2)])
def test_reduce_several_axes(name: str, axis: Any) -> None:
    x = OPERANDS[name]
    same(getattr(gp, name).reduce(gp.from_numpy(x), axis), getattr(np, name).reduce(x, axis))


def test_reduce_options() -> None:
    x = gp.from_numpy(M)
    same(gp.add.reduce(x), np.add.reduce(M))
    same(
        gp.add.reduce(gp.from_numpy(INTEGERS.astype(np.int8))),
        np.add.reduce(INTEGERS.astype(np.int8)),
    )
    same(gp.add.reduce(x, dtype="float32"), np.add.reduce(M, dtype=np.float32), 1e-5)
    same(gp.add.reduce(x, 1, initial=3.0), np.add.reduce(M, 1, initial=3.0))
    same(gp.maximum.reduce(x, 1, initial=0.7), np.maximum.reduce(M, 1, initial=0.7))
    same(gp.add.reduce(x, 0, where=gp.from_numpy(BOOL)), np.add.reduce(M, 0, where=BOOL))
    same(
        gp.minimum.reduce(x, 0, initial=0.1, where=gp.from_numpy(BOOL)),
        np.minimum.reduce(M, 0, initial=0.1, where=BOOL),
    )
    out = gp.empty((6, 5), "float64")
    assert gp.hypot.reduce(x, out=out) is out
    same(out, np.hypot.reduce(M))
    nothing = gp.zeros((3, 0), "float64")
    same(gp.add.reduce(nothing, 1), np.zeros(3))
    same(gp.hypot.reduce(nothing, 1), np.zeros(3))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda xp, x: xp.maximum.reduce(x[:0]), ValueError),
        (lambda xp, x: xp.subtract.reduce(x, (0, 1)), ValueError),
        (lambda xp, x: xp.sqrt.reduce(x), ValueError),
        (lambda xp, x: xp.sqrt.accumulate(x), ValueError),
        (lambda xp, x: xp.sqrt.outer(x, x), ValueError),
        (lambda xp, x: xp.add.reduce(x, 5), IndexError),
        (lambda xp, x: xp.add.accumulate(x[0, 0, 0]), TypeError),
        (lambda xp, x: xp.maximum.reduce(x, where=x > 0), ValueError),
    ],
)
def test_errors(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call(np, M)
    with pytest.raises(error, match=": "):
        call(gp, gp.from_numpy(M))


@pytest.mark.parametrize("name", ["add", "subtract", "greater", "arctan2"])
def test_outer(name: str) -> None:
    a, b = M[0, 0], M[1]
    same(getattr(gp, name).outer(gp.from_numpy(a), gp.from_numpy(b)), getattr(np, name).outer(a, b))


def test_reduceat() -> None:
    """tests/cases/numpy_statistics.py has the results; these are where NumPy is less strict."""
    x = gp.from_numpy(M[0, 0])
    out = gp.empty(2, "float64")
    assert gp.add.reduceat(x, gp.from_numpy(np.array([0, 2])), out=out) is out
    same(out, np.add.reduceat(M[0, 0], [0, 2]))
    same(np.add.reduceat(x, np.array([0, 2])), np.add.reduceat(M[0, 0], [0, 2]))
    assert gp.add.reduceat(x, []).shape == (0,)
    assert gp.logical_and.reduceat([2, 0, 3], [0, 2]).tolist() == [False, True]
    for wrong in ([0.5], [[0]], 1):
        with pytest.raises(TypeError, match=r"^add\.reduceat: indices has shape"):
            gp.add.reduceat(x, wrong)


def test_maximum_accumulate_of_a_long_vector() -> None:
    x = RNG.normal(size=5000)
    same(gp.maximum.accumulate(gp.from_numpy(x)), np.maximum.accumulate(x))


@pytest.mark.parametrize(
    "name", ["add", "subtract", "multiply", "divide", "maximum", "minimum", "logaddexp"]
)
def test_at_with_repeated_indices(name: str) -> None:
    want = np.abs(RNG.normal(size=50)) + 1
    got = gp.from_numpy(want)
    at, values = RNG.integers(-50, 50, 400), np.abs(RNG.normal(size=400)) + 0.5
    getattr(np, name).at(want, at, values)
    getattr(gp, name).at(got, gp.from_numpy(at), gp.from_numpy(values))
    same(got, want, 1e-10)


def test_at_other_indices() -> None:
    want = M[0].copy()
    got = gp.from_numpy(want)
    rows, columns = np.array([0, 0, 5]), np.array([1, 1, 2])
    np.add.at(want, (rows, columns), 2.0)
    gp.add.at(got, (gp.from_numpy(rows), gp.from_numpy(columns)), 2.0)
    np.add.at(want, (slice(1, 3), 0), [1.0, 2.0])
    gp.add.at(got, (slice(1, 3), 0), [1.0, 2.0])
    np.negative.at(want, [0, 3])
    gp.negative.at(got, [0, 3])
    np.add.at(want, np.array([], int), 1.0)
    gp.add.at(got, gp.zeros(0, "int64"), 1.0)
    same(got, want)
    counts = gp.zeros(5, "int64")
    gp.add.at(counts, gp.from_numpy(np.array([1, 1, 4])), 1)
    assert counts.tolist() == [0, 2, 0, 0, 1]
    with pytest.raises(NotImplementedError, match=r"power\.at|pow\.at"):
        gp.power.at(got, gp.zeros(1, "int64"), 2.0)
    with pytest.raises(TypeError, match=r"add\.at: a is of type numpy.ndarray"):
        gp.add.at(want, [0], 1.0)


@pytest.mark.parametrize("name", ["bitwise_or", "gcd", "logaddexp"])
@pytest.mark.parametrize("operand", [1, [1], 1.5])
def test_at_of_a_dtype_without_the_function(name: str, operand: Any) -> None:
    """The error that the function itself raises."""
    x = gp.ones(3, "complex64" if name == "logaddexp" else "float32")
    with pytest.raises(gp.InvalidArgument, match=rf"^{name}: not defined for dtype ") as direct:
        getattr(gp, name)(x, 1)
    with pytest.raises(gp.InvalidArgument) as caught:
        getattr(gp, name).at(x, [0], operand)
    assert type(caught.value) is type(direct.value)
    if operand == 1:
        assert str(caught.value) == str(direct.value)
    assert str(caught.value).startswith(f"{name}: not defined for dtype ")


@pytest.mark.parametrize("flag", [True, False])
def test_where_of_one_flag(flag: bool) -> None:
    for where in (flag, np.bool_(flag)):
        out, host = gp.zeros((2, 2)), np.zeros((2, 2), "float32")
        got = gp.add(gp.ones((2, 2)), 1, out=out, where=where)  # type: ignore[arg-type]
        assert got is out
        np.add(np.ones((2, 2), "float32"), 1, out=host, where=where)  # type: ignore[call-overload]
        same(out, host)
        for name in ("sum", "prod", "any"):
            found = getattr(gp, name)(gp.ones((2, 2)), where=where)
            assert found.item() == getattr(np, name)(np.ones((2, 2)), where=where)
    assert gp.sum(gp.ones(3), initial=True).item() == 4


def test_attributes() -> None:
    assert (gp.add.nin, gp.add.nout, gp.add.nargs) == (2, 1, 3)
    assert (gp.sqrt.nin, gp.sqrt.nargs) == (1, 2)
    assert gp.add.identity == 0
    assert gp.multiply.identity == 1
    assert gp.subtract.identity is None
    assert repr(gp.add) == "<ufunc 'add'>"
    assert gp.add.__name__ == "add"
    assert "element by element" in (gp.add.__doc__ or "")
    assert list(inspect.signature(gp.add).parameters)[:2] == ["x1", "x2"]
    assert isinstance(gp.add, gp.ufunc)
    assert pickle.loads(pickle.dumps(gp.add)) is gp.add
    assert len({gp.add, gp.add, gp.subtract}) == 2
    with pytest.raises(TypeError):
        gp.ufunc()


def test_numpy_forwards_methods() -> None:
    x = gp.from_numpy(M)
    same(np.add.reduce(x), np.add.reduce(M))
    same(np.maximum.accumulate(x), np.maximum.accumulate(M))
    same(np.subtract.outer(x[0, 0], x[1, 0]), np.subtract.outer(M[0, 0], M[1, 0]))


@pytest.mark.parametrize(
    "call",
    [
        # the initial value is the first operand
        lambda xp, x: xp.subtract.reduce(x, initial=10),
        lambda xp, x: xp.divide.reduce(x, initial=8.0, axis=None),
        lambda xp, x: xp.floor_divide.reduce(x, initial=100),
        lambda xp, x: xp.subtract.reduce(x[:0], initial=4),
        lambda xp, x: xp.maximum.reduce(x[:0], initial=4),
        lambda xp, x: xp.add.reduce(x[:0], initial=4),
        lambda xp, x: xp.add.reduce(x, initial=4, dtype="int32"),
        # what the mask leaves out is not an operand
        lambda xp, x: xp.subtract.reduce(x, where=x != 2, initial=7),
        lambda xp, x: xp.divide.reduce(x, where=x != 2, initial=7),
        # one element has the dtype of several
        lambda xp, x: xp.logical_xor.reduce(x[:1]),
        lambda xp, x: xp.logical_xor.accumulate(x[:1]),
        lambda xp, x: xp.hypot.reduce(-x[:1]),
        lambda xp, x: xp.gcd.reduce(-x[:1]),
        lambda xp, x: xp.divide.reduce(x[:1]),
        lambda xp, x: xp.divide.accumulate(x[:1]),
        lambda xp, x: xp.divide.accumulate(x[:0]),
        lambda xp, x: xp.divide.reduceat(x, [0, 2]),
        lambda xp, x: xp.logaddexp.accumulate(x[:1]),
        # no axis at all
        lambda xp, x: xp.fmax.reduce(x[0, ...]),
        lambda xp, x: xp.subtract.reduce(x[0, ...], initial=1),
        # dtype counts for extremes, too
        lambda xp, x: xp.maximum.reduce(x, dtype="float64"),
        lambda xp, x: xp.minimum.reduce(x, dtype="int8", initial=1),
    ],
)
def test_reductions_in_order(call: Callable[..., Any]) -> None:
    host = np.array([3, 2, 5])
    ours, theirs = call(gp, gp.from_numpy(host)), call(np, host)
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=1e-15)
