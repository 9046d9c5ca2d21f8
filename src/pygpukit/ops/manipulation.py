"""Other shapes and orders of axes: views where possible, copies on the device otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray, broadcast_shapes
from pygpukit.core.arguments import require_arrays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygpukit._native import _Axes, _DTypeLike, _ShapeLike


# --- shapes and axes: views ----------------------------------------------------------------------


def reshape(x: GPUArray, /, shape: _ShapeLike, *, copy: bool | None = None) -> GPUArray:
    """Another shape, elements in C order; one size may be -1. A view unless that is impossible.

    copy=True always copies; copy=False raises ValueError where a copy is needed.
    """
    return _native.reshape(x, shape, copy)


def ravel(x: GPUArray, /) -> GPUArray:
    """One axis, elements in C order; a view where possible."""
    return _native.reshape(x, -1)


def permute_dims(x: GPUArray, /, axes: Sequence[int]) -> GPUArray:
    """A view with the axes in the given order."""
    return _native.permute_dims(x, axes)


def transpose(x: GPUArray, /, axes: Sequence[int] | None = None) -> GPUArray:
    """A view with the axes in the given order; reversed without one."""
    return _native.transpose(x, axes)


def moveaxis(x: GPUArray, source: _Axes, destination: _Axes, /) -> GPUArray:
    """A view with some axes at new places; the others keep their order."""
    return _native.moveaxis(x, source, destination)


def swapaxes(x: GPUArray, axis1: int, axis2: int, /) -> GPUArray:
    """A view with two axes swapped."""
    return _native.swapaxes(x, axis1, axis2)


def rollaxis(x: GPUArray, axis: int, start: int = 0, /) -> GPUArray:
    """A view with one axis moved before another; new code uses moveaxis."""
    require_arrays("rollaxis", x=x)
    if not -x.ndim <= start <= x.ndim:
        from pygpukit.core.errors import AxisError

        raise AxisError(f"rollaxis: start {start} is out of bounds for {x.ndim} dimensions")
    source = axis % x.ndim if -x.ndim <= axis < x.ndim else axis
    place = start + x.ndim if start < 0 else start
    return _native.moveaxis(x, source, place - 1 if source < place else place)


def expand_dims(x: GPUArray, /, axis: _Axes = 0) -> GPUArray:
    """A view with new axes of size 1 at these places of the result."""
    return _native.expand_dims(x, axis)


def squeeze(x: GPUArray, /, axis: _Axes | None = None) -> GPUArray:
    """A view without the given axes of size 1, or without all of them."""
    return _native.squeeze(x, axis)


def flip(x: GPUArray, /, axis: _Axes | None = None) -> GPUArray:
    """A view reversed along the given axes, or along all."""
    return _native.flip(x, axis)


def flipud(x: GPUArray, /) -> GPUArray:
    """A view reversed along the first axis."""
    return _native.flip(x, 0)


def fliplr(x: GPUArray, /) -> GPUArray:
    """A view reversed along the second axis."""
    return _native.flip(x, 1)


def rot90(x: GPUArray, /, k: int = 1, axes: tuple[int, int] = (0, 1)) -> GPUArray:
    """A view rotated by k quarter turns in the plane of two axes, from the first to the second."""
    require_arrays("rot90", x=x)
    first, second = axes
    if x.ndim < 2 or (first - second) % x.ndim == 0:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(f"rot90: axes {axes} of an array of shape {x.shape} are no plane")
    turns = k % 4
    if turns == 0:
        return _native.swapaxes(x, first, first)
    if turns == 2:
        return _native.flip(x, (first, second))
    swapped = _native.swapaxes(x, first, second)
    return _native.flip(swapped, first if turns == 1 else second)


def atleast_1d(*arrays: Any) -> Any:
    """Arrays with at least one axis: one array, or a tuple of them."""
    return _at_least(1, arrays)


def atleast_2d(*arrays: Any) -> Any:
    """Arrays with at least two axes; new ones come first."""
    return _at_least(2, arrays)


def atleast_3d(*arrays: Any) -> Any:
    """Arrays with at least three axes: a vector becomes (1, n, 1), a matrix (m, n, 1)."""
    return _at_least(3, arrays)


def _at_least(rank: int, arrays: tuple[Any, ...]) -> Any:
    from pygpukit.ops.conversion import asarray

    places = {
        (0, 1): (0,),
        (0, 2): (0, 1),
        (1, 2): (0,),
        (0, 3): (0, 1, 2),
        (1, 3): (0, 2),
        (2, 3): (2,),
    }
    results = []
    for item in arrays:
        x = asarray(item)
        at = places.get((x.ndim, rank))
        results.append(x if at is None else _native.expand_dims(x, at))
    return results[0] if len(results) == 1 else tuple(results)


def diagonal(x: GPUArray, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> GPUArray:
    """A view of the elements (i, i + offset) of two axes, as a last axis."""
    return _native.diagonal(x, offset, axis1, axis2)


# --- broadcasting --------------------------------------------------------------------------------


def broadcast_to(x: GPUArray, /, shape: _ShapeLike) -> GPUArray:
    """A view of that shape; axes of size 1 are repeated."""
    return _native.broadcast_to(x, shape)


def broadcast_arrays(*arrays: GPUArray) -> list[GPUArray]:
    """Views of the shape that the arrays have together."""
    for x in arrays:
        require_arrays("broadcast_arrays", arrays=x)
    shape = _native.broadcast_shapes(*[x.shape for x in arrays])
    return [_native.broadcast_to(x, shape) for x in arrays]


# --- copies and questions ------------------------------------------------------------------------


def copy(x: GPUArray, /) -> GPUArray:
    """A C-contiguous copy."""
    return _native.copy(x)


def copyto(dst: GPUArray, src: Any, /) -> None:
    """dst[...] = src, broadcast to its shape and cast to its dtype."""
    require_arrays("copyto", dst=dst)
    from pygpukit.ops.conversion import asarray

    _native.copy_into(dst, asarray(src, device=dst.device))


def ascontiguousarray(x: Any, /, dtype: _DTypeLike | None = None) -> GPUArray:
    """The array itself when it is C-contiguous, else a copy that is."""
    from pygpukit.ops.conversion import asarray

    array = asarray(x, dtype=dtype)
    return array if array.is_contiguous() else _native.copy(array)


def ndim(x: Any, /) -> int:
    """Number of axes."""
    from pygpukit.ops.conversion import asarray

    return asarray(x).ndim


def shape(x: Any, /) -> tuple[int, ...]:
    """Sizes of the axes."""
    from pygpukit.ops.conversion import asarray

    return asarray(x).shape


def _axis_size(x: GPUArray, axis: int) -> int:
    return _native.moveaxis(x, axis, 0).shape[0]


def size(x: Any, /, axis: int | None = None) -> int:
    """Number of elements, or the size of one axis."""
    from pygpukit.ops.conversion import asarray

    array = asarray(x)
    return array.size if axis is None else _axis_size(array, axis)


def may_share_memory(a: GPUArray, b: GPUArray, /) -> bool:
    """False only when no byte can belong to both."""
    return _native.may_share_memory(a, b)


def shares_memory(a: GPUArray, b: GPUArray, /) -> bool:
    """Whether a byte belongs to both."""
    if not _native.may_share_memory(a, b):
        return False
    import numpy as np

    class Layout:
        """Addresses without the memory: NumPy computes with them and reads nothing."""

        def __init__(self, x: GPUArray) -> None:
            self.__array_interface__ = {
                "shape": x.shape,
                "strides": x.strides,
                "typestr": f"|V{x.itemsize}",
                "data": (x.device_ptr, True),
                "version": 3,
            }

    return bool(np.shares_memory(np.asarray(Layout(a)), np.asarray(Layout(b))))


__all__ = [
    "ascontiguousarray",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "copy",
    "copyto",
    "diagonal",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "may_share_memory",
    "moveaxis",
    "ndim",
    "permute_dims",
    "ravel",
    "reshape",
    "rollaxis",
    "rot90",
    "shape",
    "shares_memory",
    "size",
    "squeeze",
    "swapaxes",
    "transpose",
]
