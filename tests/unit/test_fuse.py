"""gp.fuse on CPU simulation: traces, results, what is refused and how."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cases.fuse import CASES, DTYPES, SHAPES, TOLERANCE, Case
from hypothesis import given
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit import _native
from pygpukit.core.errors import (
    InvalidArgument,
    InvalidTypeError,
    InvalidValueError,
    OperationError,
)
from pygpukit.ops import nn

LAST = {"axis": -1, "keepdims": True}


def arrays(host: list[Any]) -> tuple[Any, ...]:
    return tuple(x if isinstance(x, float) else gp.asarray(x) for x in host)


def trace(function: Callable[..., Any], *dtypes: str) -> str:
    return gp.fuse(function).trace(*(gp.zeros((2, 8), dtype) for dtype in dtypes))


# --- results ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case, dtype: str) -> None:
    for shape in SHAPES:
        host = case.draw(shape, dtype)
        given = arrays(host)
        got = gp.fuse(case.ours)(*given)
        separate = case.ours(*given)
        assert (got.shape, got.dtype) == (separate.shape, separate.dtype)
        np.testing.assert_array_equal(got.to_numpy(), separate.to_numpy())
        wide, want = got.to_numpy().astype(np.float64), case.want(*host)
        assert want.shape == wide.shape
        assert np.all(np.abs(wide - want) <= TOLERANCE[dtype] * (1 + np.abs(want))), shape


def test_elementwise_functions_are_not_rows() -> None:
    gate = gp.fuse(lambda x, w, c: gp.silu(x * w) + c)
    x, w = gp.ones((3, 4)), gp.arange(4, dtype="float32")
    np.testing.assert_array_equal(gate(x, w, 2).to_numpy(), (gp.silu(x * w) + 2).to_numpy())
    assert isinstance(gate._last, _native.FusedKernel)
    assert "row" not in gate.source


def test_out() -> None:
    function = gp.fuse(lambda x, r: nn.softmax(x + r))
    x, r = gp.ones((3, 5)), gp.zeros((3, 5))
    out = gp.empty((3, 5))
    assert function(x, r, out=out) is out
    np.testing.assert_allclose(out.to_numpy(), 0.2, rtol=1e-6)
    assert function(x, r, out=x) is x
    np.testing.assert_allclose(x.to_numpy(), 0.2, rtol=1e-6)
    many = gp.empty((2, 3, 5))
    function(r, r, out=many)
    np.testing.assert_allclose(many.to_numpy(), 0.2, rtol=1e-6)


def test_empty_arrays() -> None:
    assert gp.fuse(lambda x: nn.softmax(x) * 2)(gp.empty((0, 8))).shape == (0, 8)
    assert gp.fuse(lambda x: nn.rmsnorm(x) + x)(gp.empty((3, 0))).shape == (3, 0)
    total = gp.fuse(lambda x: x.sum(**LAST) + 1)(gp.empty((3, 0)))
    np.testing.assert_array_equal(total.to_numpy(), np.ones((3, 1)))
    largest = gp.fuse(lambda x: x + x.max(**LAST))
    with pytest.raises(InvalidValueError, match=r"max: x has shape \(3, 0\), expected at least 1"):
        largest(gp.empty((3, 0)))


# --- traces -------------------------------------------------------------------------------------


def test_a_trace_serves_all_shapes_of_its_dtypes() -> None:
    calls = []

    @gp.fuse
    def function(x: Any, w: Any) -> Any:
        calls.append(x)
        return nn.rmsnorm(x, w)

    for shape in ((2, 8), (3, 2, 5)):
        function.trace(gp.zeros(shape), gp.ones(shape[-1]))
    assert len(calls) == 1
    function.trace(gp.zeros((2, 8), "bfloat16"), gp.ones(8))
    assert len(calls) == 2


def test_reductions_of_one_level_share_a_pass() -> None:
    source = trace(lambda x: x.max(**LAST) - x.min(**LAST) + x.sum(**LAST), "float32")
    held = source[source.index("run_held(const") : source.index("run_streamed(const")]
    assert held.count("row.template pass<") == 1
    assert held.count("row.template last<") == 1
    source = trace(lambda x: nn.layernorm(nn.softmax(x)), "float32")
    held = source[source.index("run_held(const") : source.index("run_streamed(const")]
    assert held.count("row.template pass<") == 4  # largest, sum; mean, squares


def test_each_input_is_read_once() -> None:
    source = trace(lambda x, r, w: nn.rmsnorm(x + r, w) * x - nn.softmax(x), *["bfloat16"] * 3)
    held = source[source.index("run_held(const") : source.index("run_streamed(const")]
    for name in ("x0", "x1", "x2"):
        assert held.count(f"at.load(in_{name})") == 1
    assert held.count("at.load(in_") == 3


def test_only_what_later_passes_use_is_held() -> None:
    source = trace(lambda x, r: nn.rmsnorm(x + r) * 2, "float16", "float16")
    assert re.findall(r"Held<(\w+)> held_(\w+)", source) == [("float16", "v0")]
    source = trace(lambda x: x.sum(**LAST) * 2, "float32")
    assert "Held<" not in source


def test_weights_are_not_held() -> None:
    def function(x: Any, w: Any, b: Any) -> Any:
        return nn.layernorm(nn.layernorm(x, w * 2, b), w * 2) + b

    given = (gp.zeros((2, 8)), gp.ones(8), gp.ones(8))
    source = gp.fuse(function).trace(*given)
    held = source[source.index("run_held(const") : source.index("run_streamed(const")]
    assert len(re.findall(r"Held<float> held_", held)) == 2  # x, and its norm
    assert held.count("at.load(in_x1)") == 2
    assert held.count("at.load(in_x0)") == 1


def test_ops_that_are_not_used_are_dropped() -> None:
    def unused(x: Any, y: Any) -> Any:
        nn.softmax(x)
        return x + y

    function = gp.fuse(unused)
    assert function(gp.ones((2, 3)), gp.ones((2, 3))).shape == (2, 3)
    assert isinstance(function._last, _native.FusedKernel)
    assert "Softmax" not in function.source


def test_long_functions() -> None:
    def chain(x: Any) -> Any:
        for _ in range(40):
            x = nn.rmsnorm(x * 1.5 + 0.25)
        for _ in range(1500):
            x = x + 1
        return x

    assert trace(chain, "float32").count("MeanSquarePart") == 80


# --- plans --------------------------------------------------------------------------------------


def plan(function: Any, *given: Any) -> str:
    result = function(*given)
    text: str = function._last.prepare(given, gp.empty(result.shape, result.dtype))[0]
    return text


@pytest.mark.parametrize(
    ("width", "dtype", "want"),
    [
        (1, "float32", "vec=1, accesses=4, group=1, online=false"),
        (64, "bfloat16", "vec=8, accesses=4, group=2, online=false"),
        (1000, "float32", "vec=4, accesses=4, group=64, online=false"),
        (4096, "bfloat16", "vec=8, accesses=4, group=128, online=false"),
        (4099, "bfloat16", "vec=1, accesses=16, group=512, online=true"),
        (16384, "float32", "vec=4, accesses=8, group=512, online=false"),
        (20001, "float32", "vec=1, accesses=0, group=512, online=true"),
        (40000, "float32", "vec=4, accesses=0, group=512, online=true"),
    ],
)
def test_plan(width: int, dtype: str, want: str) -> None:
    function = gp.fuse(lambda x, w: nn.rmsnorm(x, w) + 1)
    text = plan(function, gp.zeros((2, width), dtype), gp.ones(width, dtype))
    assert text == f"fused_rows({want}, one_result=false, kinds=0)"


def test_plan_of_inputs() -> None:
    function = gp.fuse(lambda x, c, s: nn.rmsnorm(x * c) * s)
    x = gp.zeros((4, 64))
    assert "kinds=36" in plan(function, x, gp.ones((4, 1)), 0.5)  # 0, one element, a number
    assert "vec=1" in plan(function, gp.zeros((4, 65))[:, 1:], gp.ones((4, 1)), 0.5)
    assert "vec=4" in plan(function, gp.zeros((4, 72))[:, 4:-4], gp.ones((4, 1)), 0.5)
    largest = gp.fuse(lambda x: x.max(**LAST))
    assert "one_result=true" in plan(largest, x)
    # So much is held that rows are read again.
    many = gp.fuse(lambda x, a, b: nn.rmsnorm(x + a.sum(**LAST)) * x + a * b + nn.softmax(a + b))
    wide = gp.zeros((1, 16384))
    assert "accesses=0" in plan(many, wide, wide, wide)


# --- refused ------------------------------------------------------------------------------------

X = "an array of the function's arguments"
REFUSED_TRACES: list[tuple[Callable[..., Any], str, type[InvalidArgument], str]] = [
    (
        lambda x: nn.softmax(x, axis=0),
        "float32",
        InvalidValueError,
        "fuse: softmax: axis is 0, expected -1",
    ),
    (
        lambda x: gp.sum(x, keepdims=True),
        "float32",
        InvalidValueError,
        "fuse: sum: axis is None, expected -1",
    ),
    (
        lambda x: gp.sum(x, axis=(0, 1), keepdims=True),
        "float32",
        InvalidValueError,
        "fuse: sum: axis is (0, 1), expected -1",
    ),
    (
        lambda x: x - x.mean(axis=-1),
        "float32",
        InvalidValueError,
        "fuse: mean: keepdims is False, expected True",
    ),
    (
        lambda x: nn.rmsnorm(x) + 1,
        "float64",
        InvalidTypeError,
        "fuse: rmsnorm: x has dtype float64, expected float16, bfloat16 or float32",
    ),
    (
        lambda x: x.max(**LAST),
        "int32",
        InvalidTypeError,
        "fuse: max: x has dtype int32, expected float16, bfloat16 or float32",
    ),
    (
        lambda x: x.sum(axis=-1, keepdims=True, dtype="float64"),
        "float32",
        InvalidTypeError,
        "fuse: sum: dtype is float64, expected float16, bfloat16 or float32",
    ),
    (
        lambda x: nn.rmsnorm(x, gp.ones(8)),
        "float32",
        InvalidTypeError,
        f"fuse: rmsnorm: weight is a GPUArray, expected {X}",
    ),
    (
        lambda x: nn.layernorm(x, x.astype("float16")),
        "bfloat16",
        InvalidTypeError,
        "fuse: layernorm: weight has dtype float16, expected bfloat16 (as x) or float32",
    ),
    (
        lambda x: nn.rmsnorm(x, eps=-1.0),
        "float32",
        InvalidValueError,
        "fuse: rmsnorm: eps is -1.0, expected a number >= 0",
    ),
    (
        lambda x: nn.layernorm(x, eps=x),
        "float32",
        InvalidTypeError,
        "fuse: layernorm: eps is <fuse.Expr x0: float32>, expected a number known when",
    ),
    (
        lambda x: nn.softmax(x, mask=x > 0),
        "float32",
        InvalidTypeError,
        "fuse: softmax: mask is <fuse.Expr v0: bool>, expected None: use softmax(where(",
    ),
    (
        lambda x: nn.softmax(x, scale=0.5),
        "float32",
        InvalidValueError,
        "fuse: softmax: scale is 0.5, expected 1.0: multiply x instead",
    ),
    (
        lambda x: nn.l2norm(x, out=gp.ones(8)),
        "float32",
        InvalidTypeError,
        "fuse: l2norm: out is a GPUArray, expected None",
    ),
    (
        lambda x: gp.argmax(x, axis=-1),
        "float32",
        InvalidTypeError,
        "fuse: argmax cannot be part of a fused function; over rows: rmsnorm, ",
    ),
]


@pytest.mark.parametrize(("function", "dtype", "kind", "message"), REFUSED_TRACES)
def test_refused_traces(
    function: Callable[..., Any], dtype: str, kind: type[InvalidArgument], message: str
) -> None:
    with pytest.raises(kind, match=f"^{re.escape(message)}"):
        trace(function, dtype)


def test_numbers_are_no_rows() -> None:
    with pytest.raises(InvalidTypeError, match=f"rmsnorm: x is .*, expected {X}"):
        gp.fuse(lambda x, c: x + nn.rmsnorm(c)).trace(gp.zeros(3), 0.5)
    with pytest.raises(InvalidTypeError, match=r"eps is <fuse\.Expr x1: float64>"):
        gp.fuse(lambda x, eps: nn.rmsnorm(x, eps=eps)).trace(gp.zeros(3), 1e-5)


def named(function: Callable[..., Any]) -> Any:
    function.__name__ = "f"
    return gp.fuse(function)


def test_refused_shapes() -> None:
    x = gp.ones((3, 8))
    softmax = named(lambda x, y: nn.softmax(x) + y)
    with pytest.raises(
        InvalidValueError,
        match=r"^f: softmax: x has shape \(3, 1\), which is broadcast to rows of 8 elements",
    ):
        softmax(gp.ones((3, 1)), x)
    with pytest.raises(InvalidValueError, match=r"^f: softmax: x has shape \(\), expected at le"):
        softmax(gp.ones(()), x)
    with pytest.raises(InvalidValueError, match=r"^f: .*\(3, 8\).*\(4, 8\)"):
        softmax(x, gp.ones((4, 8)))
    two = named(lambda x, y: x.max(**LAST) * y.max(**LAST))
    with pytest.raises(
        InvalidValueError, match=r"^f: max: x has shape \(3, 5\), expected rows of 8 elements, as"
    ):
        two(x, gp.ones((3, 5)))
    late = named(lambda x, y: x.max(**LAST) * y)
    with pytest.raises(InvalidValueError, match=r"^f: the result has shape \(3, 5\), expected row"):
        late(x, gp.ones((3, 5)))
    norm = named(lambda x, w: nn.rmsnorm(x, w) + 1)
    for shape in ((3, 8), (1,), (1, 8), ()):
        with pytest.raises(
            InvalidValueError,
            match=rf"^f: rmsnorm: weight has shape {re.escape(str(shape))}, expected \(8,\)",
        ):
            norm(x, gp.ones(shape))
    with pytest.raises(InvalidTypeError, match=r"^f: out has dtype float16, the result has float3"):
        norm(x, gp.ones(8), out=gp.empty((3, 8), "float16"))
    with pytest.raises(InvalidValueError, match=r"^f: .*out has shape \(8,\)|^f: .*\(8,\)"):
        norm(x, gp.ones(8), out=gp.empty(8))


SIZES = st.sampled_from([0, 1, 2, 3])
AXES = st.lists(SIZES, min_size=0, max_size=3).map(tuple)


@given(AXES, AXES, AXES)
def test_shapes_are_those_of_the_ops_one_by_one(x: Any, y: Any, c: Any) -> None:
    def function(x: Any, y: Any, c: Any) -> Any:
        return nn.softmax(x) * y + x.sum(**LAST) * c

    arrays = [gp.ones(shape) for shape in (x, y, c)]
    try:
        want = function(*arrays)
    except InvalidArgument:
        want = None
    broadcast = want is not None and x[-1] != want.shape[-1]
    if want is None or broadcast:
        with pytest.raises(InvalidArgument):
            gp.fuse(function)(*arrays)
    else:
        assert gp.fuse(function)(*arrays).shape == want.shape


def test_refused_functions() -> None:
    with pytest.raises(OperationError, match="nothing has been traced"):
        _ = gp.fuse(lambda x: x).source
    with pytest.raises(TypeError, match=r"returned \(<fuse\.Expr .*expected one array"):
        trace(lambda x: (nn.softmax(x), x), "float32")
    with pytest.raises(TypeError, match="truth value of an array"):
        trace(lambda x: nn.softmax(x) if x.sum(**LAST) else x, "float32")
    with pytest.raises(ValueError, match="got 9 arguments, expected 1 to 8"):
        trace(lambda *x: nn.softmax(sum(x)), *["float32"] * 9)
    eight = gp.fuse(lambda *x: nn.softmax(sum(x)))
    np.testing.assert_allclose(eight(*[gp.ones((2, 4))] * 8).to_numpy(), 0.25)


def test_native_objects_check_their_arguments() -> None:
    function = gp.fuse(lambda x: nn.softmax(x) * 2)
    x = gp.ones((2, 4))
    function.trace(x)
    rows: Any = function._last
    for wrong in ((), (x, x), (1.0,), (gp.ones(3, "float16"),)):
        with pytest.raises(InvalidTypeError):
            rows.check(wrong)
    if gp.is_nvrtc_available():  # on the CPU: in the simulator
        np.testing.assert_allclose(rows.run((x,)).to_numpy(), 0.5)
    with pytest.raises(InvalidValueError, match="expected rows of shape"):
        rows.prepare((x,), gp.empty((2, 8))[:, ::2])
    with pytest.raises(InvalidValueError, match="has no op over rows"):
        _native.FusedRows("f", "", [(gp.float32, False)], gp.float32, 1, 1, [], gp.float32, 0, 0)


def test_where_rows_have_special_values() -> None:
    host = np.array([[np.nan, 1, 2], [-np.inf, 0, np.inf], [-np.inf] * 3], np.float32)
    x = gp.asarray(host)
    got = gp.fuse(lambda x: x.max(**LAST) + 0)(x).to_numpy()
    np.testing.assert_array_equal(got[:, 0], [np.nan, np.inf, -np.inf])
    low = gp.fuse(lambda x: nn.softmax(x) * 1)(x).to_numpy()
    np.testing.assert_array_equal(low[2], [0, 0, 0])
    assert ml_dtypes.bfloat16(low[0, 0]) != ml_dtypes.bfloat16(low[0, 0])
