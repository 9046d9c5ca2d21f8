"""Cases of the sorting family: sorts, searches, sets, histograms, quantiles."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
REAL = ("bool", *INTEGERS, *FLOATS)
ALL = (*REAL, *COMPLEX)

# Short rows are sorted by one block, 4097 to 9000 by passes when alone; 8193 per row always.
SHAPES: tuple[tuple[int, ...], ...] = (
    (0,),
    (1,),
    (7,),
    (8,),
    (31,),
    (32,),
    (33,),
    (2049,),
    (4099,),
    (8833,),
    (40000,),
    (3, 0, 5),
    (5, 9),
    (300, 3),
    (2, 3000),
    (3, 8193),
    (2, 3, 17),
)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(module, name)
    for module in map(
        import_module, (f"pygpukit.ops.{m}" for m in ("sorting", "searching", "sets", "histograms"))
    )
    for name in module.__all__
}


def seed_of(*parts: Any) -> int:
    return zlib.crc32("-".join(map(str, parts)).encode())


def values(shape: tuple[int, ...], dtype: str, seed: int, kind: str = "mixed") -> Any:
    """Random elements. Kinds: "mixed" over the whole range with specials and repeats, "few"
    (many equal), "small" (low digits only), "same"."""
    rng = np.random.default_rng(seed)
    type_ = np.dtype(dtype)
    if kind == "same":
        return np.full(shape, 3, type_)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if kind == "few":
        return rng.integers(0, 5, shape).astype(type_)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        if kind == "small":
            return rng.integers(0, 100, shape).astype(type_)
        return np.asarray(rng.integers(info.min, info.max, shape, dtype=type_, endpoint=True))
    return _floats(rng, shape, type_, dtype in COMPLEX)


def _floats(rng: np.random.Generator, shape: tuple[int, ...], type_: Any, two: bool) -> Any:
    def part() -> Any:
        found = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3, shape)
        special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.5], shape)
        return np.where(rng.random(shape) < 0.1, special, found)

    with np.errstate(all="ignore"):
        if not two:
            return part().astype(type_)
        both = np.empty(shape, type_)
        both.real, both.imag = part(), part()
        return both


def ordered(x: Any) -> Any:
    """As a dtype NumPy itself sorts."""
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


def oracle_argsort(x: Any, axis: int, descending: bool) -> Any:
    """Stable order, computed row by row with Python's own sort."""
    rows = np.moveaxis(ordered(x), axis, -1)
    out = np.empty(rows.shape, np.int64)
    for place in np.ndindex(rows.shape[:-1]):
        keys = [_key(item) for item in rows[place].tolist()]
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=descending)
        out[place] = order
    return np.moveaxis(out, -1, axis)


def _key(item: Any) -> Any:
    if isinstance(item, complex):
        real_nan, imag_nan = item.real != item.real, item.imag != item.imag
        return (
            2 * real_nan + imag_nan,
            0.0 if real_nan else item.real,
            0.0 if imag_nan else item.imag,
        )
    return (item != item, 0.0 if item != item else item)


@dataclass(frozen=True)
class SortCase:
    dtype: str
    shape: tuple[int, ...]
    axis: int = -1
    descending: bool = False
    kind: str = "mixed"

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        down = "-down" if self.descending else ""
        return f"{self.dtype}-{shape}-axis{self.axis}-{self.kind}{down}"

    def data(self) -> Any:
        return values(self.shape, self.dtype, seed_of(self), self.kind)


def sort_cases() -> Iterator[SortCase]:
    for dtype in ALL:
        for shape in SHAPES:
            yield SortCase(dtype, shape)
        for shape in ((33,), (8833,), (3, 8193)):
            yield SortCase(dtype, shape, descending=True)
            yield SortCase(dtype, shape, kind="few")
        yield SortCase(dtype, (9000,), descending=True, kind="few")
        yield SortCase(dtype, (9000,), kind="same")
        yield SortCase(dtype, (9000,), kind="small")
        yield SortCase(dtype, (7, 5), axis=0)
        yield SortCase(dtype, (8193, 2), axis=0, descending=True)
        yield SortCase(dtype, (4, 6, 5), axis=1)


SORT_CASES = list(sort_cases())


@dataclass(frozen=True)
class MustRaise:
    """A call that is refused: `call` gets a function that makes arrays of a list."""

    name: str
    op: str
    call: Callable[[Any], object]
    numpy: Callable[[], object] | None  # the same in NumPy, which must raise such an error, too
    error: type[Exception]
    words: tuple[str, ...] = ()


F = FUNCTIONS
MUST_RAISE = [
    MustRaise(
        "axis of 0-d",
        "sort",
        lambda a: F["sort"](a(1.0)),
        lambda: np.sort(np.array(1.0)),
        IndexError,
        ("axis -1", "dimension 0"),
    ),
    MustRaise(
        "axis",
        "argsort",
        lambda a: F["argsort"](a([[1.0]]), axis=2),
        lambda: np.argsort([[1.0]], axis=2),
        ValueError,
        ("axis 2", "dimension 2"),
    ),
    MustRaise(
        "out shape",
        "sort",
        lambda a: F["sort"](a([1.0, 2.0]), out=a([1.0])),
        None,
        ValueError,
        ("out", "(1,)", "(2,)"),
    ),
    MustRaise(
        "out dtype",
        "argsort",
        lambda a: F["argsort"](a([1.0, 2.0]), out=a([True, False])),
        None,
        TypeError,
        ("out", "bool", "int64"),
    ),
    MustRaise(
        "out is no array",
        "sort",
        lambda a: F["sort"](a([1.0]), out=np.ones(1)),
        None,
        TypeError,
        ("out is", "GPUArray"),
    ),
    MustRaise("k", "topk", lambda a: F["topk"](a([1.0]), 2), None, ValueError, ("k is 2", "1")),
    MustRaise(
        "negative k", "topk", lambda a: F["topk"](a([1.0]), -1), None, ValueError, ("k is -1",)
    ),
    MustRaise(
        "kth",
        "partition",
        lambda a: F["partition"](a([1, 2, 3]), 5),
        lambda: np.partition([1, 2, 3], 5),
        ValueError,
        ("kth is 5", "3"),
    ),
    MustRaise(
        "kth of a list",
        "argpartition",
        lambda a: F["argpartition"](a([1, 2, 3]), [0, -4]),
        lambda: np.argpartition([1, 2, 3], [0, -4]),
        ValueError,
        ("kth is -4", "3"),
    ),
    MustRaise(
        "kth is no integer",
        "partition",
        lambda a: F["partition"](a([1, 2, 3]), 1.5),
        lambda: np.partition([1, 2, 3], 1.5),
        TypeError,
        ("kth", "1.5"),
    ),
    MustRaise(
        "table",
        "searchsorted",
        lambda a: F["searchsorted"](a([[1.0]]), a(1.0)),
        lambda: np.searchsorted(np.array([[1.0]]), 1.0),
        ValueError,
        ("x1", "(1, 1)"),
    ),
    MustRaise(
        "side",
        "searchsorted",
        lambda a: F["searchsorted"](a([1.0]), a(1.0), side="middle"),
        lambda: np.searchsorted([1.0], 1.0, side="middle"),  # type: ignore[call-overload]
        ValueError,
        ("side is 'middle'",),
    ),
    MustRaise(
        "sorter size",
        "searchsorted",
        lambda a: F["searchsorted"](a([1.0]), a(1.0), sorter=a([0, 0])),
        lambda: np.searchsorted([1.0], 1.0, sorter=np.array([0, 0])),
        ValueError,
        ("sorter", "(2,)", "(1,)"),
    ),
    MustRaise(
        "sorter dtype",
        "searchsorted",
        lambda a: F["searchsorted"](a([1.0]), a(1.0), sorter=a([0.0])),
        lambda: np.searchsorted([1.0], 1.0, sorter=np.array([0.0])),  # type: ignore[arg-type]
        TypeError,
        ("sorter", "float64", "integers"),
    ),
    MustRaise(
        "bins not monotonic",
        "digitize",
        lambda a: F["digitize"](a([1.0]), [1, 3, 2]),
        lambda: np.digitize([1.0], [1, 3, 2]),
        ValueError,
        ("monotonic",),
    ),
    MustRaise(
        "complex",
        "digitize",
        lambda a: F["digitize"](a([1j]), a([1.0, 2.0])),
        lambda: np.digitize([1j], [1.0, 2.0]),  # type: ignore[list-item]
        TypeError,
        ("complex",),
    ),
    MustRaise(
        "negative",
        "bincount",
        lambda a: F["bincount"](a([1, -1])),
        lambda: np.bincount([1, -1]),
        ValueError,
        ("negative",),
    ),
    MustRaise(
        "floats",
        "bincount",
        lambda a: F["bincount"](a([1.0])),
        lambda: np.bincount(np.array([1.0])),
        TypeError,
        ("float64", "integers"),
    ),
    MustRaise(
        "two dimensions",
        "bincount",
        lambda a: F["bincount"](a([[1]])),
        lambda: np.bincount(np.array([[1]])),
        ValueError,
        ("(1, 1)",),
    ),
    MustRaise(
        "weights' length",
        "bincount",
        lambda a: F["bincount"](a([1]), weights=a([1.0, 2.0])),
        lambda: np.bincount([1], weights=[1.0, 2.0]),
        ValueError,
        ("weights", "(2,)", "(1,)"),
    ),
    MustRaise(
        "minlength",
        "bincount",
        lambda a: F["bincount"](a([1]), minlength=-1),
        lambda: np.bincount([1], minlength=-1),
        ValueError,
        ("minlength is -1",),
    ),
    MustRaise(
        "no bins",
        "histogram",
        lambda a: F["histogram"](a([1.0]), bins=0),
        lambda: np.histogram([1.0], bins=0),
        ValueError,
        ("bins is 0",),
    ),
    MustRaise(
        "half a bin",
        "histogram",
        lambda a: F["histogram"](a([1.0]), bins=2.5),
        lambda: np.histogram([1.0], bins=2.5),  # type: ignore[call-overload]
        TypeError,
        ("bins is 2.5",),
    ),
    MustRaise(
        "edges",
        "histogram",
        lambda a: F["histogram"](a([1.0]), bins=[1, 0]),
        lambda: np.histogram([1.0], bins=[1, 0]),
        ValueError,
        ("increase",),
    ),
    MustRaise(
        "edges' shape",
        "histogram",
        lambda a: F["histogram"](a([1.0]), bins=a([[0, 1]])),
        lambda: np.histogram([1.0], bins=[[0, 1]]),  # type: ignore[list-item]
        ValueError,
        ("bins", "(1, 2)"),
    ),
    MustRaise(
        "range",
        "histogram",
        lambda a: F["histogram"](a([1.0]), range=(2, 1)),
        lambda: np.histogram([1.0], range=(2, 1)),
        ValueError,
        ("range", "2", "1"),
    ),
    MustRaise(
        "endless range",
        "histogram",
        lambda a: F["histogram"](a([1.0]), range=(2, float("inf"))),
        lambda: np.histogram([1.0], range=(2, float("inf"))),
        ValueError,
        ("finite",),
    ),
    MustRaise(
        "weights' shape",
        "histogram",
        lambda a: F["histogram"](a([1.0]), weights=a([1.0, 2.0])),
        lambda: np.histogram([1.0], weights=[1.0, 2.0]),
        ValueError,
        ("weights", "(2,)", "(1,)"),
    ),
    MustRaise(
        "q",
        "quantile",
        lambda a: F["quantile"](a([1.0]), 1.5),
        lambda: np.quantile([1.0], 1.5),
        ValueError,
        ("0 to 1",),
    ),
    MustRaise(
        "q of percentile",
        "percentile",
        lambda a: F["percentile"](a([1.0]), [50, 150]),
        lambda: np.percentile([1.0], [50, 150]),
        ValueError,
        ("0 to 100",),
    ),
    MustRaise(
        "no elements",
        "quantile",
        lambda a: F["quantile"](a([]), 0.5),
        lambda: np.quantile(np.array([]), 0.5),
        IndexError,
        ("(0,)",),
    ),
    MustRaise(
        "complex quantile",
        "quantile",
        lambda a: F["quantile"](a([1j]), 0.5),
        lambda: np.quantile([1j], 0.5),  # type: ignore[arg-type]
        TypeError,
        ("complex128",),
    ),
    MustRaise(
        "axis of median",
        "median",
        lambda a: F["median"](a([1.0]), axis=1),
        lambda: np.median([1.0], axis=1),
        ValueError,
        ("axis 1",),
    ),
    MustRaise(
        "shapes",
        "lexsort",
        lambda a: F["lexsort"]([a([1, 2]), a([1])]),
        lambda: np.lexsort([[1, 2], [1]]),
        ValueError,
        ("(2,)", "(1,)"),
    ),
    MustRaise(
        "no keys",
        "lexsort",
        lambda a: F["lexsort"]([]),
        lambda: np.lexsort([]),
        TypeError,
        ("at least one",),
    ),
]
