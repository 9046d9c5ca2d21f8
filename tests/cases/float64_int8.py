"""float64 products by int8 slices, against exact sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit.ops.matmul_plan import with_matmul_plan

RNG = np.random.default_rng(31)
MOST = np.finfo(np.float64).max


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def wide(*shape: int) -> Any:
    """Numbers of all sizes: 2^-40 to 2^40 within a row."""
    return normal(*shape) * 2.0 ** RNG.integers(-40, 41, shape)


def scaled_rows(m: int, k: int) -> Any:
    """Rows of different sizes, subnormal ones too."""
    return normal(m, k) * 2.0 ** np.linspace(-1070, 900, m).round()[:, None]


def whole(*shape: int) -> Any:
    return RNG.integers(-(2**20), 2**20, shape).astype(np.float64)


def ends(m: int, k: int) -> Any:
    """Zeros, a row of them, powers of two, digits of -128 and neighbours of a power of two."""
    x = np.zeros((m, k))
    x[1:, ::3] = 2.0 ** -np.arange(len(x[0, ::3]))
    x[2:, 1::3] = -np.nextafter(1.0, 0.0)
    x[3:, 2::3] = np.nextafter(1.0, 2.0)
    return x


@dataclass(frozen=True)
class Case:
    name: str
    a: Callable[[], Any]
    b: Callable[[], Any]

    def __str__(self) -> str:
        return self.name


CASES = (
    Case("normal", lambda: normal(33, 100), lambda: normal(100, 20)),
    Case("wide range", lambda: wide(9, 65), lambda: wide(65, 17)),
    Case("rows of all sizes", lambda: scaled_rows(20, 24), lambda: normal(24, 9) * 2.0**-5),
    Case("whole numbers", lambda: whole(17, 48), lambda: whole(48, 19)),
    Case("ends", lambda: ends(8, 31), lambda: ends(31, 6)),
    Case("one element", lambda: normal(1, 1), lambda: normal(1, 1)),
    Case("dot", lambda: normal(1, 700), lambda: normal(700, 1)),
    Case("column-major", lambda: normal(40, 21).T, lambda: normal(13, 40).T),
    Case("batches", lambda: normal(3, 9, 40), lambda: normal(3, 40, 7)),
    Case("one a for all batches", lambda: normal(9, 40), lambda: normal(3, 40, 7)),
)


def exact(a: Any, b: Any) -> Any:
    """Sums of fractions, each rounded once."""
    rows, columns = a.tolist(), b.T.tolist()
    sums = np.empty((len(rows), len(columns)))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            products = zip(row, column, strict=True)
            sums[i, j] = float(sum((Fraction(x) * Fraction(y) for x, y in products), Fraction(0)))
    return sums


def bound(a: Any, b: Any) -> Any:
    """docs/matmul.md: k 2^-57 max|a_i| max|b_j|, and the rounding of the result."""
    k = a.shape[1]
    largest_a, largest_b = np.abs(a).max(1, initial=0), np.abs(b).max(0, initial=0)
    return (k * 2.0**-57 * largest_a)[:, None] * largest_b


def emulated(a: Any, b: Any) -> Any:
    x, y = gp.from_numpy(a), gp.from_numpy(b)
    return with_matmul_plan(lambda: gp.matmul(x, y, precision="float64_int8"), "ozaki").to_numpy()


def check(got: Any, a: Any, b: Any) -> None:
    want = exact(a, b)
    assert (np.abs(got - want) <= bound(a, b) + np.spacing(np.abs(want))).all()


def run(case: Case) -> None:
    a, b = case.a(), case.b()
    got = emulated(a, b)
    assert got.dtype == np.float64
    stacks = got.reshape(-1, *got.shape[-2:])
    for i, c in enumerate(stacks):
        check(c, a if a.ndim == 2 else a[i], b if b.ndim == 2 else b[i])


def run_not_finite() -> None:
    """Infinities and NaN as the sums in order have them; other rows and columns do not notice."""
    a, b = np.abs(normal(9, 40)), np.abs(normal(40, 7))
    clean = emulated(a, b)
    a[1, 3] = np.inf
    a[2, 3:5] = np.inf, -np.inf
    a[3, 8] = np.nan
    b[5, 2] = -np.inf
    b[9, 3] = 0.0
    a[4, 9] = np.inf
    got = emulated(a, b)
    with np.errstate(invalid="ignore"):
        want = a @ b
    assert (np.isnan(got) == np.isnan(want)).all()
    assert (np.isposinf(got) == np.isposinf(want)).all()
    assert (np.isneginf(got) == np.isneginf(want)).all()
    others = np.isfinite(want)
    others[:, 3] = False  # one of its numbers changed
    assert (got[others] == clean[others]).all()


def run_overflow() -> None:
    a = np.full((2, 4), MOST)
    a[1] *= -1
    got = emulated(a, np.ones((4, 2)))
    assert np.isposinf(got[0]).all()
    assert np.isneginf(got[1]).all()
    assert (emulated(a, np.full((4, 2), 0.25)) == [[MOST] * 2, [-MOST] * 2]).all()


def run_same_bits() -> None:
    """A row alone, and with others: integers add up to the same."""
    a, b = normal(40, 70), normal(70, 24)
    all_rows = emulated(a, b)
    assert (emulated(a[7:8], b) == all_rows[7:8]).all()
    assert (emulated(a, b[:, 3:5]) == all_rows[:, 3:5]).all()


def run_chunks() -> None:
    """A k that int32 sums do not hold at once: of the largest digits, and of random ones."""
    k = 16400
    a = np.full((3, k), np.nextafter(1.0, 0.0))
    a[1:] = normal(2, k)
    b = np.full((k, 2), -np.nextafter(1.0, 0.0))
    b[:, 1] = normal(k)
    check(emulated(a, b), a, b)
