"""Linear algebra by numpy.linalg, and the kernels of the blocked algorithms in plain NumPy.

`status` has one number for each matrix of a stack: 0, or not where NumPy raises LinAlgError. The
results of such a matrix are NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Outs = tuple[NDArray[Any], ...]

_QUIET = np.errstate(all="ignore")  # infinities and NaN are results


def _put(result: Any, outs: Outs) -> None:
    values = result if isinstance(result, tuple) else (result,)
    for out, value in zip(outs, values, strict=True):
        out[...] = value


def _each(
    function: Callable[..., Any], stacks: tuple[NDArray[Any], ...], outs: Outs, status: NDArray[Any]
) -> None:
    """function(*stacks) into outs. Where it raises, one matrix after another."""
    try:
        _put(function(*stacks), outs)
        return
    except np.linalg.LinAlgError:
        pass
    for at in np.ndindex(status.shape):
        try:
            _put(function(*(x[at] for x in stacks)), tuple(out[at] for out in outs))
        except np.linalg.LinAlgError:
            status[at] = 1
            for out in outs:
                out[at] = np.nan


def _fail_unless_finite(x: NDArray[Any], outs: Outs, status: NDArray[Any]) -> None:
    """LAPACK fails for some matrices with NaN or infinities and gives NaN for others: all fail."""
    failed = ~np.isfinite(x).all(axis=(-1, -2))
    if failed.any():
        status[failed] = 1
        for out in outs:
            out[failed] = np.nan


@_QUIET
def linalg_cholesky(x: NDArray[Any], *, upper: bool, out: Outs) -> None:
    """numpy.linalg.cholesky"""
    result, status = out
    _each(lambda a: np.linalg.cholesky(a, upper=upper), (x,), (result,), status)


@_QUIET
def linalg_solve(x1: NDArray[Any], x2: NDArray[Any], *, out: Outs) -> None:
    """numpy.linalg.solve"""
    result, status = out
    if x2.ndim == 1:
        x2, result = x2[:, None], result[..., None]
    b = np.broadcast_to(x2, (*result.shape[:-2], *x2.shape[-2:]))
    a = np.broadcast_to(x1, (*result.shape[:-2], *x1.shape[-2:]))
    _each(np.linalg.solve, (a, b), (result,), status)


@_QUIET
def linalg_inv(x: NDArray[Any], *, out: Outs) -> None:
    """numpy.linalg.inv"""
    result, status = out
    _each(np.linalg.inv, (x,), (result,), status)


@_QUIET
def linalg_slogdet(x: NDArray[Any], *, out: Outs) -> None:
    """numpy.linalg.slogdet"""
    out[0][...], out[1][...] = np.linalg.slogdet(x)


@_QUIET
def linalg_eigh(x: NDArray[Any], *, upper: bool, out: Outs) -> None:
    """numpy.linalg.eigh, or eigvalsh where there is no place for vectors"""
    w, status, *v = out
    uplo: Literal["L", "U"] = "U" if upper else "L"
    if v:
        _each(lambda a: tuple(np.linalg.eigh(a, uplo)), (x,), (w, *v), status)
    else:
        _each(lambda a: np.linalg.eigvalsh(a, uplo), (x,), (w,), status)
    _fail_unless_finite(np.triu(x) if upper else np.tril(x), (w, *v), status)


@_QUIET
def linalg_svd(x: NDArray[Any], *, full_matrices: bool, out: Outs) -> None:
    """numpy.linalg.svd"""
    s, status, *vectors = out
    if vectors:
        u, vh = vectors
        _each(lambda a: tuple(np.linalg.svd(a, full_matrices)), (x,), (u, s, vh), status)
    else:
        _each(lambda a: np.linalg.svd(a, compute_uv=False), (x,), (s,), status)
    _fail_unless_finite(x, (s, *vectors), status)


@_QUIET
def linalg_qr(x: NDArray[Any], *, complete: bool, out: NDArray[Any] | Outs) -> None:
    """numpy.linalg.qr"""
    if not isinstance(out, tuple):
        out[...] = np.linalg.qr(x, "r")
        return
    r, q = out
    q[...], r[...] = np.linalg.qr(x, "complete" if complete else "reduced")


@_QUIET
def linalg_eig(x: NDArray[Any], *, out: Outs) -> None:
    """numpy.linalg.eig, or eigvals where there is no place for vectors"""
    w, status, *v = out
    if v:
        _each(lambda a: tuple(np.linalg.eig(a)), (x,), (w, *v), status)
    else:
        _each(np.linalg.eigvals, (x,), (w,), status)


@_QUIET
def linalg_triangular(
    x1: NDArray[Any], x2: NDArray[Any], *, upper: bool, unit: bool, adjoint: int, out: NDArray[Any]
) -> None:
    """Substitution, row by row"""
    t = np.triu(x1) if upper else np.tril(x1)
    if adjoint:
        t = np.swapaxes(t.conj() if adjoint == 2 else t, -1, -2)
    result = out[..., None] if x2.ndim == 1 else out
    result[...] = x2[:, None] if x2.ndim == 1 else x2
    n = t.shape[-1]
    backward = upper != bool(adjoint)
    for i in reversed(range(n)) if backward else range(n):
        known = slice(i + 1, n) if backward else slice(0, i)
        product = t[..., i : i + 1, known] @ result[..., known, :]
        result[..., i, :] -= product[..., 0, :]
        if not unit:
            result[..., i, :] /= t[..., i, i, None]


def _sum_of_parts(x: NDArray[Any]) -> Any:
    return np.abs(x.real) + np.abs(x.imag)


def _lu_in_place(a: NDArray[Any], pivots: NDArray[Any], first: int) -> int:
    """One matrix; 1 + the first column of zeros, or 0."""
    status = 0
    for j in range(min(a.shape)):
        size = _sum_of_parts(a[j:, j])
        row = j + int(np.argmax(np.where(np.isnan(size), -1, size)))
        pivots[j] = first + row
        if a[row, j] == 0:
            status = status or first + j + 1
            continue
        a[[j, row]] = a[[row, j]]
        a[j + 1 :, j] /= a[j, j]
        a[j + 1 :, j + 1 :] -= np.outer(a[j + 1 :, j], a[j, j + 1 :])
    return status


@_QUIET
def linalg_lu(x: NDArray[Any], *, out: Outs) -> None:
    """Gaussian elimination with partial pivoting"""
    lu, pivots, status = out
    lu[...] = x
    for at in np.ndindex(status.shape):
        status[at] = _lu_in_place(lu[at], pivots[at], 0)


@_QUIET
def linalg_lu_solve(
    lu: NDArray[Any], pivots: NDArray[Any], b: NDArray[Any], *, adjoint: int, out: NDArray[Any]
) -> None:
    """Swaps and two triangular systems"""
    lower = {"upper": False, "unit": True, "adjoint": adjoint}
    upper = {"upper": True, "unit": False, "adjoint": adjoint}
    result = out[..., None] if b.ndim == 1 else out
    result[...] = b[:, None] if b.ndim == 1 else b
    batch = result.shape[:-2]
    all_pivots = np.broadcast_to(pivots, (*batch, pivots.shape[-1]))
    if not adjoint:
        _swap(result, all_pivots, 0, False)
    for triangle in (upper, lower) if adjoint else (lower, upper):
        linalg_triangular(lu, result.copy(), **triangle, out=result)  # type: ignore[arg-type]
    if adjoint:
        _swap(result, all_pivots, 0, True)


def _swap(a: NDArray[Any], pivots: NDArray[Any], first: int, backward: bool) -> None:
    steps = range(pivots.shape[-1])
    for at in np.ndindex(pivots.shape[:-1]):
        for i in reversed(steps) if backward else steps:
            row = int(pivots[at][i]) - first
            a[at][[i, row]] = a[at][[row, i]]


@_QUIET
def linalg_leaf_cholesky(*, first: int, out: Outs) -> None:
    """The lower triangle in place, column by column"""
    stack, statuses = out
    for at in np.ndindex(statuses.shape):
        a = stack[at]
        for j in range(a.shape[0]):
            pivot = a[j, j].real
            if not pivot > 0:
                statuses[at] = statuses[at] or first + j + 1
                break
            a[j, j] = np.sqrt(pivot)
            a[j + 1 :, j] /= a[j, j]
            a[j + 1 :, j + 1 :] -= np.tril(np.outer(a[j + 1 :, j], a[j + 1 :, j].conj()))


@_QUIET
def linalg_leaf_triangular(
    t: NDArray[Any], *, unit: bool, conjugate: bool, out: NDArray[Any]
) -> None:
    """A lower triangular system in place"""
    matrix = t.conj() if conjugate else t
    linalg_triangular(matrix, out.copy(), upper=False, unit=unit, adjoint=0, out=out)


@_QUIET
def linalg_leaf_lu(*, first: int, out: Outs) -> None:
    """linalg_lu in place"""
    stack, pivots, statuses = out
    for at in np.ndindex(statuses.shape):
        status = _lu_in_place(stack[at], pivots[at], first)
        statuses[at] = statuses[at] or status


def linalg_leaf_swap_rows(
    pivots: NDArray[Any], *, first: int, backward: bool, out: NDArray[Any]
) -> None:
    """Row i with row pivots[i] - first"""
    _swap(out, pivots, first, backward)


@_QUIET
def linalg_leaf_qr(*, out: Outs) -> None:
    """Householder reflectors in place, as LAPACK's geqr2"""
    stack, taus = out
    for at in np.ndindex(stack.shape[:1]):
        a, tau = stack[at], taus[at]
        for j in range(min(a.shape)):
            column = a[j:, j].astype(np.result_type(a.dtype, np.float64))
            big = np.abs(column).max(initial=0)
            column /= big or 1
            rest = np.linalg.norm(column[1:])
            alpha = column[0]
            if rest == 0 and alpha.imag == 0:
                tau[j] = 0
                continue
            beta = -np.copysign(np.hypot(abs(alpha), rest), alpha.real)
            tau[j] = (beta - alpha) / beta
            a[j + 1 :, j] = column[1:] / (alpha - beta)
            a[j, j] = beta * big
            v = np.concatenate([[1], a[j + 1 :, j]]).astype(a.dtype)
            a[j:, j + 1 :] -= np.conj(tau[j]) * np.outer(v, v.conj() @ a[j:, j + 1 :])


@_QUIET
def linalg_leaf_wy(gram: NDArray[Any], tau: NDArray[Any], *, out: NDArray[Any]) -> None:
    """The triangular factor of a product of reflectors, column by column"""
    out[...] = 0
    for at in np.ndindex(out.shape[:1]):
        t = out[at]
        for j in range(t.shape[0]):
            t[:j, j] = -tau[at][j] * (t[:j, :j] @ gram[at][:j, j])
            t[j, j] = tau[at][j]


@_QUIET
def linalg_leaf_eigh(a: NDArray[Any], *, relative: bool, descending: bool, out: Outs) -> None:
    """numpy.linalg.eigh; relative: Jacobi rotations, which keep small eigenvalues accurate"""
    w, v, off, _ = out
    n = a.shape[-1]
    size = np.where(np.eye(n, dtype=bool), 0, np.abs(a))
    if relative:
        diagonal = np.einsum("...ii->...i", a).real
        least = _least(diagonal)[..., None]
        size = size / _mean(diagonal[..., :, None], diagonal[..., None, :], least)
    off[...] = size.max(axis=(-1, -2), initial=0)
    finite = np.where(np.isfinite(a).all(axis=(-1, -2), keepdims=True), a, 0)
    w[...], v[...] = _jacobi_eigh(finite) if relative else np.linalg.eigh(finite)
    if descending:
        w[...] = w[..., ::-1].copy()
        v[...] = v[..., ::-1].copy()


def _least(diagonal: NDArray[Any]) -> Any:
    """(2 epsilon) ** 2 of the largest: columns with smaller norms are rounding errors."""
    epsilon = np.finfo(diagonal.dtype).eps
    largest = np.abs(diagonal).max(axis=-1, keepdims=True, initial=0)
    return np.maximum(4 * epsilon**2 * largest, 2.0 ** (-96 if epsilon > 1e-10 else -960))


def _mean(x: NDArray[Any], y: NDArray[Any], least: Any) -> Any:
    """Geometric."""
    return np.maximum(np.sqrt(np.abs(x)) * np.sqrt(np.abs(y)), least)


def _jacobi_eigh(a: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """A stack; all pairs of columns come up in a sweep, disjoint ones at once."""
    a = a.copy()
    n = a.shape[-1]
    v = np.broadcast_to(np.eye(n, dtype=a.dtype), a.shape).copy()
    epsilon = np.finfo(a.dtype).eps
    least = _least(np.einsum("...ii->...i", a).real)
    seats = [*range(n), *([-1] if n % 2 else [])]  # -1 sits out
    for _ in range(40):
        rotated = False
        for _ in range(len(seats) - 1):
            half = len(seats) // 2
            pairs = zip(seats[:half], reversed(seats[half:]), strict=True)
            both = np.array([pair for pair in pairs if -1 not in pair], int).reshape(-1, 2)
            seats = [seats[0], seats[-1], *seats[1:-1]]
            p, q = both[:, 0], both[:, 1]
            element = a[:, p, q]
            size = np.abs(element)
            app, aqq = a[:, p, p].real, a[:, q, q].real
            active = size > epsilon * _mean(app, aqq, least)
            if not active.any():
                continue
            rotated = True
            safe = np.where(active, size, 1)
            theta = np.where(active, (aqq - app) / (2 * safe), 0)
            tangent = np.copysign(1 / (np.abs(theta) + np.hypot(1, theta)), theta) * active
            secant = np.hypot(1, tangent)
            versine = tangent * tangent / (secant * (1 + secant))  # norms drift with 1 / secant
            sine = tangent / secant * (element / safe)
            for m in (a, v):
                x, y = m[:, :, p], m[:, :, q]
                m[:, :, p] = x - (x * versine[:, None] + y * sine.conj()[:, None])
                m[:, :, q] = y + (x * sine[:, None] - y * versine[:, None])
            x, y = a[:, p], a[:, q]
            a[:, p] = x - (x * versine[:, :, None] + y * sine[:, :, None])
            a[:, q] = y + (x * sine.conj()[:, :, None] - y * versine[:, :, None])
            a[:, p, q] = np.where(active, 0, a[:, p, q])
            a[:, q, p] = a[:, p, q].conj()
        if not rotated:
            break
    w = np.einsum("...ii->...i", a).real
    order = np.argsort(w, axis=-1, kind="stable")
    return np.take_along_axis(w, order, -1), np.take_along_axis(v, order[:, None, :], -1)


__all__ = [
    "linalg_cholesky",
    "linalg_eig",
    "linalg_eigh",
    "linalg_inv",
    "linalg_leaf_cholesky",
    "linalg_leaf_eigh",
    "linalg_leaf_lu",
    "linalg_leaf_qr",
    "linalg_leaf_swap_rows",
    "linalg_leaf_triangular",
    "linalg_leaf_wy",
    "linalg_lu",
    "linalg_lu_solve",
    "linalg_qr",
    "linalg_slogdet",
    "linalg_solve",
    "linalg_svd",
    "linalg_triangular",
]
