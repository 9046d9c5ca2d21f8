"""Other shapes and arrangements: views where possible, copies on the device otherwise."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray, broadcast_shapes

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
    from pygpukit.ops.creation import asarray

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
    shape = _native.broadcast_shapes(*[x.shape for x in arrays])
    return [_native.broadcast_to(x, shape) for x in arrays]


# --- joining -------------------------------------------------------------------------------------


def concat(
    arrays: Sequence[GPUArray],
    /,
    axis: int | None = 0,
    out: GPUArray | None = None,
    *,
    dtype: _DTypeLike | None = None,
) -> GPUArray:
    """Arrays one after the other along an axis; None: flattened first."""
    return _native.concat(arrays, axis, dtype, out)


def concatenate(
    arrays: Sequence[GPUArray],
    /,
    axis: int | None = 0,
    out: GPUArray | None = None,
    *,
    dtype: _DTypeLike | None = None,
) -> GPUArray:
    """NumPy's name of concat."""
    return _native.concat(arrays, axis, dtype, out, "concatenate")


def stack(
    arrays: Sequence[GPUArray],
    /,
    axis: int = 0,
    out: GPUArray | None = None,
    *,
    dtype: _DTypeLike | None = None,
) -> GPUArray:
    """Arrays of one shape along a new axis."""
    return _native.stack(arrays, axis, dtype, out)


def vstack(arrays: Sequence[GPUArray], /, *, dtype: _DTypeLike | None = None) -> GPUArray:
    """Arrays on top of each other: along the first axis, vectors as rows."""
    rows = [atleast_2d(x) for x in _all_arrays(arrays, "vstack")]
    return _native.concat(rows, 0, dtype, None, "vstack")


def hstack(arrays: Sequence[GPUArray], /, *, dtype: _DTypeLike | None = None) -> GPUArray:
    """Arrays side by side: along the second axis, vectors along their only one."""
    parts = [atleast_1d(x) for x in _all_arrays(arrays, "hstack")]
    axis = 0 if parts and parts[0].ndim == 1 else 1
    return _native.concat(parts, axis, dtype, None, "hstack")


def dstack(arrays: Sequence[GPUArray], /) -> GPUArray:
    """Arrays behind each other: along the third axis."""
    layers = [atleast_3d(x) for x in _all_arrays(arrays, "dstack")]
    return _native.concat(layers, 2, None, None, "dstack")


def column_stack(arrays: Sequence[GPUArray], /) -> GPUArray:
    """Vectors as the columns of a matrix; matrices as they are."""
    columns = [
        _native.reshape(x, (-1, 1)) if x.ndim < 2 else x
        for x in _all_arrays(arrays, "column_stack")
    ]
    return _native.concat(columns, 1, None, None, "column_stack")


def _all_arrays(arrays: Sequence[Any], op: str) -> Sequence[GPUArray]:
    for n, x in enumerate(arrays):
        if not isinstance(x, GPUArray):
            from pygpukit.core.errors import InvalidTypeError

            raise InvalidTypeError(f"{op}: arrays[{n}] is {x!r}, expected a GPUArray")
    return arrays


def append(x: GPUArray, values: GPUArray, /, axis: int | None = None) -> GPUArray:
    """A new array with values after x; without an axis both are flattened."""
    return _native.concat([x, values], axis, None, None, "append")


# --- splitting: views ----------------------------------------------------------------------------


def unstack(x: GPUArray, /, axis: int = 0) -> tuple[GPUArray, ...]:
    """Views of the parts along an axis, without that axis."""
    front = _native.moveaxis(x, axis, 0)
    return tuple(
        _native.squeeze(_native.slice_axis(front, 0, n, 1), 0) for n in range(front.shape[0])
    )


def split(
    x: GPUArray, indices_or_sections: int | Sequence[int], /, axis: int = 0
) -> list[GPUArray]:
    """Views of equal parts, or of the parts between the given indices, along an axis."""
    if hasattr(indices_or_sections, "__index__"):
        size = _axis_size(x, axis)
        sections = int(indices_or_sections)
        if sections <= 0 or size % sections != 0:
            from pygpukit.core.errors import InvalidValueError

            raise InvalidValueError(
                f"split: axis {axis} of shape {x.shape} is not divided into {sections} equal parts"
            )
    return array_split(x, indices_or_sections, axis)


def array_split(
    x: GPUArray, indices_or_sections: int | Sequence[int], /, axis: int = 0
) -> list[GPUArray]:
    """As split, but the first parts may be one longer than the others."""
    size = _axis_size(x, axis)
    if hasattr(indices_or_sections, "__index__"):
        sections = int(indices_or_sections)
        if sections <= 0:
            from pygpukit.core.errors import InvalidValueError

            raise InvalidValueError(f"array_split: {sections} is not a number of parts")
        part, longer = divmod(size, sections)
        stops = [part * (n + 1) + min(n + 1, longer) for n in range(sections - 1)]
    else:
        stops = [int(n) for n in indices_or_sections]
    bounds = [0, *stops, size]
    pieces = []
    for start, stop in pairwise(bounds):
        first, last, _ = slice(start, stop).indices(size)
        pieces.append(_native.slice_axis(x, axis, first, max(last - first, 0)))
    return pieces


def _axis_size(x: GPUArray, axis: int) -> int:
    return _native.moveaxis(x, axis, 0).shape[0]


def hsplit(x: GPUArray, indices_or_sections: int | Sequence[int], /) -> list[GPUArray]:
    """Views of parts along the second axis (of a vector: its only one)."""
    _check_rank(x, 1, "hsplit")
    return split(x, indices_or_sections, 0 if x.ndim == 1 else 1)


def vsplit(x: GPUArray, indices_or_sections: int | Sequence[int], /) -> list[GPUArray]:
    """Views of parts along the first axis."""
    _check_rank(x, 2, "vsplit")
    return split(x, indices_or_sections, 0)


def dsplit(x: GPUArray, indices_or_sections: int | Sequence[int], /) -> list[GPUArray]:
    """Views of parts along the third axis."""
    _check_rank(x, 3, "dsplit")
    return split(x, indices_or_sections, 2)


def _check_rank(x: GPUArray, rank: int, op: str) -> None:
    if x.ndim < rank:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(f"{op}: x has shape {x.shape}, expected at least {rank} dimensions")


# --- repeating, shifting, padding ----------------------------------------------------------------


def tile(x: GPUArray, repetitions: _Axes, /) -> GPUArray:
    """The array repeated along its axes."""
    return _native.tile(x, repetitions)


def repeat(
    x: GPUArray, repeats: int | Sequence[int] | GPUArray, /, axis: int | None = None
) -> GPUArray:
    """Every element `repeats` times along an axis; without one, of the flattened array.

    An array of counts, one per element, is read back once: the size of the result depends on it.
    """
    if hasattr(repeats, "__index__") and not isinstance(repeats, GPUArray):
        return _native.repeat(x, repeats, axis)
    source, along = (_native.reshape(x, -1), 0) if axis is None else (x, axis)
    size = _axis_size(source, along)
    if isinstance(repeats, GPUArray):
        _check_repeats(repeats.shape, size)
        return _repeat_on_device(source, repeats, along, size)
    import numpy as np

    counts = np.asarray(repeats)
    _check_repeats(counts.shape, size)
    if counts.size and counts.dtype.kind not in "biu":
        _bad_repeats_dtype(counts.dtype.name)
    if counts.size and counts.min() < 0:
        _negative_repeats(int(counts.min()))
    if counts.size == 1:
        return _native.repeat(x, int(counts.reshape(-1)[0]), axis)
    places = np.repeat(np.arange(size, dtype=np.int64), counts.astype(np.int64))
    return _take(source, _native.from_numpy(places, device=x.device), along)


def _repeat_on_device(x: GPUArray, repeats: GPUArray, axis: int, size: int) -> GPUArray:
    from pygpukit.ops.reduction import min, sum
    from pygpukit.ops.scan import cumsum
    from pygpukit.ops.searching import searchsorted

    if "int" not in repeats.dtype.name and repeats.dtype.name != "bool":
        _bad_repeats_dtype(repeats.dtype.name)
    if size == 0:
        return _native.copy(x)
    counts = _native.broadcast_to(_native.astype(repeats, "int64", False), (size,))
    total, lowest = _native.stack([sum(counts), min(counts)]).to_numpy().tolist()
    if lowest < 0:
        _negative_repeats(lowest)
    places = searchsorted(
        cumsum(counts), _native.arange(total, 0, 1, "int64", x.device), side="right"
    )
    return _take(x, places, axis)


def _take(x: GPUArray, places: GPUArray, axis: int) -> GPUArray:
    from pygpukit.ops.indexing import take

    return take(x, places, axis=axis)


def _check_repeats(shape: tuple[int, ...], size: int) -> None:
    if len(shape) > 1 or (len(shape) == 1 and shape[0] not in (1, size)):
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(
            f"repeat: repeats has shape {shape}, which does not fit an axis of size {size}"
        )


def _bad_repeats_dtype(name: str) -> None:
    from pygpukit.core.errors import InvalidTypeError

    raise InvalidTypeError(f"repeat: repeats has dtype {name}, expected integers")


def _negative_repeats(lowest: int) -> None:
    from pygpukit.core.errors import InvalidValueError

    raise InvalidValueError(f"repeat: repeats has the negative number {lowest}")


def roll(x: GPUArray, /, shift: _Axes, axis: _Axes | None = None) -> GPUArray:
    """Elements shifted along axes; what leaves at one end comes in at the other."""
    return _native.roll(x, shift, axis)


def pad(
    x: GPUArray, pad_width: Any, /, mode: str = "constant", *, constant_values: Any = 0
) -> GPUArray:
    """The array with a border of pad_width elements: a number, (before, after), or one per axis.

    mode: 'constant', 'edge', 'reflect', 'symmetric', 'wrap' or 'empty', as in NumPy.
    """
    widths = [(int(a), int(b)) for a, b in _pairs(pad_width, x.ndim, "pad_width")]
    values: list[tuple[Any, Any]] = []
    if mode == "constant":
        pairs = _pairs(constant_values, x.ndim, "constant_values")
        values = [(_as_value(a, x), _as_value(b, x)) for a, b in pairs]
    return _native.pad(x, widths, mode, values)


def _pairs(value: Any, rank: int, argument: str) -> list[tuple[Any, Any]]:
    """One pair per axis, from a number, a pair, a list of pairs, or a dict of axes."""
    from pygpukit.core.errors import InvalidTypeError, InvalidValueError

    def pair(item: Any) -> tuple[Any, Any]:
        if not isinstance(item, (list, tuple)):
            return (item, item)
        if len(item) not in (1, 2):
            raise InvalidValueError(f"pad: {argument} has {item!r}, expected (before, after)")
        return (item[0], item[-1])

    if isinstance(value, dict):
        by_axis = {axis % rank: pair(item) for axis, item in value.items()}
        return [by_axis.get(axis, (0, 0)) for axis in range(rank)]
    if hasattr(value, "tolist") and not isinstance(value, GPUArray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return [(value, value)] * rank
    if not value:
        raise InvalidTypeError(f"pad: {argument} is empty")
    if not isinstance(value[0], (list, tuple)):
        if len(value) > 2:
            raise InvalidValueError(f"pad: {argument} is {value!r}, expected (before, after)")
        return [pair(value)] * rank
    if len(value) not in (1, rank):
        raise InvalidValueError(f"pad: {argument} is for {len(value)} axes, the array has {rank}")
    pairs = [pair(item) for item in value]
    return pairs if len(pairs) == rank else pairs * rank


def _as_value(value: Any, x: GPUArray) -> Any:
    """As NumPy casts it to the array's dtype."""
    if "int" in x.dtype.name and isinstance(value, float):
        return int(value)
    return bool(value) if x.dtype.name == "bool" else value


# --- copies and questions ------------------------------------------------------------------------


def copy(x: GPUArray, /) -> GPUArray:
    """A C-contiguous copy."""
    return _native.copy(x)


def copyto(dst: GPUArray, src: Any, /) -> None:
    """dst[...] = src, broadcast to its shape and cast to its dtype."""
    from pygpukit.ops.creation import asarray

    _native.copy_into(dst, asarray(src, device=dst.device))


def ascontiguousarray(x: Any, /, dtype: _DTypeLike | None = None) -> GPUArray:
    """The array itself when it is C-contiguous, else a copy that is."""
    from pygpukit.ops.creation import asarray

    array = asarray(x, dtype=dtype)
    return array if array.is_contiguous() else _native.copy(array)


def ndim(x: Any, /) -> int:
    """Number of axes."""
    from pygpukit.ops.creation import asarray

    return asarray(x).ndim


def shape(x: Any, /) -> tuple[int, ...]:
    """Sizes of the axes."""
    from pygpukit.ops.creation import asarray

    return asarray(x).shape


def size(x: Any, /, axis: int | None = None) -> int:
    """Number of elements, or the size of one axis."""
    from pygpukit.ops.creation import asarray

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
    "append",
    "array_split",
    "ascontiguousarray",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "column_stack",
    "concat",
    "concatenate",
    "copy",
    "copyto",
    "diagonal",
    "dsplit",
    "dstack",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "may_share_memory",
    "moveaxis",
    "ndim",
    "pad",
    "permute_dims",
    "ravel",
    "repeat",
    "reshape",
    "roll",
    "rollaxis",
    "rot90",
    "shape",
    "shares_memory",
    "size",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "transpose",
    "unstack",
    "vsplit",
    "vstack",
]
