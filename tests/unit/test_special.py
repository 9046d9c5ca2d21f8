"""gp.special: SciPy's names, and accuracy against mpmath where SciPy itself is not accurate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import pygpukit as gp

RNG = np.random.default_rng(31)


def exactly(function: Callable[[Any], Any], x: Any) -> Any:
    with mpmath.workdps(40):
        return np.array([float(function(mpmath.mpf(float(v)))) for v in x])


def ulps(got: Any, want: Any, floor: float = 0.0) -> float:
    unit = np.spacing(np.maximum(np.abs(want), floor))
    return float(np.max(np.abs(got - want) / unit))


# Function, exact one, where, units in the last place, size below which units do not shrink.
EXACT: list[tuple[str, Callable[[Any], Any], Any, float, float]] = [
    ("digamma", mpmath.digamma, RNG.uniform(-20, 20, 300), 8, 1.0),
    ("digamma", mpmath.digamma, 10.0 ** RNG.uniform(-200, 200, 100), 4, 1.0),
    ("gamma", mpmath.gamma, RNG.uniform(-20, 100, 300), 16, 0.0),
    ("ndtr", mpmath.ncdf, RNG.uniform(-37, 8, 300), 8, 0.0),
    ("erfinv", mpmath.erfinv, RNG.uniform(-1, 1, 200), 8, 0.0),
    ("erfinv", mpmath.erfinv, 1 - 2.0 ** -RNG.uniform(2, 50, 100), 8, 0.0),
    ("i0", lambda x: mpmath.besseli(0, x), RNG.uniform(-700, 700, 300), 8, 0.0),
    ("i0", lambda x: mpmath.besseli(0, x), np.array([709.0, 711.5, 713.0, 500.0]), 8, 0.0),
    ("logit", lambda p: mpmath.log(p / (1 - p)), RNG.uniform(0, 1, 300), 4, 0.0),
]


@pytest.mark.parametrize(("name", "exact", "x", "limit", "floor"), EXACT)
def test_accuracy(name: str, exact: Any, x: Any, limit: float, floor: float) -> None:
    got = getattr(gp.special, name)(gp.from_numpy(x)).to_numpy()
    assert ulps(got, exactly(exact, x), floor) <= limit


@pytest.mark.parametrize(
    ("inverse", "function", "low", "high"),
    [
        ("erfinv", "erf", -0.999, 0.999),
        ("erfcinv", "erfc", 1e-300, 2.0),
        ("ndtri", "ndtr", 1e-300, 1.0),
    ],
)
def test_inverses(inverse: str, function: str, low: float, high: float) -> None:
    x = RNG.uniform(low, high, 500)
    if low > 0:
        x = np.concatenate([x, 10.0 ** RNG.uniform(-290, -1, 200)])
    back = getattr(gp.special, function)(getattr(gp.special, inverse)(gp.from_numpy(x)))
    np.testing.assert_allclose(back.to_numpy(), x, rtol=1e-12)


NAMES = [name for name in gp.special.__all__ if hasattr(scipy.special, name)]
BINARY = ("xlogy", "xlog1py", "rel_entr")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_the_same_as_scipy(name: str, dtype: str) -> None:
    x = RNG.uniform(0.05, 0.95, (6, 7)).astype(dtype)
    operands = (x, x[::-1].copy()) if name in BINARY else (x,)
    want = getattr(scipy.special, name)(*operands)
    got = getattr(gp.special, name)(*map(gp.from_numpy, operands)).to_numpy()
    assert got.shape == np.shape(want)
    assert got.dtype == x.dtype
    np.testing.assert_allclose(got, want, rtol=3e-6 if dtype == "float32" else 1e-13, atol=1e-14)


def test_no_name_is_missing_in_scipy() -> None:
    assert set(gp.special.__all__) == set(NAMES)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_reductions(axis: Any) -> None:
    x = RNG.normal(size=(5, 6)) * 300
    for name in ("logsumexp", "softmax", "log_softmax"):
        want = getattr(scipy.special, name)(x, axis=axis)
        got = getattr(gp.special, name)(gp.from_numpy(x), axis=axis).to_numpy()
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-300)
    weights = RNG.integers(0, 3, (5, 6)).astype(float)
    want = scipy.special.logsumexp(x, axis=axis, b=weights, keepdims=True)
    got = gp.special.logsumexp(gp.from_numpy(x), axis, gp.from_numpy(weights), True)
    np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-12)


def test_rel_entr_at_its_edges() -> None:
    x = np.array([0.0, 0.0, 1.0, -1.0, 2.0, np.nan, 0.0])
    y = np.array([0.0, 1.0, 0.0, 1.0, -1.0, 1.0, -1.0])
    got = gp.special.rel_entr(gp.from_numpy(x), gp.from_numpy(y)).to_numpy()
    np.testing.assert_array_equal(got, scipy.special.rel_entr(x, y))


def test_rel_entr_at_infinities_and_where_the_ratio_overflows() -> None:
    x = np.array([np.inf, np.inf, 1.0, 1e308, 1e-300, 1e-310])
    y = np.array([3.0, np.inf, np.inf, 1e-10, 1e300, 1.0])
    got = gp.special.rel_entr(gp.from_numpy(x), gp.from_numpy(y)).to_numpy()
    np.testing.assert_allclose(got, scipy.special.rel_entr(x, y), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("apart", [1e-6, 1e-2, 1.0, 20.0])
def test_rel_entr_of_neighbours_is_exact(dtype: str, apart: float) -> None:
    x = np.exp(RNG.normal(size=500) * 3).astype(dtype)
    y = (x * np.exp(RNG.normal(size=500) * apart)).astype(dtype)
    got = gp.special.rel_entr(gp.from_numpy(x), gp.from_numpy(y)).to_numpy()
    want = scipy.special.rel_entr(x.astype("float64"), y.astype("float64"))
    np.testing.assert_allclose(got, want, rtol=8 * np.finfo(dtype).eps)


def test_dtype_errors() -> None:
    with pytest.raises(TypeError, match="erfinv: "):
        gp.special.erfinv(gp.zeros(2, "complex64"))
    assert gp.special.digamma(gp.ones(2, "int32")).dtype == gp.float64
