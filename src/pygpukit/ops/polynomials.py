"""Polynomials by their coefficients, the highest power first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.conversion import as_operands, asarray
from pygpukit.ops.signal import convolve

if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def _coefficients(p: Any, device: str | None = None) -> GPUArray:
    x = asarray(p, device=device)
    return _native.reshape(x, (1,)) if x.ndim == 0 else x


def polyval(p: Any, x: Any) -> GPUArray:
    """The value of the polynomial at x, by Horner's rule: one launch per coefficient."""
    at, factors = as_operands(x, p)
    factors = _coefficients(factors)
    dtype = _native.result_type(at, factors)
    result = _native.zeros(at.shape, at.dtype, device=at.device)
    for n in range(factors.shape[0]):
        result = _native.add(_native.multiply(result, at), factors[n])
    return _native.astype(result, dtype, False)


def polyadd(a1: Any, a2: Any) -> GPUArray:
    """The sum of two polynomials."""
    return _native.add(*_aligned(a1, a2))


def polysub(a1: Any, a2: Any) -> GPUArray:
    """The difference of two polynomials."""
    return _native.subtract(*_aligned(a1, a2))


def _aligned(a1: Any, a2: Any) -> tuple[GPUArray, GPUArray]:
    first, second = map(_coefficients, as_operands(a1, a2))
    count = max(first.size, second.size)
    aligned = []
    for x in (first, second):
        zeros = _native.zeros((count - x.size,), x.dtype, device=x.device)
        aligned.append(_native.concat([zeros, x]) if x.size < count else x)
    return aligned[0], aligned[1]


def polymul(a1: Any, a2: Any) -> GPUArray:
    """The product of two polynomials."""
    first, second = map(_coefficients, as_operands(a1, a2))
    return convolve(first, second)


def polyder(p: Any, m: int = 1) -> GPUArray:
    """The m-th derivative."""
    if m < 0:
        raise InvalidValueError(f"polyder: order of derivative is {m}, must be positive")
    x = _coefficients(p)
    for _ in range(m):
        count = max(x.size - 1, 0)
        powers = _native.arange(count, count, -1, "int64", x.device)
        x = _native.multiply(x[:-1], powers)
    return x


def polyint(p: Any, m: int = 1, k: Any = None) -> GPUArray:
    """The m-th antiderivative, with the integration constants k (default 0)."""
    if m < 0:
        raise InvalidValueError(f"polyint: order of integral is {m}, must be positive")
    x = _coefficients(p)
    constants = _native.zeros((m,), x.dtype, device=x.device)
    if k is not None:
        constants = _coefficients(k, x.device)
        if constants.size == 1 and m > 1:
            constants = _native.broadcast_to(constants, (m,))
        if constants.size < m:
            raise InvalidValueError(f"polyint: k has {constants.size} constants, expected {m}")
    for n in range(m):
        powers = _native.arange(x.size, x.size, -1, "int64", x.device)
        x = _native.concat([_native.divide(x, powers), constants[n : n + 1]])
    return x


def poly(seq_of_zeros: Any) -> GPUArray:
    """The coefficients of the polynomial with these roots."""
    roots = _coefficients(seq_of_zeros)
    if roots.ndim != 1:
        raise InvalidValueError(
            f"poly: seq_of_zeros has shape {roots.shape}, expected a vector of roots"
        )
    if "int" in roots.dtype.name:
        roots = _native.astype(roots, "float64")
    one = _native.ones((1,), roots.dtype, device=roots.device)
    result = one
    for n in range(roots.size):
        factor = _native.concat([one, _native.negative(roots[n : n + 1])])
        result = convolve(result, factor)
    return result


def roots(p: Any) -> GPUArray:
    """The roots of the polynomial: the eigenvalues of its companion matrix.

    Computed on the host, since how many there are depends on the values: reads p back.
    """
    import numpy as np

    x = _coefficients(p)
    if x.ndim != 1:
        raise InvalidValueError(f"roots: p has shape {x.shape}, expected a vector of coefficients")
    host = _on_host(x)
    try:
        found = np.roots(host)
    except np.linalg.LinAlgError as error:
        from pygpukit.linalg import LinAlgError

        wrong = np.flatnonzero(~np.isfinite(host))
        reason = f"p[{wrong[0]}] is not finite" if wrong.size else str(error)
        raise LinAlgError(f"roots: {reason}") from None
    return _native.from_numpy(found, device=x.device)


def polydiv(u: Any, v: Any) -> tuple[GPUArray, GPUArray]:
    """(quotient, remainder) of two polynomials. Computed on the host: reads both back."""
    import numpy as np

    first, second = map(_coefficients, as_operands(u, v))
    for name, x in (("u", first), ("v", second)):
        if x.ndim != 1:
            raise InvalidValueError(f"polydiv: {name} has shape {x.shape}, expected a vector")
    with np.errstate(all="ignore"):
        quotient, rest = np.polydiv(_on_host(first), _on_host(second))
    return tuple(_native.from_numpy(y, device=first.device) for y in (quotient, rest))  # type: ignore[return-value]


def _on_host(x: GPUArray) -> Any:
    """16-bit floats as float64, which LAPACK has."""
    narrow = x.dtype.itemsize == 2 and "float" in x.dtype.name
    return (_native.astype(x, "float64") if narrow else x).to_numpy()


def polyfit(x: Any, y: Any, deg: int, *, w: Any = None) -> GPUArray:
    """The coefficients of the polynomial of degree deg with the least squares from (x, y).

    y may be a matrix with a data set in each column; w are weights of the residuals. Solved in
    float64 by the QR decomposition of the Vandermonde matrix. A degree that the points do not
    determine gives non-finite or very large numbers.
    """
    at, values = as_operands(x, y)
    degree = int(deg)
    if degree < 0:
        raise InvalidValueError("polyfit: expected deg >= 0")
    if at.ndim != 1:
        raise InvalidTypeError("polyfit: expected 1D vector for x")
    if at.size == 0:
        raise InvalidTypeError("polyfit: expected non-empty vector for x")
    if values.ndim not in (1, 2):
        raise InvalidTypeError("polyfit: expected 1D or 2D array for y")
    if at.shape[0] != values.shape[0]:
        raise InvalidTypeError("polyfit: expected x and y to have same length")
    if _native.result_type(at, values).name.startswith("complex"):
        raise InvalidTypeError("polyfit: x and y must be real")
    points = _native.astype(at, "float64", False)
    right = _native.reshape(_native.astype(values, "float64", False), (at.size, -1))
    powers = _native.arange(degree + 1, degree, -1, "int64", at.device)
    matrix = _native.pow(_native.expand_dims(points, 1), powers)
    if w is not None:
        weight = _native.astype(asarray(w, device=at.device), "float64", False)
        if weight.shape != at.shape:
            raise InvalidTypeError("polyfit: expected w and y to have the same length")
        column = _native.expand_dims(weight, 1)
        matrix, right = _native.multiply(matrix, column), _native.multiply(right, column)
    # Columns of one length, so that powers of large x do not decide the accuracy.
    scale = _native.sqrt(_native.sum(_native.square(matrix), 0))
    solution = _least_squares(_native.divide(matrix, scale), right)
    result = _native.divide(solution, _native.expand_dims(scale, 1))
    return _native.reshape(result, (degree + 1, *values.shape[1:]))


def _least_squares(matrix: GPUArray, right: GPUArray) -> GPUArray:
    """By Householder's QR. Rows of zeros change nothing but make it defined for few points."""
    missing = matrix.shape[1] - matrix.shape[0]
    if missing > 0:

        def padded(x: GPUArray) -> GPUArray:
            zeros = _native.zeros((missing, x.shape[1]), x.dtype, device=x.device)
            return _native.concat([x, zeros])

        matrix, right = padded(matrix), padded(right)
    q, r = _native.linalg_qr(matrix, "reduced", False, "polyfit")
    sides = _native.matmul(_native.swapaxes(q, 0, 1), right)
    return _native.linalg_triangular(r, sides, True, False, 0, False, "polyfit")


__all__ = [
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
]

name_all(globals(), __all__)
