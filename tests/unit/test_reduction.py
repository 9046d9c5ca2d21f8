"""Reductions and scans on CPU simulation: the case table, properties, dtypes, out=, graphs."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from cases import reduction as cases
from cases.must_raise import Refused
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit import _native, _reference
from pygpukit.ops import reduction, scan

CASES = list(cases.cases(large=False))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: cases.Case) -> None:
    cases.run_case(case)


@pytest.mark.parametrize("case", cases.MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: Refused) -> None:
    cases.run_must_raise(case)


@pytest.mark.parametrize("op", cases.OPS)
@pytest.mark.parametrize("dtype", cases.STORAGE)
def test_storage_types_are_refused(op: str, dtype: str) -> None:
    function = getattr(scan if op in cases.SCANS else reduction, op)
    with pytest.raises(TypeError, match=rf"^{op}: x has dtype {dtype}, a storage type"):
        function(gp.zeros(4, dtype))


def test_every_op_has_a_reference_and_cases() -> None:
    listed = [name for name, family, _ in _native.op_list() if family == "reduction"]
    assert set(listed) == set(cases.OPS)
    assert {case.op for case in CASES} == set(listed)
    for name in listed:
        assert callable(getattr(_reference, name))


# --- properties -----------------------------------------------------------------------------------

NUMPY_DTYPES = [d for d in cases.COMPUTE if d not in ("bfloat16", "float16")]


@st.composite
def inputs(draw: st.DrawFn) -> tuple[Any, Any, bool]:
    dtype = draw(st.sampled_from(NUMPY_DTYPES))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6))
    elements: Any = None
    if np.dtype(dtype).kind in "fc":  # sums that neither overflow nor cancel to nothing
        number = st.floats(-1e3, 1e3, width=32) | st.sampled_from([math.inf, -math.inf, math.nan])
        elements = number if np.dtype(dtype).kind == "f" else st.builds(complex, number, number)
    x = draw(hnp.arrays(np.dtype(dtype), shape, elements=elements))
    axes = st.lists(st.integers(0, max(x.ndim - 1, 0)), unique=True, max_size=x.ndim)
    axis = draw(st.none() | axes.map(tuple)) if x.ndim else None
    return x, axis, draw(st.booleans())


def numpy_result(call: Any) -> Any:
    """The result, or the class of the exception."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(call())
        except (ValueError, TypeError, IndexError) as error:
            return type(error)


def agree(got: Any, want: Any, scale: float) -> None:
    if isinstance(want, type):
        assert isinstance(got, type)
        assert issubclass(got, tuple(c for c in (ValueError, TypeError) if issubclass(want, c)))
        return
    assert not isinstance(got, type), got
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    unit = 2e-5 if want.dtype in (np.float32, np.complex64) else 1e-11
    np.testing.assert_allclose(got, want, rtol=unit, atol=unit * scale)


def magnitude(x: Any) -> float:
    finite = np.nan_to_num(np.abs(x.astype(np.complex128)), posinf=0.0)
    return float(np.sum(finite)) + 1.0


@pytest.mark.parametrize(
    "op", ["sum", "mean", "max", "min", "any", "all", "count_nonzero", "nansum"]
)
@settings(max_examples=60, deadline=None)
@given(data=inputs())
def test_reductions_as_numpy(op: str, data: tuple[Any, Any, bool]) -> None:
    x, axis, keepdims = data
    want = numpy_result(lambda: getattr(np, op)(x, axis=axis, keepdims=keepdims))
    array = gp.from_numpy(x)
    got = numpy_result(lambda: getattr(reduction, op)(array, axis, keepdims=keepdims).to_numpy())
    if not isinstance(want, type) and want.dtype.kind == "c":
        # Parts of a complex sum with NaN or infinities in it depend on the order.
        both = np.isfinite(want) & np.isfinite(got)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got[both], want[both], rtol=2e-5, atol=1e-5 * magnitude(x))
        return
    agree(got, want, magnitude(x))


@pytest.mark.parametrize("op", ["var", "std"])
@settings(max_examples=60, deadline=None)
@given(data=inputs(), correction=st.sampled_from([0, 1, 0.5]))
def test_variances_as_numpy(op: str, data: tuple[Any, Any, bool], correction: float) -> None:
    x, axis, keepdims = data
    if not np.isfinite(x.astype(np.complex128)).all() or x.dtype.kind in "iu":
        return
    want = numpy_result(lambda: getattr(np, op)(x, axis=axis, ddof=correction, keepdims=keepdims))
    array = gp.from_numpy(x)
    got = numpy_result(
        lambda: getattr(reduction, op)(
            array, axis, correction=correction, keepdims=keepdims
        ).to_numpy()
    )
    finite = not isinstance(want, type) and bool(np.isfinite(want).all())
    agree(got, want, magnitude(x) ** 2 if finite else 1.0)


@pytest.mark.parametrize("op", ["argmax", "argmin", "cumsum", "cumprod"])
@settings(max_examples=60, deadline=None)
@given(data=inputs())
def test_one_axis_as_numpy(op: str, data: tuple[Any, Any, bool]) -> None:
    x, axes, _ = data
    axis = axes[0] if axes else None
    if op == "cumprod" and x.dtype.kind in "fc":
        x = np.nan_to_num(x, posinf=1.0, neginf=1.0) / x.dtype.type(1000)
    elif x.dtype.kind == "c":
        x = np.nan_to_num(x, posinf=1.0, neginf=1.0)
    want = numpy_result(lambda: getattr(np, op)(x, axis=axis))
    array = gp.from_numpy(x)
    function = getattr(scan if op in cases.SCANS else reduction, op)
    agree(numpy_result(lambda: function(array, axis).to_numpy()), want, magnitude(x))


@pytest.mark.parametrize("op", ["nanmax", "nanmin", "nanmean", "nanargmax", "nanargmin"])
@settings(max_examples=60, deadline=None)
@given(data=inputs())
def test_without_nan_as_numpy(op: str, data: tuple[Any, Any, bool]) -> None:
    x, axes, _ = data
    if x.dtype.kind == "c":
        return
    axis = (axes[0] if axes else None) if op in cases.ARGS else axes
    want = numpy_result(lambda: getattr(np, op)(x, axis=axis))
    array = gp.from_numpy(x)
    got = numpy_result(lambda: getattr(reduction, op)(array, axis).to_numpy())
    if op in ("nanmax", "nanmin") and not isinstance(want, type):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
        return
    agree(got, want, magnitude(x))


# --- dtypes, out, empty ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint32", "int64", "float32", "float64", "complex64"]
)
@pytest.mark.parametrize("asked", ["bool", "int16", "uint64", "float32", "float64", "complex128"])
@pytest.mark.parametrize("op", ["sum", "prod", "cumsum", "cumprod"])
def test_asked_dtype(op: str, dtype: str, asked: str) -> None:
    x = (np.arange(1, 8) % 5).astype(dtype)
    want = numpy_result(lambda: getattr(np, op)(x, dtype=asked))
    function = getattr(scan if op in cases.SCANS else reduction, op)
    got = function(gp.from_numpy(x), dtype=asked).to_numpy()
    assert got.dtype == np.dtype(asked)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("op", ["mean", "var", "std"])
@pytest.mark.parametrize("asked", ["float16", "float32", "float64"])
def test_asked_dtype_of_means(op: str, asked: str) -> None:
    x = np.arange(7, dtype=np.int32)
    got = getattr(reduction, op)(gp.from_numpy(x), dtype=asked).to_numpy()
    assert got.dtype == np.dtype(asked)
    np.testing.assert_allclose(got, getattr(np, op)(x), rtol=1e-3)


def test_out() -> None:
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = gp.from_numpy(host)
    out = gp.zeros((4,))
    assert reduction.sum(x, 0, out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), host.sum(0))
    kept = gp.zeros((1, 4), "float64")
    assert reduction.mean(x, 0, keepdims=True, out=kept) is kept
    np.testing.assert_array_equal(kept.to_numpy(), host.mean(0, keepdims=True))
    strided = gp.zeros((8,))
    reduction.max(x, 0, out=strided[::2])
    np.testing.assert_array_equal(strided.to_numpy()[::2], host.max(0))
    assert not strided.to_numpy()[1::2].any()
    narrow = gp.zeros((), "int8")
    reduction.sum(gp.ones(300, "int32"), out=narrow)
    assert narrow.to_numpy() == np.int64(300).astype(np.int8)
    scan.cumsum(x, 1, out=x)
    np.testing.assert_array_equal(x.to_numpy(), host.cumsum(1))


def test_results_of_nothing() -> None:
    x = gp.zeros((3, 0, 5))
    assert reduction.sum(x).to_numpy() == 0
    assert reduction.prod(x, 1).to_numpy().tolist() == [[1.0] * 5] * 3
    assert reduction.all(x).to_numpy()
    assert not reduction.any(x).to_numpy()
    assert np.isnan(reduction.mean(x, 1).to_numpy()).all()
    assert np.isnan(reduction.var(x).to_numpy())
    assert reduction.max(x, 0).shape == (0, 5)
    assert reduction.argmax(x, 2).shape == (3, 0)
    assert scan.cumsum(x, 1).shape == (3, 0, 5)
    assert (
        scan.cumulative_sum(x, axis=1, include_initial=True).to_numpy().tolist()
        == [[[0.0] * 5]] * 3
    )


def test_all_nan() -> None:
    nan = gp.full((2, 3), math.nan)
    assert np.isnan(reduction.nanmax(nan, 0).to_numpy()).all()
    assert reduction.nansum(nan).to_numpy() == 0
    assert np.isnan(reduction.nanmean(nan, 1).to_numpy()).all()
    with pytest.raises(ValueError, match="All-NaN"):
        reduction.nanargmax(nan, 0)


def test_sums_are_accurate() -> None:
    x = np.full(1 << 20, 0.1, np.float32)
    exact = float(np.float32(0.1)) * x.size
    assert abs(float(reduction.sum(gp.from_numpy(x))) / exact - 1) < 1e-7
    shifted = (np.random.default_rng(0).normal(size=10000) + 1e6).astype(np.float32)
    want = np.var(shifted.astype(np.float64))
    assert abs(float(reduction.var(gp.from_numpy(shifted))) / want - 1) < 1e-6


@pytest.mark.parametrize("include_initial", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op", ["cumulative_sum", "cumulative_prod"])
def test_cumulative(op: str, axis: int, include_initial: bool) -> None:
    host = np.random.default_rng(1).uniform(0.5, 1.5, (5, 7)).astype(np.float32)
    want = getattr(np, op)(host, axis=axis, include_initial=include_initial)
    got = getattr(scan, op)(gp.from_numpy(host), axis=axis, include_initial=include_initial)
    np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-6)
    out = gp.zeros(want.shape, "float64")
    assert (
        getattr(scan, op)(gp.from_numpy(host), axis=axis, include_initial=include_initial, out=out)
        is out
    )
    np.testing.assert_allclose(out.to_numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32"])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_diff(dtype: str, axis: int, n: int) -> None:
    host = np.random.default_rng(2).integers(0, 2, (4, 5)).astype(dtype)
    got = scan.diff(gp.from_numpy(host), axis=axis, n=n).to_numpy()
    want = np.diff(host, axis=axis, n=n)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype
    before = np.ones((4, 1) if axis == -1 else (1, 5), dtype)
    got = scan.diff(
        gp.from_numpy(host), axis=axis, prepend=gp.from_numpy(before), append=gp.from_numpy(before)
    ).to_numpy()
    np.testing.assert_array_equal(got, np.diff(host, axis=axis, prepend=before, append=before))


def test_compositions() -> None:
    host = np.random.default_rng(3).normal(size=(4, 5)).astype(np.float32)
    x = gp.from_numpy(host)
    np.testing.assert_array_equal(reduction.ptp(x, 1).to_numpy(), np.ptp(host, 1))
    weights = np.arange(1, 6, dtype=np.float32)
    got = reduction.average(x, 1, weights=gp.from_numpy(weights))
    np.testing.assert_allclose(got.to_numpy(), np.average(host, 1, weights), rtol=1e-5)
    mean, total = reduction.average(x, 0, weights=gp.from_numpy(np.abs(host)), returned=True)
    want = np.average(host, 0, np.abs(host), returned=True)
    np.testing.assert_allclose(mean.to_numpy(), want[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(total.to_numpy(), want[1], rtol=1e-5)
    ints, count = reduction.average(gp.from_numpy(np.arange(6)), returned=True)
    assert (ints.to_numpy(), count.to_numpy()) == (2.5, 6)
    integers = gp.from_numpy(np.arange(5))
    assert float(reduction.average(integers, weights=integers)) == np.average(
        np.arange(5), weights=np.arange(5)
    )
    big = np.array([1000.0, 1000.5, -np.inf], np.float32)
    got = float(reduction.logsumexp(gp.from_numpy(big)))
    assert abs(got - (1000 + math.log(1 + math.exp(0.5)))) < 1e-3
    np.testing.assert_array_equal(
        reduction.sum_axis(x, 1).to_numpy(), reduction.sum(x, 1).to_numpy()
    )


def test_signatures_are_the_standard_s() -> None:
    standard = {
        "sum": ("axis", "dtype", "keepdims"),
        "prod": ("axis", "dtype", "keepdims"),
        "max": ("axis", "keepdims"),
        "mean": ("axis", "keepdims"),
        "var": ("axis", "correction", "keepdims"),
        "std": ("axis", "correction", "keepdims"),
        "any": ("axis", "keepdims"),
        "argmax": ("axis", "keepdims"),
        "count_nonzero": ("axis", "keepdims"),
        "cumulative_sum": ("axis", "dtype", "include_initial"),
        "cumulative_prod": ("axis", "dtype", "include_initial"),
        "diff": ("axis", "n", "prepend", "append"),
    }
    for name, keywords in standard.items():
        function = getattr(reduction, name, None) or getattr(scan, name)
        parameters = inspect.signature(function).parameters
        assert next(iter(parameters.values())).kind is inspect.Parameter.POSITIONAL_ONLY
        for keyword in keywords:
            assert parameters[keyword].kind is not inspect.Parameter.POSITIONAL_ONLY


def test_graph_replay_reads_the_inputs_again() -> None:
    x = gp.ones(10)
    total = gp.zeros(())
    running = gp.zeros(10)
    graph = gp.CudaGraph()
    with graph:
        reduction.sum(x, out=total)
        scan.cumsum(x, out=running)
    assert float(total) == 0
    x[...] = 2.0
    graph.replay()
    assert float(total) == 20
    assert running.to_numpy().tolist() == list(range(2, 21, 2))
