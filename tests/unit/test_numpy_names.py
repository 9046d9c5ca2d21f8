"""Names that programs use and that are computed on the host, views that write, modes of pad."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import pygpukit as gp

RNG = np.random.default_rng(3)
M = RNG.standard_normal((5, 7)).astype(np.float32)
I = RNG.integers(-9, 9, (4, 6))  # noqa: E741


def on(x: Any) -> gp.GPUArray:
    return gp.from_numpy(x)


@pytest.mark.parametrize("width", [2, (1, 3), ((2, 0), (1, 2))])
@pytest.mark.parametrize("mode", ["linear_ramp", "maximum", "mean", "median", "minimum"])
def test_pad(mode: str, width: Any) -> None:
    if mode == "linear_ramp":
        every: list[dict[str, Any]] = [{}, {"end_values": 3}, {"end_values": (1, -2)}]
    else:
        every = [{}, {"stat_length": 2}, {"stat_length": ((1, 2), (3, 99))}]
    for host in (M, I, M.astype(np.float64)):
        for options in every:
            want = np.pad(host, width, mode, **options)
            got = gp.pad(on(host), width, mode, **options).to_numpy()  # type: ignore[arg-type]
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_pad_with_nothing_to_compute_from() -> None:
    with pytest.raises(ValueError, match=r"^pad: x has shape \(0,\), mode 'mean' needs elements"):
        gp.pad(gp.zeros(0), 1, "mean")
    with pytest.raises(ValueError, match=r"^pad: stat_length is 0, expected at least 1"):
        gp.pad(gp.zeros(3), 1, "mean", stat_length=0)


@pytest.mark.parametrize("p", [[1, -3, 2], [1, 0, 1], [0, 2, -4, 0], [3], [1.5, 2, 7, 1]])
def test_roots(p: list[float]) -> None:
    got, want = gp.roots(p).to_numpy(), np.roots(p)
    assert got.shape == want.shape
    np.testing.assert_allclose(np.sort_complex(got), np.sort_complex(want), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"^roots: p has shape \(2, 2\)"):
        gp.roots(gp.ones((2, 2)))


def test_polydiv() -> None:
    for u, v in (([3.0, 5.0, 2.0], [2.0, 1.0]), ([1, 2], [1, 2, 3]), ([2.0, 4.0], [2.0])):
        for got, want in zip(gp.polydiv(u, v), np.polydiv(u, v), strict=True):
            np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.T, lambda x: x[::2, 1::2]])
def test_flat(view: Any) -> None:
    host, x = M.copy(), on(M)
    ours, theirs = view(x), view(host)
    assert len(ours.flat) == len(theirs.flat)
    assert [v.item() for v in ours.flat] == list(theirs.flat)
    assert ours.flat[3].item() == theirs.flat[3]
    np.testing.assert_array_equal(ours.flat[1:5].to_numpy(), theirs.flat[1:5])
    ours.flat[2], theirs.flat[2] = 7, 7
    ours.flat[3:6], theirs.flat[3:6] = on(np.arange(3.0)), np.arange(3.0)
    ours.flat[[0, 1]], theirs.flat[[0, 1]] = -1, -1
    np.testing.assert_array_equal(x.to_numpy(), host)
    ours.flat, theirs.flat = [1, 2, 3], [1, 2, 3]
    np.testing.assert_array_equal(x.to_numpy(), host)
    ours.flat, theirs.flat = 4, 4
    np.testing.assert_array_equal(x.to_numpy(), host)
    copied = ours.flat.copy()
    copied[0] = 99
    assert x.to_numpy().max() < 99


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.T, lambda x: x[::2, 1::2]])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (slice(1, 5), [1, 2]),
        (slice(3), [1, 2, 3, 4]),
        (slice(None, None, -2), [1, 2]),
        (slice(1, 1), [1, 2]),
        (slice(1, 3), []),
        (slice(4), [[1, 2], [3, 4], [5, 6]]),
        ([0, 1, 2], [7, 8]),
        (np.array([[0, 1], [2, 3]]), [1, 2, 3]),
        (np.array([[0, -1]]), [5]),
        ([], [1]),
        (..., [1, 2, 3]),
        (-1, 4),
        (1, 2.7),
        ((2,), 5),
    ],
)
def test_values_written_to_flat_are_repeated_or_cut(view: Any, key: Any, value: Any) -> None:
    for dtype in ("int8", "float32"):
        host = M.astype(dtype)
        x = on(host)
        view(x).flat[key], view(host).flat[key] = value, value
        np.testing.assert_array_equal(x.to_numpy(), host)
        as_array = on(np.asarray(value, dtype))
        view(x).flat[key] = as_array
        np.testing.assert_array_equal(x.to_numpy(), host)
        np.testing.assert_array_equal(view(x).flat[key].to_numpy(), view(host).flat[key])


def test_numbers_written_to_flat_fit() -> None:
    x = gp.zeros((2, 2), "int8")
    for value in (300, [300, 1], [-129]):
        with pytest.raises(OverflowError):
            x.flat = value
    with pytest.raises(OverflowError):
        x.flat[1:3] = 300
    assert not x.to_numpy().any()
    x.flat = np.array([300])  # an array wraps, as in NumPy
    assert x.tolist() == [[44, 44], [44, 44]]
    for value in ("a", [[1], [2, 3]], [1j]):
        with pytest.raises(gp.InvalidArgument, match=r"^(flat|setitem): "):
            x.flat = value
    with pytest.raises(IndexError):
        x.T.flat[4] = 1


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.T])
def test_flat_is_an_iterator(view: Any) -> None:
    ours, theirs = view(on(M)).flat, view(M).flat
    assert iter(ours) is ours
    for _ in range(M.size):
        assert (ours.index, ours.coords) == (theirs.index, theirs.coords)
        assert next(ours).item() == next(theirs)
    for one in (ours, theirs):
        with pytest.raises(StopIteration):
            next(one)
    assert len(ours) == M.size


def test_flat_compares_by_element() -> None:
    x = M.T
    ours, theirs = on(M).T.flat, x.flat
    for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
        line = M.reshape(-1)
        for got, expected in ((3, 3), (on(line), line), (line.tolist(), line)):
            same = compare(ours, got).to_numpy() == compare(theirs, expected)
            assert same.all()
        np.testing.assert_array_equal(compare(ours, on(M).flat).to_numpy(), compare(x.flat, M.flat))


def test_other_names() -> None:
    assert list(gp.ndenumerate(on(I))) == list(np.ndenumerate(I))
    assert gp.base_repr(10, 3) == "101"
    for args in ((5,), (5, 8), (-3,), (-3, 6), (0, 4)):
        assert gp.binary_repr(*args) == np.binary_repr(*args)
    seed = np.random.SeedSequence(5)
    first, second = (gp.random.default_rng(seed).random(3).tolist() for _ in range(2))
    assert first == second
    assert first != gp.random.default_rng([5, 6]).random(3).tolist()


def test_testing() -> None:
    gp.testing.assert_almost_equal(gp.ones(3), [1, 1, 1])
    with pytest.raises(AssertionError):
        gp.testing.assert_almost_equal(gp.ones(3), [1, 1, 1.1])
    with gp.testing.assert_raises(ValueError):
        gp.ones(3) + gp.ones(4)


def test_hash_names_what_is_hashable() -> None:
    for x in (gp.ones(3), gp.ones(())):
        with pytest.raises(TypeError, match=r"unhashable.*x\.item\(\).*x\.tolist\(\)"):
            hash(x)
    assert dict(zip(gp.asarray([1, 2]).tolist(), "ab", strict=True)) == {1: "a", 2: "b"}
