"""Powers, exponentials, ranks, pseudo-inverses and least squares."""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import safe_repr
from pygpukit.core.arguments import array_argument, array_arguments
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.linalg._arguments import adjoint, epsilon, floating, matrices
from pygpukit.linalg._errors import LinAlgError
from pygpukit.linalg._factors import svd
from pygpukit.linalg._norms import _matrix

if TYPE_CHECKING:
    from pygpukit._native import GPUArray, _ArrayLike

# Numerator of the (13, 13) Pade approximant of exp, and the largest 1-norm it is accurate for.
_PADE = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)
_PADE_NORM = 5.371920351148152


def _square(op: str, value: Any) -> GPUArray:
    x = matrices(op, "x", value)
    if x.shape[-1] != x.shape[-2]:
        raise LinAlgError(
            f"{op}: x has shape {x.shape}, expected square matrices as the last two dimensions"
        )
    return x


def _identity(x: GPUArray) -> GPUArray:
    import pygpukit as gp

    unit = gp.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    return gp.ascontiguousarray(gp.broadcast_to(unit, x.shape))


def matrix_power(x: _ArrayLike, n: int, /) -> GPUArray:
    """The n-th power of each matrix, by repeated squaring; of the inverse where n is negative."""
    import pygpukit as gp

    x = _square("matrix_power", x)
    try:
        exponent = index(n)
    except TypeError:
        raise InvalidTypeError(f"matrix_power: n is {safe_repr(n)}, expected an integer") from None
    if exponent < 0:
        x = _native.linalg_inv(x, True, False, "matrix_power")
        exponent = -exponent
    if exponent == 0:
        return _identity(x)
    if exponent == 1:
        return gp.copy(x)
    result: GPUArray | None = None
    while True:
        if exponent & 1:
            result = x if result is None else gp.matmul(result, x)
        exponent >>= 1
        if result is not None and exponent == 0:
            return result
        x = gp.matmul(x, x)


def expm(x: _ArrayLike, /) -> GPUArray:
    """The matrix exponential, by scaling and squaring of a Pade approximant.

    Reads the largest norm back, to know how often to square.
    """
    import pygpukit as gp

    x = _square("expm", x)
    a = floating("expm", x)
    if a.size == 0:
        return gp.copy(a)
    norms = gp.expand_dims(_matrix("expm", a, 1), axis=(-2, -1))
    halvings = gp.maximum(gp.ceil(gp.log2(gp.maximum(norms, 1e-30) / _PADE_NORM)), 0)
    most = float(gp.max(halvings))
    if not math.isfinite(most):
        return a * math.nan  # as SciPy: no exponential of infinities and NaN
    a = a * gp.exp2(-halvings)
    a2 = gp.matmul(a, a)
    a4 = gp.matmul(a2, a2)
    a6 = gp.matmul(a4, a2)
    unit = _identity(a)
    b = _PADE
    odd = gp.matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
    odd = gp.matmul(a, odd + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * unit)
    even = gp.matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2)
    even = even + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * unit
    result = _native.linalg_solve(even - odd, even + odd, False, False, "expm")
    for step in range(int(most)):
        result = gp.where(halvings > step, gp.matmul(result, result), result)
    return result


def _threshold(op: str, rtol: Any, s: GPUArray, shape: tuple[int, ...]) -> GPUArray:
    """What singular values have to exceed: [..., 1]."""
    import pygpukit as gp

    if rtol is None:
        rtol = max(shape[-2:]) * epsilon(s)
    if isinstance(rtol, _native.GPUArray):
        rtol = gp.expand_dims(rtol, axis=-1)
    elif not isinstance(rtol, (int, float)):
        raise InvalidTypeError(f"{op}: rtol is {safe_repr(rtol)}, expected a number or an array")
    if s.shape[-1] == 0:
        return gp.zeros((1,), dtype=s.dtype, device=s.device)
    return gp.multiply(s[..., :1], rtol)


def matrix_rank(
    A: _ArrayLike,
    tol: Any = None,
    hermitian: bool = False,
    *,
    rtol: Any = None,
) -> GPUArray:
    """The number of singular values above tol, or above rtol times the largest (int64).

    rtol is max(m, n) times the dtype's epsilon unless given. A vector has rank 1 unless it is 0.
    """
    import pygpukit as gp

    op = "matrix_rank"
    A = array_argument(op, "A", A)
    if A.ndim < 2:
        return gp.any(A != 0).astype("int64")
    if tol is not None and rtol is not None:
        raise InvalidValueError("matrix_rank: both tol and rtol are given, expected one of them")
    s = svd(floating(op, A), compute_uv=False, hermitian=hermitian)
    if tol is None:
        limit = _threshold(op, rtol, s, A.shape)
    else:
        limit = gp.expand_dims(tol, axis=-1) if isinstance(tol, _native.GPUArray) else tol
    return gp.count_nonzero(s > limit, axis=-1)


def pinv(
    a: _ArrayLike, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None
) -> GPUArray:
    """The Moore-Penrose pseudo-inverse, by the singular values above rtol times the largest.

    rtol, NumPy's rcond, is max(m, n) times the dtype's epsilon unless given (the array API's
    default).
    """
    import pygpukit as gp

    op = "pinv"
    a = matrices(op, "a", a)
    if rcond is not None and rtol is not None:
        raise InvalidValueError("pinv: both rcond and rtol are given, expected one of them")
    x = floating(op, a)
    u, s, vh = svd(x, full_matrices=False, hermitian=hermitian)
    keep = s > _threshold(op, rtol if rcond is None else rcond, s, a.shape)
    inverse = gp.where(keep, 1 / gp.where(keep, s, 1), 0)
    return gp.matmul(adjoint(vh) * gp.expand_dims(inverse, axis=-2), adjoint(u))


def lstsq(
    a: _ArrayLike, b: _ArrayLike, rcond: float | None = None
) -> tuple[GPUArray, GPUArray, GPUArray, GPUArray]:
    """(x, residuals, rank, s): the x of least norm among those that minimise |b - a x|.

    Singular values up to rcond (max(m, n) times epsilon unless given) times the largest count as 0.
    residuals are sums of squares, empty unless every matrix has full column rank and more rows
    than columns; rank is an int64 array. Reads ranks back.
    """
    import pygpukit as gp

    op = "lstsq"
    a, b = array_arguments(op, a=a, b=b)
    a = matrices(op, "a", a)
    m, n = a.shape[-2:]
    vector = b.ndim == 1
    if b.ndim == 0 or b.shape[0 if vector else -2] != m:
        raise LinAlgError(f"lstsq: a has shape {a.shape}, b has shape {b.shape}, expected {m} rows")
    dtype = gp.result_type(floating(op, a).dtype, floating(op, b).dtype)
    x, y = a.astype(dtype), b.astype(dtype)
    sides = gp.expand_dims(y, axis=-1) if vector else y
    u, s, vh = svd(x, full_matrices=False)
    keep = s > _threshold(op, rcond, s, a.shape)
    inverse = gp.where(keep, 1 / gp.where(keep, s, 1), 0)
    inner = gp.matmul(adjoint(u), sides) * gp.expand_dims(inverse, axis=-1)
    solution = gp.matmul(adjoint(vh), inner)
    rank = gp.count_nonzero(keep, axis=-1)
    residuals = gp.zeros((0,), dtype=s.dtype, device=a.device)
    if m > n and bool(gp.all(rank == n)):
        error = gp.abs(sides - gp.matmul(x, solution))
        residuals = gp.sum(error * error, axis=-2)
    return (solution[..., 0] if vector else solution), residuals, rank, s


def cond(x: _ArrayLike, p: float | str | None = None) -> GPUArray:
    """The condition number in the norm p: 2 unless given; infinite for singular matrices."""
    import pygpukit as gp

    x = matrices("cond", "x", x)
    if p is None or p in (2, -2):
        _, s, _ = _native.linalg_svd(x, False, False, True, False, "cond")
        if s.shape[-1] == 0:
            raise LinAlgError(f"cond: x has shape {x.shape}, expected matrices that are not empty")
        ratio = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        x = _square("cond", x)
        inverse = _native.linalg_inv(x, False, False, "cond")
        ratio = _matrix("cond", floating("cond", x), p) * _matrix("cond", inverse, p)
    # NaN from 0 / 0 or from the inverse of a singular matrix, but not of a matrix with NaN.
    singular = gp.isnan(ratio) & ~gp.any(gp.isnan(x), axis=(-2, -1))
    return gp.where(singular, math.inf, ratio)
