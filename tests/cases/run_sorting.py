"""Runs the cases of the sorting family on a device. Shared by tests/unit and tests/gpu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from cases.sorting import (
    FUNCTIONS,
    MustRaise,
    SortCase,
    oracle_argsort,
    ordered,
    seed_of,
    values,
)
from cases.tolerance import assert_close

F = FUNCTIONS


def run_sort_case(case: SortCase, device: str | None = None, oracle: Any = None) -> None:
    """sort, argsort and topk of one array; `oracle` computes the stable order."""
    host = case.data()
    x = gp.from_numpy(host, device=device)
    find_order = oracle or oracle_argsort
    order = find_order(host, case.axis, case.descending)
    want = np.take_along_axis(host, order, case.axis)
    options: dict[str, Any] = {"axis": case.axis, "descending": case.descending}
    indices = F["argsort"](x, **options)
    assert_close(indices.to_numpy(), order, exact=True)
    result = F["sort"](x, **options)
    assert result.is_contiguous()
    assert result.device == x.device
    assert_close(result.to_numpy(), want, exact=True)
    k = min(5, host.shape[case.axis])
    top = F["topk"](x, k, axis=case.axis, largest=case.descending)
    first = np.take(order, np.arange(k), case.axis)
    assert_close(top.indices.to_numpy(), first, exact=True)
    assert_close(top.values.to_numpy(), np.take_along_axis(host, first, case.axis), exact=True)
    assert_close(x.to_numpy(), host, exact=True)


def run_unique(dtype: str, size: int, kind: str, device: str | None = None) -> None:
    """unique and its relatives against NumPy, with both rules for NaN."""
    host = values((size,), dtype, seed_of("unique", dtype, size, kind), kind)
    x = gp.from_numpy(host, device=device)
    plain = ordered(host)
    for equal_nan in (True, False):
        want = np.unique(plain, True, True, True, equal_nan=equal_nan)
        got = F["unique"](x, True, True, True, equal_nan=equal_nan)
        np.testing.assert_array_equal(got[0].to_numpy().astype(plain.dtype), want[0])
        assert got[0].dtype.name == dtype
        for ours, theirs in zip(got[1:], want[1:], strict=True):
            assert_close(ours.to_numpy(), theirs.astype(np.int64), exact=True)
        alone = F["unique"](x, equal_nan=equal_nan)
        np.testing.assert_array_equal(alone.to_numpy().astype(plain.dtype), want[0])
    found = F["unique_all"](x)
    assert found._fields == ("values", "indices", "inverse_indices", "counts")
    for ours, theirs in zip(found[1:], want[1:], strict=True):
        assert_close(ours.to_numpy(), theirs.astype(np.int64), exact=True)
    for name in ("unique_counts", "unique_inverse"):
        result = getattr(F[name](x), F[name](x)._fields[1]).to_numpy()
        assert_close(result, want[3 if name == "unique_counts" else 2].astype(np.int64), exact=True)
    np.testing.assert_array_equal(F["unique_values"](x).to_numpy().astype(plain.dtype), want[0])


def run_search(dtype: str, size: int, device: str | None = None) -> None:
    """searchsorted (both sides, with and without sorter), digitize and isin."""
    seed = seed_of("search", dtype, size)
    table, queries = values((size,), dtype, seed), values((7, 11), dtype, seed + 1)
    queries[:, 0] = table[0] if size else queries[:, 0]
    order = oracle_argsort(table, 0, False)
    plain, sorted_table = ordered(queries), table[order]
    x1, x2 = (gp.from_numpy(a, device=device) for a in (sorted_table, queries))
    shuffled, sorter = (gp.from_numpy(a, device=device) for a in (table, order))
    for side in ("left", "right"):
        want = np.searchsorted(ordered(sorted_table), plain, side)  # type: ignore[call-overload]
        assert_close(F["searchsorted"](x1, x2, side=side).to_numpy(), want, exact=True)
        through = F["searchsorted"](shuffled, x2, side=side, sorter=sorter)
        assert_close(through.to_numpy(), want, exact=True)
    for invert in (False, True):
        want_in = np.isin(plain, ordered(table), invert=invert)
        got = F["isin"](x2, shuffled, invert=invert)
        assert_close(got.to_numpy(), want_in, exact=True)
    if np.dtype(dtype).kind == "c":
        return
    for right in (False, True):
        for bins in (sorted_table, sorted_table[::-1].copy()):
            if np.isnan(ordered(bins)).any():
                continue
            want = np.digitize(plain, ordered(bins), right)
            got = F["digitize"](x2, gp.from_numpy(bins, device=device), right)
            assert_close(got.to_numpy(), want, exact=True)


def run_sets(dtype: str, size: int, device: str | None = None) -> None:
    seed = seed_of("sets", dtype, size)
    hosts = [values((size + i,), dtype, seed + i, "few" if i else "mixed") for i in (0, 1)]
    a, b = (gp.from_numpy(host, device=device) for host in hosts)
    plain = [ordered(host) for host in hosts]
    for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d"):
        want = getattr(np, name)(*plain)
        got = F[name](a, b)
        assert got.dtype.name == dtype
        np.testing.assert_array_equal(got.to_numpy().astype(want.dtype), want)
    if np.dtype(dtype).kind in "iub":
        want = np.intersect1d(*hosts, return_indices=True)
        for ours, theirs in zip(F["intersect1d"](a, b, False, True), want, strict=True):
            np.testing.assert_array_equal(ours.to_numpy(), theirs)


def run_histogram(dtype: str, size: int, bins: Any, device: str | None = None) -> None:
    """Counts, edges, weights, density and range against NumPy."""
    rng = np.random.default_rng(seed_of("histogram", dtype, size, bins))
    host = rng.integers(0, 50, size).astype(dtype)
    plain = ordered(host) if dtype != "bool" else host.astype(np.uint8)
    x = gp.from_numpy(host, device=device)
    weights = rng.integers(-8, 9, size).astype(np.float32)
    w = gp.from_numpy(weights, device=device)
    for range_ in (None, (3.0, 21.5)):
        counts, ours = F["histogram"](x, bins, range_)
        given = bins
        if dtype == "bfloat16" and isinstance(bins, int):  # NumPy's edges would be float32
            given = ours.to_numpy().astype(np.float32)
        want, edges = np.histogram(plain, given, range_)
        assert_close(counts.to_numpy(), want, exact=True)
        if dtype != "bfloat16":
            assert ours.to_numpy().dtype == edges.dtype
        np.testing.assert_allclose(ours.to_numpy().astype(np.float64), edges, rtol=1e-2)
        want, _ = np.histogram(plain, given, range_, weights=weights)
        counts, _ = F["histogram"](x, bins, range_, weights=w)
        assert_close(counts.to_numpy(), want, exact=True)
        with np.errstate(all="ignore"):
            want, _ = np.histogram(plain, given, range_, density=True)
        counts, _ = F["histogram"](x, bins, range_, density=True)
        assert counts.dtype.name == "float64"
        np.testing.assert_allclose(counts.to_numpy(), want, rtol=2e-2)


def run_bincount(dtype: str, size: int, top: int, device: str | None = None) -> None:
    rng = np.random.default_rng(seed_of("bincount", dtype, size, top))
    host = rng.integers(0, top, size).astype(dtype)
    weights = rng.integers(-9, 9, size).astype(np.float32)
    x, w = (gp.from_numpy(a, device=device) for a in (host, weights))
    for minlength in (0, 7, top + 3):
        want = np.bincount(host.astype(np.int64), minlength=minlength)
        assert_close(F["bincount"](x, minlength=minlength).to_numpy(), want, exact=True)
        want_sums = np.bincount(host.astype(np.int64), weights, minlength)
        got = F["bincount"](x, w, minlength).to_numpy()
        assert_close(got, want_sums, exact=True)


def run_quantiles(dtype: str, shape: tuple[int, ...], axis: Any, device: str | None = None) -> None:
    host = np.random.default_rng(seed_of("quantiles", dtype, shape, axis)).integers(0, 99, shape)
    host = host.astype(dtype)
    plain = ordered(host)
    x = gp.from_numpy(host, device=device)
    rtol = 1e-2 if dtype in ("float16", "bfloat16") else 1e-6
    for keepdims in (False, True):
        want = np.median(plain, axis=axis, keepdims=keepdims)
        got = F["median"](x, axis=axis, keepdims=keepdims)
        assert got.dtype.name == (dtype if dtype == "bfloat16" else np.dtype(want.dtype).name)
        np.testing.assert_allclose(got.to_numpy().astype(np.float64), want, rtol=rtol)
        if dtype == "bool":
            continue
        for q in (0.0, 0.3, 1.0, [0.25, 0.5, 0.75], list(np.linspace(0, 1, 19))):
            want = np.quantile(plain, q, axis=axis, keepdims=keepdims)
            got = F["quantile"](x, q, axis=axis, keepdims=keepdims)
            assert got.dtype.name == (
                dtype if dtype == "bfloat16" and np.ndim(q) == 0 else want.dtype.name
            )
            np.testing.assert_allclose(
                got.to_numpy().astype(np.float64), want, rtol=rtol, atol=rtol
            )
    percent = F["percentile"](x, 30, axis=axis) if dtype != "bool" else None
    if percent is not None:
        np.testing.assert_array_equal(
            percent.to_numpy(), F["quantile"](x, 0.3, axis=axis).to_numpy()
        )


def run_lexsort(device: str | None = None) -> None:
    rng = np.random.default_rng(5)
    for shape in ((40,), (9000,), (4, 33)):
        keys = [rng.integers(0, 4, shape).astype(d) for d in ("int8", "float32", "complex64")]
        got = F["lexsort"]([gp.from_numpy(key, device=device) for key in keys])
        assert_close(got.to_numpy(), np.lexsort(keys), exact=True)
    keys = [rng.integers(0, 4, (50, 3)) for _ in range(2)]
    got = F["lexsort"]([gp.from_numpy(key, device=device) for key in keys], axis=0)
    assert_close(got.to_numpy(), np.lexsort(keys, axis=0), exact=True)


def run_must_raise(case: MustRaise, device: str | None = None) -> None:
    """The error's class, and what its message names; NumPy must raise the same class."""

    def make(value: Any) -> gp.GPUArray:
        return gp.from_numpy(np.asarray(value), device=device)

    with pytest.raises(case.error) as caught:
        case.call(make)
    message = str(caught.value)
    assert message.startswith(f"{case.op}: ")
    for word in case.words:
        assert word in message
    if case.numpy is not None:
        with pytest.raises(case.error):
            case.numpy()
