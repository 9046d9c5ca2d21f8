"""Products and views of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit.core.arguments import array_arguments, items, require_arrays
from pygpukit.core.errors import InvalidValueError
from pygpukit.linalg._arguments import matrices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygpukit._native import GPUArray, _ArrayLike


def cross(x1: _ArrayLike, x2: _ArrayLike, /, *, axis: int = -1) -> GPUArray:
    """The cross product of vectors of three elements along `axis`; other axes broadcast."""
    import pygpukit as gp

    x1, x2 = array_arguments("cross", x1=x1, x2=x2)
    for name, x in (("x1", x1), ("x2", x2)):
        if x.ndim == 0 or not -x.ndim <= axis < x.ndim or x.shape[axis] != 3:
            raise InvalidValueError(
                f"cross: {name} has shape {x.shape}, expected 3 elements along axis {axis}"
            )
    a, b = (gp.unstack(x, axis=axis) for x in (x1, x2))
    parts = [a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)]
    return gp.stack(parts, axis=axis)


def diagonal(x: _ArrayLike, /, *, offset: int = 0) -> GPUArray:
    """A view of a diagonal of each matrix."""
    import pygpukit as gp

    x = matrices("diagonal", "x", x)
    return gp.diagonal(x, offset, -2, -1)


def trace(x: _ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> GPUArray:
    """The sum over a diagonal of each matrix."""
    import pygpukit as gp

    x = matrices("trace", "x", x)
    return gp.trace(x, offset, -2, -1, dtype=dtype)


def outer(x1: _ArrayLike, x2: _ArrayLike, /) -> GPUArray:
    """All products of an element of x1 and one of x2, which have one axis."""
    import pygpukit as gp

    x1, x2 = array_arguments("outer", x1=x1, x2=x2)
    for name, x in (("x1", x1), ("x2", x2)):
        if x.ndim != 1:
            raise InvalidValueError(f"outer: {name} has shape {x.shape}, expected one dimension")
    return gp.outer(x1, x2)


def _chain(sizes: Sequence[int]) -> list[list[int]]:
    """split[i][j]: where the cheapest product of matrices i to j is split. Matrix i is
    sizes[i] x sizes[i + 1]."""
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], split[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return split


def multi_dot(arrays: Sequence[_ArrayLike], *, out: GPUArray | None = None) -> GPUArray:
    """The product of two or more matrices, in the order that takes the fewest operations.

    The first may be a row, the last a column: they have one axis, which the result lacks.
    """
    import pygpukit as gp

    given = items("multi_dot", "arrays", arrays, "a sequence of arrays")
    chain = array_arguments("multi_dot", **{f"arrays[{i}]": x for i, x in enumerate(given)})
    if len(chain) < 2:
        raise InvalidValueError(f"multi_dot: {len(chain)} arrays given, expected at least two")
    row, column = chain[0].ndim == 1, chain[-1].ndim == 1
    if row:
        chain[0] = gp.reshape(chain[0], (1, -1))
    if column:
        chain[-1] = gp.reshape(chain[-1], (-1, 1))
    for i, x in enumerate(chain):
        if x.ndim != 2:
            raise InvalidValueError(
                f"multi_dot: arrays[{i}] has shape {x.shape}, expected a matrix"
            )
    split = _chain([x.shape[0] for x in chain] + [chain[-1].shape[1]])

    def product(i: int, j: int) -> GPUArray:
        if i == j:
            return chain[i]
        return gp.matmul(product(i, split[i][j]), product(split[i][j] + 1, j))

    result = product(0, len(chain) - 1)
    shape = tuple(result.shape[axis] for axis, gone in ((0, row), (1, column)) if not gone)
    result = gp.reshape(result, shape)
    if out is None:
        return result
    require_arrays("multi_dot", out=out)
    if out.shape != result.shape or out.dtype != result.dtype:
        raise InvalidValueError(
            f"multi_dot: out has shape {out.shape} and dtype {out.dtype}, the result has "
            f"{result.shape} and {result.dtype}"
        )
    out[...] = result
    return out
