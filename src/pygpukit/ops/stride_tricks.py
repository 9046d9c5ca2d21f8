"""Views with strides of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.conversion import asarray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygpukit._native import GPUArray


def as_strided(
    x: Any, shape: Sequence[int] | None = None, strides: Sequence[int] | None = None
) -> GPUArray:
    """A view with another shape and other strides, in bytes.

    Every element must be inside the memory that x is a view of. Elements may share memory; such
    a view cannot be written.
    """
    array = asarray(x)
    sizes = array.shape if shape is None else tuple(shape)
    steps = array.strides if strides is None else tuple(strides)
    return _native.strided_view(array, sizes, steps)


def sliding_window_view(
    x: Any, window_shape: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> GPUArray:
    """A view of every window of the array: its axes become positions, new last axes the windows.

    Without `axis` there is one size for each axis. Windows share memory, so they cannot be
    written.
    """
    array = asarray(x)
    sizes = _whole_numbers(window_shape)
    if any(size < 0 for size in sizes):
        raise InvalidValueError(
            f"sliding_window_view: window_shape is {window_shape}, expected no negative values"
        )
    axes = tuple(range(array.ndim)) if axis is None else _whole_numbers(axis)
    if len(sizes) != len(axes):
        raise InvalidValueError(
            f"sliding_window_view: window_shape has {len(sizes)} sizes for {len(axes)} axes"
        )
    shape = list(array.shape)
    steps = []
    for size, given in zip(sizes, axes, strict=True):
        at = _checked(given, array.ndim)
        steps.append(array.strides[at])
        shape[at] -= size - 1
        if shape[at] < 0 or (shape[at] == 0 and size > 0):
            raise InvalidValueError(
                f"sliding_window_view: a window of {size} is larger than axis {at} of shape "
                f"{array.shape}"
            )
    return _native.strided_view(array, (*shape, *sizes), (*array.strides, *steps))


def _whole_numbers(value: Any) -> tuple[int, ...]:
    from operator import index

    return (index(value),) if hasattr(value, "__index__") else tuple(index(n) for n in value)


def _checked(axis: int, ndim: int) -> int:
    from pygpukit.core.errors import AxisError

    if not -ndim <= axis < ndim:
        raise AxisError(
            f"sliding_window_view: axis {axis} is out of bounds for array of dimension {ndim}"
        )
    return axis % ndim


__all__ = ["as_strided", "sliding_window_view"]

name_all(globals(), __all__)
