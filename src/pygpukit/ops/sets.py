"""Distinct elements and sets. The sizes of results depend on the data: one count is read back."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import array_argument, array_arguments, require_arrays
from pygpukit.ops._declared import sets as _declared
from pygpukit.ops._declared.sets import *  # noqa: F403
from pygpukit.ops.searching import as_operand

if TYPE_CHECKING:
    from typing import Literal, NamedTuple

    from pygpukit._native import GPUArray, _ArrayLike

    class UniqueAllResult(NamedTuple):
        values: GPUArray
        indices: GPUArray
        inverse_indices: GPUArray
        counts: GPUArray

    class UniqueCountsResult(NamedTuple):
        values: GPUArray
        counts: GPUArray

    class UniqueInverseResult(NamedTuple):
        values: GPUArray
        inverse_indices: GPUArray

else:  # importing typing costs more than this module
    UniqueAllResult = namedtuple(
        "UniqueAllResult", ["values", "indices", "inverse_indices", "counts"]
    )
    UniqueCountsResult = namedtuple("UniqueCountsResult", ["values", "counts"])
    UniqueInverseResult = namedtuple("UniqueInverseResult", ["values", "inverse_indices"])


def unique_all(x: GPUArray, /) -> UniqueAllResult:
    """Distinct elements (sorted), their first indices, inverse indices and counts."""
    return UniqueAllResult(*_native.unique(x, True, True, True, False, "unique_all"))


def unique_counts(x: GPUArray, /) -> UniqueCountsResult:
    """Distinct elements, sorted, and their counts."""
    values, _, _, counts = _native.unique(x, False, False, True, False, "unique_counts")
    return UniqueCountsResult(values, counts)


def unique_inverse(x: GPUArray, /) -> UniqueInverseResult:
    """Distinct elements, sorted, and the inverse indices that rebuild x."""
    values, _, inverse, _ = _native.unique(x, False, True, False, False, "unique_inverse")
    return UniqueInverseResult(values, inverse)


def unique_values(x: GPUArray, /) -> GPUArray:
    """Distinct elements, sorted; every NaN is distinct."""
    values: GPUArray = _native.unique(x, False, False, False, False, "unique_values")[0]
    return values


def unique(
    x: _ArrayLike,
    /,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """NumPy's unique: the distinct elements, sorted, or a tuple with the requested extras.

    With an axis, the distinct slices along it, in lexicographic order. Results are sorted
    whatever `sorted` says.
    """
    if axis is not None:
        x = array_argument("unique", "x", x)
        if x.ndim != 1 or axis not in (0, -1):  # slices of a vector are its elements
            from pygpukit.ops._unique_slices import unique_slices

            return unique_slices(x, axis, return_index, return_inverse, return_counts)
    found = _native.unique(x, return_index, return_inverse, return_counts, equal_nan, "unique")
    results = tuple(result for result in found if result is not None)
    return results if len(results) > 1 else results[0]


def isin(
    x1: Any,
    x2: Any,
    /,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Literal["sort", "table"] | None = None,
) -> GPUArray:
    """Whether each element of x1 occurs in x2 (invert: does not); NaN never does.

    assume_unique and kind change nothing: there is one way.
    """
    if isinstance(x1, (list, tuple)):
        beside = x2 if isinstance(x2, _native.GPUArray) else None
        x1 = array_argument("isin", "x1", x1, beside)
    elif not isinstance(x1, _native.GPUArray):
        require_arrays("isin", x2=x2)
        x1 = as_operand(x1, x2)
    return _native.isin(x1, as_operand(x2, x1), invert=invert)


def intersect1d(
    x1: _ArrayLike, x2: _ArrayLike, /, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The common elements, sorted; with return_indices also their first indices in each."""
    x1, x2 = array_arguments("intersect1d", x1=x1, x2=x2)
    common = _native.intersect1d(x1, x2, assume_unique)
    if not return_indices:
        return common
    return common, _first_places(x1, common), _first_places(x2, common)


def _first_places(x: GPUArray, values: GPUArray) -> GPUArray:
    """Indices of the first occurrences in the flattened array of values that occur in it."""
    flat = x.reshape(-1)
    order = _native.argsort(flat)
    found = _native.searchsorted(flat, values, sorter=order)
    return _native.gather_1d(order, found)


__all__ = [
    "intersect1d",
    "isin",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]
__all__ += _declared.__all__

name_all(globals(), __all__)
