"""The modes of pad() that compute what they pad with, one axis after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.ops._lines import lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygpukit._native import GPUArray

    Pairs = Sequence[tuple[Any, Any]]

_STATISTICS: dict[str, Any] = {
    "maximum": _native.max,
    "mean": _native.mean,
    "median": _native.median,
    "minimum": _native.min,
}


def pad_by(mode: str, x: GPUArray, widths: Pairs, lengths: Pairs, ends: Pairs) -> GPUArray:
    """`lengths` are how many elements at each edge a statistic is of (None: all), `ends` the last
    values of ramps."""
    for axis, (before, after) in enumerate(widths):
        parts = []
        for width, length, end, first in (
            (before, lengths[axis][0], ends[axis][0], True),
            (after, lengths[axis][1], ends[axis][1], False),
        ):
            if mode == "linear_ramp":
                parts.append(_ramp(x, axis, width, end, first))
            else:
                parts.append(_repeated(_statistic(mode, x, axis, length, first), axis, width))
        x = _native.concat([parts[0], x, parts[1]], axis)
    return x


def _edge(x: GPUArray, axis: int, count: int, first: bool) -> GPUArray:
    return _native.slice_axis(x, axis, 0 if first else x.shape[axis] - count, count)


def _statistic(mode: str, x: GPUArray, axis: int, length: Any, first: bool) -> GPUArray:
    size = x.shape[axis]
    part = x if length is None or length >= size else _edge(x, axis, length, first)
    if part.dtype.name == "bool":
        part = _native.astype(part, "float64")
    value: GPUArray = _STATISTICS[mode](part, axis, keepdims=True)
    if "int" in x.dtype.name and mode in ("mean", "median"):
        value = _native.rint(value)
    return _native.astype(value, x.dtype, False)


def _repeated(value: GPUArray, axis: int, width: int) -> GPUArray:
    shape = tuple(width if n == axis else size for n, size in enumerate(value.shape))
    return _native.broadcast_to(value, shape)


def _ramp(x: GPUArray, axis: int, width: int, end: Any, first: bool) -> GPUArray:
    edge = _native.squeeze(_edge(x, axis, 1, first), axis)
    if edge.dtype.kind not in "fcV":
        edge = _native.astype(edge, "float64")
    far = _native.full(edge.shape, end, edge.dtype, device=edge.device)
    ramp, _ = lines(far, edge, width, False, x.dtype, axis, None)
    return ramp if first else _native.flip(ramp, axis)


__all__ = ["pad_by"]
