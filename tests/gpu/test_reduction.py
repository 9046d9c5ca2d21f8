"""Reductions and scans on the GPU: the case table, sizes beyond 32 bits, the same bits twice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from cases import reduction as cases
from cases.must_raise import Refused

import pygpukit as gp
from pygpukit.ops import reduction, scan

CASES = list(cases.cases(large=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: cases.Case) -> None:
    cases.run_case(case, "cuda")


@pytest.mark.parametrize("case", cases.MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: Refused) -> None:
    cases.run_must_raise(case, "cuda")


def array(host: Any) -> gp.GPUArray:
    return gp.from_numpy(np.ascontiguousarray(host), device="cuda")


# --- size -----------------------------------------------------------------------------------------

BIG = 2**31 + 12345


def test_more_than_two_to_the_31_elements() -> None:
    x = gp.full(BIG, 3, "uint8", device="cuda")
    x[BIG - 2] = 250
    assert int(reduction.sum(x)) == 3 * BIG + 247
    assert int(reduction.max(x)) == 250
    assert int(reduction.argmax(x)) == BIG - 2
    assert int(reduction.count_nonzero(x)) == BIG
    assert not bool(reduction.all(x[:-1] == 3))
    assert float(reduction.mean(x)) == (3 * BIG + 247) / BIG


@pytest.mark.alone  # 23 GiB
def test_rows_and_columns_beyond_two_to_the_31() -> None:
    x = gp.full((3, BIG), 1, "int8", device="cuda")
    x[2, BIG - 1] = 5
    assert reduction.sum(x, 1).to_numpy().tolist() == [BIG, BIG, BIG + 4]
    assert reduction.argmax(x, 1).to_numpy().tolist() == [0, 0, BIG - 1]
    columns = reduction.sum(x, 0)
    assert columns.shape == (BIG,)
    assert columns[-2:].to_numpy().tolist() == [3, 7]
    tall = x.reshape((-1,))[: 2**31 + 64].reshape((-1, 64))
    assert reduction.sum(tall, 0).to_numpy().tolist() == [2**25 + 1] * 64
    odd = x.reshape((-1,))[: (2**31 // 3 + 5) * 3].reshape((-1, 3))
    assert reduction.sum(odd, 0).to_numpy().tolist() == [2**31 // 3 + 5] * 3


@pytest.mark.alone  # 36 GiB
def test_running_sum_beyond_two_to_the_31() -> None:
    x = gp.full(BIG, 1, "uint8", device="cuda")
    total = scan.cumsum(x)
    assert total[-1].to_numpy() == BIG
    assert total[2**31 - 2 : 2**31 + 2].to_numpy().tolist() == [
        2**31 - 1,
        2**31,
        2**31 + 1,
        2**31 + 2,
    ]
    strided = scan.cumsum(x[::-1][: 2**31 + 1])
    assert strided[-1].to_numpy() == 2**31 + 1


# --- accuracy and determinism ---------------------------------------------------------------------


def test_sums_of_2_to_the_28_floats() -> None:
    n = 2**28
    rng = np.random.default_rng(0)
    host = rng.random(n, dtype=np.float32)
    x = array(host)
    exact = float(np.sum(host, dtype=np.float64))
    assert abs(float(reduction.sum(x)) / exact - 1) < 1e-7
    tenth = gp.full(n, 0.1, device="cuda")
    assert abs(float(reduction.sum(tenth)) / (float(np.float32(0.1)) * n) - 1) < 1e-7
    assert abs(float(reduction.var(x)) / np.var(host, dtype=np.float64) - 1) < 1e-6
    columns = reduction.sum(x.reshape((2**20, 256)), 0).to_numpy()
    want = host.reshape(2**20, 256).sum(0, dtype=np.float64)
    np.testing.assert_allclose(columns, want, rtol=2e-7)
    running = scan.cumsum(x).to_numpy()
    want = np.cumsum(host, dtype=np.float64)
    assert np.max(np.abs(running - want) / want) < 2e-7


def test_variance_far_from_zero() -> None:
    host = (np.random.default_rng(1).normal(size=(64, 100_000)) + 1e4).astype(np.float32)
    want = np.var(host, axis=1, dtype=np.float64)
    np.testing.assert_allclose(reduction.var(array(host), 1).to_numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(reduction.var(array(host.T), 0).to_numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_the_same_bits_every_time(dtype: str) -> None:
    host = np.random.default_rng(2).normal(size=(3001, 2048)).astype(dtype)
    x = array(host)
    calls: list[Any] = [
        lambda: reduction.sum(x),
        lambda: reduction.sum(x, 0),
        lambda: reduction.sum(x, 1),
        lambda: reduction.var(x),
        lambda: reduction.var(x, 0),
        lambda: reduction.prod(x, 0),
        lambda: scan.cumsum(x),
        lambda: scan.cumsum(x, 0),
        lambda: scan.cumsum(x, 1),
    ]
    for call in calls:
        first = call().to_numpy().tobytes()
        for _ in range(10):
            assert call().to_numpy().tobytes() == first


def test_running_sums_do_not_depend_on_timing() -> None:
    """Many tiles while another stream keeps the GPU busy."""
    x = array(np.random.default_rng(3).normal(size=2**24).astype(np.float32))
    first = scan.cumsum(x).to_numpy().tobytes()
    stream = gp.Stream()
    noise = gp.ones(2**26, device="cuda")
    gp.synchronize()
    for _ in range(20):
        with stream:
            reduction.sum(noise)
        again = scan.cumsum(x)
        with stream:
            reduction.max(noise)
        assert again.to_numpy().tobytes() == first


# --- special values -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(5, 300), (300, 5), (64, 64), (3, 5000)])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_special_values(dtype: str, shape: tuple[int, int], axis: int | None) -> None:
    rng = np.random.default_rng(4)
    host = rng.normal(size=shape)
    for value in (math.nan, math.inf, -math.inf, -0.0):
        host[rng.random(shape) < 0.01] = value
    host = host.astype(dtype)
    x = array(host)
    wide = host.astype(np.float64)
    with np.errstate(all="ignore"):
        for op in ("max", "min", "argmax", "argmin", "any", "all", "count_nonzero"):
            want = getattr(np, op)(wide, axis=axis)
            np.testing.assert_array_equal(
                cases.wide(getattr(reduction, op)(x, axis).to_numpy()), want, op
            )
        for op in ("sum", "mean", "nansum", "nanmean"):
            want = getattr(np, op)(wide, axis=axis)
            got = cases.wide(getattr(reduction, op)(x, axis).to_numpy())
            np.testing.assert_allclose(got, want, rtol=2e-2, atol=1e-1, err_msg=op)
        got = cases.wide(reduction.nanmax(x, axis).to_numpy())
        np.testing.assert_array_equal(got, np.nanmax(wide, axis=axis))
        np.testing.assert_array_equal(
            reduction.nanargmin(x, axis).to_numpy(), np.nanargmin(wide, axis=axis)
        )


def test_all_nan_gives_minus_one() -> None:
    x = gp.full((2, 3), math.nan, device="cuda")
    assert reduction.nanargmax(x, 0).to_numpy().tolist() == [-1, -1, -1]
    assert np.isnan(reduction.nanmax(x, 1).to_numpy()).all()
    assert np.isnan(reduction.nanmean(x).to_numpy())


# --- out, misalignment, graphs, streams -----------------------------------------------------------


@pytest.mark.parametrize("shift", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "float64"])
def test_misaligned(dtype: str, shift: int) -> None:
    host = (np.arange(70001) % 120).astype(dtype)
    x = array(host)[shift:]
    want = cases.wide(host)[shift:]
    assert float(reduction.sum(x)) == pytest.approx(float(want.sum()), rel=1e-2)
    assert int(reduction.argmax(x)) == int(np.argmax(want))
    for width in (3, 17, 100, 1000):
        rows = x[: 60 * width].reshape((60, width))
        block = want[: 60 * width].reshape(60, width)
        for axis in (0, 1):
            np.testing.assert_array_equal(
                cases.wide(reduction.max(rows, axis).to_numpy()), block.max(axis)
            )
            np.testing.assert_array_equal(
                reduction.argmin(rows, axis).to_numpy(), block.argmin(axis)
            )
            np.testing.assert_allclose(
                cases.wide(scan.cumsum(rows, axis, "float64").to_numpy()), block.cumsum(axis)
            )
    got = scan.cumsum(x, dtype="float64").to_numpy()
    np.testing.assert_allclose(got, np.cumsum(want.astype(np.float64)))


def test_out() -> None:
    host = np.random.default_rng(5).normal(size=(300, 400)).astype(np.float32)
    x = array(host)
    strided = gp.zeros((800,), device="cuda")
    reduction.max(x, 0, out=strided[::2])
    np.testing.assert_array_equal(strided.to_numpy()[::2], host.max(0))
    assert not strided.to_numpy()[1::2].any()
    narrow = gp.zeros((300, 1), "float16", device="cuda")
    reduction.sum(x, 1, keepdims=True, out=narrow)
    np.testing.assert_allclose(narrow.to_numpy()[:, 0], host.sum(1), rtol=2e-3, atol=2e-3)
    whole = gp.zeros((400,), "float64", device="cuda")
    reduction.count_nonzero(x, 0, out=whole)
    assert (whole.to_numpy() == 300).all()
    reduction.max(x, 0, out=x[0])  # reads what it writes
    np.testing.assert_array_equal(x[0].to_numpy(), host.max(0))
    scan.cumsum(x, 1, out=x)
    host[0] = host.max(0)
    np.testing.assert_allclose(
        x.to_numpy(), np.cumsum(host, 1, dtype=np.float64), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("include_initial", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int16", "complex64"])
def test_cumulative(dtype: str, axis: int, include_initial: bool) -> None:
    host = np.random.default_rng(6).integers(-4, 5, (7, 300, 65)).astype(dtype)
    want = np.cumulative_sum(host, axis=axis, include_initial=include_initial)
    got = scan.cumulative_sum(array(host), axis=axis, include_initial=include_initial)
    np.testing.assert_array_equal(got.to_numpy(), want)


def test_graph_replays() -> None:
    host = np.random.default_rng(7).normal(size=(5000, 256)).astype(np.float32)
    x = gp.zeros(host.shape, device="cuda")
    out = [
        gp.zeros((), device="cuda"),
        gp.zeros(256, device="cuda"),
        gp.zeros(host.size, device="cuda"),
    ]

    def work() -> None:
        reduction.sum(x, out=out[0])
        reduction.sum(x, 0, out=out[1])
        scan.cumsum(x, out=out[2])

    work()  # compiles
    graph = gp.CudaGraph()
    with graph:
        work()
    for scale in (1.0, 2.0, -1.0):
        x[...] = array(host * np.float32(scale))
        graph.replay()
        graph.synchronize()
        got = [o.to_numpy().tobytes() for o in out]
        work()
        assert [o.to_numpy().tobytes() for o in out] == got


def test_streams_at_once() -> None:
    """Split reductions on several streams do not share their counters."""
    x = array(np.random.default_rng(8).normal(size=2**22).astype(np.float32))
    want = reduction.sum(x).to_numpy().tobytes()
    gp.synchronize()
    streams = [gp.Stream() for _ in range(4)]
    results = []
    for _ in range(25):
        for stream in streams:
            with stream:
                results.append(reduction.sum(x))
    gp.synchronize()
    assert {result.to_numpy().tobytes() for result in results} == {want}
