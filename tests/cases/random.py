"""Cases of the random ops: calls of a generator, the same on every device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np
import pytest

import pygpukit as gp
from pygpukit.random import Generator

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SIZES: tuple[Any, ...] = (None, 0, 1, 2, 31, 32, 33, 4099, (3, 0, 5), (7, 11, 13))


@dataclass(frozen=True)
class Case:
    """A call: method, keywords without the size, and whether devices agree to the bit."""

    op: str  # the op behind the method
    method: str
    options: tuple[tuple[str, Any], ...]
    exact: bool

    def __str__(self) -> str:
        return "-".join([self.method, *(f"{k}={v}" for k, v in self.options)])

    def call(self, rng: Generator, size: Any) -> gp.GPUArray:
        result = getattr(rng, self.method)(size=size, **dict(self.options))
        assert isinstance(result, gp.GPUArray)
        return result


def _case(op: str, method: str, exact: bool, **options: Any) -> Case:
    return Case(op, method, tuple(options.items()), exact)


def _integers() -> list[Case]:
    made = []
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        low, high = int(info.min), int(info.max)
        # One value, few, a range in which a quarter of the words is rejected, everything.
        for first, last in ((3, 3), (low, low + 9), (0, (high + 1) * 3 // 4), (low, high)):
            made.append(
                _case(
                    "random_integers",
                    "integers",
                    True,
                    low=first,
                    high=last,
                    dtype=dtype,
                    endpoint=True,
                )
            )
    # Ranges around 2**32, the boundary between 32- and 64-bit draws.
    made += [
        _case("random_integers", "integers", True, low=-1, high=last)
        for last in (2**32 - 2, 2**32 - 1, 2**32, 3 * 2**40)
    ]
    made.append(_case("random_integers", "integers", True, low=0, high=3 * 2**30, dtype="uint32"))
    made.append(_case("random_integers", "integers", True, low=0, high=2, dtype="bool"))
    return made


CASES = [
    *(_case("random_uniform", "random", True, dtype=d) for d in FLOATS),
    *(_case("random_uniform", "uniform", True, low=-2.3, high=5.7, dtype=d) for d in FLOATS),
    *(_case("random_normal", "standard_normal", False, dtype=d) for d in FLOATS),
    *(_case("random_normal", "normal", False, loc=1.5, scale=0.3, dtype=d) for d in FLOATS),
    *(_case("random_exponential", "standard_exponential", False, dtype=d) for d in FLOATS),
    *(_case("random_exponential", "exponential", False, scale=2.5, dtype=d) for d in FLOATS),
    *_integers(),
    *(_case("random_gamma", "gamma", False, shape=2.5, scale=0.3, dtype=d) for d in FLOATS),
    *(
        _case("random_gamma", "standard_gamma", False, shape=a, dtype="float64")
        for a in (0.2, 900.0)
    ),
    *(_case("random_poisson", "poisson", True, lam=lam) for lam in (0.0, 3.5, 10.0, 4000.0)),
    *(
        _case("random_binomial", "binomial", True, n=n, p=p)
        for n, p in ((7, 0.3), (40, 0.5), (10_000, 0.98), (2**40, 0.25))
    ),
    *(_case("random_bernoulli", "bernoulli", True, p=p) for p in (0.0, 0.25, 1 / 3, 1.0)),
]


def dtype_of(case: Case) -> str:
    whole = dict.fromkeys(("integers", "poisson", "binomial"), "int64")
    default = {**whole, "bernoulli": "bool"}.get(case.method, "float32")
    return str(dict(case.options).get("dtype", default))


def assert_same(case: Case, got: Any, want: Any) -> None:
    """Two devices' numbers: equal bits, or equal up to rounding."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if case.exact:
        ours, theirs = (np.atleast_1d(x).view(np.uint8) for x in (got, want))
        np.testing.assert_array_equal(ours, theirs)
        return
    wide = dtype_of(case) == "float64"
    close = {"float16": 2**-10, "bfloat16": 2**-7}.get(dtype_of(case), 1e-14 if wide else 2e-6)
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=close, atol=1e-14 if wide else 2e-6
    )


@dataclass(frozen=True)
class MustRaise:
    name: str
    call: Callable[[Generator], object]
    error: type[Exception]
    words: str


MUST_RAISE = [
    MustRaise("empty range", lambda r: r.integers(5, 5), ValueError, "integers: low >= high"),
    MustRaise("one bound", lambda r: r.integers(0), ValueError, "integers: low >= high"),
    MustRaise(
        "high", lambda r: r.integers(0, 257, dtype="uint8"), ValueError, "high is out of bounds"
    ),
    MustRaise(
        "low", lambda r: r.integers(-1, 3, dtype="uint8"), ValueError, "low is out of bounds"
    ),
    MustRaise(
        "low of int8", lambda r: r.integers(-129, 3, dtype="int8"), ValueError, "low is out of"
    ),
    MustRaise(
        "beyond 64 bits",
        lambda r: r.integers(0, 2**65, dtype="uint64"),
        ValueError,
        "high is out of bounds",
    ),
    MustRaise(
        "bool", lambda r: r.integers(0, 3, dtype="bool"), ValueError, "out of bounds for bool"
    ),
    MustRaise("float bound", lambda r: r.integers(0, 2.5), TypeError, "float"),
    MustRaise(
        "integers of floats",
        lambda r: r.integers(0, 3, dtype="float32"),
        TypeError,
        "integers: dtype is float32",
    ),
    MustRaise(
        "random of integers", lambda r: r.random(3, "int32"), TypeError, "random: dtype is int32"
    ),
    MustRaise(
        "random of float8",
        lambda r: r.random(3, "float8_e5m2"),
        TypeError,
        "random: dtype is float8_e5m2",
    ),
    MustRaise("uniform", lambda r: r.uniform(3, 1), ValueError, "uniform: high - low < 0"),
    MustRaise(
        "infinite range", lambda r: r.uniform(0, np.inf), OverflowError, "uniform: .*exceeds"
    ),
    MustRaise("NaN", lambda r: r.uniform(0, np.nan), OverflowError, "uniform: .*exceeds"),
    MustRaise("normal", lambda r: r.normal(0, -1), ValueError, "normal: scale is -1"),
    MustRaise("exponential", lambda r: r.exponential(-1), ValueError, "exponential: scale is -1"),
    MustRaise("negative size", lambda r: r.random(-1), ValueError, "random: .*negative"),
    MustRaise("size is no int", lambda r: r.random(1.5), TypeError, "random: "),
    MustRaise("p above 1", lambda r: r.bernoulli(1.5), ValueError, "bernoulli: p is 1.5"),
    MustRaise("p is NaN", lambda r: r.bernoulli(float("nan")), ValueError, "bernoulli: p is nan"),
]


def run_must_raise(case: MustRaise, rng: Generator) -> None:
    before = rng.state
    with pytest.raises(case.error, match=case.words):
        case.call(rng)
    assert rng.state == before
