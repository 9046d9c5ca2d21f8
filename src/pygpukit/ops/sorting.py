"""Sorts along an axis, in NumPy's order: NaN last, -0.0 equal to 0.0. All of them are stable."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray
from pygpukit.core.arguments import array_argument
from pygpukit.ops._declared import sorting as _declared
from pygpukit.ops._declared.sorting import *  # noqa: F403

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NamedTuple

    class TopKResult(NamedTuple):
        values: GPUArray
        indices: GPUArray

else:  # importing typing costs more than this module
    TopKResult = namedtuple("TopKResult", ["values", "indices"])


def topk(
    x: GPUArray, k: int, /, *, axis: int = -1, largest: bool = True, sorted: bool = True
) -> TopKResult:
    """The k largest (or smallest) elements along an axis, and their indices.

    Always in descending (ascending) order, ties by index, regardless of `sorted`; NaN counts
    as the largest value.
    """
    return TopKResult(*_native.topk(x, k, axis=axis, largest=largest))


def lexsort(keys: GPUArray | Sequence[GPUArray], /, axis: int = -1) -> GPUArray:
    """The indices that sort by several keys of one shape: the last key is the primary one."""
    rows: Any = list(keys)
    beside = next((key for key in rows if isinstance(key, GPUArray)), None)
    if beside is not None:
        rows = [array_argument("lexsort", "keys", key, beside) for key in rows]
    return _native.lexsort(rows, axis=axis)


__all__ = ["lexsort", "topk"]
__all__ += _declared.__all__

name_all(globals(), __all__)
