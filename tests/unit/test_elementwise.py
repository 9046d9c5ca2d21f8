"""Elementwise ops on CPU simulation: the case table, properties, operators and graphs."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from cases import elementwise
from cases.run import run_case, run_must_raise
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit import _native, _reference

NUMPY = {"add": np.add, "mul": np.multiply}


@pytest.mark.parametrize("case", elementwise.CASES, ids=str)
def test_case(case: elementwise.Case) -> None:
    run_case(case)


@pytest.mark.parametrize("op", elementwise.OPS)
@pytest.mark.parametrize("case", elementwise.MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: elementwise.MustRaise, op: str) -> None:
    run_must_raise(case, op)


@pytest.mark.parametrize("op", elementwise.OPS)
@pytest.mark.parametrize("dtype", elementwise.STORAGE)
def test_storage_types_are_refused(op: str, dtype: str) -> None:
    x = gp.zeros(4, dtype)
    with pytest.raises(TypeError, match=rf"^{op}: a has dtype {dtype}, a storage type"):
        getattr(gp, op)(x, x)


def test_every_op_has_a_reference_and_cases() -> None:
    listed = [name for name, family, _ in _native.op_list() if family == "elementwise"]
    assert listed == sorted(set(listed), key=listed.index)
    assert set(listed) == set(elementwise.OPS)
    for name, _, doc in _native.op_list():
        assert callable(getattr(_reference, name)), f"_reference.{name} is missing"
        assert name in _reference.__all__
        assert any(case.op == name for case in elementwise.CASES), f"{name} has no case"
        assert getattr(gp.ops, name) is getattr(gp, name)
        assert doc
    assert {spec[0] for spec in _native.builtin_kernels()} >= set(listed)


@st.composite
def operands(draw: st.DrawFn) -> tuple[Any, Any]:
    dtype = draw(st.sampled_from([d for d in elementwise.COMPUTE if d != "bfloat16"]))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9))
    make = hnp.arrays(np.dtype(dtype), shape)
    return draw(make), draw(make)


@pytest.mark.parametrize("op", elementwise.OPS)
@settings(max_examples=80, deadline=None)
@given(pair=operands())
def test_as_numpy(op: str, pair: tuple[Any, Any]) -> None:
    a, b = pair
    with np.errstate(all="ignore"):
        want = np.asarray(NUMPY[op](a, b))
    got = getattr(gp, op)(gp.from_numpy(a), gp.from_numpy(b)).to_numpy()
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op", elementwise.OPS)
@settings(max_examples=60, deadline=None)
@given(
    a=hnp.arrays(np.float32, st.integers(0, 40)),
    number=st.one_of(st.integers(-(2**63), 2**63), st.floats(width=32), st.booleans()),
)
def test_weak_scalar_as_numpy(op: str, a: Any, number: Any) -> None:
    with np.errstate(all="ignore"):
        want = NUMPY[op](a, np.float32(number))
    x = gp.from_numpy(a)
    for got in (getattr(gp, op)(x, number), getattr(gp, op)(number, x)):
        np.testing.assert_array_equal(got.to_numpy(), want)


def test_operators() -> None:
    x = gp.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    host = x.to_numpy()
    np.testing.assert_array_equal((x + x).to_numpy(), host + host)
    np.testing.assert_array_equal((x * x).to_numpy(), host * host)
    np.testing.assert_array_equal((x + 1).to_numpy(), host + 1)
    np.testing.assert_array_equal((2.5 * x).to_numpy(), np.float32(2.5) * host)
    y = x
    y += 1
    np.testing.assert_array_equal(x.to_numpy(), host)  # += makes a new array
    np.testing.assert_array_equal(y.to_numpy(), host + 1)


@pytest.mark.parametrize("other", [None, "x", [1.0, 2.0], {}])
def test_operator_with_something_else(other: Any) -> None:
    x = gp.ones(2)
    with pytest.raises(TypeError, match="unsupported operand"):
        x + other
    with pytest.raises(TypeError, match=r"unsupported operand|can't multiply"):
        other * x


def test_operator_refuses_numpy_arrays_both_ways() -> None:
    x, y = gp.ones(2), np.ones(2, np.float32)
    with pytest.raises(TypeError):
        x + y
    with pytest.raises(TypeError):
        y + x


def test_out_may_be_both_operands() -> None:
    x = gp.full(33, 3, "int32")
    assert gp.mul(x, x, out=x) is x
    np.testing.assert_array_equal(x.to_numpy(), np.full(33, 9, np.int32))


def test_submodules_have_the_ops() -> None:
    from pygpukit.ops import basic
    from pygpukit.ops import elementwise as family

    assert basic.add is family.add is gp.add
    assert basic.mul is family.mul is gp.mul
