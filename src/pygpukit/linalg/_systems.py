"""Systems of equations, inverses and determinants."""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import require_arrays
from pygpukit.core.errors import InvalidValueError
from pygpukit.linalg._errors import LinAlgError
from pygpukit.linalg._results import SlogdetResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygpukit._native import GPUArray


def solve(x1: GPUArray, x2: GPUArray, /, *, check: bool = True) -> GPUArray:
    """The solution y of x1 y = x2, by LU with partial pivoting.

    x2 is a vector where it has one axis, else matrices; batches broadcast. LinAlgError where a
    matrix is singular.
    """
    require_arrays("solve", x1=x1, x2=x2)
    return _native.linalg_solve(x1, x2, check)


def inv(x: GPUArray, /, *, check: bool = True) -> GPUArray:
    """The inverse of each matrix. LinAlgError where one is singular."""
    require_arrays("inv", x=x)
    return _native.linalg_inv(x, check)


def slogdet(x: GPUArray, /) -> SlogdetResult:
    """SlogdetResult(sign, logabsdet) with det(x) = sign * exp(logabsdet)."""
    require_arrays("slogdet", x=x)
    return SlogdetResult(*_native.linalg_slogdet(x))


def det(x: GPUArray, /) -> GPUArray:
    """The determinant of each matrix."""
    import pygpukit as gp

    require_arrays("det", x=x)
    sign, logabsdet = _native.linalg_slogdet(x, False, "det")
    return sign * gp.exp(logabsdet)


def tensorsolve(a: GPUArray, b: GPUArray, axes: Sequence[int] | None = None) -> GPUArray:
    """The x with tensordot(a, x, x.ndim) = b; `axes` of a are moved to its end first."""
    import pygpukit as gp

    require_arrays("tensorsolve", a=a, b=b)
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


def tensorinv(a: GPUArray, ind: int = 2) -> GPUArray:
    """The inverse of a as an operator on its last a.ndim - ind axes."""
    import pygpukit as gp

    require_arrays("tensorinv", a=a)
    if index(ind) <= 0:
        raise InvalidValueError(f"tensorinv: ind is {ind}, expected a positive number")
    shape = a.shape[ind:] + a.shape[:ind]
    rows = math.prod(a.shape[ind:])
    matrix = gp.reshape(a, (math.prod(a.shape[:ind]), rows))
    return gp.reshape(_native.linalg_inv(matrix, True, False, "tensorinv"), shape)
