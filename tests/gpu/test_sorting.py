"""The sorting family on the GPU: case tables, sizes beyond 2**31, determinism, graphs, views."""

from __future__ import annotations

from typing import Any

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

import pygpukit as gp

F = sorting.FUNCTIONS


def reference_order(x: Any, axis: int, descending: bool) -> Any:
    """NumPy's stable order; quicker than the oracle of tests/unit, which tests this one."""
    plain = sorting.ordered(x)
    if not descending:
        return np.argsort(plain, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(plain, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


@pytest.mark.parametrize("case", sorting.SORT_CASES, ids=str)
def test_sort(case: sorting.SortCase) -> None:
    run_sort_case(case, "cuda", reference_order)


@pytest.mark.parametrize("case", sorting.MUST_RAISE, ids=lambda case: f"{case.op}: {case.name}")
def test_must_raise(case: sorting.MustRaise) -> None:
    run_must_raise(case, "cuda")


@pytest.mark.parametrize("kind", ["mixed", "few", "same"])
@pytest.mark.parametrize("size", [0, 1, 33, 4096, 4097, 70001])
@pytest.mark.parametrize("dtype", sorting.ALL)
def test_unique(dtype: str, size: int, kind: str) -> None:
    run_unique(dtype, size, kind, "cuda")


@pytest.mark.parametrize("size", [1, 100, 9001])
@pytest.mark.parametrize("dtype", sorting.ALL)
def test_search(dtype: str, size: int) -> None:
    run_search(dtype, size, "cuda")


@pytest.mark.parametrize("size", [0, 50, 9001])
@pytest.mark.parametrize("dtype", sorting.ALL)
def test_sets(dtype: str, size: int) -> None:
    run_sets(dtype, size, "cuda")


@pytest.mark.parametrize("bins", [1, 10, 97, 20000, [0, 1, 10, 30], [5]], ids=str)
@pytest.mark.parametrize("size", [0, 1, 70001])
@pytest.mark.parametrize("dtype", sorting.REAL)
def test_histogram(dtype: str, size: int, bins: Any) -> None:
    if dtype in ("float16", "bfloat16") and isinstance(bins, int) and bins > 10:
        pytest.skip("that many edges are not different in 16 bits")
    run_histogram(dtype, size, bins, "cuda")


@pytest.mark.parametrize("size", [0, 1, 70001])
@pytest.mark.parametrize("dtype", ["bool", *sorting.INTEGERS])
def test_bincount(dtype: str, size: int) -> None:
    run_bincount(dtype, size, 2 if dtype == "bool" else 40, "cuda")


def test_bincount_of_many_bins() -> None:
    run_bincount("int32", 100003, 50000, "cuda")


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((), None),
        ((6,), None),
        ((9001,), None),
        ((3, 4), 0),
        ((3, 4), -1),
        ((2, 3, 4), (0, 2)),
        ((300, 70), 0),
    ],
)
@pytest.mark.parametrize("dtype", sorting.REAL)
def test_quantiles(dtype: str, shape: tuple[int, ...], axis: Any) -> None:
    run_quantiles(dtype, shape, axis, "cuda")


def test_lexsort() -> None:
    run_lexsort("cuda")


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "int16", "uint8"])
@pytest.mark.parametrize("size", [8832, 100_000, 1_000_003, 5_000_000])
def test_long_rows(dtype: str, size: int) -> None:
    host = sorting.values((size,), dtype, size)
    x = gp.from_numpy(host, device="cuda")
    order = np.argsort(host, kind="stable")
    np.testing.assert_array_equal(F["argsort"](x).to_numpy(), order)
    np.testing.assert_array_equal(F["sort"](x).to_numpy(), host[order])


@pytest.mark.parametrize("shape", [(37, 20000), (700, 9000), (2, 300_000)])
@pytest.mark.parametrize("dtype", ["int32", "float32", "int64"])
def test_many_long_rows(dtype: str, shape: tuple[int, int]) -> None:
    host = sorting.values(shape, dtype, shape[0])
    x = gp.from_numpy(host, device="cuda")
    order = np.argsort(host, axis=1, kind="stable")
    np.testing.assert_array_equal(F["argsort"](x).to_numpy(), order)
    np.testing.assert_array_equal(F["sort"](x).to_numpy(), np.take_along_axis(host, order, 1))


def test_sorted_data_and_few_values() -> None:
    ramp = np.arange(3_000_000, dtype=np.int32)
    for host in (ramp, ramp[::-1].copy(), ramp % 3, np.zeros_like(ramp), ramp << 16):
        x = gp.from_numpy(host, device="cuda")
        order = np.argsort(host, kind="stable")
        np.testing.assert_array_equal(F["sort"](x).to_numpy(), host[order])
        np.testing.assert_array_equal(F["argsort"](x).to_numpy(), order)


def test_more_than_two_to_the_31_elements() -> None:
    count = 2**31 + 5
    host = np.resize(np.arange(251, dtype=np.uint8).view(np.int8), count)
    got = F["sort"](gp.from_numpy(host, device="cuda")).to_numpy()
    counts = np.bincount(host.view(np.uint8), minlength=256)
    ends = np.cumsum(np.concatenate([counts[128:], counts[:128]]))
    assert got[0] == -128
    for value, end in zip(range(-128, 128), ends, strict=True):
        begin = end - counts[value % 256]
        if end > begin:
            assert got[begin] == value
            assert got[end - 1] == value
    assert (got[1:] >= got[:-1]).all()


def test_argsort_of_more_than_two_to_the_32_bytes() -> None:
    count = 2**30 + 1  # 8 GiB of indices
    x = gp.full(count, 7, "uint8", device="cuda")
    order = F["argsort"](x)
    assert order.shape == (count,)
    host = order.to_numpy()
    assert host[0] == 0
    assert host[-1] == count - 1
    assert (np.diff(host) == 1).all()


def test_many_short_rows_beyond_two_to_the_31() -> None:
    shape = (2**28 + 1, 8)
    row = np.array([5, 3, 8, 1, 9, 2, 7, 4], np.uint8)
    x = gp.from_numpy(np.tile(row, (shape[0], 1)), device="cuda")
    got = F["sort"](x).to_numpy()
    assert (got == np.sort(row)).all()


def test_same_bits_twice() -> None:
    rng = np.random.default_rng(1)
    x = gp.from_numpy(rng.integers(0, 999, 300_000).astype(np.int32), device="cuda")
    w = gp.from_numpy(rng.normal(size=300_000).astype(np.float32), device="cuda")
    first = F["bincount"](x, w).to_numpy()
    histogram = F["histogram"](w, 50, weights=w)[0].to_numpy()
    order = F["argsort"](x).to_numpy()
    for _ in range(3):
        np.testing.assert_array_equal(F["bincount"](x, w).to_numpy(), first)
        np.testing.assert_array_equal(F["histogram"](w, 50, weights=w)[0].to_numpy(), histogram)
        np.testing.assert_array_equal(F["argsort"](x).to_numpy(), order)


def test_views_are_sorted_right() -> None:
    host = sorting.values((40, 60), "float32", 3)
    x = gp.from_numpy(host, device="cuda")
    for view in (np.s_[::2, ::-3], np.s_[5:, 7], np.s_[::-1]):
        ours, theirs = x[view], host[view]
        order = np.argsort(theirs, axis=-1, kind="stable")
        np.testing.assert_array_equal(F["argsort"](ours).to_numpy(), order)
        np.testing.assert_array_equal(
            F["sort"](ours, axis=0).to_numpy(), np.sort(theirs, axis=0, kind="stable")
        )
    out = gp.zeros((60, 40), "float32", device="cuda")
    F["sort"](x, axis=0, out=gp.permute_dims(out, (1, 0)))
    np.testing.assert_array_equal(out.to_numpy().T, np.sort(host, axis=0))
    F["sort"](x, out=x)
    np.testing.assert_array_equal(x.to_numpy(), np.sort(host))


@pytest.mark.parametrize("size", [100, 20_000])
def test_sort_in_a_graph(size: int) -> None:
    host = sorting.values((size,), "float32", size)
    x = gp.from_numpy(host, device="cuda")
    keys, order = gp.empty(size, "float32", device="cuda"), gp.empty(size, "int64", device="cuda")
    graph = gp.CudaGraph()
    with graph:
        F["sort"](x, out=keys)
        F["argsort"](x, out=order)
    for _ in range(2):
        graph.replay()
        graph.synchronize()
        np.testing.assert_array_equal(keys.to_numpy(), np.sort(host))
        np.testing.assert_array_equal(order.to_numpy(), np.argsort(host, kind="stable"))
