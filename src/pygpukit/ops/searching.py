"""Searching in sorted data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import array_argument, is_number
from pygpukit.ops.conversion import device_beside

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from pygpukit._native import GPUArray, _ArrayLike


def searchsorted(
    x1: _ArrayLike,
    x2: Any,
    /,
    side: Literal["left", "right"] = "left",
    sorter: _ArrayLike | None = None,
) -> GPUArray:
    """Insertion indices of the elements of x2 in the sorted 1-D x1: int64, x2's shape.

    side="left" is before equal elements, "right" after them. `sorter` (from argsort) gives the
    order where x1 is not sorted; it is not checked on a GPU.
    """
    x1 = array_argument("searchsorted", "x1", x1, x2 if isinstance(x2, _native.GPUArray) else None)
    return _native.searchsorted(x1, as_operand(x2, x1), side=side, sorter=sorter)


def digitize(
    x: _ArrayLike | complex, bins: GPUArray | Sequence[Any], right: bool = False
) -> GPUArray:
    """The index of the bin of each element: bins[i - 1] <= x < bins[i].

    right=True: bins[i - 1] < x <= bins[i]. Reversed for descending bins. An array of
    bins must be monotonic (unchecked); a sequence is checked.
    """
    if is_number(x):
        x = _native.from_numpy(x, device=device_beside(bins))
    x = array_argument("digitize", "x", x)
    if not isinstance(bins, _native.GPUArray):
        import numpy as np

        steps = np.diff(np.asarray(bins))
        if not ((steps >= 0).all() or (steps <= 0).all()):
            raise ValueError("digitize: bins must be monotonically increasing or decreasing")
        bins = as_array(bins, x)
    return _native.digitize(x, bins, right)


def as_array(value: Any, like: GPUArray) -> GPUArray:
    """A GPUArray unchanged; other arrays and sequences copied to the device of `like`."""
    if isinstance(value, _native.GPUArray):
        return value
    return _native.from_numpy(value, device=like.device)


def as_operand(value: Any, like: GPUArray) -> Any:
    """A Python number as an array of `like`'s dtype, where that has the number's kind.

    NumPy scalars keep their dtype; what is no number is returned as it is.
    """
    if type(value) not in (bool, int, float, complex):
        return _native.from_numpy(value, device=like.device) if is_number(value) else value
    dtype = like.dtype.name
    kind = ("bool", "int", "float", "complex").index(type(value).__name__)
    if kind > _kind_of(dtype):
        return _native.from_numpy(value, device=like.device)
    return _native.full((), value, dtype, device=like.device)


def _kind_of(dtype: str) -> int:
    if dtype == "bool":
        return 0
    if dtype.startswith(("int", "uint")):
        return 1
    return 3 if dtype.startswith("complex") else 2


__all__ = ["digitize", "searchsorted"]

name_all(globals(), __all__)
