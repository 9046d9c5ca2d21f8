"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import safe_repr
from pygpukit.core.arguments import array_argument
from pygpukit.core.errors import AxisError, InvalidTypeError, InvalidValueError
from pygpukit.linalg._arguments import floating, matrices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygpukit._native import GPUArray, _ArrayLike

    Axis = int | Sequence[int] | None


def _axes(op: str, axis: Axis, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    try:
        given = (index(axis),)  # type: ignore[arg-type]
    except TypeError:
        try:
            given = tuple(index(one) for one in axis)  # type: ignore[union-attr, assignment]
        except TypeError:
            raise InvalidTypeError(
                f"{op}: axis is {safe_repr(axis)}, expected None, an int or ints"
            ) from None
    for one in given:
        if not -ndim <= one < ndim:
            raise AxisError(f"{op}: axis {one} is out of bounds for {ndim} dimensions")
    axes = tuple(one % ndim for one in given)
    if len(set(axes)) != len(axes):
        raise InvalidValueError(f"{op}: axis is {safe_repr(axis)}, expected different axes")
    return axes


def _real(op: str, x: GPUArray) -> GPUArray:
    """Floating: integers as float64."""
    if "float" in str(x.dtype) and x.dtype.itemsize == 2:
        return x
    return floating(op, x)


def _vector(op: str, x: GPUArray, axes: tuple[int, ...], keepdims: bool, order: Any) -> GPUArray:
    import pygpukit as gp

    x = _real(op, x)
    if (order is None or order == 2) and x.dtype.kind == "f":
        return _euclidean(x, axes, keepdims)
    size = gp.abs(x)
    if order == math.inf:
        return gp.max(size, axis=axes, keepdims=keepdims)
    if order == -math.inf:
        return gp.min(size, axis=axes, keepdims=keepdims)
    if order == 0:
        return gp.sum((x != 0).astype(size.dtype), axis=axes, keepdims=keepdims)
    if order == 1:
        return gp.sum(size, axis=axes, keepdims=keepdims)
    if order is None or order == 2:
        return gp.sqrt(gp.sum(size * size, axis=axes, keepdims=keepdims))
    try:
        power = float(order)
    except (TypeError, ValueError):
        raise InvalidValueError(
            f"{op}: ord is {safe_repr(order)}, expected a number for vectors"
        ) from None
    return gp.sum(size**power, axis=axes, keepdims=keepdims) ** (1.0 / power)


def _euclidean(x: GPUArray, axes: tuple[int, ...], keepdims: bool) -> GPUArray:
    import pygpukit as gp

    if not x.on_gpu and x.dtype.char in "fd" and len(axes) == x.ndim and x.is_contiguous():
        result = gp.empty((1,) * x.ndim if keepdims else (), dtype=x.dtype, device=x.device)
        _native.run_reference("euclidean_norm", (x,), result)
        return result
    return gp.sqrt(gp.sum(x * x, axis=axes, keepdims=keepdims))


def vector_norm(
    x: _ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2
) -> GPUArray:
    """The norm of vectors along `axis`: sum(abs(x) ** ord) ** (1 / ord).

    axis may be several axes, or None: all elements. ord may be inf, -inf (the largest and the
    smallest magnitude) and 0 (the number of nonzero elements).
    """
    x = array_argument("vector_norm", "x", x)
    return _vector("vector_norm", x, _axes("vector_norm", axis, x.ndim), keepdims, ord)


def _matrix(op: str, x: GPUArray, order: Any) -> GPUArray:
    """Of the last two axes, which the result lacks."""
    import pygpukit as gp

    if order is None or order == "fro":
        return _vector(op, x, (x.ndim - 2, x.ndim - 1), False, 2)
    if order in (2, -2, "nuc"):
        _, s, _ = _native.linalg_svd(floating(op, x), False, False, True, False, op)
        if order == "nuc":
            return gp.sum(s, axis=-1)
        return gp.max(s, axis=-1) if order == 2 else gp.min(s, axis=-1)
    if order in (1, -1, math.inf, -math.inf):
        sums = gp.sum(gp.abs(_real(op, x)), axis=-2 if order in (1, -1) else -1)
        return gp.max(sums, axis=-1) if order in (1, math.inf) else gp.min(sums, axis=-1)
    raise InvalidValueError(
        f"{op}: ord is {safe_repr(order)}, expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf "
        "for matrices"
    )


def matrix_norm(
    x: _ArrayLike, /, *, keepdims: bool = False, ord: float | str | None = "fro"
) -> GPUArray:
    """The norm of matrices: 'fro', 'nuc' (sum of singular values), 2, -2 (largest, smallest),
    1, -1 (largest, smallest sum of a column), inf, -inf (of a row)."""
    x = matrices("matrix_norm", "x", x)
    result = _matrix("matrix_norm", x, ord)
    return _kept(result, (x.ndim - 2, x.ndim - 1), keepdims)


def _kept(result: GPUArray, axes: tuple[int, ...], keepdims: bool) -> GPUArray:
    import pygpukit as gp

    for axis in sorted(axes) if keepdims else ():
        result = gp.expand_dims(result, axis=axis)
    return result


def norm(
    x: _ArrayLike, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False
) -> GPUArray:
    """NumPy's norm: of vectors along an axis, of matrices along two, or of all elements.

    Without axis and ord the 2-norm of all elements; with ord, x has one or two axes.
    """
    import pygpukit as gp

    x = array_argument("norm", "x", x)
    if axis is None and ord is None:
        return _vector("norm", x, tuple(range(x.ndim)), keepdims, 2)
    axes = _axes("norm", axis, x.ndim)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise InvalidValueError(f"norm: ord is {ord!r}, expected a number for vectors")
        return _vector("norm", x, axes, keepdims, ord)
    if len(axes) == 2:
        return _kept(_matrix("norm", gp.moveaxis(x, axes, (-2, -1)), ord), axes, keepdims)
    raise InvalidValueError(
        f"norm: axis is {safe_repr(axis)} for shape {x.shape}, expected one or two axes"
    )
