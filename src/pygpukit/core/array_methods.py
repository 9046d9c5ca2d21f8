"""The methods of GPUArray that follow NumPy and version 0.2, attached to the type of the C++ core.

Imported with the package, so nothing expensive is imported at the top: methods import what they
need beyond the core when called.
"""

from __future__ import annotations

from pygpukit import _native
from pygpukit._native import GPUArray

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any, Literal

    from pygpukit._native import (
        _Axes,
        _DeviceLike,
        _DTypeLike,
        _Operand,
        _ScalarLike,
        _SortKind,
        _StreamLike,
    )
    from pygpukit.core.flat import Flat


# --- array API standard ------------------------------------------------------------------------


def __array_namespace__(self: GPUArray, /, *, api_version: str | None = None) -> ModuleType:
    """The package, which follows the array API standard 2024.12."""
    import pygpukit

    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(
            f"__array_namespace__: api_version {api_version!r} is not supported, 2024.12 is"
        )
    return pygpukit


def to_device(self: GPUArray, device: _DeviceLike, /, *, stream: _StreamLike = None) -> GPUArray:
    """This array if it is on that device, else a copy there, on `stream`."""
    if stream is None:
        return _native.to_device(self, device)
    with _native.Stream(stream) if not isinstance(stream, _native.Stream) else stream:
        return _native.to_device(self, device)


def T(self: GPUArray) -> GPUArray:
    """A view with all axes reversed."""
    return _native.transpose(self)


def mT(self: GPUArray) -> GPUArray:
    """A view with the last two axes swapped."""
    if self.ndim < 2:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(f"mT: the array has shape {self.shape}, expected a matrix")
    return _native.swapaxes(self, -1, -2)


# --- shapes and views ----------------------------------------------------------------------------


def reshape(
    self: GPUArray,
    *shape: Any,
    order: Literal["C", "F", "A"] = "C",
    copy: bool | None = None,
) -> GPUArray:
    """Another shape, as separate sizes or one tuple; a view unless that is impossible."""
    return _native.reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)


def view(self: GPUArray, *shape_or_dtype: Any) -> GPUArray:
    """The same memory with another shape or dtype; ValueError where that is impossible."""
    if not shape_or_dtype:
        return _native.transpose(_native.transpose(self))
    first = shape_or_dtype[0]
    if len(shape_or_dtype) > 1 or isinstance(first, (list, tuple)) or hasattr(first, "__index__"):
        shape = first if len(shape_or_dtype) == 1 else shape_or_dtype
        return _native.reshape(self, shape, copy=False)
    return _native.view_as(self, first)


def ravel(self: GPUArray, order: Literal["C", "F", "A", "K"] = "C") -> GPUArray:
    """One axis, elements in C order (order 'F': Fortran order); a view where possible."""
    if order == "C":
        return _native.reshape(self, -1)
    from pygpukit.ops import manipulation

    return manipulation.ravel(self, order)


def flatten(self: GPUArray, order: Literal["C", "F", "A", "K"] = "C") -> GPUArray:
    """One axis, elements in C order (order 'F': Fortran order); always a copy."""
    if order == "K":
        from pygpukit.ops.manipulation import memory_order

        order = memory_order(self)
    return _native.reshape(self, -1, order, copy=True)


def transpose(self: GPUArray, *axes: Any) -> GPUArray:
    """A view with the axes in the given order (numbers or one tuple); reversed by default."""
    if len(axes) == 1 and not hasattr(axes[0], "__index__"):
        return _native.transpose(self, axes[0])
    return _native.transpose(self, axes or None)


def swapaxes(self: GPUArray, axis1: int, axis2: int, /) -> GPUArray:
    """A view with two axes swapped."""
    return _native.swapaxes(self, axis1, axis2)


def squeeze(self: GPUArray, axis: _Axes | None = None) -> GPUArray:
    """A view without the given axes, or without all axes, of size 1."""
    return _native.squeeze(self, axis)


def diagonal(self: GPUArray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> GPUArray:
    """A view of the elements (i, i + offset) of two axes, as a last axis."""
    return _native.diagonal(self, offset, axis1, axis2)


def narrow(self: GPUArray, offset: int, length: int) -> GPUArray:
    """A view of the elements [offset, offset + length) of the last axis."""
    if self.ndim == 0 or offset < 0 or length < 0 or offset + length > self.shape[-1]:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(
            f"narrow: {length} elements from {offset} do not fit an array of shape {self.shape}"
        )
    return _native.slice_axis(self, -1, offset, length)


def slice_rows(self: GPUArray, num_rows: int) -> GPUArray:
    """A view of the first rows."""
    if self.ndim == 0 or not 0 <= num_rows <= self.shape[0]:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(
            f"slice_rows: an array of shape {self.shape} does not have {num_rows} rows"
        )
    return _native.slice_axis(self, 0, 0, num_rows)


def flat(self: GPUArray) -> Flat:
    """The elements in C order as a vector that can be read and written."""
    from pygpukit.core.flat import Flat

    return Flat(self)


def real(self: GPUArray) -> GPUArray:
    """A view of the real parts; a real array itself."""
    return _native.real_part(self)


def imag(self: GPUArray) -> GPUArray:
    """A view of the imaginary parts; zeros for a real array."""
    return _native.imag_part(self)


# --- copies and casts ----------------------------------------------------------------------------


def astype(self: GPUArray, dtype: _DTypeLike, copy: bool = False) -> GPUArray:
    """This array cast to another dtype; itself when it already has it, unless copy is True."""
    result = _native.astype(self, dtype, copy)
    return self if not copy and result.dtype == self.dtype else result


def copy(self: GPUArray, order: Literal["C", "K", "A"] = "C") -> GPUArray:
    """A C-contiguous copy, whatever the order."""
    return _native.copy(self)


def fill(self: GPUArray, value: _ScalarLike | GPUArray) -> None:
    """Sets every element."""
    from pygpukit.ops.conversion import asarray

    _native.copy_into(self, asarray(value, dtype=self.dtype, device=self.device))


def tobytes(self: GPUArray) -> bytes:
    """The elements in C order, as bytes."""
    return self.to_numpy().tobytes()


def get(self: GPUArray, stream: Any = None, order: str = "C", out: Any = None) -> Any:
    """CuPy's name for to_numpy: a host copy."""
    from pygpukit.ops.porting import asnumpy

    return asnumpy(self, stream, order, out)


def last_access(self: GPUArray) -> float:
    """The current time: the call itself is an access. Kept for compatibility with 0.2."""
    import time

    return time.time()


# --- elements ------------------------------------------------------------------------------------


def clip(
    self: GPUArray,
    min: _Operand | None = None,
    max: _Operand | None = None,
    out: GPUArray | None = None,
) -> GPUArray:
    """Elements clamped to [min, max]; None means no limit."""
    from pygpukit.ops import elementwise

    return elementwise.clip(self, min, max, out=out)


def round(self: GPUArray, decimals: int = 0, out: GPUArray | None = None) -> GPUArray:
    """Elements rounded to that many decimals, ties to even."""
    from pygpukit.ops import elementwise

    return elementwise.round(self, decimals, out=out)


def conj(self: GPUArray) -> GPUArray:
    """The complex conjugate."""
    return _native.conj(self)


def sort(
    self: GPUArray,
    axis: int = -1,
    kind: _SortKind | None = None,
    *,
    descending: bool = False,
    stable: bool | None = True,
) -> None:
    """Sorts along an axis, in place; always stable, so kind and stable change nothing."""
    _native.copy_into(self, _native.sort(self, axis, kind, descending=descending))


def argsort(
    self: GPUArray,
    axis: int | None = -1,
    kind: _SortKind | None = None,
    *,
    descending: bool = False,
    stable: bool | None = True,
) -> GPUArray:
    """The indices that sort along an axis."""
    return _native.argsort(self, axis, kind, descending=descending)


def partition(
    self: GPUArray, kth: int | tuple[int, ...], axis: int = -1, kind: str = "introselect"
) -> None:
    """Brings element kth along an axis to its place in the sorted order, in place."""
    _native.copy_into(self, _native.partition(self, kth, axis, kind))


def argpartition(
    self: GPUArray, kth: int | tuple[int, ...], axis: int | None = -1, kind: str = "introselect"
) -> GPUArray:
    """The indices that partition along an axis."""
    return _native.argpartition(self, kth, axis, kind)


def searchsorted(
    self: GPUArray,
    v: Any,
    side: Literal["left", "right"] = "left",
    sorter: GPUArray | None = None,
) -> GPUArray:
    """Insertion indices of the elements of v in this sorted vector."""
    from pygpukit.ops import searching

    return searching.searchsorted(self, v, side, sorter)


def compress(
    self: GPUArray, condition: Any, axis: int | None = None, out: GPUArray | None = None
) -> GPUArray:
    """Slices along an axis selected by a list of bools."""
    return _native.compress(condition, self, axis, out)


def put(
    self: GPUArray,
    indices: Any,
    values: Any,
    mode: Literal["raise", "wrap", "clip"] = "raise",
) -> None:
    """Sets elements at positions of the array in C order; values are repeated as needed."""
    _native.put(self, indices, values, mode)


def nonzero(self: GPUArray) -> tuple[GPUArray, ...]:
    """The indices of the nonzero elements, one array per axis."""
    return _native.nonzero(self)


def take(
    self: GPUArray,
    indices: Any,
    axis: int | None = None,
    out: GPUArray | None = None,
    mode: Literal["raise", "wrap", "clip"] = "raise",
) -> GPUArray:
    """The elements at these indices along an axis; without one, of the flattened array."""
    return _native.take(self, indices, axis, out, mode)


def repeat(
    self: GPUArray, repeats: int | Sequence[int] | GPUArray, axis: int | None = None
) -> GPUArray:
    """Repeats each element along an axis; without one, of the flattened array."""
    from pygpukit.ops import repeating

    return repeating.repeat(self, repeats, axis)


def trace(
    self: GPUArray,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: _DTypeLike | None = None,
) -> GPUArray:
    """The sum along a diagonal of two axes."""
    return _native.trace(self, offset, axis1, axis2, dtype)


def dot(self: GPUArray, other: GPUArray, /) -> GPUArray:
    """NumPy's dot: inner product of vectors, matmul of matrices."""
    return _native.dot(self, other)


_METHODS = (
    __array_namespace__,
    argpartition,
    argsort,
    astype,
    clip,
    compress,
    conj,
    copy,
    diagonal,
    dot,
    fill,
    flatten,
    get,
    narrow,
    nonzero,
    partition,
    put,
    ravel,
    repeat,
    reshape,
    round,
    searchsorted,
    slice_rows,
    sort,
    squeeze,
    swapaxes,
    take,
    to_device,
    tobytes,
    trace,
    transpose,
    view,
)
_PROPERTIES = (T, last_access, mT)


def _set_real(self: GPUArray, value: _ScalarLike | GPUArray) -> None:
    fill(_native.real_part(self), value)


def _set_imag(self: GPUArray, value: _ScalarLike | GPUArray) -> None:
    if "complex" not in self.dtype.name:
        from pygpukit.core.errors import InvalidTypeError

        raise InvalidTypeError(f"imag: an array of {self.dtype} has no imaginary part to set")
    fill(_native.imag_part(self), value)


def _set_flat(self: GPUArray, value: Any) -> None:
    from pygpukit.core.flat import assign

    assign(self, value)


for _method in _METHODS:
    _method.__qualname__ = f"GPUArray.{_method.__name__}"
    setattr(GPUArray, _method.__name__, _method)
for _getter in _PROPERTIES:
    setattr(GPUArray, _getter.__name__, property(_getter))
setattr(GPUArray, "conjugate", conj)  # noqa: B010
setattr(GPUArray, "flat", property(flat, _set_flat))  # noqa: B010
setattr(GPUArray, "real", property(real, _set_real))  # noqa: B010
setattr(GPUArray, "imag", property(imag, _set_imag))  # noqa: B010
