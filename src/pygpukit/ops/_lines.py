"""linspace between arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import whole
from pygpukit.ops.conversion import asarray, device_beside

if TYPE_CHECKING:
    from pygpukit._native import DataType, GPUArray, _DeviceLike, _DTypeLike


def lines(
    start: Any,
    stop: Any,
    num: int,
    endpoint: bool,
    dtype: _DTypeLike | None,
    axis: int,
    device: _DeviceLike,
) -> tuple[GPUArray, GPUArray]:
    """(numbers, step): start, stop or both have axes; the numbers are along a new one."""
    count = whole("linspace", "num", num)
    where = device_beside(start, stop) if device is None else device
    first, last = (_floating(asarray(bound, device=where)) for bound in (start, stop))
    kind = _native.result_type(first, last)
    first, last = (_native.astype(bound, kind, False) for bound in (first, last))
    span = _native.subtract(last, first)
    steps = count - 1 if endpoint else count
    step = _native.divide(span, steps) if steps > 0 else _native.multiply(span, math.nan)
    shape = (count,) + (1,) * span.ndim
    places = _native.reshape(_native.arange(count, 0, 1, kind, first.device), shape)
    numbers = _native.add(_native.multiply(places, step if steps > 0 else span), first)
    if endpoint and count > 1:
        numbers[-1] = last
    numbers = _native.moveaxis(numbers, 0, axis)
    return (numbers if dtype is None else _in_dtype(numbers, dtype)), step


def _floating(x: GPUArray) -> GPUArray:
    """As they are, or float32: the default between numbers too."""
    return x if x.dtype.kind in "fcV" else _native.astype(x, "float32")


def _in_dtype(x: GPUArray, dtype: _DTypeLike) -> GPUArray:
    kind: DataType = _native.result_type(dtype)
    rounded = _native.floor(x) if kind.kind in "iu" and x.dtype.kind == "f" else x
    return _native.astype(rounded, kind, False)


__all__ = ["lines"]
