"""Elementwise ops on CPU simulation: the case table, properties against NumPy, errors."""

from __future__ import annotations

import operator
from typing import Any

import hypothesis.extra.numpy as hnp
import ml_dtypes
import numpy as np
import pytest
from cases import elementwise, elementwise_options
from cases.elementwise import COMPUTE, OPS, STORAGE, numpy_type
from cases.elementwise_errors import MUST_RAISE
from cases.must_raise import Refused
from cases.run import on_host, run_case, run_must_raise
from cases.tolerance import assert_close
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit import _native, _reference
from pygpukit.ops import elementwise as family

BINARY = [name for name, op in OPS.items() if op.arity == 2]
NUMPY_DTYPES = [np.dtype(name) for name in COMPUTE if name != "bfloat16"]


@pytest.mark.parametrize("case", elementwise.CASES, ids=str)
def test_case(case: elementwise.Case) -> None:
    run_case(case)


@pytest.mark.parametrize("op", ["add", "maximum", "multiply"])
@pytest.mark.parametrize("case", MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: Refused, op: str) -> None:
    run_must_raise(case, op)


def test_every_op_has_a_reference_and_cases() -> None:
    listed = [name for name, kind, _ in _native.op_list() if kind == "elementwise"]
    assert len(set(listed)) == len(listed)
    assert set(listed) == set(OPS)
    for name, _, doc in _native.op_list():
        assert doc, name
    for name in listed:
        assert callable(getattr(_reference, name)), f"_reference.{name} is missing"
        assert any(case.op == name and case.gpu for case in elementwise.CASES), (
            f"{name} has no case"
        )
        assert callable(getattr(family, name)), f"ops.elementwise.{name} is missing"
        assert name in family.__all__
    assert {spec[0] for spec in _native.builtin_kernels()} >= set(listed)


def test_the_gpu_table_does_not_compile_for_minutes() -> None:
    """Each op, dtypes and layout is a kernel of about 50 ms."""
    assert sum(case.gpu for case in elementwise.CASES) < 1200
    shapes_aside = {
        (case.op, tuple(getattr(x, "dtype", type(x)) for x in case.operands), case.out)
        for case in elementwise.CASES
        if case.gpu
    }
    assert len(shapes_aside) < 900


@pytest.mark.parametrize("op", OPS)
def test_undefined_dtypes_are_refused_where_numpy_refuses_them(op: str) -> None:
    for dtype in COMPUTE:
        if not elementwise.is_defined(op, dtype):
            with pytest.raises(TypeError, match=rf"^{op}: not defined for dtype {dtype}, expected"):
                getattr(_native, op)(*[gp.ones(3, dtype)] * OPS[op].arity)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", STORAGE)
def test_storage_types_are_refused(op: str, dtype: str) -> None:
    with pytest.raises(TypeError, match=rf"^{op}: {dtype} is a storage type; cast it first"):
        getattr(_native, op)(*[gp.zeros(4, dtype)] * OPS[op].arity)


def test_a_condition_of_a_storage_type_is_refused() -> None:
    for dtype in STORAGE:
        with pytest.raises(TypeError, match=rf"^where: {dtype} is a storage type"):
            gp.ops.where(gp.zeros(4, dtype), gp.ones(4), gp.ones(4))


# --- properties against NumPy -------------------------------------------------------------------


def _numpy(op: str, *operands: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(OPS[op].like(*operands))


@st.composite
def broadcastable(draw: st.DrawFn, count: int) -> list[Any]:
    """Arrays of any dtypes whose shapes go together, or not quite."""
    shapes = draw(
        hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=4, max_side=5)
    ).input_shapes
    if draw(st.integers(0, 9)) == 0:
        shapes = (*shapes[:-1], draw(hnp.array_shapes(max_dims=3, max_side=4)))
    return [draw(hnp.arrays(draw(st.sampled_from(NUMPY_DTYPES)), shape)) for shape in shapes]


@settings(max_examples=400, deadline=None)
@given(op=st.sampled_from(BINARY), pair=broadcastable(2))
def test_binary_as_numpy(op: str, pair: list[Any]) -> None:
    """Shape, dtype and exception class of any op; values of those that are exact."""
    assume(op != "pow" or any(x.dtype.kind in "fc" for x in pair))  # negative powers raise
    if op in ("gcd", "lcm", "floor_divide", "reciprocal"):
        pair = [np.where(x == x.dtype.type(0), 1, x).astype(x.dtype) for x in pair]
    ours = [gp.from_numpy(x) for x in pair]
    try:
        want = _numpy(op, *pair)
    except (TypeError, ValueError) as error:
        kind = ValueError if "broadcast" in str(error) else (TypeError, ValueError)  # maybe both
        with pytest.raises(kind, match=rf"^{op}: ") as caught:
            getattr(_native, op)(*ours)
        assert isinstance(caught.value, gp.InvalidArgument)
        return
    got = getattr(_native, op)(*ours)
    assert (got.shape, got.dtype.name) == (want.shape, want.dtype.name)
    mixed = {x.dtype.name for x in pair} == {"int64", "uint64"}  # compared as float64
    if OPS[op].ulps == 0 and not mixed:
        np.testing.assert_array_equal(on_host(got), want)


@settings(max_examples=200, deadline=None)
@given(
    op=st.sampled_from(
        ["add", "subtract", "multiply", "divide", "less", "equal", "bitwise_and", "maximum"]
    ),
    array=hnp.arrays(st.sampled_from(NUMPY_DTYPES), hnp.array_shapes(max_dims=2, max_side=4)),
    number=st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.integers(-200, 200),
        st.floats(width=32),
        st.complex_numbers(max_magnitude=1e9),
        st.sampled_from(
            [np.int8(3), np.uint64(2**40), np.float16(0.5), np.float64(1e-3), np.complex64(1j)]
        ),
    ),
    swapped=st.booleans(),
)
def test_numbers_as_numpy(op: str, array: Any, number: Any, swapped: bool) -> None:
    """Python's numbers are weak, NumPy's scalars bring their dtype, on both sides."""
    x = gp.from_numpy(array)
    pair, ours = ((number, array), (number, x)) if swapped else ((array, number), (x, number))
    assume(not (array.dtype == np.float16 and isinstance(number, float) and abs(number) > 65500))
    try:
        want = _numpy(op, *pair)
    except (TypeError, OverflowError) as error:
        with pytest.raises(
            type(error).__mro__[1] if "UFunc" in type(error).__name__ else type(error)
        ):
            getattr(_native, op)(*ours)
        return
    got = getattr(_native, op)(*ours)
    assert (got.shape, got.dtype.name) == (want.shape, want.dtype.name)
    mixed = {array.dtype.name, getattr(number, "dtype", np.dtype("?")).name} == {"int64", "uint64"}
    if not mixed:
        np.testing.assert_array_equal(on_host(got), want)


@settings(max_examples=100, deadline=None)
@given(arrays=broadcastable(3))
def test_where_as_numpy(arrays: list[Any]) -> None:
    ours = [gp.from_numpy(x) for x in arrays]
    try:
        want = np.where(arrays[0].astype(bool), *arrays[1:])
    except ValueError:
        with pytest.raises(ValueError, match=r"^where: operands could not be broadcast"):
            gp.ops.where(*ours)
        return
    got = gp.ops.where(*ours)
    assert got.dtype.name == want.dtype.name
    assert_close(on_host(got), want, exact=True)


@settings(max_examples=100, deadline=None)
@given(
    arrays=broadcastable(2),
    out=st.sampled_from(NUMPY_DTYPES),
    op=st.sampled_from(["add", "multiply", "less"]),
)
def test_out_as_numpy(arrays: list[Any], out: np.dtype[Any], op: str) -> None:
    """`out` of any dtype: the casts NumPy allows within a kind, and no others."""
    try:
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
    except ValueError:
        return  # two errors at once: either may be reported
    wanted = np.zeros(shape, out)
    target = gp.zeros(shape, out)
    try:
        with np.errstate(all="ignore"):
            OPS[op].function(*arrays, out=wanted)
    except (TypeError, ValueError) as error:
        with pytest.raises(TypeError if isinstance(error, TypeError) else ValueError):
            getattr(_native, op)(*map(gp.from_numpy, arrays), out=target)
        return
    result = getattr(_native, op)(*map(gp.from_numpy, arrays), out=target)
    assert result is target
    mixed = {x.dtype.name for x in arrays} == {"int64", "uint64"} and op == "less"
    if not mixed:
        np.testing.assert_array_equal(target.to_numpy(), wanted)


# --- out ----------------------------------------------------------------------------------------


def test_out_may_be_both_operands() -> None:
    x = gp.full(33, 3, "int32")
    assert gp.ops.multiply(x, x, out=x) is x
    np.testing.assert_array_equal(x.to_numpy(), np.full(33, 9, np.int32))


def test_out_may_be_larger() -> None:
    out = gp.zeros((2, 3))
    gp.add(gp.ones(3), 1.5, out=out)
    np.testing.assert_array_equal(out.to_numpy(), np.full((2, 3), 2.5))


@pytest.mark.parametrize("step", [1, -1, 2])
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_out_may_overlap_operands(shift: int, step: int) -> None:
    host = np.arange(100, dtype=np.float32)
    x = gp.from_numpy(host)
    count = 40
    source = slice(shift, shift + count * abs(step), abs(step))
    want = host[source][:: 1 if step > 0 else -1] * 2
    operand = x[source] if step > 0 else x[source][::-1]
    gp.ops.multiply(operand, 2, out=x[:count])
    host[:count] = want
    np.testing.assert_array_equal(x.to_numpy(), host)


def test_out_must_not_be_a_broadcast_view() -> None:
    with pytest.raises(ValueError, match=r"^add: out is a broadcast view"):
        gp.add(gp.ones(4), 1, out=gp.broadcast_to(gp.ones(1), (4,)))


def test_results_lie_like_their_operands() -> None:
    """As NumPy's order K: no needless transposition."""
    x = gp.permute_dims(gp.ones((3, 4, 5)), (2, 0, 1))
    assert (x + x).strides == x.strides
    assert (x + gp.ones((5, 3, 4))).is_contiguous()


def test_nothing_is_allocated_for_a_bad_number() -> None:
    x = gp.ones(1 << 20, "int8")
    for call in (lambda: gp.add(x, 128), lambda: gp.maximum(x, 1000)):
        with pytest.raises(OverflowError, match="does not fit in int8"):
            call()


# --- functions made of ops ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "bfloat16", "float64", "complex64"])
def test_clip(dtype: str) -> None:
    host = np.arange(12).astype(numpy_type(dtype))
    x = gp.from_numpy(host)
    for low, high in ((2, 7), (None, 7), (2, None), (None, None), (7, 2)):
        want = host
        want = want if low is None else np.maximum(want, host.dtype.type(low))
        want = want if high is None else np.minimum(want, host.dtype.type(high))
        assert_close(family.clip(x, low, high).to_numpy(), want, exact=True)
    assert_close(family.clamp(x, 2, 7).to_numpy(), family.clip(x, 2, 7).to_numpy(), exact=True)
    assert family.clip(x, min=2, max=7).dtype.name == dtype


def test_clip_copies_without_limits() -> None:
    for dtype in ("bool", "float32"):
        x = gp.ones(3, dtype)
        y = family.clip(x)
        assert (y.device_ptr != x.device_ptr, y.dtype.name) == (True, dtype)


@pytest.mark.parametrize("decimals", [0, 1, 2])
def test_round(decimals: int) -> None:
    host = np.array([0.5, 1.5, -2.5, 0.125, 2.675, -1.005, np.nan, np.inf], np.float64)
    got = family.round(gp.from_numpy(host), decimals).to_numpy()
    np.testing.assert_array_equal(got, np.round(host, decimals))
    whole = gp.from_numpy(np.arange(-5, 5))
    np.testing.assert_array_equal(family.round(whole, decimals).to_numpy(), np.arange(-5, 5))


def test_round_before_the_point() -> None:
    host = np.array([14, 15, 25, -15, -26], np.int32)
    got = family.round(gp.from_numpy(host), -1)
    assert got.dtype.name == "int32"
    np.testing.assert_array_equal(got.to_numpy(), np.round(host, -1))


def test_small_functions() -> None:
    host = np.array([-np.inf, -2.7, -0.0, 3.2, np.inf, np.nan])
    x = gp.from_numpy(host)
    assert_close(family.fix(x).to_numpy(), np.trunc(host), exact=True)
    for name in ("isposinf", "isneginf"):
        assert_close(getattr(family, name)(x).to_numpy(), getattr(np, name)(host), exact=True)
    quotient, rest = family.divmod(gp.from_numpy(np.arange(-5, 5)), 3)
    np.testing.assert_array_equal(quotient.to_numpy(), np.arange(-5, 5) // 3)
    np.testing.assert_array_equal(rest.to_numpy(), np.arange(-5, 5) % 3)
    y = gp.ones(3)
    family.add_inplace(y, y)
    family.mul_inplace(y, y)
    np.testing.assert_array_equal(y.to_numpy(), [4, 4, 4])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64", "int32", "bool"])
def test_nan_to_num(dtype: str) -> None:
    type_ = numpy_type(dtype)
    host = np.array([1, 0, 1]) if type_.kind in "biu" else np.array([np.nan, np.inf, -np.inf, 2.5])
    host = host.astype(type_)
    got = family.nan_to_num(gp.from_numpy(host)).to_numpy()
    if dtype == "bfloat16":
        most = float(ml_dtypes.finfo(type_).max)
        assert got.astype(float).tolist() == [0.0, most, -most, 2.5]
    else:
        assert_close(got, np.nan_to_num(host), exact=True)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("absolute", "abs"),
        ("arccosh", "acosh"),
        ("arctan2", "atan2"),
        ("bitwise_not", "bitwise_invert"),
        ("conjugate", "conj"),
        ("div", "divide"),
        ("invert", "bitwise_invert"),
        ("left_shift", "bitwise_left_shift"),
        ("mod", "remainder"),
        ("mul", "multiply"),
        ("neg", "negative"),
        ("power", "pow"),
        ("radians", "deg2rad"),
        ("sub", "subtract"),
        ("true_divide", "divide"),
    ],
)
def test_other_names(alias: str, name: str) -> None:
    assert getattr(family, alias) is getattr(family, name)


# --- edges --------------------------------------------------------------------------------------


def test_negative_integer_powers() -> None:
    x = gp.from_numpy(np.array([1, 2, -1]))
    for call in (lambda: gp.ops.pow(x, -1), lambda: operator.pow(x, -2)):
        with pytest.raises(ValueError, match=r"^pow: integers to negative integer powers"):
            call()
    np.testing.assert_array_equal(gp.ops.pow(x, -1.0).to_numpy(), [1.0, 0.5, -1.0])


def test_rank_32() -> None:
    x = gp.ones((1,) * 31 + (3,))
    y = gp.ones((2,) + (1,) * 31)
    assert (x + y).shape == (2, *(1,) * 30, 3)
    np.testing.assert_array_equal((x + y).to_numpy(), 2)


def test_where_takes_any_number_as_condition() -> None:
    a, b = gp.ones(2, "int32"), gp.zeros(2, "int32")
    for condition in (True, 2.5, 1, 1j, np.int8(3)):
        assert gp.ops.where(condition, a, b).to_numpy().tolist() == [1, 1]
    for condition in (False, 0.0, 0, 0j, np.float32(0)):
        got = gp.ops.where(condition, a, b)
        assert (got.to_numpy().tolist(), got.dtype.name) == ([0, 0], "int32")


def test_in_a_cpu_graph() -> None:
    x = gp.ones(5)
    y = gp.zeros(5)
    graph = gp.CudaGraph()
    with graph:
        gp.add(x, y, out=y)
        gp.ops.multiply(y, 2.0, out=y)
    np.testing.assert_array_equal(y.to_numpy(), 0)
    graph.replay()
    graph.replay()
    np.testing.assert_array_equal(y.to_numpy(), np.full(5, 6.0))


@pytest.mark.parametrize("op", ["atan2", "hypot", "logaddexp", "copysign"])
@pytest.mark.parametrize(
    ("a", "b"),
    [("int8", "uint8"), ("int16", "uint16"), ("int32", "uint32"), ("bool", "int8"), ("bool", "u2")],
)
def test_mixed_integers_give_the_float_that_holds_both(op: str, a: str, b: str) -> None:
    x, y = np.ones(3, a), np.ones(3, b)
    got = getattr(gp, op)(gp.from_numpy(x), gp.from_numpy(y))
    assert got.dtype.name == _numpy(op, x, y).dtype.name


def test_a_python_int_raises_bool_before_the_float_is_chosen() -> None:
    assert gp.hypot(gp.ones(3, gp.bool), 3).dtype.name == np.hypot(np.ones(3, bool), 3).dtype.name


# --- where= and dtype= ----------------------------------------------------------------------------


@pytest.mark.parametrize("call", elementwise_options.CALLS, ids=lambda call: call.name)
def test_where_and_dtype(call: elementwise_options.Call) -> None:
    elementwise_options.run(call)


def test_where_without_out_and_in_place() -> None:
    elementwise_options.run_special()


def test_where_and_dtype_through_numpy() -> None:
    x, y = gp.asarray([1.0, 2.0, 3.0]), gp.asarray([1.0, 0.0, 2.0])
    out = gp.full(3, -1.0)
    assert np.divide(x, y, out=out, where=y != 0) is out
    assert out.tolist() == [1.0, -1.0, 1.5]
    assert np.add(x, y, dtype="float64").dtype == "float64"


def test_fused_functions_have_no_options() -> None:
    with pytest.raises(TypeError, match=r"^add: where is \[True\], expected no such option"):
        gp.fuse(lambda x: gp.add(x, 1, where=[True]))(gp.ones(3))
