"""CPU simulation on large arrays, where it takes other paths than on small ones, and its loops."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native
from pygpukit._reference.random import Stream, circle, random_normal, random_uniform

N = 300  # N * N elements are above every threshold


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def on(x: Any) -> gp.GPUArray:
    return gp.from_numpy(x)


# --- large arrays ---------------------------------------------------------------------------------

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": lambda x: x,
    "F": lambda x: x.T,
    "strided": lambda x: x[::2, ::-1],
}
AXES = [None, 0, 1, 2, (0, 1), (1, 2), (0, 2)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", ["sum", "mean", "var", "std"])
def test_float32_accumulates_in_float64(op: str, layout: str) -> None:
    host = normal(200, N) + np.float32(1000)
    x, wide = LAYOUTS[layout](host), LAYOUTS[layout](host.astype(np.float64))
    array = LAYOUTS[layout](on(host))
    for axis in (None, 0, 1):
        want = getattr(np, op)(wide, axis=axis)
        got = getattr(gp, op)(array, axis=axis).to_numpy()
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=f"axis {axis}")


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int32"])
def test_reductions_of_three_axes(dtype: str, axis: Any) -> None:
    host = (normal(40, 50, 60) * 10).astype(dtype)
    wide = host.astype({"complex64": "complex128", "int32": "int64"}.get(dtype, "float64"))
    for op in ("sum", "mean", "var"):
        want = getattr(np, op)(wide, axis=axis)
        got = getattr(gp, op)(on(host), axis=axis).to_numpy()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-3, err_msg=op)


def test_sums_that_float32_cannot_hold() -> None:
    """Sums of a few elements overflow in float32, the means do not."""
    host = np.full((N, N), 3e38, np.float32)
    for axis in (None, 0, 1):
        mean = gp.mean(on(host), axis=axis).to_numpy()
        np.testing.assert_array_equal(mean, np.full(mean.shape, 3e38, np.float32))
    host[5, 7] = np.nan
    assert np.isnan(gp.sum(on(host), axis=0).to_numpy()).nonzero()[0].tolist() == [7]


@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_scans(op: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    host: Any = rng.uniform(0.98, 1.02, (N, N)).astype(dtype)
    if dtype == "int64":
        host = rng.integers(1, 3, (N, N))
    wide = host.astype("float64") if dtype == "float32" else host
    for axis in (0, 1):
        want = getattr(np, op)(wide, axis=axis)
        got = getattr(gp, op)(on(host), axis=axis).to_numpy()
        np.testing.assert_allclose(got, want, rtol=1e-6)
        inside = on(host)
        getattr(gp, op)(inside, axis=axis, out=inside)
        np.testing.assert_array_equal(inside.to_numpy(), got)
    turned = getattr(gp, op)(on(host).T, axis=1).to_numpy()
    np.testing.assert_allclose(turned, getattr(np, op)(wide.T, axis=1), rtol=1e-6)


def bits(x: Any) -> Any:
    return x.view(f"u{x.dtype.itemsize}")


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16", "bool"])
def test_sort_keeps_the_order_of_both_zeros(dtype: str, descending: bool) -> None:
    rng = np.random.default_rng(2)
    host = rng.integers(-2, 3, (N, N)).astype(dtype)
    if dtype.startswith("float"):
        host *= np.where(rng.random(host.shape) < 0.5, -1, 1).astype(dtype)
        host[3, 5:9] = np.nan
    for axis in (0, 1):
        got = gp.sort(on(host), axis=axis, descending=descending).to_numpy()
        if descending:
            order = np.flip(np.argsort(np.flip(host, axis), axis=axis, kind="stable"), axis)
            want = np.take_along_axis(host, host.shape[axis] - 1 - order, axis)
        else:
            want = np.sort(host, axis=axis, kind="stable")
        real = ~np.isnan(want) if dtype.startswith("float") else np.ones(want.shape, bool)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(bits(got)[real], bits(want)[real])


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_take(mode: str) -> None:
    host = normal(N, N)
    low, high = (-N, N) if mode == "raise" else (-3 * N, 3 * N)
    index = np.random.default_rng(3).integers(low, high, N)
    for axis in (0, 1):
        want = np.take(host, index, axis, mode=mode)
        got = gp.take(on(host), on(index), axis=axis, mode=mode).to_numpy()
        np.testing.assert_array_equal(got, want)
    index[7] = N
    if mode == "raise":
        with pytest.raises(IndexError, match=f"^take: index {N} is out of bounds for axis 0"):
            gp.take(on(host), on(index), axis=0)
        with pytest.raises(IndexError, match=f"^getitem: index {N} is out of bounds for axis 0"):
            on(host)[on(index)]


def test_where_and_masks() -> None:
    a, b = normal(N, N), normal(N, N, seed=1)
    mask = a > b
    x, y, m = on(a), on(b), on(mask)
    np.testing.assert_array_equal(gp.where(m, x, y).to_numpy(), np.where(mask, a, b))
    np.testing.assert_array_equal(gp.where(m, x, 0.0).to_numpy(), np.where(mask, a, 0))
    np.testing.assert_array_equal(gp.where(m[0], x.T, y).to_numpy(), np.where(mask[0], a.T, b))
    np.testing.assert_array_equal(gp.where(on(a), x, y).to_numpy(), np.where(a, a, b))
    np.testing.assert_array_equal(x[m].to_numpy(), a[mask])
    np.testing.assert_array_equal(x[m[0]].to_numpy(), a[mask[0]])
    np.testing.assert_array_equal(x[:, m[0]].to_numpy(), a[:, mask[0]])
    cube = normal(3, 4, 5)
    key = np.array([True, False, True, True, False])
    np.testing.assert_array_equal(on(cube)[0, :, on(key)].to_numpy(), cube[0, :, key])


def test_floor_divide_has_the_standards_infinities() -> None:
    a = np.array([1.0, -1.0, np.inf, -np.inf, 7.0], np.float32)
    b = np.array([np.inf, np.inf, 2.0, 2.0, 2.0], np.float32)
    got = gp.floor_divide(on(a), on(b)).to_numpy()
    np.testing.assert_array_equal(got, np.array([0.0, -0.0, np.inf, -np.inf, 3.0], np.float32))
    assert np.signbit(got).tolist() == [False, True, False, True, False]
    x = on(a)
    x //= on(b)
    np.testing.assert_array_equal(x.to_numpy(), got)


@pytest.mark.parametrize(("start", "step"), [(0, 1), (5, -3), (2**62, 2**61), (0.5, 0.25)])
def test_arange(start: Any, step: Any) -> None:
    count = 40_000
    dtype = "float32" if isinstance(start, float) else "int64"
    with np.errstate(over="ignore"):
        want = np.array([start + i * step for i in range(count)], dtype=object)
    if dtype == "int64":
        want = np.array([(int(v) + 2**63) % 2**64 - 2**63 for v in want])
    got = _native.arange(count, start, step, dtype, "cpu").to_numpy()
    np.testing.assert_array_equal(got, want.astype(dtype))


# --- loops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 4, 31, 32, 33, 1000])
@pytest.mark.parametrize("position", [0, 2**64 - 3, 2**95 + 2**64 - 1])
def test_words_of_a_stream(count: int, position: int) -> None:
    """The loop against the definition in NumPy."""
    stream = Stream(0x0123456789ABCDEF, position & (2**64 - 1), position >> 64)
    for first in (0, 5):
        blocks = np.arange(first, first + -(-count // 4), dtype=np.uint64)
        want = stream.blocks(blocks).reshape(-1)[:count]
        np.testing.assert_array_equal(stream.words(first, count), want)


def test_circle() -> None:
    turns = np.concatenate([np.arange(0, 1, 1 / 4096), [1 - 2.0**-53, 2.0**-60, 0.25, 0.5]])
    cosine, sine = circle(turns)
    assert np.abs(cosine - np.cos(2 * np.pi * turns)).max() < 4e-15
    assert np.abs(sine - np.sin(2 * np.pi * turns)).max() < 4e-15


@pytest.mark.parametrize("count", [0, 1, 3, 4, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("position", [0, 2**64 - 3])
def test_random_float32(count: int, position: int) -> None:
    """The loops against the definition in NumPy, which arrays with gaps take."""
    stream = (0x0123456789ABCDEF, position & (2**64 - 1), position >> 64)
    got, want = np.empty(count, np.float32), np.empty(2 * count, np.float32)[::2]
    for low, span in ((0.0, 1.0), (-3.0, 0.7)):
        random_uniform(*stream, low, span, out=got)
        random_uniform(*stream, low, span, out=want)
        if count > 1:  # a single element has no gap
            np.testing.assert_array_equal(got, want)
        assert ((low <= got) & (got <= low + span)).all()
    for loc, scale in ((0.0, 1.0), (5.0, 0.1)):
        random_normal(*stream, loc, scale, out=got)
        random_normal(*stream, loc, scale, out=want)
        np.testing.assert_allclose(got, want, rtol=2e-7, atol=1e-12)


def test_normals_of_extreme_words() -> None:
    """Of many words, the largest and the least radius: log of numbers near 0 and near 1."""
    got = np.empty(1 << 20, np.float32)
    want = np.empty(1 << 21, np.float32)[::2]
    random_normal(7, 0, 0, 0.0, 1.0, out=got)
    random_normal(7, 0, 0, 0.0, 1.0, out=want)
    np.testing.assert_allclose(got, want, rtol=2e-7, atol=1e-12)
    assert (got == want).mean() > 0.999


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", "float32", "int64", "complex128"])
@pytest.mark.parametrize("count", [1, 31, 4099])
def test_where_in_one_pass(dtype: str, count: int) -> None:
    rng = np.random.default_rng(count)
    test = rng.integers(0, 2, count).astype(bool)
    x, y = rng.integers(0, 2, (2, count)).astype(dtype)
    for a, b in ((x, y), (x, y[0]), (x[0], y), (x[0], y[0])):
        out = np.empty(count, dtype)
        assert _native.host_select(test, np.asarray(a), np.asarray(b), out)
        np.testing.assert_array_equal(out, np.where(test, a, b))


def test_where_refuses_what_it_would_overwrite() -> None:
    x = np.arange(8, dtype=np.float32)
    test = np.array([True, False] * 3)
    assert _native.host_select(test, x[:6], np.zeros(6, np.float32), x[:6])  # in place
    np.testing.assert_array_equal(x, [0, 0, 2, 0, 4, 0, 6, 7])
    for given in (x[1:7], x[2:3]):
        assert not _native.host_select(test, given, np.zeros(6, np.float32), x[:6])
    for given in (x[::2][:3], x[:5], x[:6].astype(np.float64)):
        assert not _native.host_select(test, given, x[:6], np.empty(6, np.float32))
    got = gp.from_numpy(np.arange(8, dtype=np.float32))
    gp.where(gp.from_numpy(test), got[1:7], got[:6], out=got[:6])
    np.testing.assert_array_equal(got.to_numpy(), [1, 1, 3, 3, 5, 5, 6, 7])


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 1), (2, 3, 1030), (40, 30, 50)])
def test_running_sums_along_any_axis(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(3).uniform(0.5, 1.5, shape).astype(np.float32)
    wide = x.astype(np.float64)
    for ours, theirs in ((gp.cumsum, np.cumsum), (gp.cumprod, np.cumprod)):
        want = theirs(wide, axis=axis).astype(np.float32)
        np.testing.assert_array_equal(ours(gp.from_numpy(x), axis=axis).to_numpy(), want)
    in_place = gp.from_numpy(x)
    gp.cumsum(in_place, axis=axis, out=in_place)
    want = np.cumsum(wide, axis=axis).astype(np.float32)
    np.testing.assert_array_equal(in_place.to_numpy(), want)


def test_loops_refuse_other_arrays() -> None:
    x, out = np.ones((2, 3, 4), np.float32), np.empty((2, 4))
    _native.host_sum(x, None, out)
    np.testing.assert_array_equal(out, np.full((2, 4), 3.0))
    with pytest.raises(ValueError, match="host_sum: x has shape"):
        _native.host_sum(x, None, np.empty(3))
    with pytest.raises(ValueError, match="host_scan: x has shape"):
        _native.host_scan(x, False, np.empty((3, 5), np.float32))
    with pytest.raises(ValueError, match="host_random_words: out has 3 elements"):
        _native.host_random_words(1, 0, 0, 0, np.empty(3, np.uint32))
    with pytest.raises(TypeError):
        _native.host_sum(x[:, :, ::2], None, np.empty((2, 2)))


# --- composites that are one function of NumPy ------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint16", "int32", "uint32", "int64", "float16", "float32", "float64"],
)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_argsort_is_stable(dtype: str, axis: int) -> None:
    rng = np.random.default_rng(5)
    for values in (rng.standard_normal((N, N)), rng.integers(0, 40_000, (N, N)) * 1e5):
        with np.errstate(all="ignore"):
            host = np.abs(values).astype(dtype) if "u" in dtype else values.astype(dtype)
        if "float" in dtype:
            host[3, 5:9] = np.nan
            host[4, 5:9] = -np.inf
            host[5, ::9] = -0.0
            host[5, 1::9] = 0.0
            host[6, 2:4] = -np.float32(np.nan)
        got = gp.argsort(on(host), axis=axis).to_numpy()
        np.testing.assert_array_equal(got, np.argsort(host, axis=axis, kind="stable"))
        back = gp.argsort(on(host), axis=axis, descending=True).to_numpy()
        last = host.shape[axis] - 1
        want = np.argsort(np.flip(host, axis), axis=axis, kind="stable")
        np.testing.assert_array_equal(back, last - np.flip(want, axis))
    flat = (np.arange(60_000) % 50_000 % 251).astype(dtype)
    got = gp.argsort(on(flat)).to_numpy()
    np.testing.assert_array_equal(got, np.argsort(flat, kind="stable"))


@pytest.mark.parametrize("bins", [1, 7, 100, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16", "bfloat16"])
def test_histograms_in_parts(dtype: str, bins: int) -> None:
    host = (normal(N, N) * 10).astype(np.float32).astype(dtype)
    wide = host.astype(np.float64)
    weights = normal(N, N, seed=1)
    for options in ({}, {"range": (-3.0, 9.0)}, {"weights": weights}):
        given: Any = {k: on(v) if k == "weights" else v for k, v in options.items()}
        counts, edges = gp.histogram(on(host), bins, **given)
        inner = edges.to_numpy().astype(np.float64)
        if (np.diff(inner) <= 0).any():
            continue  # float16 has not as many numbers
        want, _ = np.histogram(wide, inner, weights=options.get("weights"))
        np.testing.assert_allclose(counts.to_numpy(), want, rtol=1e-5, atol=1e-3)


def test_bins_far_from_zero() -> None:
    """Their edges are rounded, so that the bin cannot be computed from the width."""
    host = (np.float32(1e6) + np.arange(N * N, dtype=np.float32) / 8).astype(np.float32)
    counts, edges = gp.histogram(on(host), 3000)
    want, _ = np.histogram(host.astype(np.float64), edges.to_numpy().astype(np.float64))
    np.testing.assert_array_equal(counts.to_numpy(), want)


def test_composites_are_part_of_a_graph() -> None:
    x, out = gp.asarray([1.0, 2.0, 3.0]), gp.zeros(4)
    place, taps = gp.asarray([0, 0, 3]), gp.asarray([1.0, 2.0])
    graph = gp.CudaGraph()
    with graph:
        gp.add.at(out, place, x)
        full = gp.convolve(x, taps)
        size = gp.linalg.norm(x)
    assert out.tolist() == [0, 0, 0, 0]
    x[...] = gp.asarray([2.0, 3.0, 4.0])
    graph.replay()
    assert out.tolist() == [5, 0, 0, 4]
    assert full.tolist() == [2, 7, 10, 8]
    np.testing.assert_allclose(size.to_numpy(), np.sqrt(29), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64", "float16", "bfloat16"])
def test_at_on_views(dtype: str) -> None:
    rng = np.random.default_rng(9)
    places = rng.integers(-6, 6, 40)
    values = rng.integers(0, 3, 40).astype(dtype)
    for view in (slice(None), slice(None, None, 2)):
        host = np.zeros(12 if view.step else 6, np.float32).astype(dtype)
        x = on(host)
        gp.add.at(x[view], on(places), on(values))
        wide = host.astype("complex128")
        np.add.at(wide[view], places, values.astype("complex128"))
        want = wide != 0 if dtype == "bool" else wide
        np.testing.assert_array_equal(x.to_numpy().astype("complex128"), want)


def test_references_are_for_arrays_on_the_cpu() -> None:
    with pytest.raises(TypeError, match="run_reference: out is 3"):
        _native.run_reference("convolution", (), 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="run_reference: args is "):
        _native.run_reference("convolution", (object(),), gp.ones(3))


# --- time -----------------------------------------------------------------------------------------

TIMED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda xp, x, i: x + x,
    "exp": lambda xp, x, i: xp.exp(x),
    "sum": lambda xp, x, i: xp.sum(x),
    "sum axis 0": lambda xp, x, i: xp.sum(x, axis=0),
    "sum axis 1": lambda xp, x, i: xp.sum(x, axis=1),
    "var axis 1": lambda xp, x, i: xp.var(x, axis=1),
    "argmax axis 1": lambda xp, x, i: xp.argmax(x, axis=1),
    "cumsum axis 1": lambda xp, x, i: xp.cumsum(x, axis=1),
    "compare": lambda xp, x, i: x > 0,
    "where": lambda xp, x, i: xp.where(x > 0, x, 0.0),
    "astype": lambda xp, x, i: x.astype("float64"),
    "concat": lambda xp, x, i: xp.concat([x, x]),
    "take": lambda xp, x, i: xp.take(x, i, axis=0),
    "sort": lambda xp, x, i: xp.sort(x, axis=1),
    "matmul": lambda xp, x, i: x @ x,
    "argsort": lambda xp, x, i: xp.argsort(x, axis=1),
    "norm": lambda xp, x, i: xp.linalg.norm(x),
    "histogram": lambda xp, x, i: xp.histogram(x, 100),
    "convolve": lambda xp, x, i: xp.convolve(x[0], x[1]),
}


@pytest.mark.parametrize("name", TIMED)
def test_large_arrays_take_numpys_time(name: str) -> None:
    """Of the least times of both, taken in turn, as other work on the machine only adds; the
    benchmark has the figures, docs/benchmarks.md states them."""
    x, index = normal(600, 600), np.random.default_rng(4).integers(0, 600, 600)
    ours, theirs = (on(x), on(index)), (x, index)
    work = TIMED[name]
    times: dict[str, list[int]] = {"ours": [], "theirs": []}
    for round_ in range(100):
        for key, xp, args in (("ours", gp, ours), ("theirs", np, theirs)):
            start = time.thread_time_ns()
            work(xp, *args)
            times[key].append(time.thread_time_ns() - start)
        mine, numpys = (min(times[key]) for key in ("ours", "theirs"))
        # The worst recorded is 1.34, and runs differ by up to 40 %.
        if round_ >= 9 and mine <= 2.0 * numpys + 50_000:
            return
    raise AssertionError(f"{name}: {mine} ns, NumPy {numpys} ns")


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int64", "complex128", "V3"])
@pytest.mark.parametrize("shape", [(7,), (5, 6), (3, 33, 2), (2, 1, 31), (4, 3, 0)])
def test_take_and_compact_in_one_pass(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    item = np.dtype(dtype).itemsize
    x = rng.integers(0, 2, (*shape, item)).astype(np.uint8).view(dtype).reshape(shape)
    for axis in range(len(shape)):
        if shape[axis] == 0:
            continue
        for kind in (np.int32, np.int64):
            index = rng.integers(-shape[axis], shape[axis], 9).astype(kind)
            want = x.take(index, axis)
            out = np.empty_like(want)
            assert _native.host_take(x, index, axis, out)
            assert out.tobytes() == want.tobytes()
            for bad in (-shape[axis] - 1, shape[axis]):
                index[5] = bad
                out = want.copy()
                assert not _native.host_take(x, index, axis, out)
                assert out.tobytes() == want.tobytes()
        for end in range(axis, len(shape) + 1):
            mask = rng.integers(0, 2, shape[axis:end]).astype(bool)
            want = x[(slice(None),) * axis + (mask,)]
            out = np.empty(want.shape, dtype)
            count = int(np.count_nonzero(mask))
            assert _native.host_compact(x, mask, axis, count, out)
            assert out.tobytes() == want.tobytes()


def test_take_and_compact_refuse_what_they_do_not_know() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    index, mask = np.array([0, 2]), np.array([True, False, True])
    out = np.empty((2, 4), np.float32)
    for a, i, o in (
        (x[:, ::-1], index, out),
        (x, index.astype(np.int16), out),
        (x, index.astype(np.uint64), out),
        (x, np.array([0, 9, 2])[::2], out),
        (x, index, x[:2]),
        (x, index, out.astype(np.float64)),
        (x, index, np.empty((2, 3), np.float32)),
    ):
        assert not _native.host_take(a, i, 0, o)
    assert not _native.host_take(x, index, 2, out)
    for a, m, o in (
        (x[:, ::-1], mask, out),
        (x, mask.astype(np.int64), out),
        (x, mask[:2], out),
        (x, mask, x[:2]),
        (x, mask, np.empty((3, 4), np.float32)),
    ):
        assert not _native.host_compact(a, m, 0, 2, o)
    assert not _native.host_compact(x, mask, 1, 2, out)
