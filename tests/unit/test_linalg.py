"""The linalg family on CPU simulation: by NumPy, and by the GPU's algorithms (blocked)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from cases.linalg import BATCHED, DTYPES, EXTREME, LARGE, OBLONG, SQUARE, Case, normal
from cases.run_linalg import RUNS, widen

import pygpukit as gp
from pygpukit import _native
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

CASES = [*SQUARE, *BATCHED, *EXTREME]
ANY_SHAPE = ("lu", "qr", "svd")
EXTENSION = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


@pytest.mark.parametrize("run", RUNS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case, run: str) -> None:
    RUNS[run](case)


@pytest.mark.parametrize("run", ANY_SHAPE)
@pytest.mark.parametrize("case", OBLONG, ids=str)
def test_oblong(case: Case, run: str) -> None:
    RUNS[run](case)
    RUNS[run](case, blocked=True)


@pytest.mark.parametrize("run", RUNS, ids=str)
@pytest.mark.parametrize("case", [c for c in CASES if c.shape[-1] <= 33], ids=str)
def test_algorithms_of_the_gpu(case: Case, run: str) -> None:
    RUNS[run](case, blocked=True)


@pytest.mark.parametrize("run", RUNS, ids=str)
@pytest.mark.parametrize("case", LARGE, ids=str)
def test_blocked_algorithms(case: Case, run: str) -> None:
    RUNS[run](case, blocked=True)


def matrix(shape: tuple[int, ...], dtype: str = "float64", seed: int = 0) -> Any:
    return normal(np.random.default_rng(seed), shape, dtype)


def on(x: Any) -> gp.GPUArray:
    return gp.from_numpy(x)


def test_the_extension_is_complete() -> None:
    space = gp.ones((2, 2)).__array_namespace__()
    assert space.linalg is gp.linalg
    for name in EXTENSION:
        assert callable(getattr(gp.linalg, name)), name
    missing = set(np.linalg.__all__) - set(gp.linalg.__all__)
    assert missing == set(), missing
    assert all(hasattr(gp.linalg, name) for name in gp.linalg.__all__)


def test_results_have_numpys_names() -> None:
    x = on(matrix((3, 3)))
    assert gp.linalg.qr(x)._fields == ("Q", "R")
    assert gp.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert gp.linalg.eig(x)._fields == ("eigenvalues", "eigenvectors")
    assert gp.linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert gp.linalg.svd(x)._fields == ("U", "S", "Vh")


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_integers_compute_in_float64(dtype: str) -> None:
    host = np.array([[2, 1], [0, 3]]).astype(dtype)
    x = on(host)
    assert gp.linalg.inv(x).dtype.name == "float64"
    assert gp.linalg.svdvals(x).dtype.name == "float64"
    np.testing.assert_allclose(gp.linalg.norm(x).to_numpy(), np.linalg.norm(host.astype(float)))


@pytest.mark.parametrize("view", ["transposed", "reversed", "strided"])
def test_views(view: str) -> None:
    host = matrix((2, 8, 8))
    cut = {
        "transposed": lambda x: x.mT if isinstance(x, gp.GPUArray) else np.swapaxes(x, 1, 2),
        "reversed": lambda x: x[:, ::-1, ::-1],
        "strided": lambda x: x[:, ::2, 1::2],
    }[view]
    x, y = cut(on(host)), cut(host)
    for blocked in (False, True):
        inverse = _native.linalg_inv(x, True, blocked).to_numpy()
        np.testing.assert_allclose(inverse, np.linalg.inv(y), rtol=1e-8, atol=1e-9)
        s = _native.linalg_svd(x, False, False, True, blocked)[1].to_numpy()
        np.testing.assert_allclose(s, np.linalg.svd(y, compute_uv=False), rtol=1e-12)


ORDS = [None, "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf]


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrix_norms(dtype: str) -> None:
    host = matrix((2, 4, 3), dtype)
    for order in ORDS:
        for keepdims in (False, True):
            want = np.linalg.norm(host, order, axis=(1, 2), keepdims=keepdims)
            got = gp.linalg.norm(on(host), order, axis=(1, 2), keepdims=keepdims)
            assert got.shape == want.shape
            np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-5)
            if order is not None:
                same = gp.linalg.matrix_norm(on(host), ord=order, keepdims=keepdims)
                np.testing.assert_allclose(same.to_numpy(), want, rtol=1e-5)
        want = np.linalg.norm(host, order, axis=(0, 2))
        np.testing.assert_allclose(
            gp.linalg.norm(on(host), order, axis=(0, 2)).to_numpy(), want, rtol=1e-5
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_vector_norms(dtype: str) -> None:
    host = matrix((3, 5), dtype)
    host[0, 0] = 0
    for order in (None, 0, 1, 2, 3, 0.5, -1, -2.5, math.inf, -math.inf):
        with np.errstate(divide="ignore"):
            want = np.linalg.norm(host, order, axis=1)
        got = gp.linalg.norm(on(host), order, axis=1)
        np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-5)
        if order is not None:
            same = gp.linalg.vector_norm(on(host), ord=order, axis=-1)
            np.testing.assert_allclose(same.to_numpy(), want, rtol=1e-5)
    assert gp.linalg.vector_norm(on(host), keepdims=True).shape == (1, 1)
    np.testing.assert_allclose(float(gp.linalg.norm(on(host))), np.linalg.norm(host), rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_composites_follow_numpy(dtype: str) -> None:
    host = matrix((2, 4, 4), dtype)
    x = on(host)
    close = {"rtol": 2e-3, "atol": 2e-4} if dtype in ("float32", "complex64") else {"rtol": 1e-9}
    for name, ours, theirs in (
        ("det", gp.linalg.det(x), np.linalg.det(host)),
        ("pinv", gp.linalg.pinv(x[..., :2]), np.linalg.pinv(host[..., :2])),
        ("power", gp.linalg.matrix_power(x, 3), np.linalg.matrix_power(host, 3)),
        ("power", gp.linalg.matrix_power(x, -2), np.linalg.matrix_power(host, -2)),
        ("power", gp.linalg.matrix_power(x, 0), np.linalg.matrix_power(host, 0)),
        ("trace", gp.linalg.trace(x, offset=1), np.linalg.trace(host, offset=1)),
        ("diagonal", gp.linalg.diagonal(x, offset=-1), np.linalg.diagonal(host, offset=-1)),
        ("outer", gp.linalg.outer(x[0, 0], x[1, 1]), np.linalg.outer(host[0, 0], host[1, 1])),
        (
            "cross",
            gp.linalg.cross(x[..., :3], x[0, 0, :3]),
            np.cross(host[..., :3], host[0, 0, :3]),
        ),
        ("multi_dot", gp.linalg.multi_dot([x[0, 0], x[0], x[1]]), host[0, 0] @ host[0] @ host[1]),
        (
            "tensorsolve",
            gp.linalg.tensorsolve(x[0], x[1, 0]),
            np.linalg.tensorsolve(host[0], host[1, 0]),
        ),
    ):
        assert ours.dtype.name == dtype, name
        np.testing.assert_allclose(ours.to_numpy(), theirs, err_msg=name, **close)
    for p in ORDS:
        ours, theirs = gp.linalg.cond(x, p), np.linalg.cond(host, p)
        np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=1e-2)
    again = on(host.reshape(2, 2, 2, 2, 2)[0])
    np.testing.assert_allclose(
        gp.linalg.tensorinv(again).to_numpy(),
        np.linalg.tensorinv(host.reshape(2, 2, 2, 2, 2)[0]),
        **close,
    )


def test_rank() -> None:
    x = matrix((2, 6, 4))
    x[0, :, 3] = x[0, :, 0]
    assert gp.linalg.matrix_rank(on(x)).to_numpy().tolist() == [3, 4]
    assert int(gp.linalg.matrix_rank(on(x[0]), tol=1e9)) == 0
    assert int(gp.linalg.matrix_rank(on(x[0]), rtol=0.999)) == 1
    assert int(gp.linalg.matrix_rank(on(x[0, 0]))) == 1
    assert int(gp.linalg.matrix_rank(gp.zeros((3,)))) == 0
    square = x[0].T @ x[0]
    assert int(gp.linalg.matrix_rank(on(square), hermitian=True)) == 3


def test_hermitian_svd() -> None:
    host = matrix((5, 5), "complex128")
    host = host + host.conj().T
    u, s, vh = gp.linalg.svd(on(host), hermitian=True)
    np.testing.assert_allclose(s.to_numpy(), np.linalg.svd(host, compute_uv=False))
    again = (widen(u) * widen(s)) @ widen(vh)
    np.testing.assert_allclose(again, host, atol=1e-12)
    alone = gp.linalg.svd(on(host), compute_uv=False, hermitian=True)
    np.testing.assert_allclose(alone.to_numpy(), s.to_numpy())


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_least_squares(shape: tuple[int, int], dtype: str) -> None:
    a = matrix(shape, dtype)
    for b in (matrix((shape[0],), dtype, 1), matrix((shape[0], 2), dtype, 2)):
        want = np.linalg.lstsq(a, b, rcond=None)
        got = gp.linalg.lstsq(on(a), on(b))
        np.testing.assert_allclose(got[0].to_numpy(), want[0], atol=1e-10)
        np.testing.assert_allclose(got[1].to_numpy().ravel(), want[1], atol=1e-10)
        assert int(got[2]) == want[2]
        np.testing.assert_allclose(got[3].to_numpy(), want[3])
    a[:, 1] = a[:, 0]
    want = np.linalg.lstsq(a, b, rcond=1e-9)
    got = gp.linalg.lstsq(on(a), on(b), rcond=1e-9)
    np.testing.assert_allclose(got[0].to_numpy(), want[0], atol=1e-8)
    assert int(got[2]) == want[2]


def test_exponential() -> None:
    """Against the eigenvalues of Hermitian matrices, and a nilpotent one."""
    h = matrix((3, 5, 5), "complex128")
    h = h + np.swapaxes(h.conj(), 1, 2)
    h[1] *= 20
    w, v = np.linalg.eigh(h)
    want = (v * np.exp(w)[:, None, :]) @ np.swapaxes(v.conj(), 1, 2)
    got = gp.linalg.expm(on(h)).to_numpy()
    scale = np.abs(want).max(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(got / scale, want / scale, atol=1e-12)
    shift = np.diag(np.ones(3), 1)
    series = np.eye(4) + shift + shift @ shift / 2 + shift @ shift @ shift / 6
    np.testing.assert_allclose(gp.linalg.expm(on(shift)).to_numpy(), series, atol=1e-15)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 4)])
def test_lu_as_scipy(shape: tuple[int, ...]) -> None:
    host = matrix(shape)
    x = on(host)
    p, lower, upper = (part.to_numpy() for part in gp.linalg.lu(x))
    np.testing.assert_allclose(p @ lower @ upper, host, atol=1e-12)
    assert np.all(np.sort(p, axis=-1)[..., -1] == 1)
    assert np.all(p.sum(axis=-2) == 1)
    both, same = gp.linalg.lu(x, permute_l=True)
    np.testing.assert_allclose(both.to_numpy() @ same.to_numpy(), host, atol=1e-12)
    index = gp.linalg.lu(x, p_indices=True)[0].to_numpy()
    rows = np.take_along_axis(lower, index[..., None], axis=-2)
    np.testing.assert_allclose(rows @ upper, host, atol=1e-12)


def test_solvers_with_factors() -> None:
    host = matrix((2, 5, 5), "complex128")
    host = host @ np.swapaxes(host.conj(), 1, 2) + np.eye(5)
    b = matrix((5, 2), "complex128", 3)
    x, side = on(host), on(b)
    want = np.linalg.solve(host, b)
    for upper in (False, True):
        factor = gp.linalg.cholesky(x, upper=upper)
        got = gp.linalg.cholesky_solve(factor, side, upper=upper)
        np.testing.assert_allclose(got.to_numpy(), want, atol=1e-12)
    factors = gp.linalg.lu_factor(x)
    np.testing.assert_allclose(gp.linalg.lu_solve(factors, side).to_numpy(), want, atol=1e-12)
    lower = gp.linalg.cholesky(x)
    got = gp.linalg.solve_triangular(lower, side, trans="C", lower=True)
    want = np.linalg.solve(np.swapaxes(lower.to_numpy().conj(), 1, 2), b)
    np.testing.assert_allclose(got.to_numpy(), want, atol=1e-12)


def test_general_eigenvalues() -> None:
    host = matrix((3, 4, 4))
    w, v = gp.linalg.eig(on(host))
    assert w.dtype.name == v.dtype.name == "complex128"
    rest = host @ v.to_numpy() - v.to_numpy() * w.to_numpy()[:, None, :]
    assert np.abs(rest).max() < 1e-12
    np.testing.assert_allclose(
        np.sort_complex(gp.linalg.eigvals(on(host)).to_numpy()), np.sort_complex(w.to_numpy())
    )


SINGULAR = np.array([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]]])


@pytest.mark.parametrize("blocked", [False, True])
def test_singular_matrices(blocked: bool) -> None:
    x = on(SINGULAR)
    calls: dict[str, Any] = {
        "inv": lambda check: _native.linalg_inv(x, check, blocked),
        "solve": lambda check: _native.linalg_solve(x, gp.ones((2,), "float64"), check, blocked),
        "cholesky": lambda check: _native.linalg_cholesky(
            on(SINGULAR - 3 * np.eye(2) * [[[0]], [[1]]]), False, check, blocked
        ),
    }
    for op, call in calls.items():
        with pytest.raises(np.linalg.LinAlgError, match=rf"^{op}: the matrix at \(1,\) is ") as e:
            call(True)
        assert type(e.value) is gp.linalg.LinAlgError
        result = call(False).to_numpy()
        assert np.isfinite(result[0]).all()
        assert np.isnan(result[1]).all()
    sign, logabs = (part.to_numpy() for part in _native.linalg_slogdet(x, blocked))
    assert sign.tolist() == [1.0, 0.0]
    assert logabs[1] == -np.inf
    assert gp.linalg.det(x).to_numpy().tolist() == pytest.approx([2.0, 0.0])
    with pytest.raises(gp.linalg.LinAlgError, match=r"^lu_factor: the matrix at"):
        gp.linalg.lu_factor(x, check=True)
    assert gp.linalg.cond(x, 1).to_numpy()[1] == np.inf


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite(value: float) -> None:
    bad = np.eye(3)
    bad[1, 1] = value
    for name in ("svdvals", "eigvalsh"):
        call: Any = _native.linalg_svd if name == "svdvals" else _native.linalg_eigh
        with pytest.raises(gp.linalg.LinAlgError, match=f"^{name}: the matrix"):
            call(on(bad), False, False, True, True, name)
    assert np.isnan(_native.linalg_svd(on(bad), False, True, False, True)[0].to_numpy()).all()
    off = np.eye(4) * 3 + 1
    off[2, 1] = value  # NumPy's LAPACK gives NaN for some of these
    stack = np.stack([np.eye(4), off])
    for call in (gp.linalg.eigh, gp.linalg.eigvalsh, gp.linalg.svd, gp.linalg.svdvals):
        with pytest.raises(gp.linalg.LinAlgError, match=rf"^{call.__name__}: .* \(1,\)"):
            call(on(stack))
    w = gp.linalg.eigvalsh(on(stack), check=False).to_numpy()
    assert np.isfinite(w[0]).all()
    assert np.isnan(w[1]).all()
    assert np.isfinite(gp.linalg.eigvalsh(on(stack), "U").to_numpy()).all()  # not read
    with pytest.raises(gp.linalg.LinAlgError, match=r"^lstsq: "):
        gp.linalg.lstsq(on(off), on(np.ones(4)))
    assert np.isnan(gp.linalg.inv(on(np.full((2, 2), np.nan))).to_numpy()).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("op", ["inv", "det", "solve", "qr", "cholesky"])
def test_values_that_are_not_finite_as_numpy(op: str, value: float) -> None:
    """NaN where NumPy has NaN, LinAlgError where it raises one."""
    host = np.eye(4) * 3 + 1
    host[2, 1] = host[1, 2] = value
    args = (host, np.ones(4)) if op == "solve" else (host,)
    with np.errstate(all="ignore"):
        try:
            want: Any = getattr(np.linalg, op)(*args)
        except np.linalg.LinAlgError as error:
            want = error
    call = getattr(gp.linalg, op)
    if isinstance(want, Exception):
        with pytest.raises(gp.linalg.LinAlgError, match=f"^{op}: "):
            call(*map(on, args))
        return
    got = call(*map(on, args))
    for mine, numpys in zip(
        got if op == "qr" else (got,), want if op == "qr" else (want,), strict=True
    ):
        np.testing.assert_array_equal(np.isnan(mine.to_numpy()), np.isnan(numpys))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda g: g.cholesky(gp.ones((3,))), gp.linalg.LinAlgError, "cholesky: x has shape (3,)"),
        (lambda g: g.inv(gp.ones((2, 3))), gp.linalg.LinAlgError, "inv: x has shape (2, 3)"),
        (lambda g: g.det(gp.ones((2, 3))), gp.linalg.LinAlgError, "det: x has shape (2, 3)"),
        (lambda g: g.eigvals(gp.ones((2, 3))), gp.linalg.LinAlgError, "eigvals: x has"),
        (lambda g: g.svdvals(gp.ones((3,))), gp.linalg.LinAlgError, "svdvals: x has shape"),
        (lambda g: g.qr(gp.ones((2, 2)), "full"), ValueError, "qr: mode is 'full', expected"),
        (lambda g: g.eigh(gp.ones((2, 2)), "X"), ValueError, "eigh: UPLO is 'X', expected"),
        (lambda g: g.solve(gp.ones((2, 2)), gp.ones((3,))), ValueError, "solve: x1 has shape"),
        (
            lambda g: g.solve(gp.ones((3, 2, 2)), gp.ones((4, 2, 1))),
            ValueError,
            "solve: ",
        ),
        (
            lambda g: g.inv(gp.ones((2, 2), dtype="float16")),
            InvalidTypeError,
            "inv: x has dtype float16, expected float32",
        ),
        (
            lambda g: g.eigvalsh(gp.ones((2, 2), dtype="bfloat16")),
            TypeError,
            "eigvalsh: x has dtype bfloat16",
        ),
        (lambda g: g.inv(3.0), TypeError, "inv: x is of type float, expected a GPUArray"),
        (lambda g: g.multi_dot(3), TypeError, "multi_dot: arrays is int 3, expected a sequence"),
        (
            lambda g: g.lu_solve((gp.ones((2, 2)), gp.ones((2,))), gp.ones((2,))),
            InvalidValueError,
            "lu_solve: pivots has shape (2,) and dtype float32",
        ),
        (lambda g: g.lu_solve(3, gp.ones((2,))), InvalidTypeError, "lu_solve: lu_and_piv is 3"),
        (
            lambda g: g.solve_triangular(gp.ones((2, 2)), gp.ones((2,)), trans=5),
            ValueError,
            "solve_triangular: trans is 5",
        ),
        (lambda g: g.matrix_power(gp.ones((2, 2)), 0.5), TypeError, "matrix_power: n is 0.5"),
        (lambda g: g.matrix_norm(gp.ones((2, 2)), ord=3), ValueError, "matrix_norm: ord is 3"),
        (lambda g: g.norm(gp.ones((2, 2, 2)), 2), ValueError, "norm: axis is None"),
        (lambda g: g.norm(gp.ones((2, 2)), axis=5), gp.AxisError, "norm: axis 5 is out of"),
        (lambda g: g.cross(gp.ones((2,)), gp.ones((2,))), ValueError, "cross: x1 has shape"),
        (lambda g: g.multi_dot([gp.ones((2, 2))]), ValueError, "multi_dot: 1 arrays given"),
        (lambda g: g.outer(gp.ones((2, 2)), gp.ones((2,))), ValueError, "outer: x1 has shape"),
        (lambda g: g.expm(gp.ones((2, 3))), gp.linalg.LinAlgError, "expm: x has shape"),
        (
            lambda g: g.lstsq(gp.ones((2, 3)), gp.ones((4,))),
            gp.linalg.LinAlgError,
            "lstsq: a has shape",
        ),
    ],
)
def test_must_raise(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call(gp.linalg)
    assert str(caught.value).startswith(words)


def test_results_are_the_same_every_time() -> None:
    x = on(matrix((70, 70)))
    first = [part.to_numpy() for part in _native.linalg_svd(x, True, True, True, True)]
    second = [part.to_numpy() for part in _native.linalg_svd(x, True, True, True, True)]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
