"""Exact and approximate equality. Results stay on the device, as 0-d arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray

if TYPE_CHECKING:
    _Number = GPUArray | complex


def isclose(
    a: Any, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> GPUArray:
    """Elementwise abs(a - b) <= atol + rtol * abs(b), or both the same infinity."""
    from pygpukit.ops import elementwise as e

    x, y = _operands(a, b)
    if "int" in y.dtype.name or y.dtype.name == "bool":
        y = _native.astype(y, "float64")  # like NumPy: no wrap-around in the difference
    with_tolerance = e.add(e.multiply(e.abs(y), rtol), atol)
    near = e.less_equal(e.abs(e.subtract(x, y)), with_tolerance)
    close = e.logical_or(e.logical_and(near, e.isfinite(y)), e.equal(x, y))
    if equal_nan:
        close = e.logical_or(close, e.logical_and(e.isnan(x), e.isnan(y)))
    return close


def allclose(
    a: Any, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> GPUArray:
    """Whether all elements are close, as a 0-d bool array."""
    from pygpukit.ops.reduction import all

    return all(isclose(a, b, rtol, atol, equal_nan=equal_nan))


def array_equal(a: Any, b: Any, /, equal_nan: bool = False) -> GPUArray:
    """Whether shapes and all elements are equal, as a 0-d bool array."""
    x, y = _operands(a, b)
    if x.shape != y.shape:
        return _native.full((), False, device=x.device)
    return _all_equal(x, y, equal_nan)


def array_equiv(a: Any, b: Any, /) -> GPUArray:
    """Whether all elements are equal after broadcasting, as a 0-d bool array."""
    x, y = _operands(a, b)
    try:
        _native.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return _native.full((), False, device=x.device)
    return _all_equal(x, y, False)


def _all_equal(x: GPUArray, y: GPUArray, equal_nan: bool) -> GPUArray:
    from pygpukit.ops import elementwise as e
    from pygpukit.ops.reduction import all

    same = e.equal(x, y)
    if equal_nan:
        same = e.logical_or(same, e.logical_and(e.isnan(x), e.isnan(y)))
    return all(same)


def _operands(a: Any, b: Any) -> tuple[GPUArray, GPUArray]:
    from pygpukit.ops.conversion import as_operands

    x, y = as_operands(a, b)
    return x, y


__all__ = ["allclose", "array_equal", "array_equiv", "isclose"]

name_all(globals(), __all__)
