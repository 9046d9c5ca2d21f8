"""Running sums and products along an axis, and differences. Deterministic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import require_arrays

if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def cumulative_sum(
    x: GPUArray,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Running sum along an axis, which may be left out of a 1-d array.

    Of bool and integers int64 or uint64, which wrap. ``include_initial`` puts a 0 first.
    """
    return _native.cumulative_sum(x, axis, dtype, include_initial, out)


def cumulative_prod(
    x: GPUArray,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
    out: GPUArray | None = None,
) -> GPUArray:
    """Running product along an axis, which may be left out of a 1-d array.

    Of bool and integers int64 or uint64, which wrap. ``include_initial`` puts a 1 first.
    """
    return _native.cumulative_prod(x, axis, dtype, include_initial, out)


def cumsum(
    x: GPUArray, /, axis: int | None = None, dtype: Any = None, out: GPUArray | None = None
) -> GPUArray:
    """Running sum along an axis; without one, over the elements in C order."""
    return _native.cumsum(x, axis, dtype, out)


def cumprod(
    x: GPUArray, /, axis: int | None = None, dtype: Any = None, out: GPUArray | None = None
) -> GPUArray:
    """Running product along an axis; without one, over the elements in C order."""
    return _native.cumprod(x, axis, dtype, out)


def nancumsum(
    x: GPUArray, /, axis: int | None = None, dtype: Any = None, out: GPUArray | None = None
) -> GPUArray:
    """cumsum with NaN as 0."""
    return _native.nancumsum(x, axis, dtype, out)


def nancumprod(
    x: GPUArray, /, axis: int | None = None, dtype: Any = None, out: GPUArray | None = None
) -> GPUArray:
    """cumprod with NaN as 1."""
    return _native.nancumprod(x, axis, dtype, out)


def diff(
    x: GPUArray,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: GPUArray | None = None,
    append: GPUArray | None = None,
) -> GPUArray:
    """x[1:] - x[:-1] along an axis, n times; of bool arrays whether they differ.

    ``prepend`` and ``append`` are put before and after x along the axis first; they have x's other
    sizes.
    """
    require_arrays("diff", x=x)
    from pygpukit.ops.joining import concat

    if n < 0:
        raise ValueError(f"diff: n is {n}, expected 0 or more")
    if x.ndim == 0:
        raise ValueError("diff: x has shape (), expected 1 or more dimensions")
    if n == 0:
        return x
    if not -x.ndim <= axis < x.ndim:
        _native.flip(x, axis)  # raises the error of an axis out of bounds
    axis %= x.ndim
    parts = [part for part in (prepend, x, append) if part is not None]
    result = concat(parts, axis=axis) if len(parts) > 1 else x
    rest = (slice(None),) * axis
    subtract = _native.not_equal if result.dtype.name == "bool" else _native.subtract
    for _ in range(n):
        later, earlier = (*rest, slice(1, None)), (*rest, slice(None, -1))
        result = subtract(result[later], result[earlier])
    return result


__all__ = [
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "nancumprod",
    "nancumsum",
]
