"""Calls that mean the same in NumPy and here: each is run with both, as `xp`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np
import pytest

import pygpukit as gp

_RNG = np.random.default_rng(20)


def _arrays() -> dict[str, Any]:
    nan = _RNG.normal(size=(5, 8))
    nan[1, 2] = nan[3, :] = nan[4, 7] = np.nan
    complex_ = _RNG.normal(size=(4, 5)) + 1j * _RNG.normal(size=(4, 5))
    return {
        "v": _RNG.normal(size=33),
        "v32": _RNG.normal(size=40).astype(np.float32),
        "w": _RNG.normal(size=7),
        "m": _RNG.normal(size=(6, 7)),
        "m32": _RNG.normal(size=(6, 7)).astype(np.float32),
        "t": _RNG.normal(size=(3, 4, 5)),
        "i": _RNG.integers(-9, 10, (4, 6)),
        "i8": _RNG.integers(-128, 128, 50).astype(np.int8),
        "u8": _RNG.integers(0, 256, (3, 11)).astype(np.uint8),
        "k": _RNG.integers(-9, 10, 12),
        "b": _RNG.integers(0, 2, (3, 13)).astype(bool),
        "z": complex_.astype(np.complex128),
        "z64": complex_.astype(np.complex64),
        "nan": nan,
        "p3": _RNG.normal(size=(5, 3)),
        "q3": _RNG.normal(size=(5, 3)),
        "up": np.sort(_RNG.normal(size=9)),
        "specials": np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 5e-324, 1.7e308]),
        "specials32": np.array([0, -0.0, 1, -2.5, np.inf, np.nan, 1e-45, 3e38], np.float32),
        "empty": np.empty((0,)),
    }


ARRAYS = _arrays()


@dataclass(frozen=True)
class Case:
    name: str
    call: Callable[[Any, Any], Any]  # (xp, namespace of arrays)
    close: float = 1e-12
    dtypes: bool = True  # results have NumPy's dtypes

    def __str__(self) -> str:
        return self.name


class Arrays:
    """ARRAYS as attributes, in the library under test."""

    def __init__(self, xp: Any, device: str | None = None) -> None:
        self._xp, self._device = xp, device

    def __getattr__(self, name: str) -> Any:
        if self._xp is np:
            return ARRAYS[name].copy()
        return gp.from_numpy(ARRAYS[name], device=self._device)


def _host(value: Any) -> Any:
    return value.to_numpy() if isinstance(value, gp.GPUArray) else np.asarray(value)


def assert_same(got: Any, want: Any, close: float, dtypes: bool = True) -> None:
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert_same(g, w, close, dtypes)
        return
    ours, theirs = _host(got), np.asarray(want)
    assert ours.shape == theirs.shape
    if dtypes:
        assert ours.dtype == theirs.dtype
    narrow = theirs.dtype in (np.float32, np.complex64)
    rtol = max(close, 3e-6 if narrow else 0.0)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)


def run(case: Case, device: str | None = None) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = case.call(np, Arrays(np))
    assert_same(case.call(gp, Arrays(gp, device)), want, case.close, case.dtypes)


def _case(name: str, call: Callable[[Any, Any], Any], **options: Any) -> Case:
    return Case(name, call, **options)


def _inplace(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """function(xp, x) changes x, which is the result."""

    def call(xp: Any, a: Any) -> Any:
        x = a.m
        function(xp, x)
        return x

    return call


FLOATING = [
    _case("angle", lambda xp, a: (xp.angle(a.z), xp.angle(a.m), xp.angle(a.z64, deg=True))),
    _case("angle of integers", lambda xp, a: xp.angle(a.i)),
    _case("isreal", lambda xp, a: (xp.isreal(a.z), xp.isreal(a.m), xp.iscomplex(a.z))),
    _case("iscomplexobj", lambda xp, a: [xp.iscomplexobj(x) for x in (a.z, a.m, a.i)]),
    _case("isrealobj", lambda xp, a: [xp.isrealobj(x) for x in (a.z, a.m, a.i)]),
    _case("real_if_close", lambda xp, a: xp.real_if_close(a.z * 0 + 2)),
    _case("real_if_close not", lambda xp, a: xp.real_if_close(a.z)),
    _case("modf", lambda xp, a: (xp.modf(a.m), xp.modf(a.specials), xp.modf(a.m32))),
    _case("frexp", lambda xp, a: (xp.frexp(a.m), xp.frexp(a.specials), xp.frexp(a.specials32))),
    _case("ldexp", lambda xp, a: xp.ldexp(a.v[:12], a.k)),
    _case(
        "ldexp extremes",
        lambda xp, a: xp.ldexp(a.specials, xp.asarray([-1070, 3, 1023, 900, 1, 2, 3, 1100, -2000])),
    ),
    _case("spacing", lambda xp, a: (xp.spacing(a.m), xp.spacing(a.specials), xp.spacing(a.m32))),
    _case("float_power", lambda xp, a: (xp.float_power(a.i, 2), xp.float_power(a.z64, 1.5))),
    _case(
        "bitwise_count",
        lambda xp, a: (xp.bitwise_count(a.i8), xp.bitwise_count(a.k), xp.bitwise_count(a.u8)),
    ),
    _case("sinc", lambda xp, a: (xp.sinc(a.m), xp.sinc(a.i))),
    _case("i0", lambda xp, a: xp.i0(a.m)),
]

SIGNAL = [
    *(
        _case(
            f"{op} {mode}",
            lambda xp, a, op=op, mode=mode: (
                getattr(xp, op)(a.v, a.w, mode),
                getattr(xp, op)(a.w, a.v, mode),
                getattr(xp, op)(a.v, a.v[:8], mode),
                getattr(xp, op)(a.k, a.k[:5], mode),
                getattr(xp, op)(a.z[0], a.z[1, :2], mode),
                getattr(xp, op)(a.z[1, :2], a.z[0], mode),
            ),
        )
        for op in ("convolve", "correlate")
        for mode in ("full", "same", "valid")
    ),
    _case("convolve float32", lambda xp, a: xp.convolve(a.v32, a.v32[:9])),
    _case("convolve bool", lambda xp, a: xp.convolve(a.b[0], a.b[1])),
    _case("correlate default", lambda xp, a: xp.correlate(a.v, a.w)),
    _case("interp", lambda xp, a: xp.interp(a.m, a.up, a.up * a.up)),
    _case("interp outside", lambda xp, a: xp.interp(a.v * 4, a.up, a.up, left=-7.0, right=9.0)),
    _case("interp at points", lambda xp, a: xp.interp(a.up, a.up, a.up**3)),
    _case("interp period", lambda xp, a: xp.interp(a.v * 9, a.up, a.up**2, period=1.5)),
    _case("interp complex", lambda xp, a: xp.interp(a.v, a.up, a.up + 1j * a.up**2)),
    _case("interp one point", lambda xp, a: xp.interp(a.v, a.up[:1], a.up[:1])),
    _case("interp specials", lambda xp, a: xp.interp(a.specials, a.up, a.up)),
    _case("interp float32", lambda xp, a: xp.interp(a.v32, a.v32[:1], a.v32[:1])),
    _case("gradient", lambda xp, a: (xp.gradient(a.v), xp.gradient(a.m), xp.gradient(a.i))),
    _case("gradient spacing", lambda xp, a: xp.gradient(a.m, 2.0, 0.5)),
    _case("gradient axis", lambda xp, a: xp.gradient(a.t, axis=1)),
    _case("gradient axes", lambda xp, a: xp.gradient(a.t, 0.3, axis=(0, -1))),
    _case("gradient order 2", lambda xp, a: xp.gradient(a.m, edge_order=2)),
    _case("gradient points", lambda xp, a: xp.gradient(a.v[:9], a.up)),
    _case("gradient points 2", lambda xp, a: xp.gradient(a.v[:9], a.up, edge_order=2), close=1e-9),
    _case("gradient float32", lambda xp, a: xp.gradient(a.m32)),
    _case("trapezoid", lambda xp, a: (xp.trapezoid(a.m), xp.trapezoid(a.m, dx=0.5, axis=0))),
    _case(
        "trapezoid points",
        lambda xp, a: (xp.trapezoid(a.m[:, :5], a.up[:5]), xp.trapezoid(a.t, a.t, axis=1)),
    ),
    _case("trapezoid axis", lambda xp, a: xp.trapezoid(a.m, a.up[:6], axis=0)),
    _case(
        "ediff1d",
        lambda xp, a: (xp.ediff1d(a.m), xp.ediff1d(a.i, to_begin=-99, to_end=xp.asarray([88, 99]))),
    ),
    _case(
        "unwrap",
        lambda xp, a: (xp.unwrap(a.v * 9), xp.unwrap(a.m * 9, axis=0), xp.unwrap(a.m32 * 9)),
    ),
    _case(
        "unwrap period",
        lambda xp, a: (xp.unwrap(a.k, period=6), xp.unwrap(a.v, discont=3, period=2.0)),
    ),
    _case(
        "windows",
        lambda xp, a: [
            f(n)
            for f in (xp.bartlett, xp.blackman, xp.hamming, xp.hanning)
            for n in (0, 1, 2, 12, 33)
        ],
    ),
    _case(
        "kaiser",
        lambda xp, a: [xp.kaiser(n, beta) for n in (0, 1, 2, 21) for beta in (0.0, 2.5, 14)],
    ),
]

STATISTICS = [
    _case(
        "cov", lambda xp, a: (xp.cov(a.m), xp.cov(a.m, rowvar=False), xp.cov(a.v), xp.cov(a.m32))
    ),
    _case(
        "cov of two",
        lambda xp, a: (xp.cov(a.v, a.v * 2), xp.cov(a.m, a.m + 1, bias=True), xp.cov(a.i, ddof=3)),
    ),
    _case("cov complex", lambda xp, a: xp.cov(a.z)),
    _case("corrcoef", lambda xp, a: (xp.corrcoef(a.m), xp.corrcoef(a.v, a.v**2), xp.corrcoef(a.z))),
    _case(
        "nanmedian",
        lambda xp, a: (
            xp.nanmedian(a.nan),
            xp.nanmedian(a.nan, axis=0),
            xp.nanmedian(a.nan, axis=(0, 1), keepdims=True),
        ),
    ),
    _case(
        "nanquantile",
        lambda xp, a: (
            xp.nanquantile(a.nan, 0.3, axis=0),
            xp.nanquantile(a.nan, [0, 0.25, 1], axis=1),
            xp.nanquantile(a.m, [[0.1, 0.9]], axis=0, keepdims=True),
        ),
    ),
    _case(
        "nanpercentile",
        lambda xp, a: (xp.nanpercentile(a.nan, 40), xp.nanpercentile(a.i, [10, 50], axis=1)),
    ),
    _case("nanquantile float32", lambda xp, a: xp.nanquantile(a.m32, 0.37, axis=1)),
    _case("histogram_bin_edges", lambda xp, a: xp.histogram_bin_edges(a.v, 7)),
    _case("histogram2d", lambda xp, a: xp.histogram2d(a.v, a.v**2, 5)),
    _case("histogram2d edges", lambda xp, a: xp.histogram2d(a.v, a.v[::-1], [a.up, 4])),
    _case("histogram2d same edges", lambda xp, a: xp.histogram2d(a.v, a.v, a.up)),
    _case(
        "histogram2d weights",
        lambda xp, a: xp.histogram2d(a.v, a.v, 4, [(-1, 1), (-2, 2)], weights=a.v),
    ),
    _case("histogram2d density", lambda xp, a: xp.histogram2d(a.v, a.v[::-1], 3, density=True)),
    _case("histogramdd", lambda xp, a: xp.histogramdd(a.p3, (2, 3, 4))),
    _case("histogramdd columns", lambda xp, a: xp.histogramdd((a.v, a.v, a.v), bins=3)),
    _case(
        "cross",
        lambda xp, a: (
            xp.cross(a.p3, a.q3),
            xp.cross(a.p3[0], a.q3),
            xp.cross(a.p3.T, a.q3.T, axis=0),
        ),
    ),
    _case("cross axes", lambda xp, a: xp.cross(a.p3.T, a.q3, axisa=0, axisc=0)),
    _case("matvec", lambda xp, a: (xp.matvec(a.t, a.t[0, 0]), xp.vecmat(a.z[:, 0], a.z))),
]

EDITING = [
    _case(
        "insert",
        lambda xp, a: (
            xp.insert(a.v, 3, 7.0),
            xp.insert(a.v, [0, 5, 33], [1.0, 2.0, 3.0]),
            xp.insert(a.m, -1, 5.0),
        ),
    ),
    _case(
        "insert axis",
        lambda xp, a: (
            xp.insert(a.m, 2, 1.5, axis=0),
            xp.insert(a.m, 1, a.v[:6], axis=1),
            xp.insert(a.m, [1, 3], 0.5, axis=1),
        ),
    ),
    _case(
        "insert several",
        lambda xp, a: (
            xp.insert(a.k, 3, [1, 2, 3]),
            xp.insert(a.k, [3, 3, 1], [1, 2, 3]),
            xp.insert(a.k, slice(1, 9, 3), 0),
        ),
    ),
    _case(
        "insert rows",
        lambda xp, a: (
            xp.insert(a.m, 1, a.m[:2], axis=0),
            xp.insert(a.m, [1], a.m[:2], axis=0),
            xp.insert(a.m, [0, 2], a.m[:2], axis=0),
        ),
    ),
    _case("insert column", lambda xp, a: xp.insert(a.m, [1], a.v[:6].reshape(6, 1), axis=1)),
    _case("insert casts", lambda xp, a: xp.insert(a.k, 2, 3.9)),
    _case(
        "delete",
        lambda xp, a: (xp.delete(a.v, 3), xp.delete(a.v, [0, -1, 5, 5]), xp.delete(a.m, 4)),
    ),
    _case(
        "delete axis",
        lambda xp, a: (
            xp.delete(a.m, 1, axis=0),
            xp.delete(a.m, slice(None, None, 2), axis=1),
            xp.delete(a.m, [], axis=0),
        ),
    ),
    _case("delete mask", lambda xp, a: xp.delete(a.k, [True, False] * 6)),
    _case(
        "delete by array",
        lambda xp, a: (
            xp.delete(a.v, xp.asarray([1, 2, 30])),
            xp.delete(a.m, xp.asarray([0, 3]), axis=1),
            xp.delete(a.k, a.k > 0),
        ),
    ),
    _case(
        "trim_zeros",
        lambda xp, a: [xp.trim_zeros(xp.asarray([0, 0, 1, 0, 2, 0]), t) for t in ("fb", "f", "b")],
    ),
    _case("trim_zeros all", lambda xp, a: xp.trim_zeros(xp.asarray([0, 0]))),
    _case(
        "resize",
        lambda xp, a: (xp.resize(a.v, (3, 20)), xp.resize(a.v, 5), xp.resize(a.empty, (2, 2))),
    ),
    _case("fill_diagonal", _inplace(lambda xp, x: xp.fill_diagonal(x, 7.0))),
    _case("fill_diagonal values", _inplace(lambda xp, x: xp.fill_diagonal(x, [1.0, 2.0, 3.0]))),
    _case("fill_diagonal tall", _inplace(lambda xp, x: xp.fill_diagonal(x[:, :2], 3.0, wrap=True))),
    _case("fill_diagonal not wrapped", _inplace(lambda xp, x: xp.fill_diagonal(x[:, :2], 3.0))),
    _case("putmask", _inplace(lambda xp, x: xp.putmask(x, x > 0, xp.asarray([1.5, 2.5, 3.5])))),
    _case(
        "select",
        lambda xp, a: (
            xp.select([a.v < 0, a.v > 1], [a.v, a.v**2], 9.0),
            xp.select([a.i > 0], [a.i]),
        ),
    ),
    _case("select broadcasts", lambda xp, a: xp.select([a.m < 0, a.m[0] < 1], [a.m, 3.0], -1.0)),
    _case(
        "choose",
        lambda xp, a: (
            xp.choose(a.k % 3, [a.k, -a.k, 0 * a.k]),
            xp.choose(xp.asarray([[0, 1], [1, 0]]), [5, 6]),
        ),
    ),
    _case(
        "choose modes",
        lambda xp, a: [xp.choose(a.k, [a.k, a.k * 2, a.k * 3], mode=m) for m in ("wrap", "clip")],
    ),
    _case(
        "piecewise",
        lambda xp, a: (
            xp.piecewise(a.v, [a.v < 0, a.v >= 0], [-1, 1]),
            xp.piecewise(a.v, [a.v < 0], [lambda x: -x, lambda x: x * 2]),
        ),
    ),
    _case(
        "packbits",
        lambda xp, a: (
            xp.packbits(a.b),
            xp.packbits(a.b, axis=1),
            xp.packbits(a.b, axis=0, bitorder="little"),
        ),
    ),
    _case(
        "unpackbits",
        lambda xp, a: (
            xp.unpackbits(a.u8),
            xp.unpackbits(a.u8, axis=1, count=20),
            xp.unpackbits(a.u8, axis=0, bitorder="little"),
            xp.unpackbits(a.u8, axis=1, count=-3),
        ),
    ),
]

GRIDS = [
    _case("mgrid", lambda xp, a: (xp.mgrid[0:5, 2:9:3], xp.mgrid[3:8])),
    _case("mgrid imaginary", lambda xp, a: xp.mgrid[-1:1:5j, 0:1:3j], dtypes=False, close=1e-6),
    _case("ogrid", lambda xp, a: xp.ogrid[0:5, 2:9:3]),
    _case(
        "r_", lambda xp, a: (xp.r_[a.v, 1.0, 2.0, a.v], xp.r_[a.k, 5, 0:4], xp.r_["0,2", a.k, a.k])
    ),
    _case("r_ axis", lambda xp, a: (xp.r_["-1", a.m, a.m], xp.r_["0,2,0", a.k, a.k])),
    _case("c_", lambda xp, a: (xp.c_[a.v, a.v], xp.c_[a.m, a.v[:6]])),
    _case("s_", lambda xp, a: (a.m[xp.s_[1:3, ::2]], a.m[xp.index_exp[2]])),
    _case(
        "block",
        lambda xp, a: (
            xp.block([[a.m, a.m], [a.m, a.m]]),
            xp.block([a.v, a.v]),
            xp.block([[a.m, a.v[:6].reshape(6, 1)], [a.t.reshape(60)[:16].reshape(2, 8)]]),
        ),
    ),
    _case("fromfunction", lambda xp, a: xp.fromfunction(lambda i, j: i * 3 + j, (4, 3))),
    _case(
        "apply_along_axis",
        lambda xp, a: (
            xp.apply_along_axis(lambda x: x.sum(), 1, a.m),
            xp.apply_along_axis(lambda x: x * 2, 0, a.t),
            xp.apply_along_axis(lambda x: x[:2, None] * x[:3], 1, a.t),
        ),
    ),
    _case("apply_over_axes", lambda xp, a: xp.apply_over_axes(xp.sum, a.t, [0, 2])),
    _case(
        "sliding_window_view",
        lambda xp, a: [
            xp.lib.stride_tricks.sliding_window_view(x, w, axis)
            for x, w, axis in (
                (a.v, 5, None),
                (a.m, (2, 3), None),
                (a.m, 3, 1),
                (a.m, (2, 2), (0, 0)),
                (a.m[::2, ::-1], 2, 0),
                (a.v, 33, None),
            )
        ],
    ),
    _case("as_strided", lambda xp, a: xp.lib.stride_tricks.as_strided(a.v, (3, 4), (16, 8))),
    _case(
        "aliases",
        lambda xp, a: (xp.amax(a.m, axis=0), xp.amin(a.m), xp.around(a.m, 2), xp.asanyarray(a.m)),
    ),
    _case(
        "indices from",
        lambda xp, a: (
            xp.diag_indices_from(a.m[:, :6]),
            xp.tril_indices_from(a.m),
            xp.triu_indices_from(a.m, 1),
            xp.mask_indices(4, xp.triu),
        ),
    ),
    _case("isscalar", lambda xp, a: [xp.isscalar(x) for x in (3, 2.5, "a", [1], np.float32(2))]),
    _case("fromiter", lambda xp, a: xp.fromiter((n * n for n in range(9)), "int32", 7)),
    _case("sort_complex", lambda xp, a: (xp.sort_complex(a.z), xp.sort_complex(a.k))),
    _case("euler_gamma", lambda xp, a: xp.euler_gamma),
]

POLYNOMIALS = [
    _case("polyval", lambda xp, a: (xp.polyval(a.w, a.m), xp.polyval(xp.asarray([3, 0, 1]), a.k))),
    _case("polyadd", lambda xp, a: (xp.polyadd(a.w, a.w[:3]), xp.polysub(a.w[:2], a.w))),
    _case("polymul", lambda xp, a: xp.polymul(a.w, a.k)),
    _case("polyder", lambda xp, a: (xp.polyder(a.w), xp.polyder(a.k, 3))),
    _case(
        "polyint",
        lambda xp, a: (xp.polyint(a.w), xp.polyint(a.w, 2, k=[1.0, 2.0]), xp.polyint(a.w, 2, 3.0)),
    ),
    _case("poly", lambda xp, a: xp.poly(a.w)),
    _case(
        "polyfit",
        lambda xp, a: (
            xp.polyfit(a.v, a.v**3 - a.v, 3),
            xp.polyfit(a.v, a.v[::-1], 5),
            xp.polyfit(a.v, a.v[::-1], 0),
        ),
        close=1e-9,
    ),
    _case(
        "polyfit columns",
        lambda xp, a: xp.polyfit(a.up[:6] * 100, a.m, 2, w=a.up[:6] ** 2),
        close=1e-8,
    ),
    _case("polyfit float32", lambda xp, a: xp.polyfit(a.v32, a.v32**2, 2), close=2e-5),
]

CASES = [*FLOATING, *SIGNAL, *STATISTICS, *EDITING, *GRIDS, *POLYNOMIALS]

MUST_RAISE = [
    _case("convolve empty", lambda xp, a: xp.convolve(a.v, a.empty)),
    _case("convolve 2-d", lambda xp, a: xp.convolve(a.m, a.v)),
    _case("convolve mode", lambda xp, a: xp.convolve(a.v, a.v, "wrong")),
    _case("interp lengths", lambda xp, a: xp.interp(a.v, a.up, a.v)),
    _case("interp no points", lambda xp, a: xp.interp(a.v, a.empty, a.empty)),
    _case("interp period 0", lambda xp, a: xp.interp(a.v, a.up, a.up, period=0)),
    _case("gradient short", lambda xp, a: xp.gradient(a.v[:1])),
    _case("gradient edge order", lambda xp, a: xp.gradient(a.v, edge_order=3)),
    _case("gradient spacings", lambda xp, a: xp.gradient(a.t, 1.0, 2.0)),
    _case("gradient axis", lambda xp, a: xp.gradient(a.m, axis=5)),
    _case("ediff1d casts", lambda xp, a: xp.ediff1d(a.k, to_end=1.5)),
    _case("cov 3-d", lambda xp, a: xp.cov(a.t)),
    _case("nanquantile q", lambda xp, a: xp.nanquantile(a.m, 1.5)),
    _case("cross 4", lambda xp, a: xp.cross(a.v[:4], a.v[:4])),
    _case("insert outside", lambda xp, a: xp.insert(a.v, 40, 1.0)),
    _case("insert axis", lambda xp, a: xp.insert(a.v, 1, 1.0, axis=2)),
    _case("delete outside", lambda xp, a: xp.delete(a.v, 33)),
    _case("delete mask", lambda xp, a: xp.delete(a.v, [True, False])),
    _case("fill_diagonal 1-d", lambda xp, a: xp.fill_diagonal(a.v, 1.0)),
    _case("fill_diagonal sizes", lambda xp, a: xp.fill_diagonal(a.t, 1.0)),
    _case("putmask size", lambda xp, a: xp.putmask(a.v, a.m > 0, 1.0)),
    _case("select lengths", lambda xp, a: xp.select([a.v > 0], [a.v, a.v])),
    _case("select nothing", lambda xp, a: xp.select([], [])),
    _case("select no bool", lambda xp, a: xp.select([a.v], [a.v])),
    _case("choose floats", lambda xp, a: xp.choose(a.v, [a.v])),
    _case("piecewise functions", lambda xp, a: xp.piecewise(a.v, [a.v > 0], [1, 2, 3])),
    _case("block depths", lambda xp, a: xp.block([[a.v], a.v])),
    _case("block tuple", lambda xp, a: xp.block([(a.v, a.v)])),
    _case("r_ directive", lambda xp, a: xp.r_["x,y", a.v]),
    _case("window too large", lambda xp, a: xp.lib.stride_tricks.sliding_window_view(a.v, 34)),
    _case("window axes", lambda xp, a: xp.lib.stride_tricks.sliding_window_view(a.m, 2)),
    _case("polyfit lengths", lambda xp, a: xp.polyfit(a.v, a.w, 1)),
    _case("polyfit 2-d", lambda xp, a: xp.polyfit(a.m, a.m, 1)),
    _case("polyder order", lambda xp, a: xp.polyder(a.w, -1)),
    _case("asarray_chkfinite", lambda xp, a: xp.asarray_chkfinite(a.nan)),
    _case("unpackbits dtype", lambda xp, a: xp.unpackbits(a.k)),
    _case("fromiter short", lambda xp, a: xp.fromiter(iter([1]), "int32", 3)),
]


def run_must_raise(case: Case, device: str | None = None) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - NumPy's own type is what counts
        case.call(np, Arrays(np))
    expected = gp.AxisError if theirs.type is np.exceptions.AxisError else theirs.type
    with pytest.raises(expected) as ours:
        case.call(gp, Arrays(gp, device))
    assert type(ours.value).__module__.startswith("pygpukit") or ":" in str(ours.value)
