"""Corners of NumPy that its programs reach: the same value, dtype and type of exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pygpukit as gp

BIG = 2**70


def same(result: Any, expected: Any) -> None:
    host = result.to_numpy() if isinstance(result, gp.GPUArray) else result
    assert np.asarray(host).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(host, expected)


@pytest.mark.parametrize("value", [1, 5, 2.0, np.nan, "a", None, [1, 2], [1, 5], True])
def test_in(value: object) -> None:
    x = np.array([[1, 2], [3, 4]])
    assert (value in gp.from_numpy(x)) is (value in x)


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32"])
def test_comparisons_with_integers_of_any_size(dtype: str) -> None:
    x = np.array([0, 1], dtype)
    y = gp.from_numpy(x)
    for number in (BIG, -BIG):
        for name in ("__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"):
            same(getattr(y, name)(number), getattr(x, name)(number))
    same(gp.less(y, BIG), np.less(x, BIG))
    same(gp.less(-BIG, y), np.less(-BIG, x))


def test_large_integers_beside_floats() -> None:
    x = np.array([1.0, 2.0], "float32")
    y = gp.from_numpy(x)
    same(y * 10**20, x * 10**20)
    same(10**20 - y, 10**20 - x)
    same(gp.maximum(y, BIG), np.maximum(x, BIG))
    y[0], x[0] = BIG, BIG
    same(y, x)
    for call in (
        lambda: y * 10**400,
        lambda: gp.arange(3) * BIG,
        lambda: y.__setitem__(0, 10**400),
    ):
        with pytest.raises(OverflowError):
            call()


def test_numpy_integers_wrap_in_assignments() -> None:
    for value in (np.int64(300), np.uint64(2**63), np.int64(-1)):
        x = np.zeros(2, "uint8")
        y = gp.from_numpy(x)
        x[0], y[0] = value, value
        same(y, x)
    with pytest.raises(OverflowError):
        y[0] = 300


def test_ranges_are_indices() -> None:
    x = np.arange(6).reshape(2, 3)
    same(gp.from_numpy(x)[:, range(2)], x[:, range(2)])


def test_products_with_lists() -> None:
    x = np.array([[1, 2], [3, 4]])
    y = gp.from_numpy(x)
    same(y @ [1, 2], x @ [1, 2])
    same([[1.5, 2.0]] @ y, [[1.5, 2.0]] @ x)
    with pytest.raises(TypeError):
        y @ "ab"  # type: ignore[operator]
    with pytest.raises(ValueError, match="matmul"):
        y @ [1, 2, 3]


def test_full_of_a_list() -> None:
    same(gp.full((2, 3), [1, 2, 3]), np.full((2, 3), [1, 2, 3]))
    same(gp.full((2, 2), [[1], [2]], "int8"), np.full((2, 2), [[1], [2]], "int8"))
    with pytest.raises(ValueError, match=r"^full: shape"):
        gp.full((2, 3), [1, 2])
    for value in (["a"], [[1], [2, 3]], [2**70, 1]):
        with pytest.raises(gp.InvalidArgument, match=r"^full: fill_value is .*, expected a number"):
            gp.full((2, 2), value)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64"])
def test_floats_of_integers(dtype: str) -> None:
    x = np.array([0, 1, 1], dtype)
    y = gp.from_numpy(x)
    same(gp.fabs(y), np.fabs(x))
    same(np.fabs(y), np.fabs(x))
    if dtype != "bool":
        same(gp.spacing(y), np.spacing(x))


def test_fabs_of_complex_numbers() -> None:
    with pytest.raises(TypeError, match=r"^fabs: x has dtype complex64"):
        gp.fabs(gp.ones(2, "complex64"))


@pytest.mark.parametrize(
    "powers",
    [
        np.array([2**31 + 5, 3], "uint32"),
        np.array([2**40, -(2**40)]),
        np.array([2**63], "uint64"),
        np.array([127, -128], "int8"),
    ],
)
def test_ldexp_of_large_powers(powers: np.ndarray[Any, Any]) -> None:
    x = np.full(powers.shape, 0.75, "float32")
    with np.errstate(all="ignore"):
        near = np.clip(powers.astype("float64"), -5000, 5000).astype("int32")
        expected = np.ldexp(x, near)
    same(gp.ldexp(gp.from_numpy(x), gp.from_numpy(powers)), expected)


def test_limits_of_clip_outside_of_the_dtype() -> None:
    x = np.array([1, 5, 200], "uint8")
    y = gp.from_numpy(x)
    for low, high in ((-1, 300), (None, 300), (-1, None), (-1, 5), (2, BIG)):
        same(gp.clip(y, low, high), np.clip(x, low, high))


@pytest.mark.parametrize("join", [gp.concatenate, gp.stack, gp.vstack, gp.hstack])
def test_joins_do_not_lose_a_kind(join: Callable[..., gp.GPUArray]) -> None:
    arrays = [gp.asarray([1.5]), gp.asarray([2])]
    with pytest.raises(TypeError, match=f"^{join.__name__}: dtype is int32"):
        join(arrays, dtype="int32")
    assert join(arrays, dtype="float32").dtype == "float32"


def test_positions_of_one_index() -> None:
    assert [int(i) for i in gp.unravel_index(7, (3, 4))] == [1, 3]
    assert [int(i) for i in gp.unravel_index(np.int64(7), (3, 4), order="F")] == [1, 2]
    for index in (12, -1):
        with pytest.raises(ValueError, match=f"^unravel_index: index {index} is out of bounds"):
            gp.unravel_index(index, (3, 4))


def test_astype_is_named() -> None:
    x = gp.ones(2)
    assert x.astype("float32") is x
    assert x.astype("float32", copy=True) is not x
    with pytest.raises(ValueError, match=r"^astype: Unsupported dtype"):
        x.astype("foo")


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("sqrt", (16,)),
        ("exp", (np.float32(1.5),)),
        ("sin", (0.5,)),
        ("abs", (-3,)),
        ("isnan", (float("nan"),)),
        ("add", (1, 2)),
        ("multiply", (2, 2.5)),
        ("maximum", (True, np.int8(3))),
        ("where", (True, 1, 2.5)),
        ("conj", (2 + 1j,)),
    ],
)
def test_functions_of_numbers(name: str, numbers: tuple[Any, ...]) -> None:
    result = getattr(gp, name)(*numbers)
    assert isinstance(result, gp.GPUArray)
    expected = np.asarray(getattr(np, name)(*numbers))
    assert (result.shape, result.dtype) == ((), expected.dtype)
    np.testing.assert_allclose(result.to_numpy(), expected, rtol=1e-6)


def test_functions_of_what_is_no_number() -> None:
    for value in ("a", None, np.ones(2), {}):
        with pytest.raises(TypeError, match=r"^sqrt: x is "):
            gp.sqrt(value)  # type: ignore[arg-type]


def test_append_of_numbers() -> None:
    x = np.array([[1, 2], [3, 4]])
    y = gp.from_numpy(x)
    same(gp.append(y, 7), np.append(x, 7))
    same(gp.append(5, y), np.append(5, x))
    same(gp.append(y, np.int64(7)), np.append(x, 7))
    same(gp.append(y, [[5, 6]], axis=0), np.append(x, [[5, 6]], axis=0))
    for args in ((y, 7), (7, y), (y, np.float64(7)), (5, 7)):
        with pytest.raises(ValueError, match=r"^append: (x|values) is .*, as axis is given"):
            gp.append(*args, axis=0)


def test_parameters_of_random_numbers() -> None:
    rng = gp.random.default_rng(0)
    with pytest.raises(ValueError, match=r"^dirichlet: alpha is \[1, -2\]"):
        rng.dirichlet([1, -2])
    wrong: Any = 1.5
    with pytest.raises(TypeError, match=r"^integers: high is float 1.5, expected int"):
        rng.integers(wrong)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nanmedian_beside_infinities(dtype: str) -> None:
    inf, nan = np.inf, np.nan
    for row in (
        [1.2, inf, 0.4],
        [-inf, 1.0],
        [1.0, inf],
        [-inf, inf, 2.0, nan],
        [inf, inf, 1.0, nan, nan],
        [-inf, -inf, 3.0],
        [nan, 2.0, 4.0],
    ):
        x = np.array(row, dtype)
        same(gp.nanmedian(gp.from_numpy(x)), np.nanmedian(x))
    x = np.array([0.4, 1.2, inf], dtype)
    assert gp.nanquantile(gp.from_numpy(x), 0.5).item() == x[1]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nanvar_without_freedom() -> None:
    for dtype in ("int8", "uint32", "float32"):
        x = np.array([0, 1], dtype)
        same(gp.nanvar(gp.from_numpy(x), ddof=2), np.nanvar(x, ddof=2))


def test_einsum_promotes_all_operands_at_once() -> None:
    arrays = [np.ones(2, dtype) for dtype in ("int8", "uint16", "float32")]
    expected = np.einsum("i,j,k->ijk", *arrays)
    same(gp.einsum("i,j,k->ijk", *map(gp.from_numpy, arrays)), expected)


def test_stop_strings_are_named() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"^StopStrings: stops is int 3"):
        gp.llm.StopStrings(wrong)


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("linspace", ("a", 1), "linspace: 'a' is not a real number"),
        ("arange", ("a",), "arange: 'a' is not a real number"),
        ("quantile", ([1.0], "a"), "quantile: q is str 'a', expected numbers"),
        ("nanpercentile", ([1.0], "a"), "nanpercentile: q is str 'a', expected numbers"),
        ("diff", ([1.0], "a"), "diff: n is str 'a', expected int"),
        ("round", ([1.0], "a"), "round: decimals is str 'a', expected int"),
        ("rot90", ([[1.0]], "a"), "rot90: k is str 'a', expected int"),
        ("split", ([1.0], "a"), "split: indices_or_sections is 'a', expected an int or several"),
        ("array_split", ([1.0], 1.5), "array_split: indices_or_sections is 1.5, expected an int"),
    ],
)
def test_errors_name_function_and_argument(
    name: str, arguments: tuple[Any, ...], says: str
) -> None:
    with pytest.raises(TypeError) as caught:
        getattr(gp, name)(*arguments)
    assert str(caught.value).startswith(says)


def test_rows_of_different_lengths() -> None:
    with pytest.raises(ValueError, match=r"^array: .*inhomogeneous shape"):
        gp.array([[1], [2, 3]])


RAGGED: Any = [[1], [2, 3]]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: x.__setitem__(0, RAGGED), "setitem: the value is list, expected"),
        (lambda x: gp.put(x, [0], RAGGED), "put: the value is list, expected"),
        (lambda x: gp.put(x, RAGGED, 1), "put: indices is [[1], [2, 3]], expected integers"),
        (lambda x: gp.take(x, RAGGED), "take: indices is [[1], [2, 3]], expected integers"),
        (lambda x: x[RAGGED], "getitem: the index is [[1], [2, 3]]; only integers, slices"),
    ],
)
def test_rows_of_different_lengths_are_no_values_and_no_indices(
    call: Callable[[gp.GPUArray], Any], says: str
) -> None:
    with pytest.raises(gp.InvalidArgument) as caught:
        call(gp.ones((2, 2)))
    assert str(caught.value).startswith(says)


def test_roots_of_what_is_not_finite() -> None:
    for p, says in (([1, np.nan, 2], r"p\[1\] is not finite"), ([1, 2, np.inf], r"p\[2\] is")):
        with pytest.raises(gp.linalg.LinAlgError, match=f"^roots: {says}"):
            gp.roots(p)
        with pytest.raises(np.linalg.LinAlgError):
            np.roots(p)


def test_the_modes_of_pad_are_all_named() -> None:
    with pytest.raises(ValueError, match=r"^pad: mode is 'x', expected") as caught:
        gp.pad([1], 1, "x")  # type: ignore[arg-type]
    for mode in (
        *("constant", "edge", "empty", "linear_ramp", "maximum", "mean", "median", "minimum"),
        *("reflect", "symmetric", "wrap"),
    ):
        assert f"'{mode}'" in str(caught.value)


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float64", "complex64"])
@pytest.mark.parametrize("decimals", [-(10**6), -400, -309, -308, -20, 39, 308, 309, 400, 10**9])
def test_round_to_any_place(dtype: str, decimals: int) -> None:
    x = np.array([0, 1, 5, 15, 120, -7, 99]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = np.round(x, decimals)
    same(gp.round(gp.from_numpy(x), decimals), expected)


@pytest.mark.parametrize(
    ("dtype", "weights"),
    [
        ("uint8", "uint8"),
        ("int8", "int64"),
        ("float32", "float16"),
        ("float64", "float16"),
        ("int16", "float32"),
        ("bool", "bool"),
        ("int64", "complex64"),
    ],
)
def test_average_computes_in_the_common_dtype(dtype: str, weights: str) -> None:
    x = np.array([[100, 120], [3, 90]]).astype(dtype)
    w = np.array([[200, 60000], [1, 60000]]).astype(weights)
    ours, total = gp.average(gp.from_numpy(x), 0, gp.from_numpy(w), True)
    expected, expected_total = np.average(x, 0, w, True)
    assert ours.dtype == expected.dtype
    assert total.dtype == expected_total.dtype
    np.testing.assert_allclose(ours, expected, rtol=1e-6)
    np.testing.assert_allclose(total, expected_total, rtol=1e-6)


def test_vectors_of_bool_times_matrices() -> None:
    v, m = np.array([True, False]), np.array([[True, False], [True, True]])
    same(gp.vecmat(gp.from_numpy(v), gp.from_numpy(m)), np.vecmat(v, m))
    c = np.array([1 + 2j, 3 - 1j])
    same(gp.vecmat(gp.from_numpy(c), gp.from_numpy(m)), np.vecmat(c, m))


def test_covariances_of_one_observation() -> None:
    x = np.array([[1.0, 2.0, 5.0]])
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning):
        expected = np.cov(x.T)
    same(gp.cov(gp.from_numpy(x), rowvar=False), expected)
    assert gp.corrcoef(gp.from_numpy(x), rowvar=False).shape == (3, 3)
    same(gp.cov(gp.from_numpy(x), rowvar=False, ddof=0), np.zeros((3, 3)))


@pytest.mark.parametrize("number", [2.567, np.float32(2.567), np.float64(-0.05), np.int8(2)])
def test_round_of_a_number(number: float) -> None:
    same(gp.round(number, 1), np.round(number, 1))


@pytest.mark.parametrize("number", [2, 2.5, True, np.float32(2), np.int8(2), np.True_])
def test_numbers_where_numpy_takes_arrays(number: complex) -> None:
    x = np.array([1.0, 2.0, 3.0])
    y = gp.from_numpy(x)
    same(gp.searchsorted(y, number), np.searchsorted(x, number))
    same(gp.isin(y, number), np.isin(x, number))
    same(gp.isin(number, y), np.isin(number, x))
    same(gp.digitize(number, y), np.digitize(number, x))
    same(gp.hstack([y, number]), np.hstack([x, number]))
    same(gp.hstack([number, y, y]), np.hstack([number, x, x]))
    same(gp.append(y, number), np.append(x, number))
    same(gp.nan_to_num(number), np.nan_to_num(number))


def test_nan_to_num_of_a_number() -> None:
    assert gp.nan_to_num(float("nan"), nan=3.0).item() == 3
    with pytest.raises(TypeError, match=r"^append: arrays\[1\] is a numpy.ndarray"):
        gp.append(gp.ones(2), np.ones(2))


@pytest.mark.parametrize("decimals", [-1, 1])
def test_round_of_complex_numbers_that_are_not_finite(decimals: int) -> None:
    x = np.array([complex(np.inf, 11.26), complex(-7.26, np.nan), 12.34 - 5.67j])
    y = gp.from_numpy(x)
    same(gp.round(y, decimals), np.round(x, decimals))
    same(gp.round(y, decimals, out=y), np.round(x, decimals))


def test_round_of_one_element() -> None:
    x = np.array([2.5, -3.567, 1e20])
    y = gp.from_numpy(x)
    for ours, theirs in zip(y, x, strict=True):
        assert type(round(ours)) is int
        assert round(ours) == round(theirs)
        assert round(ours, 1).item() == round(theirs, 1)
    assert round(gp.asarray(125), -1).item() == 120
    with pytest.raises(TypeError, match=r"^round: x has shape \(3,\), expected a 0-d array"):
        round(y)


def test_negative_powers_of_integers() -> None:
    x = gp.asarray([2, 3])
    for call in (lambda: x ** gp.asarray([-1, 2]), lambda: gp.power(x, [-1, 2]), lambda: x**-1):
        with pytest.raises(gp.InvalidArgument, match=r"^pow: integers to negative integer powers"):
            call()


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("equal_nan", [True, False])
def test_unique_slices_of_a_vector_are_its_elements(axis: int, equal_nan: bool) -> None:
    x = np.array([np.nan, 2.0, 1.0, np.nan, 2.0])
    options: dict[str, Any] = {"axis": axis, "equal_nan": equal_nan, "return_index": True}
    options |= {"return_inverse": True, "return_counts": True}
    for ours, theirs in zip(
        gp.unique(gp.from_numpy(x), **options), np.unique(x, **options), strict=True
    ):
        same(ours, theirs)
    with pytest.raises(ValueError, match=r"^unique: axis 1 is out of bounds"):
        gp.unique(gp.from_numpy(x), axis=1)


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x, y: xp.interp(x, y, y),
        lambda xp, x, y: xp.trapezoid(y, x),
        lambda xp, x, y: xp.average(x, weights=y),
        lambda xp, x, y: xp.average(y, weights=x),
        lambda xp, x, y: xp.cov(x, y),
        lambda xp, x, y: xp.cov(x, aweights=y),
        lambda xp, x, y: xp.diff(x, prepend=0.1, append=[0.1]),
        lambda xp, x, y: xp.polyval(y, x),
        lambda xp, x, y: xp.polyval(x, 0.1),
        lambda xp, x, y: xp.convolve(x, y),
        lambda xp, x, y: xp.gradient(x, y),
        lambda xp, x, y: xp.insert(x, 1, 0.1),
        lambda xp, x, y: xp.ediff1d(x, to_end=[0.1]),
        lambda xp, x, y: xp.vstack([y, x]),
        lambda xp, x, y: xp.select([x > 0.2], [y], x),
        lambda xp, x, y: xp.einsum("i,i", x, y),
        lambda xp, x, y: xp.setdiff1d(x, y[:2]),
        lambda xp, x, y: xp.convolve(x * 1j, [0.1j]),
    ],
)
def test_lists_beside_float64_are_float64(call: Callable[..., Any]) -> None:
    x, y = np.array([0.1, 0.2, 0.3, 0.7]), [0.1, 0.3, 0.35, 1.1]
    ours, theirs = call(gp, gp.from_numpy(x), y), call(np, x, y)
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=1e-14)
    assert gp.vstack([[0.1], gp.ones(1)]).dtype == "float32"
    assert gp.convolve(gp.ones(3), [0.1]).dtype == "float32"


def test_nan_is_left_out_before_a_cast_to_integers() -> None:
    host = np.array([[1.5, np.nan, 3.0], [np.nan, np.nan, -2.25]])
    x = gp.asarray(host)
    for op in ("nansum", "nanprod", "nancumsum", "nancumprod"):
        for dtype in ("int64", "int8", "bool"):
            clean = np.where(np.isnan(host), 1.0 if "prod" in op else 0.0, host)
            want = getattr(np, op.replace("nan", ""))(clean.astype(dtype), axis=1, dtype=dtype)
            got = getattr(gp, op)(x, axis=1, dtype=dtype)
            np.testing.assert_array_equal(got.to_numpy(), want, err_msg=f"{op} {dtype}")


def test_numpy_scalars_keep_their_dtype_in_products() -> None:
    small = np.array([1, 2], "int8")
    for op in ("dot", "inner", "outer", "kron"):
        for scalar in (np.float16(2), np.int64(200), np.float32(0.5)):
            got, want = getattr(gp, op)(gp.asarray(small), scalar), getattr(np, op)(small, scalar)
            assert str(got.dtype) == str(want.dtype), (op, scalar)
            np.testing.assert_array_equal(got.to_numpy(), want, err_msg=f"{op} {scalar!r}")
    single = np.array([1, 2], "float32")
    assert str(gp.dot(np.float64(2.5), gp.asarray(single)).dtype) == "float64"
