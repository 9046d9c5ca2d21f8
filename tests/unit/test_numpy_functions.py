"""NumPy's functions on CPU simulation: values, dtypes, shapes and exception types of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from cases import numpy_functions as cases
from cases import numpy_statistics as statistics

import pygpukit as gp


@pytest.mark.parametrize("case", [*cases.CASES, *statistics.CASES], ids=str)
def test_the_same_as_numpy(case: cases.Case) -> None:
    cases.run(case)


@pytest.mark.parametrize("case", [*cases.MUST_RAISE, *statistics.MUST_RAISE], ids=str)
def test_the_same_exception_as_numpy(case: cases.Case) -> None:
    cases.run_must_raise(case)


def test_windows_are_views_and_cannot_be_written() -> None:
    x = gp.arange(6, dtype="float32")
    windows = gp.sliding_window_view(x, 3)
    assert windows.device_ptr == x.device_ptr
    x[2] = 50
    np.testing.assert_array_equal(
        windows.to_numpy()[:3, [2, 1, 0]], [[50, 1, 0], [3, 50, 1], [4, 3, 50]]
    )
    with pytest.raises(ValueError, match="share memory"):
        windows[...] = 0


def test_strided_views_stay_inside_the_memory() -> None:
    x = gp.arange(10, dtype="int32")
    half = x[5:]
    back = gp.as_strided(half, (5,), (-4,))
    np.testing.assert_array_equal(back.to_numpy(), [5, 4, 3, 2, 1])
    for shape, strides in (((6,), (4,)), ((2,), (-24,)), ((3, 3), (4, 8)), ((2,), (2**62,))):
        with pytest.raises(ValueError, match=r"as_strided: .*outside"):
            gp.as_strided(half, shape, strides)
    with pytest.raises(ValueError, match="multiple of the 4 bytes"):
        gp.as_strided(x, (2,), (3,))
    with pytest.raises(ValueError, match="as many"):
        gp.as_strided(x, (2, 2), (4,))
    assert gp.as_strided(x, (0, 5), (2**40, 4)).shape == (0, 5)


@pytest.mark.parametrize(
    ("shape", "strides", "writable"),
    [
        ((3, 4), (4, 1), True),
        ((4, 3), (1, 4), True),
        ((2, 3), (6, 2), True),
        ((3, 3), (2, 2), False),
        ((3, 4), (3, 1), False),
        ((2, 2, 2), (1, 5, 2), True),
        ((5, 1), (1, 0), True),
        ((5, 2), (1, 0), False),
    ],
)
def test_views_whose_elements_share_memory_are_known(
    shape: tuple[int, ...], strides: tuple[int, ...], writable: bool
) -> None:
    x = gp.zeros(20, "int8")
    view = gp.as_strided(x, shape, strides)
    if writable:
        view[...] = 1
        assert int(gp.sum(x)) == view.size
    else:
        with pytest.raises(ValueError, match="share memory"):
            view[...] = 1


def test_lists_are_taken_where_numpy_takes_them() -> None:
    np.testing.assert_array_equal(gp.convolve([1, 2, 3], [0, 1]).to_numpy(), [0, 1, 2, 3])
    np.testing.assert_allclose(gp.interp([2.5], [1, 2, 3], [3, 2, 0]).to_numpy(), [1.0])
    np.testing.assert_array_equal(gp.cross([1, 0, 0], [0, 1, 0]).to_numpy(), [0, 0, 1])
    np.testing.assert_array_equal(gp.insert([1, 2], 1, 9).to_numpy(), [1, 9, 2])


def test_many_elements_are_inserted_in_order() -> None:
    rng = np.random.default_rng(3)
    x, at = rng.normal(size=5000), rng.integers(0, 5001, 3000)
    new = rng.normal(size=3000)
    got = gp.insert(gp.from_numpy(x), gp.from_numpy(at), gp.from_numpy(new))
    np.testing.assert_array_equal(got.to_numpy(), np.insert(x, at, new))
