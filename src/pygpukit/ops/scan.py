"""Running sums and products along an axis, and differences. Deterministic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import array_argument, whole
from pygpukit.ops._declared import scan as _declared
from pygpukit.ops._declared.scan import *  # noqa: F403

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygpukit._native import GPUArray, _ArrayLike


def diff(
    x: _ArrayLike,
    /,
    n: int = 1,
    axis: int = -1,
    prepend: GPUArray | complex | Sequence[Any] | None = None,
    append: GPUArray | complex | Sequence[Any] | None = None,
) -> GPUArray:
    """x[1:] - x[:-1] along an axis, n times; for bool arrays, whether they differ.

    ``prepend`` and ``append`` are first joined to x along the axis: arrays of x's other sizes, or
    numbers.
    """
    x = array_argument("diff", "x", x)
    from pygpukit.ops.joining import concat

    n = whole("diff", "n", n)
    if x.ndim == 0:
        raise ValueError("diff: x has shape (), expected 1 or more dimensions")
    if n == 0:
        return x
    if not -x.ndim <= axis < x.ndim:
        _native.flip(x, axis)  # raises for an axis out of bounds
    axis %= x.ndim
    parts = [_joined(part, x, axis) for part in (prepend, x, append) if part is not None]
    result = concat(parts, axis=axis) if len(parts) > 1 else x
    rest = (slice(None),) * axis
    subtract = _native.not_equal if result.dtype.name == "bool" else _native.subtract
    for _ in range(n):
        later, earlier = (*rest, slice(1, None)), (*rest, slice(None, -1))
        result = subtract(result[later], result[earlier])
    return result


def _joined(part: Any, x: GPUArray, axis: int) -> GPUArray:
    """What diff joins to x: an array, or a number as a slice of x's shape."""
    from pygpukit.ops.conversion import as_operands

    array = as_operands(part, x)[0]
    if array.ndim > 0:
        return array
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return _native.broadcast_to(array, shape)


__all__ = ["diff"]
__all__ += _declared.__all__

name_all(globals(), __all__)
