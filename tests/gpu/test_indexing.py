"""Indexing on the GPU: the tables, bounds, sizes beyond 32 bits, no hidden waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import indexing

import pygpukit as gp
from pygpukit.ops import indexing as ops

COMBINATIONS = list(indexing.combinations())


def ids(pair: Any) -> str:
    return f"{pair[0]}-{pair[1]}"


@pytest.mark.parametrize("pair", COMBINATIONS, ids=ids)
def test_getitem(pair: tuple[indexing.Case, str]) -> None:
    indexing.run_get(*pair, "cuda")


@pytest.mark.parametrize("pair", COMBINATIONS, ids=ids)
def test_setitem(pair: tuple[indexing.Case, str]) -> None:
    indexing.run_set(*pair, "cuda")


@pytest.mark.parametrize("case", indexing.MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: indexing.MustRaise) -> None:
    indexing.run_must_raise(case, "cuda")


# --- index values out of bounds -----------------------------------------------------------------


def test_bad_index_is_reported_at_the_next_wait() -> None:
    x = gp.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4))
    index = gp.from_numpy(np.array([0, 7, 1]))
    picked = x[index]  # no wait, no error
    with pytest.raises(
        IndexError, match="getitem: index 7 is out of bounds for axis 0 with size 3"
    ):
        picked.to_numpy()
    indexing.equal(picked[::2], x.to_numpy()[:2])  # once only
    x[:, index] = 1.0
    with pytest.raises(
        IndexError, match="setitem: index 7 is out of bounds for axis 1 with size 4"
    ):
        gp.synchronize()
    want = np.arange(12, dtype=np.float32).reshape(3, 4)
    want[:, [0, 1]] = 1.0
    indexing.equal(x, want)


def test_many_bad_indices_are_one_error() -> None:
    x = gp.zeros(10)
    index = gp.full(1_000_000, -11, "int64")
    x[index]
    with pytest.raises(
        IndexError, match="getitem: index -11 is out of bounds for axis 0 with size 10"
    ):
        gp.synchronize()
    gp.synchronize()
    x[index]
    with pytest.raises(IndexError):
        gp.synchronize()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x, i: ops.take(x, i), IndexError, "take: index 99"),
        (lambda x, i: ops.take_along_axis(x, i, axis=0), IndexError, "take_along_axis: index 99"),
        (lambda x, i: ops.put(x, i, 1.0), IndexError, "put: index 99"),
        (lambda x, i: x.__setitem__(i, x[:2]), IndexError, "setitem: index 99"),
        (lambda x, i: ops.unravel_index(i, (2, 5)), ValueError, "unravel_index: index 99"),
        (
            lambda x, i: ops.ravel_multi_index((i, i), (2, 5)),
            ValueError,
            "ravel_multi_index: index",
        ),
    ],
)
def test_every_function_reports(call: Any, error: type[Exception], words: str) -> None:
    x = gp.zeros(10)
    index = gp.from_numpy(np.array([1, 99]))
    call(x, index)
    with pytest.raises(error, match=words):
        gp.synchronize()


def test_capture_with_indices() -> None:
    x = gp.zeros(4, "int32")
    index = gp.from_numpy(np.array([1, 1, 3]))
    value = gp.from_numpy(np.array([5, 6, 7], np.int32))
    mask = gp.from_numpy(np.array([True, False, True, False]))
    x[index] = value  # compile the kernels
    x[mask] = 9
    x[index].to_numpy()
    x[...] = 0
    graph = gp.CudaGraph()
    with graph:
        x[index] = value
        x[mask] = 9
        picked = x[index]
    graph.replay()
    graph.synchronize()
    indexing.equal(x, np.array([9, 6, 9, 7], np.int32))
    indexing.equal(picked, np.array([6, 6, 7], np.int32))
    index[0] = 50
    graph.replay()
    with pytest.raises(IndexError, match="index 50"):
        graph.synchronize()


# --- the last of equal indices, always ----------------------------------------------------------


@pytest.mark.parametrize("size", [10, 1000, 100_000_000])  # one table entry per place, or hashed
@pytest.mark.parametrize("row", [(), (4,), (3,)])
def test_the_last_of_equal_indices_is_kept(size: int, row: tuple[int, ...]) -> None:
    if row and size > 1000:
        size = 1_000_000
    rng = np.random.default_rng(0)
    index = rng.integers(0, size, 200_000) // 7 * 7
    values = rng.integers(0, 2**31, (index.size, *row)).astype(np.int32)
    want = np.zeros((size, *row), np.int32)
    want[index] = values
    for _ in range(3):
        x = gp.zeros((size, *row), "int32")
        x[gp.from_numpy(index)] = gp.from_numpy(values)
        indexing.equal(x, want)


def test_the_last_of_equal_pairs_is_kept() -> None:
    rng = np.random.default_rng(1)
    i, j = rng.integers(0, 50, (2, 100_000))
    values = rng.integers(0, 2**31, i.size).astype(np.int32)
    want = np.zeros((50, 50), np.int32)
    want[i, j] = values
    x = gp.zeros((50, 50), "int32")
    x[gp.from_numpy(i), gp.from_numpy(j)] = gp.from_numpy(values)
    indexing.equal(x, want)
    y = gp.zeros((50, 50), "int32")
    lines = rng.integers(0, 50, (50, 300))
    values = rng.integers(0, 2**31, lines.shape).astype(np.int32)
    ops.put_along_axis(y, gp.from_numpy(lines), gp.from_numpy(values), 1)
    want = np.zeros((50, 50), np.int32)
    np.put_along_axis(want, lines, values, 1)
    indexing.equal(y, want)


# --- functions against NumPy --------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_take(axis: int | None, mode: Any, dtype: str) -> None:
    host = np.random.default_rng(0).normal(size=(31, 33, 8)).astype(np.float32)
    high = 30 if mode == "raise" else 200
    index = np.random.default_rng(1).integers(0, high, (5, 7)).astype(dtype)
    x = gp.from_numpy(host)
    want = np.take(
        host,
        index.astype(np.int64) % 8 if axis == -1 and mode == "raise" else index,
        axis,
        mode=mode,
    )
    given = gp.from_numpy(index % np.array(8, dtype) if axis == -1 and mode == "raise" else index)
    indexing.equal(ops.take(x, given, axis=axis, mode=mode), want)
    out = gp.empty(want.shape, "float64")
    ops.take(x, given, axis=axis, mode=mode, out=out)
    indexing.equal(out, want.astype(np.float64))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_along_axis(axis: int) -> None:
    host = np.random.default_rng(0).normal(size=(9, 10, 11))
    index = np.argsort(host, axis)
    x = gp.from_numpy(host)
    indexing.equal(ops.take_along_axis(x, gp.from_numpy(index), axis=axis), np.sort(host, axis))
    want = np.zeros_like(host)
    np.put_along_axis(want, index, host, axis)
    y = gp.zeros(host.shape, "float64")
    ops.put_along_axis(y, gp.from_numpy(index), x, axis)
    indexing.equal(y, want)


@pytest.mark.parametrize("count", [1, 31, 4095, 4096, 4097, 100_003, 9_000_001])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("shift", [0, 1])
def test_masks_of_any_length(count: int, share: float, shift: int) -> None:
    rng = np.random.default_rng(count)
    mask = rng.random(count + shift) < share
    host = rng.integers(0, 2**31, count).astype(np.int32)
    given = gp.from_numpy(mask)[shift:]  # not on a 16-byte boundary
    x = gp.from_numpy(host)
    indexing.equal(x[given], host[mask[shift:]])
    (found,) = ops.nonzero(given)
    indexing.equal(found, np.flatnonzero(mask[shift:]))
    values = rng.integers(0, 2**31, int(mask[shift:].sum())).astype(np.int32)
    if values.size:
        x[given] = gp.from_numpy(values)
        host[mask[shift:]] = values
        indexing.equal(x, host)


def test_nonzero_and_relatives() -> None:
    host = np.random.default_rng(0).integers(0, 2, (31, 33, 5)).astype(np.float16)
    x = gp.from_numpy(host)
    for ours, theirs in zip(ops.nonzero(x), np.nonzero(host), strict=True):
        indexing.equal(ours, theirs)
    indexing.equal(ops.argwhere(x), np.argwhere(host))
    index = np.random.default_rng(1).integers(0, host.size, 1000)
    coordinates = ops.unravel_index(gp.from_numpy(index), host.shape)
    for ours, theirs in zip(coordinates, np.unravel_index(index, host.shape), strict=True):
        indexing.equal(ours, theirs)
    indexing.equal(ops.ravel_multi_index(coordinates, host.shape), index)
    condition = np.random.default_rng(2).random(33) < 0.5
    indexing.equal(ops.compress(condition, x, axis=1), np.compress(condition, host, 1))
    mask = host > 0
    indexing.equal(ops.extract(gp.from_numpy(mask), x), np.extract(mask, host))
    want = host.copy()
    np.place(want, mask, [2, 3, 4])
    ops.place(x, gp.from_numpy(mask), [2, 3, 4])
    indexing.equal(x, want)


# --- sizes beyond 32 bits -----------------------------------------------------------------------


@pytest.mark.hardware("too long")
def test_more_than_two_to_the_31_elements() -> None:
    size = 2**31 + 1000
    x = gp.zeros(size, "uint8")
    places = np.array([0, 5, 2**31 - 1, 2**31, size - 1, -7])
    values = np.arange(1, 7, dtype=np.uint8)
    x[gp.from_numpy(places)] = gp.from_numpy(values)
    indexing.equal(x[gp.from_numpy(places)], values)
    (found,) = ops.nonzero(x)
    assert found.to_numpy().tolist() == sorted(p % size for p in places)
    mask = gp.zeros(size, "bool")
    mask[gp.from_numpy(places)] = True
    indexing.equal(x[mask], values[np.argsort(places % size)])
    x[mask] = 9
    indexing.equal(x[gp.from_numpy(places)], np.full(6, 9, np.uint8))
    assert x[size - 1].to_numpy() == 9
    assert x[2**31 - 2 :: 2**20].shape == (1,)


@pytest.mark.hardware("too long")
def test_more_than_two_to_the_32_results() -> None:
    table = gp.from_numpy(np.arange(7, dtype=np.uint8))
    count = 2**32 + 37
    index = gp.full(count, 3, "int8")
    index[-5:] = gp.from_numpy(np.array([0, 1, 2, 5, 6], np.int8))
    picked = table[index]
    assert picked.size == count
    indexing.equal(picked[-6:], np.array([3, 0, 1, 2, 5, 6], np.uint8))
    assert (picked[:: 2**20].to_numpy() == 3).all()


def test_rows_beyond_two_to_the_32_bytes() -> None:
    x = gp.zeros((5, 2**28), "float32")
    x[4] = 2.5
    order = gp.from_numpy(np.array([4, 0, 4, 1, 3]))
    picked = x[order]
    assert picked.nbytes > 2**32
    for row, value in enumerate([2.5, 0, 2.5, 0, 0]):
        assert (picked[row, :: 2**18].to_numpy() == value).all()
