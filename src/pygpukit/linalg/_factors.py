"""Cholesky, LU, QR, SVD and triangular systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from pygpukit import _native
from pygpukit._native import safe_repr
from pygpukit.core.arguments import array_argument, array_arguments, require_arrays
from pygpukit.core.errors import InvalidTypeError
from pygpukit.linalg._arguments import adjoint, adjoint_code, matrices
from pygpukit.linalg._results import QRResult, SVDResult

if TYPE_CHECKING:
    from pygpukit._native import GPUArray, _ArrayLike


def cholesky(x: _ArrayLike, /, *, upper: bool = False, check: bool = True) -> GPUArray:
    """The lower triangle L with x = L L^H, or the upper U with x = U^H U.

    Only that triangle of x is read. LinAlgError where a matrix is not positive definite.
    """
    x = array_argument("cholesky", "x", x)
    return _native.linalg_cholesky(x, upper, check)


def cholesky_solve(x1: _ArrayLike, x2: _ArrayLike, /, *, upper: bool = False) -> GPUArray:
    """The solution y of A y = x2, where x1 is the factor that cholesky(A, upper=upper) gave."""
    op = "cholesky_solve"
    x1, x2 = array_arguments(op, x1=x1, x2=x2)
    first, second = (2, 0) if upper else (0, 2)
    y = _native.linalg_triangular(x1, x2, upper, False, first, False, op)
    return _native.linalg_triangular(x1, y, upper, False, second, False, op)


def solve_triangular(
    a: _ArrayLike,
    b: _ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> GPUArray:
    """The solution of a x = b for a triangular a (trans: of a^T or, with 2 or 'C', a^H).

    As SciPy's, for stacks: b is a vector where it has one axis, else matrices, and batches
    broadcast. The other triangle is not read; with unit_diagonal neither is the diagonal. Zeros on
    the diagonal give infinities and NaN.
    """
    a, b = array_arguments("solve_triangular", a=a, b=b)
    code = adjoint_code("solve_triangular", trans)
    return _native.linalg_triangular(a, b, not lower, unit_diagonal, code)


def lu_factor(a: _ArrayLike, *, check: bool = False) -> tuple[GPUArray, GPUArray]:
    """(lu, pivots) of P a = L U with partial pivoting, for lu_solve.

    lu has U on and above the diagonal and L, whose diagonal is 1, below it. Row i was swapped with
    row pivots[i] (int32), in order. A singular matrix has a zero on the diagonal of U; with check
    it is a LinAlgError.
    """
    a = array_argument("lu_factor", "a", a)
    return _native.linalg_lu(a, check)


def lu_solve(
    lu_and_piv: tuple[GPUArray, GPUArray], b: _ArrayLike, trans: int | str = 0
) -> GPUArray:
    """The solution of a x = b (trans: of a^T, a^H) with the factors of lu_factor(a)."""
    if not isinstance(lu_and_piv, (tuple, list)) or len(lu_and_piv) != 2:
        raise InvalidTypeError(
            f"lu_solve: lu_and_piv is {safe_repr(lu_and_piv)}, expected the result of lu_factor"
        )
    factors, pivots = lu_and_piv
    require_arrays("lu_solve", lu=factors, pivots=pivots)
    b = array_argument("lu_solve", "b", b, factors)
    return _native.linalg_lu_solve(factors, pivots, b, adjoint_code("lu_solve", trans))


def lu(a: _ArrayLike, permute_l: bool = False, p_indices: bool = False) -> Any:
    """(p, l, u) with a = p l u, as SciPy's: p permutes rows, l has a unit diagonal.

    permute_l: (p l, u). p_indices: p as int64 indices, with a = l[p] u.
    """
    import pygpukit as gp

    a = matrices("lu", "a", a)
    factors, pivots = _native.linalg_lu(a, False, False, "lu")
    m, n = a.shape[-2:]
    k = min(m, n)
    batch = a.shape[:-2]
    rest = gp.broadcast_to(gp.arange(k, m, dtype="int32", device=a.device), (*batch, m - k))
    swaps = gp.concat([pivots, rest], axis=-1)
    unit = gp.eye(m, dtype=factors.dtype, device=a.device)
    stack = gp.broadcast_to(unit, (*batch, m, m))
    p = _native.linalg_lu_solve(stack, swaps, stack, 0, False, "lu").mT  # the swaps alone
    lower = gp.tril(factors[..., :k], k=-1) + gp.eye(m, k, dtype=factors.dtype, device=a.device)
    upper = gp.triu(factors[..., :k, :])
    if permute_l:
        return gp.matmul(p, lower), upper
    if p_indices:
        return gp.argmax(gp.real(p), axis=-1), lower, upper
    return gp.ascontiguousarray(p), lower, upper


@overload
def qr(x: _ArrayLike, mode: Literal["reduced", "complete"] = ...) -> QRResult: ...
@overload
def qr(x: _ArrayLike, mode: Literal["r"]) -> GPUArray: ...
def qr(x: _ArrayLike, mode: str = "reduced") -> Any:
    """QRResult(Q, R) with x = Q R, by Householder reflections.

    mode: 'reduced' (Q [..., m, k], k = min(m, n)), 'complete' (Q [..., m, m]) or 'r' (R alone).
    """
    x = array_argument("qr", "x", x)
    q, r = _native.linalg_qr(x, mode)
    return r if q is None else QRResult(q, r)


@overload
def svd(
    x: _ArrayLike,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    hermitian: bool = ...,
    *,
    check: bool = ...,
) -> SVDResult: ...
@overload
def svd(
    x: _ArrayLike,
    full_matrices: bool = ...,
    *,
    compute_uv: Literal[False],
    hermitian: bool = ...,
    check: bool = ...,
) -> GPUArray: ...
def svd(
    x: _ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    *,
    check: bool = True,
) -> Any:
    """SVDResult(U, S, Vh) with x = U diag(S) Vh, S in descending order.

    compute_uv=False: S alone. hermitian: x is, and the faster eigh is used. Small matrices read one
    number back for each sweep of the iteration: they wait for the device also with check=False.
    """
    x = array_argument("svd", "x", x)
    if hermitian:
        return _hermitian_svd(x, compute_uv, check)
    u, s, vh = _native.linalg_svd(x, full_matrices, compute_uv, check)
    return SVDResult(u, s, vh) if compute_uv else s


def _hermitian_svd(x: GPUArray, compute_uv: bool, check: bool) -> Any:
    import pygpukit as gp

    w, v = _native.linalg_eigh(x, False, compute_uv, check, False, "svd")
    sizes = gp.abs(w)
    order = gp.argsort(sizes, axis=-1, descending=True)
    s = gp.take_along_axis(sizes, order, axis=-1)
    if v is None:
        return s
    columns = gp.expand_dims(order, axis=-2)
    v = gp.take_along_axis(v, columns, axis=-1)
    negative = gp.take_along_axis(w, order, axis=-1) < 0
    signs = gp.expand_dims(1 - 2 * negative.astype(s.dtype), axis=-2)
    return SVDResult(v * signs, s, adjoint(v))


def svdvals(x: _ArrayLike, /, *, check: bool = True) -> GPUArray:
    """The singular values, in descending order."""
    x = array_argument("svdvals", "x", x)
    _, s, _ = _native.linalg_svd(x, False, False, check, False, "svdvals")
    return s
