"""Shapes and axes: views where possible, copies on the device otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray, broadcast_shapes
from pygpukit.core.arguments import array_argument, require_arrays, whole
from pygpukit.ops._declared import manipulation as _declared
from pygpukit.ops._declared.manipulation import *  # noqa: F403

if TYPE_CHECKING:
    from typing import Literal

    from pygpukit._native import _ArrayLike, _DTypeLike


# --- shapes and axes: views ----------------------------------------------------------------------


def ravel(x: GPUArray, /, order: Literal["C", "F", "A", "K"] = "C") -> GPUArray:
    """One axis, elements in C order (order 'F': Fortran order); a view where possible."""
    return _native.reshape(x, -1, memory_order(x) if order == "K" else order)


def memory_order(x: GPUArray) -> Literal["C", "F"]:
    """'C' or 'F' for NumPy's 'K', the order in memory: which of the two is nearer."""
    strides = [abs(step) for step, size in zip(x.strides, x.shape, strict=True) if size > 1]
    return "F" if len(strides) > 1 and strides == sorted(strides) else "C"


def rollaxis(x: _ArrayLike, /, axis: int, start: int = 0) -> GPUArray:
    """A view with one axis moved before another; new code uses moveaxis."""
    x = array_argument("rollaxis", "x", x)
    if not -x.ndim <= start <= x.ndim:
        from pygpukit.core.errors import AxisError

        raise AxisError(f"rollaxis: start {start} is out of bounds for {x.ndim} dimensions")
    source = axis % x.ndim if -x.ndim <= axis < x.ndim else axis
    place = start + x.ndim if start < 0 else start
    return _native.moveaxis(x, source, place - 1 if source < place else place)


def flipud(x: GPUArray, /) -> GPUArray:
    """A view reversed along the first axis."""
    return _native.flip(x, 0)


def fliplr(x: GPUArray, /) -> GPUArray:
    """A view reversed along the second axis."""
    return _native.flip(x, 1)


def rot90(x: _ArrayLike, /, k: int = 1, axes: tuple[int, int] = (0, 1)) -> GPUArray:
    """A view rotated by k quarter turns in the plane of two axes, from the first to the second."""
    x = array_argument("rot90", "x", x)
    first, second = axes
    if x.ndim < 2 or (first - second) % x.ndim == 0:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(
            f"rot90: axes {axes} of an array of shape {x.shape} do not define a plane"
        )
    turns = whole("rot90", "k", k, -(2**62), 2**62) % 4
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


# --- broadcasting --------------------------------------------------------------------------------


def broadcast_arrays(*arrays: GPUArray) -> list[GPUArray]:
    """Views broadcast to the common shape."""
    found = [array_argument("broadcast_arrays", "arrays", x) for x in arrays]
    shape = _native.broadcast_shapes(*[x.shape for x in found])
    return [_native.broadcast_to(x, shape) for x in found]


# --- copies and queries --------------------------------------------------------------------------


def copyto(
    dst: GPUArray,
    src: Any,
    /,
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "same_kind",
    where: GPUArray | bool = True,
) -> None:
    """dst[...] = src, broadcast to its shape and cast to its dtype; `where`: only there."""
    require_arrays("copyto", dst=dst)
    from pygpukit.ops.conversion import asarray

    values = asarray(src, device=dst.device)
    if not _native.can_cast(values.dtype, dst.dtype, casting):
        from pygpukit.core.errors import InvalidTypeError

        raise InvalidTypeError(
            f"copyto: {values.dtype} cannot be cast to {dst.dtype} with casting {casting!r}"
        )
    if where is not True:
        mask = asarray(where, dtype="bool", device=dst.device)
        values = _native.where(mask, _native.astype(values, dst.dtype, False), dst)
    _native.copy_into(dst, values)


def ascontiguousarray(x: Any, /, dtype: _DTypeLike | None = None) -> GPUArray:
    """The array itself when it is C-contiguous, else a contiguous copy."""
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


class Layout:
    """The addresses of an array for NumPy, which only computes with them."""

    def __init__(self, x: GPUArray) -> None:
        self.__array_interface__ = {
            "shape": x.shape,
            "strides": x.strides,
            "typestr": f"|V{x.itemsize}",
            "data": (x.device_ptr, True),
            "version": 3,
        }


def shares_memory(a: GPUArray, b: GPUArray, /) -> bool:
    """Whether the arrays share any byte."""
    if not _native.may_share_memory(a, b):
        return False
    import numpy as np

    return bool(np.shares_memory(np.asarray(Layout(a)), np.asarray(Layout(b))))


__all__ = [
    "ascontiguousarray",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "copyto",
    "fliplr",
    "flipud",
    "ndim",
    "ravel",
    "rollaxis",
    "rot90",
    "shape",
    "shares_memory",
    "size",
]
__all__ += _declared.__all__

name_all(globals(), __all__)
