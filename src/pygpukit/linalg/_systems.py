"""Systems of equations, inverses and determinants."""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import array_argument, array_arguments
from pygpukit.core.errors import InvalidValueError
from pygpukit.linalg._errors import LinAlgError
from pygpukit.linalg._results import SlogdetResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygpukit._native import GPUArray, _ArrayLike


def solve(x1: _ArrayLike, x2: _ArrayLike, /, *, check: bool = True) -> GPUArray:
    """The solution y of x1 y = x2, by LU with partial pivoting.

    x2 is a vector where it has one axis, else matrices; batches broadcast. LinAlgError where a
    matrix is singular.
    """
    x1, x2 = array_arguments("solve", x1=x1, x2=x2)
    return _native.linalg_solve(x1, x2, check)


def inv(x: _ArrayLike, /, *, check: bool = True) -> GPUArray:
    """The inverse of each matrix. LinAlgError where one is singular."""
    x = array_argument("inv", "x", x)
    return _native.linalg_inv(x, check)


def slogdet(x: _ArrayLike, /) -> SlogdetResult:
    """SlogdetResult(sign, logabsdet) with det(x) = sign * exp(logabsdet)."""
    x = array_argument("slogdet", "x", x)
    return SlogdetResult(*_native.linalg_slogdet(x))


def det(x: _ArrayLike, /) -> GPUArray:
    """The determinant of each matrix."""
    import pygpukit as gp

    x = array_argument("det", "x", x)
    sign, logabsdet = _native.linalg_slogdet(x, False, "det")
    return sign * gp.exp(logabsdet)


def tensorsolve(a: _ArrayLike, b: _ArrayLike, axes: Sequence[int] | None = None) -> GPUArray:
    """The x with tensordot(a, x, x.ndim) = b; `axes` of a are moved to its end first."""
    import pygpukit as gp

    a, b = array_arguments("tensorsolve", a=a, b=b)
    if axes is not None:
        order = [i for i in range(a.ndim) if i not in axes]
        a = gp.permute_dims(a, (*order, *axes))
    shape = a.shape[b.ndim :]
    if math.prod(shape) != math.prod(a.shape[: b.ndim]) or b.size != math.prod(shape):
        raise LinAlgError(
            f"tensorsolve: a has shape {a.shape}, b has shape {b.shape}, expected "
            "prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]) == b.size"
        )
    matrix = gp.reshape(a, (b.size, b.size))
    return gp.reshape(
        _native.linalg_solve(matrix, gp.reshape(b, (-1,)), True, False, "tensorsolve"), shape
    )


def tensorinv(a: _ArrayLike, ind: int = 2) -> GPUArray:
    """The inverse of a as an operator on its last a.ndim - ind axes."""
    import pygpukit as gp

    a = array_argument("tensorinv", "a", a)
    if index(ind) <= 0:
        raise InvalidValueError(f"tensorinv: ind is {ind}, expected a positive number")
    shape = a.shape[ind:] + a.shape[:ind]
    rows = math.prod(a.shape[ind:])
    matrix = gp.reshape(a, (math.prod(a.shape[:ind]), rows))
    return gp.reshape(_native.linalg_inv(matrix, True, False, "tensorinv"), shape)
