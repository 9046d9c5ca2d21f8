"""Elements put in, taken out or overwritten."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import is_whole, require_arrays
from pygpukit.core.errors import AxisError, InvalidIndexError, InvalidValueError
from pygpukit.ops.conversion import as_operands, asarray

if TYPE_CHECKING:
    from collections.abc import Sequence


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> GPUArray:
    """A copy with values before the given positions of an axis; without one, flattened.

    obj is an int, a slice or a sequence of ints (or of bool). Indices in a GPUArray are not
    checked.
    """
    x, at = _along("insert", arr, axis)
    count = x.shape[at]
    places, is_scalar = _places("insert", obj, count, x.device)
    front = _native.moveaxis(x, at, 0)
    new = _native.astype(as_operands(values, x)[0], x.dtype)
    num_new = places.size
    if num_new == 1:  # one index takes as many values as there are
        new = _native.reshape(new, (1,) * (x.ndim - new.ndim) + new.shape)
        new = _native.moveaxis(new, 0, at) if is_scalar else new
        num_new = new.shape[at]
        places = _native.broadcast_to(places, (num_new,))
    shape = (*x.shape[:at], num_new, *x.shape[at + 1 :])
    try:
        new = _native.moveaxis(_native.broadcast_to(new, shape), at, 0)
    except ValueError:
        raise InvalidValueError(
            f"insert: values of shape {new.shape} do not broadcast to {shape}"
        ) from None
    order = _native.argsort(places, stable=True)
    ordered = _native.take(places, order, axis=0)
    result = _native.empty((count + num_new, *front.shape[1:]), x.dtype, device=x.device)
    # Position j moves by the number of insertions at or before it.
    old = _native.arange(count, 0, 1, "int64", x.device)
    result[_native.add(old, _native.searchsorted(ordered, old, side="right"))] = front
    step = _native.arange(num_new, 0, 1, "int64", x.device)
    result[_native.add(ordered, step)] = _native.take(new, order, axis=0)
    return _native.moveaxis(result, 0, at)


def delete(arr: Any, obj: Any, axis: int | None = None) -> GPUArray:
    """A copy without the given positions of an axis; without one, flattened.

    obj is an int, a slice or a sequence of ints (or of bool). For a GPUArray the result's shape
    depends on its values, so this waits for the GPU.
    """
    x, at = _along("delete", arr, axis)
    count = x.shape[at]
    rest: tuple[Any, ...] = (slice(None),) * at
    if isinstance(obj, GPUArray):
        if obj.dtype.name == "bool":
            keep = _native.logical_not(obj)
        else:
            keep = _native.ones((count,), "bool", device=x.device)
            keep[obj] = False
        key = (*rest, keep)
        return x[key]
    removed = set(_host_places("delete", obj, count)[0])
    kept = [n for n in range(count) if n not in removed]
    return _native.take(x, asarray(kept, dtype="int64", device=x.device), axis=at)


def _along(op: str, arr: Any, axis: int | None) -> tuple[GPUArray, int]:
    x = asarray(arr)
    if axis is None:
        return _native.reshape(x, (-1,)), 0
    if not -x.ndim <= axis < x.ndim:
        raise AxisError(f"{op}: axis {axis} is out of bounds for array of dimension {x.ndim}")
    return x, axis % x.ndim


def _host_places(op: str, obj: Any, count: int) -> tuple[list[int], bool]:
    """Positions from 0, and whether one int was given. insert may be given `count` itself."""
    if isinstance(obj, slice):
        return list(range(*obj.indices(count))), False
    single = is_whole(obj)
    listed = obj.tolist() if hasattr(obj, "tolist") else obj
    given = [obj] if single else list(listed)
    if given and all(isinstance(n, bool) for n in given) and not single:
        if op == "delete" and len(given) != count:
            raise InvalidValueError(f"{op}: obj has {len(given)} elements, the axis {count}")
        return [n for n, flag in enumerate(given) if flag], False
    top = count if op == "insert" else count - 1
    places = []
    for n in map(index, given):
        if not -count <= n <= top:
            raise InvalidIndexError(f"{op}: index {n} is out of bounds for axis with size {count}")
        places.append(n + count if n < 0 else n)
    return places, single


def _places(op: str, obj: Any, count: int, device: str) -> tuple[GPUArray, bool]:
    if isinstance(obj, GPUArray):
        if obj.dtype.name == "bool":
            return _native.flatnonzero(obj), False
        places = _native.astype(_native.reshape(obj, (-1,)), "int64", False)
        below = _native.less(places, 0)
        return _native.where(below, _native.add(places, count), places), obj.ndim == 0
    listed, single = _host_places(op, obj, count)
    return asarray(listed, dtype="int64", device=device), single


def trim_zeros(filt: Any, trim: str = "fb") -> GPUArray:
    """A view of a vector without the zeros at its ends: 'f' the front, 'b' the back.

    The shape depends on the values, so this waits for the GPU.
    """
    x = asarray(filt)
    if x.ndim != 1:
        raise InvalidValueError(f"trim_zeros: filt has shape {x.shape}, expected one dimension")
    if not isinstance(trim, str) or not set(trim.lower()) <= {"f", "b"}:
        raise InvalidValueError(f"trim_zeros: trim is {safe_repr(trim)}, expected 'f', 'b' or 'fb'")
    places = _native.flatnonzero(x)
    if places.size == 0:
        return x[:0]
    first, last = places[0].tolist(), places[-1].tolist()
    start = first if "f" in trim.lower() else 0
    stop = last + 1 if "b" in trim.lower() else x.size
    return x[start:stop]


def resize(a: Any, new_shape: int | Sequence[int]) -> GPUArray:
    """A new array of that shape, filled with the elements of a, repeated as often as needed."""
    x = _native.reshape(asarray(a), (-1,))
    shape = (index(new_shape),) if hasattr(new_shape, "__index__") else tuple(new_shape)
    count = 1
    for n in shape:
        if n < 0:
            raise InvalidValueError(f"resize: new_shape {shape} has a negative size")
        count *= n
    if x.size == 0:
        return _native.zeros(shape, x.dtype, device=x.device)
    places = _native.remainder(_native.arange(count, 0, 1, "int64", x.device), x.size)
    return _native.reshape(_native.take(x, places, axis=0), shape)


def fill_diagonal(a: GPUArray, val: Any, wrap: bool = False) -> None:
    """Writes val to the main diagonal, in place. wrap: goes on below it in tall matrices."""
    require_arrays("fill_diagonal", a=a)
    if a.ndim < 2:
        raise InvalidValueError(f"fill_diagonal: a has shape {a.shape}, expected 2 axes or more")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise InvalidValueError(f"fill_diagonal: a has shape {a.shape}, expected equal sizes")
    value = as_operands(val, a)[0]
    if a.ndim > 2:
        line = _native.arange(a.shape[0], 0, 1, "int64", a.device)
        a[(line,) * a.ndim] = _repeated(value, a.shape[0])
        return
    rows, columns = a.shape
    if not wrap or rows <= columns + 1:
        diagonal = _native.diagonal(a)
        diagonal[...] = _repeated(value, diagonal.size)
        return
    flat = _native.arange(-(-rows * columns // (columns + 1)), 0, columns + 1, "int64", a.device)
    place = (_native.floor_divide(flat, columns), _native.remainder(flat, columns))
    a[place] = _repeated(value, flat.size)


def _repeated(value: GPUArray, count: int) -> GPUArray:
    return value if value.ndim == 0 else resize(value, count)


def putmask(a: GPUArray, mask: Any, values: Any) -> None:
    """a.flat[n] = values.flat[n] where mask.flat[n], in place; values are repeated as needed."""
    require_arrays("putmask", a=a)
    chosen = asarray(mask, device=a.device)
    if chosen.size != a.size:
        raise InvalidValueError(
            f"putmask: mask and data must be the same size, but they have {chosen.size} and "
            f"{a.size} elements"
        )
    new = as_operands(values, a)[0]
    if new.size == 0:
        return
    new = _native.astype(new if new.ndim == 0 else resize(new, a.shape), a.dtype)
    flags = _native.reshape(_native.astype(chosen, "bool", False), a.shape)
    _native.copy_into(a, _native.where(flags, new, a))


__all__ = ["delete", "fill_diagonal", "insert", "putmask", "resize", "trim_zeros"]

name_all(globals(), __all__)
