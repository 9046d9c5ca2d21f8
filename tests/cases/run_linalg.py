"""Judges results of the linalg family. Shared by tests/unit and tests/gpu.

`blocked`: on the CPU, the algorithms of the GPU on the reference of each kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import pygpukit as gp
from cases.linalg import UNITS, Case, normal
from pygpukit import _native

Wide = Any


def widen(x: Any) -> Wide:
    host = x.to_numpy() if isinstance(x, gp.GPUArray) else x
    return host.astype("complex128" if host.dtype.kind == "c" else "float64")


def adjoint(x: Any) -> Any:
    return np.swapaxes(x.conj(), -1, -2)


def epsilon(dtype: str) -> float:
    return float(np.finfo(dtype).eps)


def norms(x: Wide) -> Wide:
    """Frobenius, without overflow."""
    big = np.maximum(np.abs(x).max(axis=(-2, -1), keepdims=True, initial=0), 1e-300)
    return np.linalg.norm(x / big, axis=(-2, -1)) * big[..., 0, 0]


def two_norm(x: Wide) -> Wide:
    """Of Hermitian matrices, from below: power iteration, in place of a whole SVD."""
    big = np.maximum(np.abs(x).max(axis=(-2, -1), keepdims=True), 1e-300)
    scaled = x / big
    v = np.random.default_rng(0).standard_normal((*x.shape[:-1], 1))
    size = np.zeros(x.shape[:-2])
    for _ in range(20):
        v = scaled @ (v / np.linalg.norm(v, axis=-2, keepdims=True))
        size = np.linalg.norm(v, axis=-2)[..., 0]
    return size * big[..., 0, 0]


def sizes(x: Wide, y: Wide) -> Wide:
    """|x| |y| as matrices of one element."""
    return (norms(x) * norms(y))[..., None, None]


def assert_small(rest: Wide, scale: Wide, case: Case, what: str, units: float = UNITS) -> None:
    """rest <= units * n * epsilon * |scale|, in Frobenius norms of matrices."""
    if rest.size == 0:
        return
    n = max(case.shape[-2:])

    limit = units * n * epsilon(case.dtype) * norms(scale)
    worst = norms(rest)
    assert np.all(worst <= limit), f"{case}: {what}: {worst.max()} > {limit.min()}"


def assert_orthonormal(q: Wide, case: Case, what: str) -> None:
    unit = np.eye(q.shape[-1])
    assert_small(adjoint(q) @ q - unit, unit, case, what)


def like(x: gp.GPUArray, dtype: str, shape: tuple[int, ...]) -> None:
    assert x.dtype.name == dtype
    assert x.shape == shape


def real_of(dtype: str) -> str:
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def run_cholesky(case: Case, device: str | None = None, blocked: bool = False) -> None:
    host = case.draw_hermitian(definite=True)
    x = gp.from_numpy(host, device=device)
    for upper in (False, True):
        factor = _native.linalg_cholesky(x, upper, True, blocked)
        like(factor, case.dtype, host.shape)
        f = widen(factor)
        np.testing.assert_array_equal(f, np.triu(f) if upper else np.tril(f))
        again = adjoint(f) @ f if upper else f @ adjoint(f)
        assert_small(again - widen(host), widen(host), case, f"cholesky, upper={upper}")


def run_lu(case: Case, device: str | None = None, blocked: bool = False) -> None:
    host = case.draw()
    x = gp.from_numpy(host, device=device)
    lu, pivots = _native.linalg_lu(x, False, blocked)
    k = min(host.shape[-2:])
    like(lu, case.dtype, host.shape)
    like(pivots, "int32", (*host.shape[:-2], k))
    f, p = widen(lu), pivots.to_numpy()
    lower = np.tril(f[..., :k], -1) + np.eye(*f.shape[-2:])[:, :k]
    swapped = widen(host).copy()
    for at in np.ndindex(host.shape[:-2]):
        for i, row in enumerate(p[at]):
            assert i <= row < host.shape[-2]
            swapped[at][[i, row]] = swapped[at][[row, i]]
    assert np.all(np.abs(lower) <= 1.5)
    assert_small(lower @ np.triu(f[..., :k, :]) - swapped, swapped, case, "P A - L U")


def run_solve(case: Case, device: str | None = None, blocked: bool = False) -> None:
    host = case.draw()
    if case.kind == "deficient":
        return
    n = host.shape[-1]
    rng = np.random.default_rng(5)
    x = gp.from_numpy(host, device=device)
    for shape in ((n,), (*host.shape[:-1], 3), (n, 1)):
        b = normal(rng, shape, case.dtype)
        side = gp.from_numpy(b, device=device)
        solution = _native.linalg_solve(x, side, True, blocked)
        vector = b.ndim == 1
        batch = host.shape[:-2]
        like(solution, case.dtype, (*batch, n) if vector else (*batch, *b.shape[-2:]))
        s = widen(solution)[..., None] if vector else widen(solution)
        rest = widen(host) @ s - (widen(b)[:, None] if vector else widen(b))
        assert_small(rest, sizes(widen(host), s), case, "A x - b")
        factors = _native.linalg_lu(x, False, blocked)
        for code, matrix in ((0, host), (1, np.swapaxes(host, -1, -2)), (2, adjoint(host))):
            y = widen(_native.linalg_lu_solve(*factors, side, code, blocked))
            y = y[..., None] if vector else y
            rest = widen(matrix) @ y - (widen(b)[:, None] if vector else widen(b))
            assert_small(rest, sizes(widen(host), y), case, f"lu_solve {code}")


def run_inverse(case: Case, device: str | None = None, blocked: bool = False) -> None:
    host = case.draw_hermitian(definite=True)
    x = gp.from_numpy(host, device=device)
    inverse = _native.linalg_inv(x, True, blocked)
    like(inverse, case.dtype, host.shape)
    if host.size:
        condition = float((two_norm(widen(host)) * two_norm(widen(inverse))).max())
        assert_small(
            widen(inverse) @ widen(host) - np.eye(host.shape[-1]),
            condition * np.eye(host.shape[-1]),
            case,
            "inv",
        )
    sign, logabs = _native.linalg_slogdet(x, blocked)
    like(sign, case.dtype, host.shape[:-2])
    like(logabs, real_of(case.dtype), host.shape[:-2])
    want_sign, want_log = np.linalg.slogdet(widen(host))
    np.testing.assert_allclose(widen(sign), want_sign, atol=1e-4)
    n = host.shape[-1]
    np.testing.assert_allclose(
        widen(logabs), want_log, rtol=1e-5, atol=100 * max(n, 1) * epsilon(case.dtype)
    )


def run_triangular(case: Case, device: str | None = None, blocked: bool = False) -> None:
    host = case.draw_hermitian(definite=True)
    n = host.shape[-1]
    b = normal(np.random.default_rng(6), (*host.shape[:-1], 2), case.dtype)
    x, side = gp.from_numpy(host, device=device), gp.from_numpy(b, device=device)
    for upper in (False, True):
        for unit in (False, True):
            for code in (0, 1, 2):
                y = _native.linalg_triangular(x, side, upper, unit, code, blocked)
                like(y, case.dtype, b.shape)
                if not np.isfinite(widen(y)).all():
                    continue  # unit diagonals of unscaled matrices grow without bound
                t = np.triu(widen(host)) if upper else np.tril(widen(host))
                if unit:
                    t = t - t * np.eye(n) + np.eye(n)
                t = np.swapaxes(t.conj() if code == 2 else t, -1, -2) if code else t
                rest = t @ widen(y) - widen(b)
                assert_small(rest, sizes(t, widen(y)), case, f"{upper}, {unit}, {code}")


def run_qr(case: Case, device: str | None = None, blocked: bool = False) -> None:
    host = case.draw()
    x = gp.from_numpy(host, device=device)
    *batch, m, n = host.shape
    for mode, k in (("reduced", min(m, n)), ("complete", m)):
        q, r = _native.linalg_qr(x, mode, blocked)
        like(q, case.dtype, (*batch, m, k))
        like(r, case.dtype, (*batch, k, n))
        assert_orthonormal(widen(q), case, mode)
        np.testing.assert_array_equal(widen(r), np.triu(widen(r)))
        assert_small(widen(q) @ widen(r) - widen(host), widen(host), case, mode)
        columns = np.abs(widen(q) @ widen(r) - widen(host)).max(axis=-2, initial=0)
        limit = 20 * max(m, n, 1) * epsilon(case.dtype) * np.abs(widen(host)).max(-2, initial=0)
        assert np.all(columns <= limit)  # column by column
    nothing, alone = _native.linalg_qr(x, "r", blocked)
    assert nothing is None
    like(alone, case.dtype, (*batch, min(m, n), n))


def run_eigh(
    case: Case,
    device: str | None = None,
    blocked: bool = False,
    halves: tuple[bool, ...] = (False, True),
) -> None:
    """``halves``: whether the upper triangle is read."""
    host = case.draw_hermitian()
    x = gp.from_numpy(host, device=device)
    for upper in halves:
        garbage = np.triu(np.full(host.shape, np.nan), 1).astype(host.dtype)
        other = np.swapaxes(garbage, -1, -2)  # the triangle that is not read
        half = np.triu(host) + other if upper else np.tril(host) + garbage
        w, v = _native.linalg_eigh(gp.from_numpy(half, device=device), upper, True, True, blocked)
        like(w, real_of(case.dtype), host.shape[:-1])
        like(v, case.dtype, host.shape)
        values, vectors = widen(w), widen(v)
        assert np.all(np.diff(values, axis=-1) >= 0)
        assert_orthonormal(vectors, case, "V")
        rest = widen(host) @ vectors - vectors * values[..., None, :]
        assert_small(rest, widen(host), case, "A V - V W")
    only, nothing = _native.linalg_eigh(x, False, False, True, blocked)
    assert nothing is None
    assert_values(only, np.linalg.eigvalsh(widen(host)), host, case)


def assert_values(got: gp.GPUArray, want: Wide, host: Any, case: Case) -> None:
    if want.size == 0:
        return
    norm = np.abs(want).max(axis=-1, keepdims=True)
    limit = UNITS * max(host.shape[-2:]) * epsilon(case.dtype) * norm
    assert np.all(np.abs(widen(got) - want) <= limit), str(case)


def run_svd(
    case: Case,
    device: str | None = None,
    blocked: bool = False,
    sizes: tuple[bool, ...] = (False, True),
) -> None:
    """``sizes``: whether U and V are square."""
    host = case.draw()
    x = gp.from_numpy(host, device=device)
    *batch, m, n = host.shape
    k = min(m, n)
    for full in sizes:
        u, s, vh = _native.linalg_svd(x, full, True, True, blocked)
        like(u, case.dtype, (*batch, m, m if full else k))
        like(s, real_of(case.dtype), (*batch, k))
        like(vh, case.dtype, (*batch, n if full else k, n))
        assert_orthonormal(widen(u), case, "U")
        assert_orthonormal(adjoint(widen(vh)), case, "V")
        values = widen(s)
        assert np.all(values >= 0)
        assert np.all(np.diff(values, axis=-1) <= 0)
        again = (widen(u)[..., :k] * values[..., None, :]) @ widen(vh)[..., :k, :]
        assert_small(again - widen(host), widen(host), case, "U S V - A")
    nothing, only, none = _native.linalg_svd(x, False, False, True, blocked)
    assert nothing is None
    assert none is None
    assert_values(only, np.linalg.svd(widen(host), compute_uv=False), host, case)


RUNS = {
    "cholesky": run_cholesky,
    "lu": run_lu,
    "solve": run_solve,
    "inverse": run_inverse,
    "triangular": run_triangular,
    "qr": run_qr,
    "eigh": run_eigh,
    "svd": run_svd,
}
