"""Gather and scatter by integer or boolean arrays.

``axes`` are the indexed axes, ``names`` the same axes as named in messages;
``shape`` is what the indices broadcast to, and ``at`` its position among the other axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pygpukit import _native
from pygpukit._reference.blocks import LARGE

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "compress",
    "extract",
    "getitem",
    "masked_fill",
    "masked_select",
    "nonzero",
    "put",
    "put_along_axis",
    "ravel_multi_index",
    "setitem",
    "take",
    "take_along_axis",
    "unravel_index",
]


def _inside(index: NDArray[Any], size: int, mode: str, axis: int, op: str) -> NDArray[Any]:
    """Indices in [0, size); raises for the first one, in C order, that is out of bounds."""
    from pygpukit.core.errors import InvalidIndexError

    index = index.astype(np.int64)
    if mode == "wrap":
        return index % size if size > 0 else index
    if mode == "clip":
        clipped: NDArray[Any] = np.clip(index, 0, max(size - 1, 0))
        return clipped
    bad = (index < -size) | (index >= size)
    if bad.any():
        first = index[bad].reshape(-1)[0]
        raise InvalidIndexError(
            f"{op}: index {first} is out of bounds for axis {axis} with size {size}"
        )
    return np.where(index < 0, index + size, index)


def _resolved(
    x: NDArray[Any],
    indices: tuple[NDArray[Any], ...],
    axes: tuple[int, ...],
    names: tuple[int, ...],
    shape: tuple[int, ...],
    mode: str,
    op: str,
) -> tuple[NDArray[Any], tuple[NDArray[Any], ...]]:
    """x with the indexed axes first, and flat indices, in C order."""
    inside = [  # broadcast first: indices that select nothing are not checked
        _inside(np.broadcast_to(i, shape), x.shape[a], mode, n, op).reshape(-1)
        for i, a, n in zip(indices, axes, names, strict=True)
    ]
    return np.moveaxis(x, axes, range(len(axes))), tuple(inside)


def _take(
    x: NDArray[Any],
    index: NDArray[Any],
    axis: int,
    shape: tuple[int, ...],
    mode: str,
    out: NDArray[Any],
) -> bool:
    """By NumPy's take. False where an index is out of bounds: the message is not NumPy's."""
    if mode == "raise" and index.shape == shape and _native.host_take(x, index, axis, out):
        return True
    size = x.shape[axis]
    if size == 0 or index.size == 0 or index.dtype.kind != "i":
        return False
    spread = index if index.shape == shape else np.broadcast_to(index, shape)
    if out.size < LARGE and mode == "raise":
        try:
            np.copyto(out, x.take(spread, axis))
        except IndexError:
            return False
        return True
    # With out and mode "raise", NumPy would fill a second array.
    if mode == "raise" and (index.min() < -size or index.max() >= size):
        return False
    x.take(spread, axis, out=out, mode="clip" if mode == "clip" else "wrap")
    return True


def _gather(
    op: str,
    x: NDArray[Any],
    indices: tuple[NDArray[Any], ...],
    axes: tuple[int, ...],
    names: tuple[int, ...],
    shape: tuple[int, ...],
    at: int,
    mode: str,
    out: NDArray[Any],
) -> None:
    front, flat = _resolved(x, indices, axes, names, shape, mode, op)
    if flat:
        picked = front[flat].reshape(shape + front.shape[len(axes) :])
    else:
        picked = np.broadcast_to(front, shape + front.shape)
    rank = len(shape)
    out[...] = np.moveaxis(picked, range(rank), range(at, at + rank))


def _scatter(
    op: str,
    value: Any,
    indices: tuple[NDArray[Any], ...],
    axes: tuple[int, ...],
    names: tuple[int, ...],
    shape: tuple[int, ...],
    at: int,
    mode: str,
    out: NDArray[Any],
) -> None:
    front, flat = _resolved(out, indices, axes, names, shape, mode, op)
    rest = front.shape[len(axes) :]
    rank = len(shape)
    converted = np.asarray(value).astype(out.dtype)
    full = np.broadcast_to(converted, rest[:at] + shape + rest[at:])
    values = np.moveaxis(full, range(at, at + rank), range(rank))
    if flat:
        front[flat] = values.reshape((flat[0].size, *rest))  # the last of equal indices wins
    elif values.size:
        front[...] = values.reshape((-1, *rest))[-1]


def getitem(
    x: NDArray[Any],
    *indices: NDArray[Any],
    axes: tuple[int, ...],
    names: tuple[int, ...],
    shape: tuple[int, ...],
    at: int,
    mode: str,
    out: NDArray[Any],
) -> None:
    """out = x[key]"""
    if len(indices) == 1 and at == axes[0] and _take(x, indices[0], at, shape, mode, out):
        return
    _gather("getitem", x, indices, axes, names, shape, at, mode, out)


def take(
    x: NDArray[Any],
    *indices: NDArray[Any],
    axes: tuple[int, ...],
    names: tuple[int, ...],
    shape: tuple[int, ...],
    at: int,
    mode: str,
    out: NDArray[Any],
) -> None:
    """out = x at positions along an axis"""
    if not _take(x, indices[0], at, shape, mode, out):
        _gather("take", x, indices, axes, names, shape, at, mode, out)


def compress(x: NDArray[Any], *indices: NDArray[Any], out: NDArray[Any], **how: Any) -> None:
    """out = x at the positions along an axis where a condition is true"""
    _gather("compress", x, indices, out=out, **how)


def extract(x: NDArray[Any], *indices: NDArray[Any], out: NDArray[Any], **how: Any) -> None:
    """out = x, flattened, at the positions where a condition is true"""
    _gather("extract", x, indices, out=out, **how)


def setitem(value: Any, *indices: NDArray[Any], out: NDArray[Any], **how: Any) -> None:
    """out[key] = value"""
    _scatter("setitem", value, indices, out=out, **how)


def put(value: Any, *indices: NDArray[Any], out: NDArray[Any], **how: Any) -> None:
    """out.flat[indices] = value"""
    _scatter("put", value, indices, out=out, **how)


def masked_fill(value: Any, mask: NDArray[Any], *, out: NDArray[Any]) -> None:
    """out[mask] = value, for a value that does not vary over the true elements"""
    np.copyto(out, np.asarray(value).astype(out.dtype), where=mask)


def masked_select(
    x: NDArray[Any], mask: NDArray[Any], *, axis: int, at: int, out: NDArray[Any]
) -> None:
    """out = x at the true elements of a mask of the axes from `axis` on, which become axis `at`"""
    if at == axis and _native.host_compact(x, mask, axis, out.shape[at], out):
        return
    picked = x[(slice(None),) * axis + (mask,)]
    np.copyto(out, picked if at == axis else np.moveaxis(picked, axis, at))


def take_along_axis(
    x: NDArray[Any], indices: NDArray[Any], *, axis: int, out: NDArray[Any]
) -> None:
    """out[i, j] = x[indices[i, j], j] for axis 0"""
    try:
        if indices.dtype.kind == "i":
            np.copyto(out, np.take_along_axis(x, indices, axis))
            return
    except IndexError:
        pass  # the message is ours
    inside = _inside(indices, x.shape[axis], "raise", axis, "take_along_axis")
    np.copyto(out, np.take_along_axis(x, inside, axis))


def put_along_axis(value: Any, indices: NDArray[Any], *, axis: int, out: NDArray[Any]) -> None:
    """out[indices[i, j], j] = value[i, j] for axis 0"""
    checked = _inside(indices, out.shape[axis], "raise", axis, "put_along_axis")
    inside = np.ascontiguousarray(checked)  # C order: the last of equal indices wins
    np.put_along_axis(out, inside, np.asarray(value).astype(out.dtype), axis)


def nonzero(x: NDArray[Any], *, out: NDArray[Any]) -> None:
    """out[d] = coordinate d of the nonzero elements, in C order"""
    for coordinates, found in zip(out, np.nonzero(x), strict=True):
        coordinates[...] = found


def unravel_index(indices: NDArray[Any], *, shape: tuple[int, ...], out: NDArray[Any]) -> None:
    """out[d] = coordinate d of flat positions"""
    from pygpukit.core.errors import InvalidValueError

    size = int(np.prod(shape, dtype=object))
    bad = (indices < 0) | (indices >= size)
    if bad.any():
        first = indices[bad].reshape(-1)[0]
        raise InvalidValueError(
            f"unravel_index: index {first} is out of bounds for array with size {size}"
        )
    if shape:
        out[...] = np.unravel_index(indices, shape)


def ravel_multi_index(
    *indices: NDArray[Any], shape: tuple[int, ...], mode: str, out: NDArray[Any]
) -> None:
    """out = flat positions of coordinates"""
    from pygpukit.core.errors import InvalidValueError

    total = np.zeros(out.shape, np.int64)
    for index, size in zip(indices, shape, strict=True):
        bad = (index < 0) | (index >= size)
        if mode == "raise" and bad.any():
            first = index[bad].reshape(-1)[0]
            raise InvalidValueError(
                f"ravel_multi_index: index {first} is out of bounds for array with size {size}"
            )
        total = total * size + _inside(index, size, mode, 0, "ravel_multi_index")
    out[...] = total
