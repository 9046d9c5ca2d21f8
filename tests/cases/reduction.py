"""Cases of reductions and scans: ops, layouts, dtypes, and what must raise.

The oracle is plain NumPy in float64, complex128 and 64-bit integers. Errors of sums are measured
against the sum of magnitudes.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pygpukit as gp
from cases.must_raise import Refused
from pygpukit.ops import reduction, scan
from pygpukit.ops.manipulation import permute_dims

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
COMPUTE = ("bool", *INTEGERS, *FLOATS, *COMPLEX)
STORAGE = ("float8_e4m3fn", "int4")

SUMS = ("sum", "prod", "nansum", "nanprod")
MEANS = ("mean", "nanmean")
VARIANCES = ("var", "std", "nanvar", "nanstd")
EXTREMES = ("max", "min", "nanmax", "nanmin")
COUNTS = ("any", "all", "count_nonzero")
ARGS = ("argmax", "argmin", "nanargmax", "nanargmin")
REDUCTIONS = (*SUMS, *MEANS, *VARIANCES, *EXTREMES, *COUNTS, *ARGS)
SCANS = ("cumsum", "cumprod", "nancumsum", "nancumprod")
OPS = (*REDUCTIONS, *SCANS)


def wide(x: Any) -> Any:
    """bfloat16 and small floats as float64, complex64 as complex128; the rest as it is."""
    if x.dtype.kind in "fV":
        return x.astype(np.float64)
    return x.astype(np.complex128) if x.dtype.kind == "c" else x


def eps(dtype: Any) -> float:
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        dtype = np.dtype("float32" if dtype.itemsize == 8 else "float64")
    return float(ml_dtypes.finfo(dtype).eps)


def result_dtype(op: str, dtype: str) -> np.dtype[Any]:
    kind = np.dtype(dtype).kind
    if op in SUMS or op in SCANS:
        return np.dtype({"b": "int64", "i": "int64", "u": "uint64"}.get(kind, dtype))
    if op in MEANS:
        return np.dtype("float64" if kind in "biu" else dtype)
    if op in VARIANCES:
        real = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
        return np.dtype("float64" if kind in "biu" else real)
    if op in EXTREMES:
        return np.dtype(dtype)
    return np.dtype("bool" if op in ("any", "all") else "int64")


def sample(op: str, dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    """Values whose result is worth comparing: products stay in range, extremes have ties."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.9)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        if "prod" in op:
            return np.asarray(rng.integers(1, 4, shape)).astype(dtype)
        low = max(int(info.min), -(2**40)) if op in MEANS or op in VARIANCES else info.min
        high = min(int(info.max), 2**40) if op in MEANS or op in VARIANCES else info.max
        values = np.asarray(rng.integers(low, high, shape, dtype=np.dtype(dtype), endpoint=True))
        return np.where(rng.random(shape) < 0.1, np.dtype(dtype).type(0), values)
    if "prod" in op:
        values = np.asarray(rng.uniform(0.97, 1.03, shape))
    else:
        values = np.asarray(np.round(rng.normal(size=shape) * 3, 1))
    if dtype in COMPLEX:
        angle = rng.uniform(-0.01, 0.01, shape) if "prod" in op else rng.normal(size=shape)
        values = values * np.exp(1j * angle)
    values = np.asarray(values).astype(dtype)
    if op.startswith("nanarg"):  # never all of a slice
        places = np.sum(np.indices(shape), axis=0) % 4 == 1
        values = np.where(places, np.dtype(dtype).type(np.nan), values)
    elif op.startswith("nan"):
        values = np.where(rng.random(shape) < 0.2, np.dtype(dtype).type(np.nan), values)
    return values


@dataclass(frozen=True)
class Layout:
    """A shape, a key that makes a strided view of it, and the axes to reduce or to scan."""

    shape: tuple[int, ...]
    axis: Any
    key: Any = None
    transpose: bool = False
    keepdims: bool = False

    def __str__(self) -> str:
        parts = ["x".join(map(str, self.shape)) or "0d", f"axis={self.axis}".replace(" ", "")]
        if self.key is not None:
            items = self.key if isinstance(self.key, tuple) else (self.key,)
            text = ",".join(
                ":".join("" if v is None else str(v) for v in (i.start, i.stop, i.step))
                if isinstance(i, slice)
                else str(i)
                for i in items
            )
            parts.append(f"[{text}]")
        return "-".join([*parts, *["T"] * self.transpose, *["keepdims"] * self.keepdims])

    def view(self, x: Any) -> Any:
        if self.key is not None:
            x = x[self.key]
        if not self.transpose:
            return x
        axes = tuple(reversed(range(x.ndim)))
        return x.transpose(axes) if isinstance(x, np.ndarray) else permute_dims(x, axes)


_S = slice
SMALL = (
    Layout((), None),
    Layout((), 0),
    Layout((1,), None),
    Layout((31,), 0),
    Layout((33,), None, keepdims=True),
    Layout((4099,), None),
    Layout((7, 11, 13), 1),
    Layout((9, 32), 0),
    Layout((32, 9), 1),
    Layout((40, 50), 1, key=(_S(None, None, 2), _S(None, None, -3))),
)
LAYOUTS = (
    *SMALL,
    Layout((32,), -1),
    Layout((7, 11, 13), None),
    *(Layout((7, 11, 13), axis) for axis in (0, 2, -1, (0, 1), (0, 2), (1, 2), (2, 0), ())),
    Layout((7, 11, 13), (0, 2), keepdims=True),
    Layout((3, 4099), 1),
    Layout((3, 4099), 0),
    Layout((4099, 3), 0),
    Layout((4099, 3), 1),
    Layout((65, 1024), 0),
    Layout((65, 1024), 1),
    Layout((1, 513), 1),
    Layout((513, 1), 0),
    Layout((2048, 17), 1),
    Layout((2048, 16), 1),
    Layout((4, 33, 64), 1),
    Layout((4, 33, 64), (0, 2)),
    Layout((6, 5, 4, 32), (0, 2)),
    Layout((2, 3, 4, 5, 6), (0, 2, 4)),
    Layout((2, 3, 4, 5, 6), (1, 3)),
    Layout((2,) * 14, tuple(range(0, 14, 2))),
    Layout((64, 48), 0, transpose=True),
    Layout((64, 48), 1, transpose=True),
    Layout((5, 6, 7), (0, 1), transpose=True),
    Layout((4100,), 0, key=_S(3, None)),
    Layout((50, 70), 0, key=(_S(None), _S(1, 65))),
    Layout((50, 70), 1, key=(_S(None), _S(1, 65))),
    Layout((100, 64), 0, key=_S(None, None, -1)),
    Layout((64, 100), 1, key=(_S(None), _S(None, None, -1))),
)
# Sizes that fill a GPU: split rows and columns, several tiles.
LARGE = (
    Layout((300001,), None),
    Layout((2, 150001), 1),
    Layout((150001, 2), 0),
    Layout((100, 3000), 0),
    Layout((3000, 128), 0),
    Layout((5000, 2048), 0),
    Layout((2048, 5000), 1),
    Layout((20000, 64), 1),
    Layout((20000, 8), 1),
    Layout((20000, 7), 1),
    Layout((3, 20000, 32), 1),
    Layout((50, 40, 600), (0, 2)),
    Layout((40, 30, 20, 64), (0, 2)),
    Layout((600, 500), None, key=(_S(None, None, 2), _S(None))),
)


def single_axis(layout: Layout) -> bool:
    return layout.axis is None or isinstance(layout.axis, int)


@dataclass(frozen=True)
class Case:
    op: str
    dtype: str
    layout: Layout

    def __str__(self) -> str:
        return f"{self.op}-{self.dtype}-{self.layout}"


def cases(large: bool) -> Iterator[Case]:
    every = (*LAYOUTS, *LARGE) if large else LAYOUTS
    thorough = ("float32", "bfloat16", "int32") if large else ("float32",)
    for op in OPS:
        one_axis = op in ARGS or op in SCANS
        for dtype in COMPUTE:
            if dtype in COMPLEX and op.startswith("nan"):
                continue  # NumPy's own differ among themselves
            layouts = every if dtype in thorough else SMALL
            for layout in layouts:
                if one_axis and not single_axis(layout):
                    continue
                if op in SCANS and layout.keepdims:
                    continue
                if layout == Layout((), 0) and op in (*MEANS, *VARIANCES):
                    continue  # refused, as in NumPy
                yield Case(op, dtype, layout)


# NumPy's functions of the same names.
ORACLES: dict[str, Callable[..., Any]] = {op: getattr(np, op) for op in OPS if hasattr(np, op)}


def oracle(op: str, x: Any, axis: Any, keepdims: bool) -> Any:
    """In the widest types; the caller rounds. NumPy adds along axis 0 one by one, so moments need
    more digits than float64 has."""
    x = wide(x)
    if op in (*MEANS, *VARIANCES) and x.dtype.kind != "c":
        x = x.astype(np.longdouble)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of empty and all-NaN slices
        options = {} if op in SCANS else {"keepdims": keepdims}
        return np.asarray(ORACLES[op](x, axis=axis, **options))


def tolerance(op: str, x: Any, axis: Any, keepdims: bool, dtype: np.dtype[Any]) -> Any:
    """What the result may be off by: rounding once, and a little of the sum of magnitudes."""
    unit = eps(dtype)
    small = x.dtype.name in ("float16", "bfloat16", "float32", "complex64")
    inner = eps("float32") if small else eps("float64")
    magnitude = np.abs(
        np.nan_to_num(wide(x)).astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    )
    want = np.nan_to_num(np.abs(wide(np.asarray(oracle(op, x, axis, keepdims)))))
    if "prod" in op:
        return want * (unit + 100 * inner)
    if op in SCANS:
        return want * unit + 8 * inner * np.cumsum(magnitude, axis=axis)
    total = np.sum(magnitude, axis=axis, keepdims=keepdims)
    if op in SUMS:
        return want * unit + 8 * inner * total
    if op in MEANS:
        count = max(x.size // max(total.size, 1), 1)
        return want * unit + 40 * inner * total / count
    return want * (unit + 400 * inner) + 40 * inner


def check(case: Case, got: Any, x: Any) -> None:
    """Shape, dtype and values of `got` against the oracle over `x`."""
    layout = case.layout
    want = oracle(case.op, x, layout.axis, layout.keepdims)
    dtype = result_dtype(case.op, case.dtype)
    assert got.shape == want.shape
    assert got.dtype == dtype
    exact = case.op in (*EXTREMES, *COUNTS, *ARGS) or dtype.kind in "biu"
    if exact:
        np.testing.assert_array_equal(wide(got), wide(want.astype(dtype)))
        return
    allowed = tolerance(case.op, x, layout.axis, layout.keepdims, dtype)
    ours, theirs = wide(got), wide(want)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    with np.errstate(invalid="ignore"):
        error = np.where(np.isnan(theirs) | (ours == theirs), 0.0, np.abs(ours - theirs))
    worst = np.max(error - allowed, initial=0.0)
    assert worst <= 0.0, f"off by {np.max(error)}, allowed {np.max(allowed)}"


def run_case(case: Case, device: str | None = None) -> None:
    layout = case.layout
    host = sample(case.op, case.dtype, layout.shape, zlib.crc32(str(case).encode()))
    x = layout.view(host)
    array = layout.view(gp.from_numpy(host, device=device))
    assert array.shape == x.shape
    if case.op in SCANS:
        result = getattr(scan, case.op)(array, layout.axis)
    else:
        result = getattr(reduction, case.op)(array, layout.axis, keepdims=layout.keepdims)
    check(case, result.to_numpy(), x)
    np.testing.assert_array_equal(wide(array.to_numpy()), wide(x))


# Calls get a function that makes arrays of ones.
MUST_RAISE = [
    Refused(
        "axis too large",
        lambda ones: reduction.sum(ones((2, 3)), 2),
        IndexError,
        ("sum: axis 2 is out of bounds for array of dimension 2",),
    ),
    Refused(
        "axis too small",
        lambda ones: reduction.max(ones((2, 3)), -3),
        ValueError,
        ("max: axis -3 is out of bounds for array of dimension 2",),
    ),
    Refused("axis of 0-d", lambda ones: reduction.mean(ones(()), 1), IndexError, ("mean: axis 1",)),
    Refused(
        "axis twice",
        lambda ones: reduction.sum(ones((2, 3)), (0, -2)),
        ValueError,
        ("sum:", "twice"),
    ),
    Refused("axis float", lambda ones: reduction.sum(ones((2,)), 1.0), TypeError, ("sum:", "axis")),
    Refused(
        "argmax of two axes",
        lambda ones: reduction.argmax(ones((2, 3)), (0, 1)),
        TypeError,
        ("argmax:",),
    ),
    Refused(
        "max of nothing",
        lambda ones: reduction.max(ones((0,))),
        ValueError,
        ("max: zero-size array to reduction operation", "no identity", "(0,)"),
    ),
    Refused(
        "min along an empty axis",
        lambda ones: reduction.min(ones((3, 0)), 1),
        ValueError,
        ("min: zero-size array", "(3, 0)"),
    ),
    Refused(
        "argmin of nothing",
        lambda ones: reduction.argmin(ones((0, 3)), 0),
        ValueError,
        ("argmin: attempt to get argmin of an empty sequence",),
    ),
    Refused(
        "out shape",
        lambda ones: reduction.sum(ones((2, 3)), 0, out=ones((2,))),
        ValueError,
        ("sum: out has shape (2,), the result has shape (3,)",),
    ),
    Refused(
        "out keepdims",
        lambda ones: reduction.sum(ones((2, 3)), 0, keepdims=True, out=ones((3,))),
        ValueError,
        ("sum: out has shape (3,), the result has shape (1, 3)",),
    ),
    Refused(
        "out dtype",
        lambda ones: reduction.sum(ones((2,)), out=ones((), "int32")),
        TypeError,
        ("sum: out has dtype int32", "float32"),
    ),
    Refused(
        "out is no array",
        lambda ones: reduction.sum(ones((2,)), out=np.zeros(())),
        TypeError,
        ("sum: out is",),
    ),
    Refused("no array", lambda ones: reduction.sum({1, 2}), TypeError, ("sum: x is",)),
    Refused(
        "integer mean",
        lambda ones: reduction.mean(ones((2,)), dtype="int32"),
        TypeError,
        ("mean: dtype is int32",),
    ),
    Refused(
        "storage dtype",
        lambda ones: reduction.sum(ones((2,)), dtype="float8_e5m2"),
        TypeError,
        ("sum: dtype is float8_e5m2",),
    ),
    Refused(
        "cumsum axis",
        lambda ones: scan.cumsum(ones((2, 3)), 2),
        IndexError,
        ("cumsum: axis 2 is out of bounds for array of dimension 2",),
    ),
    Refused(
        "cumulative_sum needs an axis",
        lambda ones: scan.cumulative_sum(ones((2, 3))),
        ValueError,
        ("cumulative_sum: axis is required", "(2, 3)"),
    ),
    Refused(
        "cumulative_prod axis",
        lambda ones: scan.cumulative_prod(ones((2, 3)), axis=-3),
        ValueError,
        ("cumulative_prod: axis -3",),
    ),
    Refused(
        "cumsum out",
        lambda ones: scan.cumsum(ones((4,)), out=ones((5,))),
        ValueError,
        ("cumsum: out has shape (5,), the result has shape (4,)",),
    ),
    Refused(
        "cumsum out dtype",
        lambda ones: scan.cumsum(ones((4,)), out=ones((4,), "int64")),
        TypeError,
        ("cumsum: out has dtype int64",),
    ),
    Refused("diff of 0-d", lambda ones: scan.diff(ones(())), ValueError, ("diff:",)),
    Refused("diff n", lambda ones: scan.diff(ones((3,)), n=-1), ValueError, ("diff: n is -1",)),
    Refused("diff axis", lambda ones: scan.diff(ones((3,)), axis=1), IndexError, ("axis 1",)),
    Refused(
        "sum_axis of 3-d",
        lambda ones: reduction.sum_axis(ones((2, 3, 4)), 0),
        ValueError,
        ("sum_axis:",),
    ),
    Refused(
        "sum_axis axis",
        lambda ones: reduction.sum_axis(ones((2, 3)), 2),
        ValueError,
        ("sum_axis: axis is 2",),
    ),
]


def run_must_raise(case: Refused, device: str | None = None) -> None:
    def ones(shape: Any, dtype: str = "float32") -> gp.GPUArray:
        return gp.ones(shape, dtype, device=device)

    with pytest.raises(case.error) as caught:
        case.call(ones)
    for word in case.words:
        assert word in str(caught.value)
