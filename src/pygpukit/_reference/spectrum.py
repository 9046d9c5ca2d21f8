"""Kernels of native/kernels/linalg in plain NumPy: tridiagonal.cuh, bidiagonal.cuh, divide.cuh.

`work` and `links` have a row for each DivideField and DivideLink of native/kernels/args/linalg.h;
a merge has the places of its own eigenvalues in all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Outs = tuple[NDArray[Any], ...]

PANEL = 32
VALUE, SLOT_VALUE, SLOT_Z, SLOT_NORM, FOUND, POLE, WEIGHT, SQUARE, OFFSET, EXACT = range(10)
SLOT, ROOT, START, NEXT, ORIGIN, PLACE, NUM_ROOTS = range(7)

_QUIET = np.errstate(all="ignore")


# --- tridiagonal form ----------------------------------------------------------------------------


def _reflector(x: NDArray[Any]) -> tuple[NDArray[Any], Any, float]:
    """v, tau and beta of a column."""
    v = np.zeros_like(x)
    v[0] = 1
    wide = x.astype(np.result_type(x.dtype, np.float64))
    squares = float((np.abs(wide) ** 2).sum())
    if squares < (1e-60 if np.finfo(x.dtype).eps > 1e-10 else 1e-280):
        return v, 0, 0.0
    alpha = wide[0]
    if alpha.imag == 0 and not (np.abs(wide[1:]) ** 2).sum() > 0:
        return v, 0, float(alpha.real)
    beta = -float(np.copysign(np.sqrt(squares), alpha.real))
    v[1:] = wide[1:] / (alpha - beta)
    return v, (beta - alpha) / beta, beta


@_QUIET
def linalg_leaf_tridiagonal(a: NDArray[Any], *, first: int, out: Outs) -> None:
    """A panel of Householder reflectors from both sides, as LAPACK's latrd"""
    bands, taus, vws, wvs = out
    n = a.shape[-1]
    for at in range(a.shape[0]):
        v, w = vws[at][:, :PANEL], vws[at][:, PANEL:]
        for k in range(min(PANEL, n - 1 - first)):
            j = first + k
            column = a[at][j:, j] - v[j:, :k] @ w[j, :k].conj() - w[j:, :k] @ v[j, :k].conj()
            below = slice(j + 1, n)
            v[below, k], tau, beta = _reflector(column[1:])
            bands[at][:, j] = column[0].real, beta
            taus[at][k] = tau
            x = v[below, k]
            product = a[at][below, below] @ x
            of_v, of_w = v[below, :k].conj().T @ x, w[below, :k].conj().T @ x
            energy = np.vdot(x, product).real - 2 * np.vdot(of_v, of_w).real
            product -= v[below, :k] @ of_w + w[below, :k] @ of_v
            tau = taus[at][k]
            w[below, k] = tau * product - abs(tau) ** 2 * energy / 2 * x
        wvs[at][first:, :PANEL], wvs[at][first:, PANEL:] = w[first:], v[first:]


@_QUIET
def linalg_leaf_bidiagonal(
    of_u: NDArray[Any], of_v: NDArray[Any], *, first: int, out: Outs
) -> None:
    """A panel of reflectors in u and v by turns: tridiagonalisation of [0, A^H; A, 0]"""
    bands, *outs = out
    n = of_u.shape[-1]
    for at in range(of_u.shape[0]):
        u, v = ([x[at] for x in side] for side in ((of_u, *outs[::2]), (of_v, *outs[1::2])))
        for k in range(min(2 * PANEL, 2 * n - 1 - first)):
            j = first + k
            (a, panel, reflectors, taus), (b, other, _, _) = (v, u) if j % 2 else (u, v)
            rest, below = slice((j + 1) // 2, n), slice((j + 2) // 2, n)
            column = a[rest, j // 2] - panel[rest, :k] @ other[j // 2, :k].conj()
            x, tau, bands[at][1, j] = _reflector(column)
            taus[k // 2] = tau
            panel[rest, k] = reflectors[rest, k // 2] = x
            product = b[below, rest] @ x - other[below, :k] @ (panel[rest, :k].conj().T @ x)
            other[below, k] = taus[k // 2] * product


# --- divide and conquer --------------------------------------------------------------------------


def linalg_leaf_tear(bands: NDArray[Any], *, out: NDArray[Any]) -> None:
    """Diagonal blocks of tridiagonal matrices, less what joins them"""
    leaf = out.shape[-1]
    n = bands.shape[-1]
    for at, (given, off) in enumerate(bands):
        diagonal = given.copy()
        cuts = np.arange(leaf, n, leaf)
        np.subtract.at(diagonal, cuts - 1, np.abs(off[cuts - 1]))
        np.subtract.at(diagonal, cuts, np.abs(off[cuts - 1]))
        for i in range(n // leaf):
            part = slice(i * leaf, (i + 1) * leaf)
            inside = off[part][:-1]
            dense = np.diag(diagonal[part]) + np.diag(inside, 1) + np.diag(inside, -1)
            out[at * (n // leaf) + i] = dense


def _merges(
    off: NDArray[Any], out: Outs, half: int
) -> Iterator[tuple[int, float, NDArray[Any], NDArray[Any]]]:
    """(number, torn element, fields, links) of each."""
    work, links = out[:2]
    per_matrix = off.shape[-1] // (2 * half)
    for at in range(off.shape[0] * per_matrix):
        matrix, i = divmod(at, per_matrix)
        places = slice(i * 2 * half, (i + 1) * 2 * half)
        torn = float(off[matrix, i * 2 * half + half - 1])
        yield at, torn, work[matrix][:, places], links[matrix][:, places]


def _scan(w: NDArray[Any], to: NDArray[Any], rho: float, tolerance: float) -> None:
    """Deflates slots in order."""
    roots, start, last = 0, 0, -1
    pole = norm = 0.0

    def end_chain() -> int:
        if last < 0:
            return roots
        w[POLE, roots], w[WEIGHT, roots], w[SQUARE, roots] = pole, norm, rho * norm * norm
        to[PLACE, roots] = last
        return roots + 1

    for slot, (value, z) in enumerate(zip(w[SLOT_VALUE], w[SLOT_Z], strict=True)):
        to[NEXT, slot] = -1
        if rho * abs(z) <= tolerance:
            w[SLOT_Z, slot], w[FOUND, slot], to[ROOT, slot] = 0, value, -1
            continue
        squares = z * z + norm * norm
        if last >= 0 and abs((value - pole) * z * norm) <= tolerance * squares:
            mine, theirs = z * z / squares, norm * norm / squares
            w[FOUND, last] = pole * mine + value * theirs
            to[NEXT, last] = slot
            pole, norm = pole * theirs + value * mine, np.sqrt(squares)
        else:
            roots = end_chain()
            start, pole, norm = slot, value, abs(z)
        last = slot
        w[SLOT_NORM, slot], to[START, slot], to[ROOT, slot] = norm, start, roots
    to[NUM_ROOTS, 0] = end_chain()


def linalg_leaf_deflate(off: NDArray[Any], q: NDArray[Any], *, half: int, out: Outs) -> None:
    """The secular equation of each merge, without small and without repeated terms"""
    for at, torn, w, to in _merges(off, out, half):
        lower = np.copysign(1.0, torn) * q[2 * at + 1][0].astype(np.float64)
        z = np.concatenate([q[2 * at][-1], lower]) * np.sqrt(0.5)
        order = np.argsort(w[VALUE], kind="stable")
        to[SLOT][order] = np.arange(2 * half)
        w[SLOT_VALUE], w[SLOT_Z] = w[VALUE][order], z[order]
        largest = max(np.abs(w[VALUE]).max(), np.abs(z).max())
        _scan(w, to, 2 * abs(torn), 4 * float(np.finfo(q.dtype).eps) * largest)


class _Secular:
    """The equation of a merge, for all its roots at once."""

    def __init__(self, pole: NDArray[Any], square: NDArray[Any]) -> None:
        self.pole, self.square = pole, square
        n = len(pole)
        self.root = np.arange(n)
        self.last = self.root == n - 1
        self.left = np.where(self.last, np.maximum(self.root - 1, 0), self.root)
        self.right = np.where(self.last, self.root, np.minimum(self.root + 1, n - 1))

    def at(self, origin: NDArray[Any], offset: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Values, derivatives by terms up to the left pole and after it, sums of magnitudes."""
        inverse = 1 / ((self.pole - origin[:, None]) - offset[:, None])
        terms = self.square * inverse
        slopes = terms * inverse
        left = np.arange(len(self.pole)) <= self.left[:, None]
        return (
            1 + terms.sum(1),
            np.where(left, slopes, 0).sum(1),
            np.where(left, 0, slopes).sum(1),
            1 + np.abs(terms).sum(1),
        )

    def step(self, values: tuple[NDArray[Any], ...], near: Any, far: Any) -> NDArray[Any]:
        """Li's middle way."""
        f, left, right, _ = values
        c = f - near * left - far * right
        a = (near + far) * f - near * far * (left + right)
        b = near * far * f
        root = np.where(self.last, -1, 1) * np.sqrt(np.abs(a * a - 4 * b * c))
        step: NDArray[Any] = np.where(
            (a <= 0) != self.last, (a - root) / (2 * c), 2 * b / (a + root)
        )
        return step

    def solve(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(origins, offsets)."""
        pole = self.pole
        gap = np.where(self.last, self.square.sum(), pole[self.right] - pole)
        above = self.at(pole, gap / 2)[0] < 0
        at = np.where(above & ~self.last, self.right, self.root)
        low = np.where(above, np.where(self.last, gap / 2, -gap / 2), 0.0)
        high = np.where(above, np.where(self.last, gap, 0.0), gap / 2)
        origin = pole[at]
        offset = gap if len(pole) == 1 else np.where(above, low, high)
        active = np.ones(len(pole), bool)
        for _ in range(100):
            values = self.at(origin, offset)
            active &= np.abs(values[0]) > 8 * np.finfo(np.float64).eps * values[3]
            low = np.where(active & (values[0] < 0), offset, low)
            high = np.where(active & (values[0] >= 0), offset, high)
            near, far = (pole[side] - origin - offset for side in (self.left, self.right))
            new = offset + self.step(values, near, far)
            new = np.where((low < new) & (new < high), new, _middle(low, high))
            active &= (new != low) & (new != high) & (new != offset)
            offset = np.where(active, new, offset)
            if not active.any():
                break
        return at, offset


def _middle(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    wide = ((low > 0) & (high > 4 * low)) | ((high < 0) & (low < 4 * high))
    geometric = np.copysign(np.sqrt(np.abs(low)) * np.sqrt(np.abs(high)), low)
    middle: NDArray[Any] = np.where(wide, geometric, (low + high) / 2)
    return middle


@_QUIET
def linalg_leaf_roots(off: NDArray[Any], q: NDArray[Any], *, half: int, out: Outs) -> None:
    """Roots of the secular equation, as offsets from the nearer pole"""
    for _, _, w, to in _merges(off, out, half):
        count = int(to[NUM_ROOTS, 0])
        if count == 0:
            continue
        pole = w[POLE, :count]
        at, offset = _Secular(pole, w[SQUARE, :count]).solve()
        w[OFFSET, :count], to[ORIGIN, :count] = offset, at
        w[FOUND][to[PLACE, :count]] = pole[at] + offset


@_QUIET
def linalg_leaf_weights(off: NDArray[Any], q: NDArray[Any], *, half: int, out: Outs) -> None:
    """Loewner's formula: the z whose roots are those that were found"""
    for _, _, w, to in _merges(off, out, half):
        count = int(to[NUM_ROOTS, 0])
        if count == 0:
            continue
        pole = w[POLE, :count]
        i, j = np.ogrid[:count, :count]
        distance = w[OFFSET, :count] - (pole[:, None] - pole[to[ORIGIN, :count]])
        other = pole[np.where(j < i, j, np.minimum(j + 1, count - 1))] - pole[:, None]
        factors = np.where(j == count - 1, distance, distance / other)
        w[EXACT, :count] = np.sqrt(np.abs(factors.prod(1)))


def _vector(w: NDArray[Any], to: NDArray[Any], slot: int) -> NDArray[Any]:
    slots = to[SLOT]
    root, after = to[ROOT, slot], to[NEXT, slot]
    z = w[SLOT_Z][slots]
    vector: NDArray[Any]
    if root < 0:
        vector = np.where(slots == slot, 1.0, 0.0)
        return vector
    if after >= 0:
        norm, of_next = w[SLOT_NORM, slot], w[SLOT_NORM, after]
        inside = (to[START, slot] <= slots) & (slots <= slot)
        chain = np.where(inside, w[SLOT_Z, after] / (of_next * norm) * z, 0.0)
        vector = np.where(slots == after, -norm / of_next, chain)
        return vector
    count = int(to[NUM_ROOTS, 0])
    pole = w[POLE, :count]
    x = w[EXACT, :count] / ((pole - pole[to[ORIGIN, root]]) - w[OFFSET, root])
    x /= np.linalg.norm(x)
    roots = np.maximum(to[ROOT][slots], 0)
    vector = np.where(to[ROOT][slots] < 0, 0.0, x[roots] * (z / w[WEIGHT][roots]))
    return vector


@_QUIET
def linalg_leaf_vectors(off: NDArray[Any], q: NDArray[Any], *, half: int, out: Outs) -> None:
    """Eigenvectors of the merges as rows, half by half, in the order of their eigenvalues"""
    for at, _, w, to in _merges(off, out, half):
        order = np.argsort(w[FOUND], kind="stable")
        for row, slot in enumerate(order):
            vector = _vector(w, to, int(slot))
            out[2][2 * at][row], out[2][2 * at + 1][row] = vector[:half], vector[half:]
        w[VALUE] = w[FOUND][order]


__all__ = [
    "linalg_leaf_bidiagonal",
    "linalg_leaf_deflate",
    "linalg_leaf_roots",
    "linalg_leaf_tear",
    "linalg_leaf_tridiagonal",
    "linalg_leaf_vectors",
    "linalg_leaf_weights",
]
