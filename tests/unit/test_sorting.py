"""The sorting family on CPU simulation: case tables, properties, capture, plans."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from cases import sorting
from cases.run_sorting import (
    run_bincount,
    run_histogram,
    run_lexsort,
    run_must_raise,
    run_quantiles,
    run_search,
    run_sets,
    run_sort_case,
    run_unique,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit import _native, _reference

F = sorting.FUNCTIONS
SMALL_CASES = [case for case in sorting.SORT_CASES if np.prod(case.shape) < 5000]


@pytest.mark.parametrize("case", SMALL_CASES, ids=str)
def test_sort(case: sorting.SortCase) -> None:
    run_sort_case(case)


@pytest.mark.parametrize("case", sorting.MUST_RAISE, ids=lambda case: f"{case.op}: {case.name}")
def test_must_raise(case: sorting.MustRaise) -> None:
    run_must_raise(case)


@pytest.mark.parametrize("kind", ["mixed", "few", "same"])
@pytest.mark.parametrize("size", [0, 1, 33, 500])
@pytest.mark.parametrize("dtype", sorting.ALL)
def test_unique(dtype: str, size: int, kind: str) -> None:
    run_unique(dtype, size, kind)


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("dtype", sorting.ALL)
def test_search(dtype: str, size: int) -> None:
    run_search(dtype, size)


@pytest.mark.parametrize("size", [0, 50])
@pytest.mark.parametrize("dtype", sorting.ALL)
def test_sets(dtype: str, size: int) -> None:
    run_sets(dtype, size)


@pytest.mark.parametrize("bins", [1, 10, 97, [0, 1, 10, 30], [5]], ids=str)
@pytest.mark.parametrize("size", [0, 1, 500])
@pytest.mark.parametrize("dtype", sorting.REAL)
def test_histogram(dtype: str, size: int, bins: Any) -> None:
    if dtype in ("float16", "bfloat16") and isinstance(bins, int) and bins > 10:
        pytest.skip("that many edges are not different in 16 bits")
    run_histogram(dtype, size, bins)


@pytest.mark.parametrize("size", [0, 1, 300])
@pytest.mark.parametrize("dtype", ["bool", *sorting.INTEGERS])
def test_bincount(dtype: str, size: int) -> None:
    run_bincount(dtype, size, 2 if dtype == "bool" else 40)


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [("int64", 2**63 - 1), ("int64", 2**62), ("uint64", 2**63), ("uint64", 2**64 - 1)],
)
def test_bincount_of_more_bins_than_memory_has(dtype: str, largest: int) -> None:
    x = gp.from_numpy(np.array([1, largest], dtype))
    with pytest.raises(ValueError, match=r"^bincount: .*(too large|more than 2\*\*62 bytes)"):
        gp.bincount(x)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((), None), ((1,), 0), ((6,), None), ((3, 4), 0), ((3, 4), -1), ((2, 3, 4), (0, 2))],
)
@pytest.mark.parametrize("dtype", sorting.REAL)
def test_quantiles(dtype: str, shape: tuple[int, ...], axis: Any) -> None:
    run_quantiles(dtype, shape, axis)


def test_lexsort() -> None:
    run_lexsort()


def test_quantiles_with_nan_and_infinities() -> None:
    host = np.array([[1.0, np.nan, 2.0], [np.inf, 1.0, np.inf], [-np.inf, 0.0, np.inf]])
    x = gp.from_numpy(host)
    np.testing.assert_array_equal(F["median"](x, axis=1).to_numpy(), [np.nan, np.inf, 0.0])
    np.testing.assert_array_equal(
        F["quantile"](x, [0.0, 0.5, 1.0], axis=1).to_numpy(),
        [[np.nan, 1.0, -np.inf], [np.nan, np.inf, 0.0], [np.nan, np.inf, np.inf]],
    )
    assert np.isnan(F["median"](gp.from_numpy(np.zeros((2, 0))), axis=1).to_numpy()).all()


def test_histogram_of_what_has_no_range() -> None:
    counts, edges = F["histogram"](gp.from_numpy(np.array([1.0, np.nan])), 3)
    assert not counts.to_numpy().any()
    assert np.isnan(edges.to_numpy()).all()
    counts, edges = F["histogram"](gp.from_numpy(np.array([1.0, np.nan])), 3, (0, 3))
    np.testing.assert_array_equal(counts.to_numpy(), [0, 1, 0])


def test_partition_and_flattened_sorts() -> None:
    host = np.array([[3, 1, 2], [9, 7, 8]], np.int32)
    x = gp.from_numpy(host)
    np.testing.assert_array_equal(F["partition"](x, 1).to_numpy(), np.sort(host))
    np.testing.assert_array_equal(F["argpartition"](x, [0, -1]).to_numpy(), np.argsort(host))
    np.testing.assert_array_equal(F["sort"](x, axis=None).to_numpy(), np.sort(host, axis=None))
    np.testing.assert_array_equal(
        F["argsort"](x, axis=None).to_numpy(), np.argsort(host, axis=None)
    )


def test_out() -> None:
    host = np.array([3, 1, 2], np.int32)
    x = gp.from_numpy(host)
    wide = gp.empty(3, "int64")
    assert F["sort"](x, out=wide) is wide
    np.testing.assert_array_equal(wide.to_numpy(), [1, 2, 3])
    narrow = gp.empty(3, "int16")
    F["argsort"](x, out=narrow)
    np.testing.assert_array_equal(narrow.to_numpy(), [1, 2, 0])
    F["sort"](x, out=x)
    np.testing.assert_array_equal(x.to_numpy(), [1, 2, 3])


def test_searchsorted_promotes() -> None:
    table = gp.from_numpy(np.array([1, 2, 3], np.int8))
    assert F["searchsorted"](table, 2.5).to_numpy() == 2
    assert F["searchsorted"](table, 2, side="right").to_numpy() == 2
    wide = gp.from_numpy(np.array([300, -300], np.int16))
    np.testing.assert_array_equal(F["searchsorted"](table, wide).to_numpy(), [3, 0])
    np.testing.assert_array_equal(F["isin"](wide, table).to_numpy(), [False, False])
    assert F["isin"](2, table).to_numpy()


def test_storage_types_are_refused() -> None:
    x = gp.zeros(4, "float8_e4m3fn")
    for name in ("sort", "argsort", "unique_all", "median", "bincount"):
        with pytest.raises(TypeError, match=rf"^{name}: x has dtype float8_e4m3fn, a storage type"):
            F[name](x)


def test_sorts_can_be_captured_and_sizes_cannot() -> None:
    x, out = gp.from_numpy(np.array([3.0, 1.0, 2.0])), gp.empty(3, "float64")
    graph = gp.CudaGraph()
    with graph:
        F["sort"](x, out=out)
    graph.replay()
    np.testing.assert_array_equal(out.to_numpy(), [1.0, 2.0, 3.0])
    failing = gp.CudaGraph()
    with pytest.raises(gp.CaptureError, match="depends on the data"), failing:
        F["unique"](x)


def test_every_op_has_a_reference_and_a_function() -> None:
    listed = [name for name, family, _ in _native.op_list() if family == "sorting"]
    assert set(listed) == set(F)
    for name in listed:
        assert callable(getattr(_reference, name)), f"_reference.{name} is missing"


real_arrays = st.sampled_from([d for d in sorting.REAL if d != "bfloat16"]).flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(max_dims=3, min_side=0, max_side=9))
)


@settings(max_examples=150, deadline=None)
@given(host=real_arrays, data=st.data(), descending=st.booleans())
def test_sort_as_numpy(host: Any, data: st.DataObject, descending: bool) -> None:
    axis = data.draw(st.integers(-host.ndim, host.ndim - 1))
    x = gp.from_numpy(host)
    got = F["sort"](x, axis=axis, descending=descending).to_numpy()
    want = np.sort(host, axis=axis)
    np.testing.assert_array_equal(got, np.flip(want, axis) if descending else want)
    order = F["argsort"](x, axis=axis, descending=descending).to_numpy()
    np.testing.assert_array_equal(np.take_along_axis(host, order, axis), got)
    if not descending:
        np.testing.assert_array_equal(order, np.argsort(host, axis=axis, kind="stable"))


@settings(max_examples=80, deadline=None)
@given(host=real_arrays)
def test_unique_as_numpy(host: Any) -> None:
    got = F["unique_all"](gp.from_numpy(host))
    want = np.unique_all(host)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours.to_numpy(), theirs)


@settings(max_examples=60, deadline=None)
@given(
    host=hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e6, 1e6, width=32)),
    bins=st.integers(1, 12),
)
def test_histogram_as_numpy(host: Any, bins: int) -> None:
    counts, edges = F["histogram"](gp.from_numpy(host), bins)
    want, want_edges = np.histogram(host, bins)
    np.testing.assert_allclose(edges.to_numpy(), want_edges, rtol=1e-6, atol=1e-30)
    np.testing.assert_array_equal(counts.to_numpy(), want)


@settings(max_examples=60, deadline=None)
@given(
    host=hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e9, 1e9)),
    q=st.floats(0.0, 1.0),
)
def test_quantile_as_numpy(host: Any, q: float) -> None:
    x = gp.from_numpy(host)
    got = F["quantile"](x, q).to_numpy()
    np.testing.assert_allclose(got, np.quantile(host, q), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(F["median"](x).to_numpy(), np.median(host), rtol=1e-12)
