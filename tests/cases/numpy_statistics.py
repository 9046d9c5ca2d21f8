"""Weighted statistics, rules for bins, reductions of slices, ranges between computed bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases.numpy_functions import Case

QS = [0.0, 0.1, 0.25, 0.5, 0.8, 1.0]
INVERTED: dict[str, Any] = {"method": "inverted_cdf"}
SLICES = ([0, 4, 1, 5, 2, 6, 3, 7], [0, 3, 8], [8], [2, 2, 2], [0])


def _weighted(xp: Any, a: Any, function: str, scale: float = 1.0) -> Any:
    """Weights of every shape; some are 0, also ahead of all others."""
    quantile = getattr(xp, function)
    qs = [q * scale for q in QS]
    options = INVERTED
    times = xp.abs(a.i % 4)
    return (
        quantile(a.v, qs, weights=a.v**2, **options),
        quantile(a.v, 0.3 * scale, weights=a.v > 0, **options),
        quantile(a.i, [qs], axis=1, weights=times, keepdims=True, **options),
        quantile(a.m, qs, axis=0, weights=xp.abs(a.m[:, 1]), **options),
        quantile(a.m, qs, axis=1, weights=[0, 0, 3, 1, 2, 0, 1], **options),
        quantile(a.t, qs, axis=(2, 0), weights=a.t[:, 0].T ** 2, **options),
        quantile(a.nan, qs, axis=0, weights=[1, 2, 3, 0, 1], **options),
        quantile(a.m32, 0.6 * scale, weights=a.m32**2, **options),
    )


def _rules(xp: Any, a: Any) -> Any:
    names = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")
    return [
        xp.histogram(x, rule, limits)
        for rule in names
        for x, limits in ((a.v, None), (a.v, (-0.5, 0.5)), (a.i, None), (a.v[:1] * 0, None))
    ]


def _slices(xp: Any, a: Any) -> Any:
    functions = ("add", "multiply", "maximum", "fmin", "subtract", "hypot", "logical_and")
    return [
        getattr(xp, name).reduceat(x, places, axis)
        for name in functions
        for places in SLICES
        for x, axis in ((a.v, 0), (a.t.reshape(5, 12), 1), (a.i.reshape(12, 2), -2))
    ]


CASES = [
    Case("quantile weights", lambda xp, a: _weighted(xp, a, "quantile")),
    Case("percentile weights", lambda xp, a: _weighted(xp, a, "percentile", 100.0)),
    Case(
        "nanquantile weights",
        lambda xp, a: (
            xp.nanquantile(a.nan, QS, weights=xp.abs(a.i[0, 0] + a.nan * 0 + 3), **INVERTED),
            xp.nanquantile(a.nan[2], QS, weights=[1, 0, 2, 3, 1, 1, 0, 5], **INVERTED),
            xp.nanquantile(a.nan[1], 0.4, weights=[1, 0, 2, 3, 1, 1, 0, 5], **INVERTED),
        ),
    ),
    Case(
        "nanpercentile by the inverted distribution",
        lambda xp, a: xp.nanpercentile(a.nan, [0, 30, 100], axis=1, method="inverted_cdf"),
    ),
    Case(
        "cov weights",
        lambda xp, a: (
            xp.cov(a.m, aweights=xp.abs(a.w)),
            xp.cov(a.m, fweights=[1, 2, 0, 3, 1, 1, 2]),
            xp.cov(a.m, a.m * 2, ddof=0, fweights=[1, 2, 1, 3, 1, 1, 2], aweights=xp.abs(a.w)),
            xp.cov(a.m, bias=True, rowvar=False, aweights=[1.0, 2, 3, 4, 5, 6]),
            xp.cov(a.z, aweights=[1.0, 2, 3, 4, 5]),
        ),
    ),
    Case("histogram rules", _rules),
    Case(
        "histogram weights in a list",
        lambda xp, a: xp.histogram(a.w, 3, weights=[1.0, 2, 3, 4, 5, 6, 7]),
        dtypes=False,
    ),
    Case("histogram_bin_edges rule", lambda xp, a: xp.histogram_bin_edges(a.v, "sturges")),
    Case("reduceat", _slices, close=1e-10, dtypes=False),
    Case("reduceat dtype", lambda xp, a: xp.add.reduceat(a.i8, [0, 9], dtype="float64")),
    Case(
        "ranges between elements",
        lambda xp, a: (
            xp.linspace(a.v.min(), a.v.max(), 7),
            xp.linspace(a.k.min(), 3, 5, dtype="float64"),
            xp.linspace(a.z[0, 0], a.z[1, 1], 4),
            xp.arange(a.v.min(), a.v.max(), 0.25),
            xp.arange(a.k.max()),
            xp.logspace(a.up[0], a.up[-1], 4),
            xp.geomspace(a.up[-1], a.up[-1] * 8, 4),
        ),
    ),
    Case(
        "NumPy's arrays as positions",
        lambda xp, a: (
            *xp.split(a.v, np.array([3, 7])),
            *xp.array_split(a.v, np.array(4)),
            xp.delete(a.v, np.array([1, 5])),
            xp.delete(a.v, np.arange(33) > 5),
            xp.insert(a.v, np.array([1, 1, 4]), [1.0, 2.0, 3.0]),
            xp.repeat(a.w, np.array([1, 0, 2, 1, 1, 3, 0])),
            xp.take(a.m, np.array([5, 0]), 0),
        ),
    ),
]  # fmt: skip

MUST_RAISE = [
    Case("weights of a method", lambda xp, a: xp.quantile(a.v, 0.5, weights=a.v**2)),
    Case("negative weights", lambda xp, a: _weights_of(xp, a, [-1.0] + [1.0] * 32)),
    Case(
        "weights along an axis",
        lambda xp, a: xp.quantile(a.m, 0.5, 0, weights=[1.0] * 5, method="inverted_cdf"),
    ),
    Case(
        "weights without an axis",
        lambda xp, a: xp.quantile(a.m, 0.5, weights=[1.0] * 6, method="inverted_cdf"),
    ),
    Case("fweights are integers", lambda xp, a: xp.cov(a.m, fweights=[0.5] * 7)),
    Case("histogram rule", lambda xp, a: xp.histogram(a.v, "best")),
    Case("histogram rule with weights", lambda xp, a: xp.histogram(a.v, "auto", weights=a.v)),
    Case("reduceat outside", lambda xp, a: xp.add.reduceat(a.v, [0, 33])),
    Case("reduceat negative", lambda xp, a: xp.add.reduceat(a.v, [-1])),
    Case("reduceat of one operand", lambda xp, a: xp.sqrt.reduceat(a.v, [0])),
    Case("reduceat axis", lambda xp, a: xp.add.reduceat(a.v, [0], 3)),
]


def _weights_of(xp: Any, a: Any, weights: list[float]) -> Any:
    return xp.quantile(a.v, 0.5, weights=weights, method="inverted_cdf")
