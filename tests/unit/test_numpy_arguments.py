"""Arguments as NumPy has them: by position, by NumPy's names, lists, masks, orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpukit as gp

RNG = np.random.default_rng(7)
M = RNG.standard_normal((5, 7)).astype(np.float32)
V = RNG.standard_normal(9)
I = RNG.integers(0, 5, 6)  # noqa: E741
X, W, J = gp.from_numpy(M), gp.from_numpy(V), gp.from_numpy(I)


def same(got: Any, want: Any, *, dtype: bool = True) -> None:
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for ours, theirs in zip(got, want, strict=True):
            same(ours, theirs, dtype=dtype)
        return
    want = np.asarray(want)
    got = got.to_numpy() if isinstance(got, gp.GPUArray) else np.asarray(got)
    assert got.shape == want.shape
    assert got.dtype == want.dtype or not dtype
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6, strict=dtype)


# One call for both libraries: (name, arguments, options); arrays are converted for ours.
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("sort", (M, 0), {}),
    ("sort", (M, 1, "stable"), {}),
    ("argsort", (M, 1), {}),
    ("argsort", (M,), {"kind": "mergesort", "axis": 0}),
    ("diff", (V, 2), {}),
    ("diff", (M, 1, 0), {}),
    ("diff", (V,), {"prepend": 1.5, "append": [2.0, 3.0]}),
    ("take", (M, I, 1), {}),
    ("take", (M, [0, -1]), {"axis": 0, "mode": "wrap"}),
    ("take", (M,), {"indices": [1, 2]}),
    ("tensordot", (M, M.T, 1), {}),
    ("tensordot", (M, M, 2), {}),
    ("std", (M,), {"ddof": 1}),
    ("std", (M, 0, None, None, 1), {}),
    ("var", (M,), {"ddof": 2, "axis": 1}),
    ("var", (M,), {"correction": 1}),
    ("nanstd", (M,), {"ddof": 1}),
    ("nanvar", (M, 1), {"ddof": 1, "keepdims": True}),
    ("sum", (M, 0, np.float64), {}),
    ("sum", (M,), {"where": M > 0}),
    ("sum", (M,), {"where": M > 0, "initial": 2.5, "axis": 1, "keepdims": True}),
    ("sum", (I,), {"initial": 7}),
    ("sum", (M,), {"where": True}),
    ("prod", (M,), {"where": M > 1, "axis": 0}),
    ("prod", (M,), {"initial": 3.0}),
    ("max", (M,), {"initial": 9.0}),
    ("max", (M, 1), {"initial": 0.0, "where": M < 1}),
    ("min", (M, 0), {"initial": 0.0, "where": M[:1] < 1}),
    ("max", (np.zeros((0, 3)),), {"initial": -1.0, "axis": 0}),
    ("nanmax", (np.array([np.nan, np.nan]),), {"initial": 2.0}),
    ("mean", (M,), {"where": M > 0}),
    ("mean", (M, 1), {"where": M > -9, "keepdims": True}),
    ("var", (M, 1), {"where": M > -0.5, "ddof": 1}),
    ("std", (M,), {"where": M > 0}),
    ("any", (M > 1, 0), {"where": M > 0}),
    ("all", (M > 0,), {"where": M > 0.5}),
    ("nansum", (np.where(M > 1, np.nan, M), 1), {"where": M > 0}),
    ("nanmean", (np.where(M > 1, np.nan, M),), {"where": M > 0}),
    ("nanvar", (np.where(M > 1, np.nan, M), 1), {"where": M > -9}),
    ("reshape", (M, (7, 5), "F"), {}),
    ("reshape", (M, -1), {"order": "A"}),
    ("ravel", (M, "F"), {}),
    ("where", (M > 0,), {}),
    ("unique", (np.array([[1, 2], [0, 1], [1, 2]]),), {"axis": 0}),
    ("unique", (I % 3,), {"return_counts": True}),
    ("quantile", (M, 0.3), {"method": "lower"}),
    ("clip", (M,), {"a_min": -0.5, "a_max": 0.5}),
    ("clip", (M, -0.5, 0.5), {}),
    ("round", (M, 2), {}),
    ("trace", (M, 1, 0, 1, np.float64), {}),
    ("moveaxis", (M,), {"source": 0, "destination": 1}),
    ("swapaxes", (M,), {"axis1": 0, "axis2": 1}),
    ("repeat", (M,), {"repeats": 2, "axis": 1}),
    ("tile", (M,), {"reps": (2, 1)}),
    ("split", (V,), {"indices_or_sections": 3}),
    ("stack", ([M, M], 1), {}),
    ("concatenate", ([M, M], 1), {}),
    ("isin", (I, [1, 2], False, True), {}),
    ("searchsorted", (np.sort(V), V, "right"), {}),
    ("average", (M, 0, np.arange(5.0)), {}),
    ("ptp", (M, 0, None, True), {}),
    ("median", (M, 0, None, False, True), {}),
    ("percentile", (M, [10, 50], 1), {"keepdims": True}),
    ("nan_to_num", (np.array([np.nan, 1.0]), True, 5.0), {}),
    ("array_equal", (M, M, True), {}),
    ("isclose", (M, M + 1e-9, 1e-3, 1e-3, True), {}),
    ("vander", (V, 3, True), {}),
    ("einsum", ("ij,kj->ik", M, M), {"optimize": True}),
    ("add", (M, [1.0, 2, 3, 4, 5, 6, 7]), {}),
    ("unravel_index", (I, (2, 3), "F"), {}),
    ("lexsort", ((I, I),), {}),
    ("partition", (V, 3, 0), {}),
    ("flip", (M, 1), {}),
    ("compress", ([True, False, True], M, 0), {}),
]


def ours(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return gp.from_numpy(value)
    if isinstance(value, (list, tuple)) and any(isinstance(x, np.ndarray) for x in value):
        return type(value)(map(ours, value))
    return value


@pytest.mark.parametrize(("name", "args", "options"), CALLS, ids=lambda x: str(x)[:30])
def test_calls_as_numpy(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    want = getattr(np, name)(*args, **options)
    got = getattr(gp, name)(*map(ours, args), **{key: ours(x) for key, x in options.items()})
    same(got, want, dtype=name not in ("quantile", "median", "percentile", "average"))


METHOD_CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("sum", (0,), {"where": M > 0, "initial": 1.0}),
    ("mean", (), {"where": M > 0}),
    ("std", (), {"ddof": 1}),
    ("max", (1,), {"initial": 0.0, "where": M > 0}),
    ("argsort", (0, "stable"), {}),
    ("take", ([0, 2], 0), {"mode": "clip"}),
    ("reshape", (7, 5), {"order": "F"}),
    ("ravel", ("F",), {}),
    ("flatten", (), {"order": "F"}),
    ("argpartition", (2, 1), {}),
    ("compress", ([True, False, True], 1), {}),
    ("cumsum", (0, np.float64), {}),
    ("trace", (0, 0, 1, np.float64), {}),
]


@pytest.mark.parametrize(("name", "args", "options"), METHOD_CALLS, ids=lambda x: str(x)[:30])
def test_methods_as_numpy(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    want = getattr(M, name)(*args, **options)
    if name == "argpartition":  # any order of the others is right
        got = getattr(X, name)(*args).to_numpy()
        same(M[np.arange(5), got[:, 2]], M[np.arange(5), want[:, 2]])
        return
    same(getattr(X, name)(*map(ours, args), **{k: ours(x) for k, x in options.items()}), want)


def test_methods_in_place() -> None:
    x, host = gp.from_numpy(M), M.copy()
    x.sort(0, "stable")
    host.sort(0, "stable")
    same(x, host)
    x.put([0, 1], [5.0, 6.0])
    host.put([0, 1], [5.0, 6.0])
    same(x, host)
    x.partition(2, 1)
    host.partition(2, 1)
    same(x[:, 2], host[:, 2])
    same(gp.from_numpy(np.sort(V)).searchsorted(W, "right"), np.sort(V).searchsorted(V, "right"))


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_orders(order: Any) -> None:
    """Of arrays and of views in Fortran order."""
    cube = RNG.standard_normal((2, 3, 4))
    for host, x in (
        (M, X),
        (M.T, X.T),
        (cube, gp.from_numpy(cube)),
        (cube.T, gp.from_numpy(cube).T),
    ):
        same(gp.ravel(x, order), np.ravel(host, order))
        same(x.ravel(order), host.ravel(order))
        same(x.flatten(order), host.flatten(order))
        if order != "K":
            same(x.reshape(-1, order=order), host.reshape(-1, order=order))
            shape = host.shape[::-1]
            same(gp.reshape(x, shape, order), np.reshape(host, shape, order))
    assert gp.may_share_memory(X.T.ravel("F"), X)  # a view
    assert not gp.may_share_memory(X.T.flatten("F"), X)


METHODS = ["lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf"]
METHODS += ["closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "linear"]
METHODS += ["median_unbiased", "normal_unbiased"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_methods_of_quantiles(method: Any, dtype: str) -> None:
    qs = [0.0, 0.05, 0.25, 0.3, 1 / 3, 0.5, 0.75, 0.9, 1.0]
    for size in (1, 2, 5, 8, 9):
        host = RNG.permutation(np.arange(3 * size) * 7 % 23).reshape(3, size).astype(dtype)
        x = gp.from_numpy(host)
        for q in (qs, 0.4, 0.5):
            want = np.quantile(host, q, axis=1, method=method)
            same(gp.quantile(x, q, axis=1, method=method), want, dtype=False)
        same(
            gp.percentile(x, 30, method=method), np.percentile(host, 30, method=method), dtype=False
        )
    with_nan = np.array([1.0, np.nan, 2.0])
    assert np.isnan(gp.quantile(gp.from_numpy(with_nan), 0.5, method=method).item())


def test_quantiles_refuse() -> None:
    with pytest.raises(ValueError, match=r"^quantile: method is 'best', expected one of "):
        gp.quantile(W, 0.5, method="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^percentile: q is out of range, expected 0 to 100"):
        gp.percentile(W, 101, method="lower")
    with pytest.raises(ValueError, match=r"^quantile: x has shape \(0,\)"):
        gp.quantile(gp.zeros(0), 0.5, method="lower")


def test_weights_of_quantiles_refuse() -> None:
    """A sequence is checked; an array is not, and a share of nothing is NaN."""
    for wrong in ([0.0, 0.0], [1.0, np.inf], [np.nan, 1.0]):
        with pytest.raises(ValueError, match=r"^quantile: weights included NaN, inf or were all"):
            gp.quantile([1.0, 2.0], 0.5, weights=wrong, method="inverted_cdf")
    with pytest.raises(
        TypeError, match=r"^quantile: weights are complex128, expected real numbers"
    ):
        gp.quantile([1.0, 2.0], 0.5, weights=[1j, 1.0], method="inverted_cdf")
    nothing = gp.quantile(gp.ones(2), 0.5, weights=gp.zeros(2), method="inverted_cdf")
    assert np.isnan(nothing.item())
    with pytest.raises(ValueError, match=r"^nanquantile: method is 'hazen', expected 'linear' or"):
        gp.nanquantile([1.0, 2.0], 0.5, method="hazen")


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_slices(axis: int) -> None:
    host = RNG.integers(0, 2, (9, 3, 2))
    want = np.unique(host, True, True, True, axis=axis)
    same(gp.unique(gp.from_numpy(host), True, True, True, axis=axis), want)
    for shape in ((0, 3), (3, 0), (1, 1)):
        empty = np.zeros(shape)
        if 0 not in shape:
            same(gp.unique(gp.from_numpy(empty), axis=0), np.unique(empty, axis=0))
    with pytest.raises(IndexError):
        gp.unique(gp.from_numpy(host), axis=5)


# --- creation -------------------------------------------------------------------------------------


def test_creation_by_position() -> None:
    same(gp.eye(3, 4, 1), np.eye(3, 4, 1, dtype=np.float32))
    same(gp.eye(3, M=2, dtype="int8"), np.eye(3, M=2, dtype="int8"))
    same(gp.eye(N=2), np.eye(N=2, dtype=np.float32))
    same(gp.tri(3, 4, 1), np.tri(3, 4, 1, dtype=np.float32))
    numbers, step = gp.linspace(0, 1, 5, retstep=True)
    want, want_step = np.linspace(0, 1, 5, retstep=True)
    same(numbers, want, dtype=False)
    assert step == want_step
    assert gp.linspace(0, 1, 4, endpoint=False, retstep=True)[1] == 0.25
    assert np.isnan(gp.linspace(0, 1, 1, retstep=True)[1])
    same(gp.linspace(0, 1, 5, False), np.linspace(0, 1, 5, False), dtype=False)
    same(gp.logspace(0, 2, 3, True, 2.0), np.logspace(0, 2, 3, True, 2.0), dtype=False)
    same(gp.geomspace(1, 8, 4, False), np.geomspace(1, 8, 4, False), dtype=False)


# --- lists ----------------------------------------------------------------------------------------


def test_lists() -> None:
    """A list has no device: it becomes an array on that of the others, else on the default one."""
    assert gp.sum([1, 2, 3]).item() == 6
    assert gp.sum([1, 2, 3]).dtype == gp.int64
    assert gp.sum([1.5, 2.5]).dtype == gp.float32  # as asarray() makes of Python floats
    assert gp.concatenate([[1], [2]]).tolist() == [1, 2]
    assert gp.concatenate([W, [0.1]]).to_numpy()[-1] == 0.1  # in double precision next to one
    assert gp.stack([[1, 2], (3, 4)], 1).tolist() == [[1, 3], [2, 4]]
    assert gp.vstack([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert gp.sort([3, 1, 2]).tolist() == [1, 2, 3]
    assert gp.add([1, 2], [3, 4]).tolist() == [4, 6]
    assert gp.add(gp.ones(2), [1.0, 2.0]).dtype == gp.float64  # as in NumPy, and as + does
    assert gp.exp([0.0]).tolist() == [1.0]
    assert gp.matmul([[1, 2]], [[3], [4]]).tolist() == [[11]]
    assert gp.diff([1, 4, 9]).tolist() == [3, 5]
    assert gp.where([True, False], [1, 2], 0).tolist() == [1, 0]
    assert gp.take([5, 6, 7], [2, 0]).tolist() == [7, 5]
    assert gp.reshape([1, 2, 3, 4], (2, 2)).tolist() == [[1, 2], [3, 4]]
    assert gp.mean([[1, 2], [3, 4]], 0).tolist() == [2.0, 3.0]
    assert gp.sum([gp.ones(2), gp.ones(2)]).item() == 4
    assert gp.average([1.0, 3.0], weights=[1.0, 3.0]).item() == 2.5
    assert gp.clip([1, 5], 2, 3).tolist() == [2, 3]
    assert gp.zeros_like([1, 2]).dtype == gp.int64
    assert gp.nonzero([0, 3])[0].tolist() == [1]


@pytest.mark.parametrize("call", [gp.sum, gp.sort, gp.exp, gp.diff, gp.flip, gp.cumsum, gp.median])
@pytest.mark.parametrize("wrong", ["abc", ["a", "b"], [1, [2]], {1: 2}, None, object()])
def test_what_is_no_list_of_numbers(call: Any, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^{call.__name__}: ") as caught:
        call(wrong)
    assert isinstance(caught.value, gp.InvalidArgument)


# --- assignment -----------------------------------------------------------------------------------


def test_numpy_arrays_are_assigned() -> None:
    x, host = gp.from_numpy(M), M.copy()
    x[0:2] = host[0:2] = np.arange(14.0).reshape(2, 7)
    x[:, 1] = host[:, 1] = np.arange(5)
    x[x > 1] = 0.5
    host[host > 1] = 0.5
    x[np.array([0, 3])] = host[np.array([0, 3])] = np.ones(7, np.float16)
    x[4] = host[4] = np.float64(3)
    same(x, host)
    with pytest.raises(ValueError, match=r"^setitem: "):
        x[0:2] = np.ones((3, 7))
    with pytest.raises(TypeError, match=r"^setitem: the value is numpy.ndarray"):
        x[0] = np.array(["a"] * 7)


def test_copyto() -> None:
    x, host = gp.from_numpy(M), M.copy()
    gp.copyto(x, 0.0, where=gp.from_numpy(M > 0))
    np.copyto(host, 0.0, where=M > 0)
    same(x, host)
    with pytest.raises(TypeError, match=r"^copyto: float32 cannot be cast to int8 with casting"):
        gp.copyto(gp.zeros(3, "int8"), gp.ones(3))
    gp.copyto(y := gp.zeros(3, "int8"), gp.ones(3), "unsafe")
    assert y.tolist() == [1, 1, 1]


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gp.max(X, where=X > 0), r"^max: where without initial"),
        (lambda: gp.sum(X, where=X), r"^sum: where has dtype float32, expected bool"),
        (lambda: gp.sum(X, where=gp.ones(3, "bool")), r"^sum: where has shape \(3,\), which does"),
        (lambda: gp.sum(J, initial=0.5), r"^sum: "),
        (lambda: gp.sum(X, initial="a"), r"^sum: initial is 'a', expected a number"),
        (lambda: gp.std(X, ddof=1, correction=1), r"^std: ddof and correction are the same"),
        (lambda: gp.sort(X, 0, "bogo"), r"^sort: kind is 'bogo', expected"),
        (lambda: gp.where(X > 0, X), r"^where: one of x1 and x2 was given"),
        (lambda: gp.reshape(X, -1, "Q"), r"^reshape: order is 'Q', expected 'C', 'F' or 'A'"),
        (lambda: gp.clip(X, 1, a_min=2), r"^clip: min and a_min are the same limit"),
        (lambda: gp.add(X, M), r"^add: x2 is a numpy.ndarray of shape \(5, 7\), .*from_numpy\(\)"),
        (lambda: gp.sum(M), r"^sum: x is a numpy.ndarray of shape \(5, 7\), .*from_numpy\(\)"),
        (lambda: gp.concat([X, M]), r"^concat: arrays\[1\] is a numpy.ndarray .*from_numpy\(\)"),
        (lambda: gp.matmul(X, M.T), r"^matmul: x2 is a numpy.ndarray .*from_numpy\(\)"),
        (lambda: gp.diff(M), r"^diff: x is of type numpy.ndarray.*from_numpy\(\)"),
    ],
)
def test_refused(call: Any, message: str) -> None:
    with pytest.raises(gp.InvalidArgument, match=message):
        call()


def test_masked_results_go_to_out() -> None:
    out = gp.zeros(7)
    assert gp.sum(X, 0, out=out, where=X > 0) is out
    same(out, np.sum(M, 0, where=M > 0))
    gp.mean(X, 0, None, out, where=X > 0)
    same(out, np.mean(M, 0, where=M > 0))
    with pytest.raises(ValueError, match=r"^mean: out has shape"):
        gp.mean(X, 1, out=out, where=X > 0)


def test_masks_of_half_precision() -> None:
    for dtype in ("float16", "bfloat16"):
        x = gp.astype(X, dtype)
        wide = x.astype("float32").to_numpy()
        got = gp.mean(x, 0, where=X > 0)
        assert got.dtype == dtype
        want = np.mean(wide, 0, where=M > 0)
        np.testing.assert_allclose(got.astype("float32").to_numpy(), want, rtol=1e-2)
    whole = gp.from_numpy((M + 1j * M).astype(np.complex64))
    same(gp.var(whole, 0, where=X > 0), np.var(whole.to_numpy(), 0, where=M > 0))


# Lists of integers, which are float64 in linalg and complex64 in fft.
LISTS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("linalg.norm", ([3, 4],), {}),
    ("linalg.inv", ([[1, 2], [3, 4]],), {}),
    ("linalg.solve", ([[1, 2], [3, 4]], [1, 2]), {}),
    ("linalg.det", ([[1, 2], [3, 4]],), {}),
    ("linalg.eigvalsh", ([[2, 1], [1, 3]],), {}),
    ("linalg.matrix_rank", ([[1, 2], [2, 4]],), {}),
    ("linalg.matrix_power", ([[1, 2], [3, 4]], 3), {}),
    ("linalg.pinv", ([[1, 2], [3, 4], [5, 6]],), {}),
    ("linalg.cond", ([[1, 2], [3, 4]],), {}),
    ("linalg.multi_dot", ([[[1, 2], [3, 4]], [[1], [2]]],), {}),
    ("linalg.cross", ([1, 2, 3], [4, 5, 6]), {}),
    ("linalg.svdvals", ([[1, 2], [3, 4]],), {}),
    ("fft.fft", ([1, 2, 3],), {}),
    ("fft.irfft", ([1, 2, 3],), {}),
    ("fft.fft2", ([[1, 2], [3, 4]],), {}),
    ("fft.fftshift", ([1, 2, 3],), {}),
    ("bincount", ([0, 1, 1],), {"weights": [0.5, 1, 2]}),
    ("searchsorted", ([3, 1, 2], [2, 3]), {"sorter": [1, 2, 0]}),
    ("intersect1d", ([1, 2, 5], [5, 2, 3]), {"return_indices": True}),
    ("linspace", ([0, 1], [2, 3], 3), {}),
    ("linspace", ([0, 1], 4, 5, False, True), {"axis": -1}),
    ("linspace", ([0], [1], 1), {"dtype": "int32"}),
    ("round", (2.567, 2), {}),
    ("dot", ([1, 2], 3), {}),
    ("dot", (2.5, 3), {}),
    ("outer", (2, [1, 2]), {}),
    ("kron", ([1, 2], 3), {}),
]


@pytest.mark.parametrize(("name", "args", "options"), LISTS, ids=lambda x: str(x)[:30])
def test_lists_and_numbers(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    results = []
    for library in (gp, np):
        function: Any = library
        for part in name.split("."):
            function = getattr(function, part)
        results.append(function(*args, **options))
    # Where NumPy gives double precision for a list of integers.
    single = name in ("fft.fft", "fft.irfft", "fft.fft2", "linspace") and "dtype" not in options
    same(*results, dtype=not single)
    if single:
        first = results[0][0] if isinstance(results[0], tuple) else results[0]
        assert first.dtype in ("float32", "complex64")


def test_lists_beside_arrays() -> None:
    x = gp.from_numpy(np.array([[2.0, 1.0], [1.0, 3.0]]))
    assert gp.linalg.solve(x, [1.0, 2.0]).dtype == "float64"
    assert gp.dot(X, 2.5).dtype == "float32"
    with pytest.raises(TypeError, match=r"^inv: x is \['a'\], expected a GPUArray or a list"):
        gp.linalg.inv(["a"])
