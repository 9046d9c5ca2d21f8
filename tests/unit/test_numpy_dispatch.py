"""NumPy's functions called with GPUArrays: every keyword of every function means what it means to
NumPy, or raises. Nothing may be matched by position and give another result."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.core import numpy_dispatch

M = np.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
V = np.array([3.0, 1.0, 2.0])
I = np.array([2, 0, 1])  # noqa: E741
PAIR = (M, M + 1)
PAIR_OF_ROWS = (V, V + 1)


# --- the calls ------------------------------------------------------------------------------------

# Arguments of the plainest call, where one matrix is not enough.
BASE: dict[str, tuple[Any, ...]] = {
    "append": PAIR,
    "apply_along_axis": (np.sum, 1, M),
    "apply_over_axes": (np.sum, M, (0, 1)),
    "choose": (np.array([0, 1, 1]), PAIR_OF_ROWS),
    "convolve": (V, V[:2]),
    "correlate": (V, V[:2]),
    "cross": (V, V + 1),
    "delete": (M, 1),
    "diag_indices_from": (M @ M.T,),
    "fill_diagonal": (M, 7.0),
    "histogram2d": (V, V + 1),
    "histogram_bin_edges": (V,),
    "histogramdd": (M.T,),
    "insert": (M, 1, 9.0),
    "interp": (M, np.array([1.0, 2.0, 5.0]), V),
    "nanpercentile": (M, 30.0),
    "nanquantile": (M, 0.3),
    "packbits": (M > 2,),
    "piecewise": (V, V > 2, [1.0, 2.0]),
    "poly": (V,),
    "polyadd": (V, V[:2]),
    "polyder": (V,),
    "polydiv": (V, V[:2]),
    "polyfit": (V, V + 1, 1),
    "polyint": (V,),
    "polymul": (V, V[:2]),
    "polysub": (V, V[:2]),
    "polyval": (V, M),
    "putmask": (M, M > 2, V),
    "resize": (M, (3, 3)),
    "roots": (V,),
    "select": ((M > 2,), (M,)),
    "sliding_window_view": (V, 2),
    "trim_zeros": (np.array([0.0, 1.0, 0.0]),),
    "unpackbits": (np.array([3, 200], np.uint8),),
    "argpartition": (M, 1),
    "array_split": (M, 2),
    "astype": (M, "float32"),
    "bincount": (I,),
    "broadcast_arrays": (M, V),
    "broadcast_to": (V, (2, 3)),
    "can_cast": (V, "float32"),
    "clip": (M, 2.0, 4.0),
    "column_stack": (PAIR,),
    "compress": (np.array([True, False]), M),
    "concatenate": (PAIR,),
    "copyto": (M, V),
    "cumulative_prod": (V,),
    "cumulative_sum": (V,),
    "diagflat": (V,),
    "digitize": (M, np.array([1.0, 3.0, 5.0])),
    "dot": (M, M.T),
    "dsplit": (M.reshape(1, 2, 3), 3),
    "dstack": (PAIR,),
    "einsum": ("ij->i", M),
    "expand_dims": (M, 0),
    "extract": (M > 2, M),
    "full_like": (M, 7.0),
    "hsplit": (M, 3),
    "hstack": (PAIR,),
    "ix_": (I, I[:2]),
    "lexsort": (M,),
    "meshgrid": (V, V[:2]),
    "moveaxis": (M, 0, 1),
    "nan_to_num": (np.array([np.nan, np.inf, -np.inf, 1.0]),),
    "pad": (M, 1),
    "partition": (M, 1),
    "percentile": (M, 30.0),
    "place": (M, M > 2, [9.0]),
    "put": (M, I, V),
    "put_along_axis": (M, np.array([[2], [0]]), 9.0, 1),
    "quantile": (M, 0.3),
    "ravel_multi_index": ((I, I), (3, 3)),
    "repeat": (M, 2),
    "reshape": (M, (3, 2)),
    "result_type": (M, "int8"),
    "roll": (M, 1),
    "rollaxis": (M, 1),
    "searchsorted": (np.array([1.0, 2.0, 5.0]), V),
    "split": (M, 2),
    "stack": (PAIR,),
    "swapaxes": (M, 0, 1),
    "take": (M, I),
    "take_along_axis": (M, np.array([[2], [0]]), 1),
    "tile": (M, 2),
    "unravel_index": (I, (3, 3)),
    "vander": (V,),
    "vsplit": (M, 2),
    "vstack": (PAIR,),
    "where": (M > 2, M, -M),
}
TWO_ARRAYS = (
    "allclose", "array_equal", "array_equiv", "inner", "intersect1d", "isclose", "isin", "kron",
    "may_share_memory", "outer", "setdiff1d", "setxor1d", "shares_memory", "tensordot", "union1d",
    "vdot",
)  # fmt: skip
BASE.update(dict.fromkeys(TWO_ARRAYS, PAIR))

# Values of optional arguments, none of them what NumPy takes for itself.
VALUES: dict[str, tuple[Any, ...]] = {
    "N": (2,),
    "a_max": (3.0, None),
    "a_min": (3.0, None),
    "append": (np.ones((2, 1)),),
    "aweights": (np.ones(3),),
    "axisa": (0,),
    "axisb": (0,),
    "axisc": (0,),
    "bias": (True,),
    "bitorder": ("little", "wrong"),
    "count": (5, -1),
    "cov": (True,),
    "default": (3.0,),
    "deg": (True,),
    "discont": (4.0,),
    "dx": (0.5,),
    "edge_order": (2, 3),
    "full": (True,),
    "fweights": (np.ones(3, np.int64),),
    "left": (-1.0,),
    "m": (2,),
    "period": (3.0,),
    "rcond": (1e-3,),
    "rowvar": (False,),
    "to_begin": (2.0,),
    "to_end": (np.array([3.0]),),
    "tol": (3,),
    "trim": ("f", "b"),
    "w": (np.array([1.0, 2.0, 3.0]),),
    "wrap": (True,),
    "x": (np.array([1.0, 2.0, 4.0]),),
    "y": (np.array([1.0, 2.0, 4.0]),),
    "assume_unique": (True,),
    "atol": (2.0,),
    "axes": ((1, 0), 1),
    "axis": (0, 1, -1, None, (0, 1), 5, "x"),
    "axis1": (1,),
    "axis2": (0,),
    "bins": (4, np.array([0.0, 3.0, 6.0])),
    "casting": ("safe", "unsafe", "no", "nonsense"),
    "copy": (False, True, None),
    "correction": (1, 0.5),
    "ddof": (1, 0.5),
    "decimals": (1, -1),
    "density": (True,),
    "descending": (True, False),
    "device": ("cpu",),
    "dtype": ("float32", np.int32),
    "equal_nan": (True, False),
    "floatmode": ("fixed",),
    "formatter": ({"float": str},),
    "include_initial": (True,),
    "increasing": (True,),
    "indexing": ("ij",),
    "initial": (0, 5, 100.0),
    "invert": (True,),
    "k": (1, -1, 2**63 - 1, -(2**63)),
    "keepdims": (True, False),
    "kind": ("stable", "heapsort", "sort"),
    "legacy": ("1.13",),
    "max": (3.0,),
    "max_line_width": (10,),
    "max_work": (1,),
    "mean": (np.array([[2.0], [5.0]]), 1),
    "method": ("lower", "nearest"),
    "min": (2.0,),
    "minlength": (9,),
    "mode": ("clip", "wrap", "edge", "reflect"),
    "n": (2, 0),
    "nan": (7.0,),
    "neginf": (-8.0,),
    "norm": ("ortho", "forward", "nonsense"),
    "offset": (1, -1),
    "optimize": (True, "greedy"),
    "order": ("F", "A", "C", "K"),
    "overwrite_input": (True,),
    "posinf": (8.0,),
    "precision": (1,),
    "prefix": (">>",),
    "prepend": (np.ones((2, 1)),),
    "range": ((1.0, 4.0),),
    "return_counts": (True,),
    "return_index": (True,),
    "return_indices": (True,),
    "return_inverse": (True,),
    "returned": (True,),
    "right": (True,),
    "rtol": (1.0,),
    "s": ((2, 4),),
    "separator": (";",),
    "shape": ((2, 2), 4),
    "side": ("right",),
    "sign": ("+",),
    "sorted": (True,),
    "sorter": (np.array([2, 1, 0]),),
    "sparse": (True,),
    "stable": (True, False),
    "start": (2,),
    "subok": (True, False),
    "suffix": ("<<",),
    "suppress_small": (True,),
    "threshold": (2,),
    "edgeitems": (1,),
    "weights": (np.array([1.0, 2.0, 3.0]), np.ones((2, 3))),
    "where": (False, M > 2),
    # of **kwargs
    "constant_values": (4.0,),
    "stat_length": (1,),
}
KWARGS = {"pad": ("constant_values", "stat_length"), "einsum": ("dtype", "order", "casting")}
# Results that have no value of NumPy's to be compared with.
UNDEFINED = ("empty_like", "array_repr", "array_str", "array2string")
# Take numbers and give an array: a GPUArray is no number.
OF_NUMBERS = ("geomspace", "linspace", "logspace")
# Write files (test_files.py).
OF_FILES = ("save", "savetxt", "savez", "savez_compressed")


def dispatched() -> Iterator[Callable[..., Any]]:
    seen = set()
    for home in (np, np.linalg, np.fft):
        for name in sorted(dir(home)):
            function = getattr(home, name)
            if not hasattr(function, "_implementation") or function in seen:
                continue
            seen.add(function)
            name, module = function.__name__, function.__module__
            answered = module == "numpy" and name in numpy_dispatch._ANSWERS
            ours = numpy_dispatch._ours(name, module)
            if answered or (ours is not None and name not in (*OF_NUMBERS, *OF_FILES)):
                yield function


# Those of numpy.linalg need matrices that have what is asked for: test_linalg.py.
FUNCTIONS = {f.__name__: f for f in dispatched() if f.__module__ != "numpy.linalg"}


def signature(function: Callable[..., Any]) -> inspect.Signature:
    found = numpy_dispatch._signature(function)
    assert found is not None, f"numpy.{function.__name__}: its signature belongs in _IN_C"
    return found


def calls(name: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The plain call, and one for each value of each optional argument: by name and, where NumPy
    takes it so, by position."""
    base = BASE.get(name, (M,))
    yield base, {}
    parameters = list(signature(FUNCTIONS[name]).parameters.values())
    for index, parameter in enumerate(parameters):
        if parameter.kind is parameter.VAR_KEYWORD:
            for keyword in KWARGS.get(name, ()):
                yield from ((base, {keyword: value}) for value in VALUES[keyword])
        if parameter.default is parameter.empty or parameter.name == "out":
            continue
        if parameter.kind is not parameter.POSITIONAL_ONLY and index >= len(base):
            for value in VALUES[parameter.name]:
                yield base, {parameter.name: value}
        if parameter.kind is not parameter.KEYWORD_ONLY and index == len(base):
            for value in VALUES[parameter.name]:
                yield (*base, value), {}


# --- the comparison -------------------------------------------------------------------------------


def convert(value: Any, make: Callable[[Any], Any]) -> Any:
    if isinstance(value, np.ndarray):
        return make(value)
    if isinstance(value, tuple):
        return tuple(convert(v, make) for v in value)
    return {k: convert(v, make) for k, v in value.items()} if isinstance(value, dict) else value


def as_numpy(value: Any) -> Any:
    """A result of ours in NumPy's terms."""
    if isinstance(value, gp.GPUArray):
        return value.to_numpy()
    if isinstance(value, gp.DataType):
        return value.to_numpy_dtype()
    return [as_numpy(v) for v in value] if isinstance(value, (tuple, list)) else value


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, (tuple, list)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, (np.ndarray, np.generic)):
        ours = np.asarray(ours)
        kind = "iu" if theirs.dtype.kind in "iu" else theirs.dtype.kind
        return (
            ours.shape == theirs.shape
            and ours.dtype.kind in kind
            and np.allclose(ours, theirs, rtol=1e-6, equal_nan=True)
        )
    return bool(ours == theirs)


def outcome(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Any]:
    """(result and the arrays given, None) or (None, error)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*args, **kwargs)
    except Exception as error:
        return None, error
    return [as_numpy(result), as_numpy([a for a in args if hasattr(a, "shape")])], None


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_argument_means_what_it_means_to_numpy(name: str) -> None:
    function = FUNCTIONS[name]
    worked = 0
    for args, kwargs in calls(name):
        theirs, refused = outcome(function, convert(args, np.copy), convert(kwargs, np.copy))
        host = (*args, *kwargs.values())
        ours, error = outcome(
            function, convert(args, gp.from_numpy), convert(kwargs, gp.from_numpy)
        )
        words = f"{name}{host} {kwargs.keys()}: {ours} {error!r}, NumPy: {theirs} {refused!r}"
        if error is not None:
            assert isinstance(error, (gp.PyGPUkitError, TypeError, ValueError)), words
            continue
        worked += 1
        if refused is None and name not in UNDEFINED:
            changed = 1 if "overwrite_input" in kwargs else 2
            assert same(ours[:changed], theirs[:changed]), words
    assert worked > 0


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "nanmin", "nansum", "std", "median"])
def test_out(name: str) -> None:
    function = FUNCTIONS[name]
    out = gp.zeros(2, "float64")
    _, error = outcome(lambda x: function(x, axis=1, out=out), (gp.from_numpy(M),), {})
    if error is not None:
        assert str(error).startswith(f"numpy.{name}: the argument out"), error
    else:
        np.testing.assert_allclose(out.to_numpy(), function(M, axis=1))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: np.std(x, mean=0), "numpy.std: the argument mean"),
        (lambda x: np.var(x, mean=0), "numpy.var: the argument mean"),
        (lambda x: np.einsum("ij->i", x, order="F"), "numpy.einsum: the argument order"),
        (lambda x: np.add(x, x, dtype="int32"), "numpy.add: cannot cast float64 to dtype int32"),
        (lambda x: np.add(x, x, casting="no"), "numpy.add: the argument casting"),
        (lambda x: np.add(x, x, order="F"), "numpy.add: the argument order"),
        (lambda x: np.add(x, x, signature="dd->d"), "numpy.add: the argument signature"),
        (lambda x: np.matmul(x, x.T, axes=[(0, 1)] * 3), "numpy.matmul: the argument axes"),
        (lambda x: np.maximum.reduce(x, dtype="float32"), "maximum.reduce: the argument dtype"),
    ],
)
def test_refused_arguments_are_named(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(TypeError, match=words.replace(".", r"\.")) as caught:
        call(gp.from_numpy(M))
    assert isinstance(caught.value, gp.InvalidArgument)


def test_arguments_without_effect() -> None:
    x = gp.from_numpy(M)
    assert np.median(x, overwrite_input=True).item() == 3.5  # type: ignore[call-overload]
    assert np.median(x, 1, None, True).tolist() == [2.0, 5.0]  # type: ignore[call-overload]
    no_value: Any = np._NoValue  # type: ignore[attr-defined]
    assert np.sum(x, initial=no_value).item() == 21  # type: ignore[call-overload]
    assert x.tolist() == M.tolist()


def test_reductions_of_ufuncs() -> None:
    x = gp.from_numpy(M)
    for ufunc in (np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logical_or):
        for options in ({}, {"axis": 1}, {"axis": None}, {"axis": (0, 1)}, {"keepdims": True}):
            theirs = ufunc.reduce(M, **options)
            assert same(as_numpy(ufunc.reduce(x, **options)), theirs), (ufunc, options)


def test_where_with_a_condition_alone() -> None:
    assert same(as_numpy(np.where(gp.from_numpy(M > 2))), np.where(M > 2))  # type: ignore[arg-type]


def test_a_list_that_holds_itself() -> None:
    endless: list[Any] = [1.0]
    endless.append(endless)
    with pytest.raises(TypeError, match="nested"):
        np.add(gp.from_numpy(M), endless)


def test_signatures_of_functions_in_c() -> None:
    """What is written down for older versions of NumPy is what this one has."""
    for name, stand_in in numpy_dispatch._IN_C.items():
        try:
            theirs = inspect.signature(getattr(np, name))
        except ValueError:
            continue
        assert str(theirs) == str(inspect.signature(stand_in)), name


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.gradient(x[0], 2.0),
        lambda x: np.gradient(x[0], [0.0, 1.0, 3.0], axis=0, edge_order=2),
        lambda x: np.gradient(x, 2.0, [0.0, 1.0, 3.0])[1],
        lambda x: np.gradient(f=x[0], edge_order=2),
        lambda x: np.apply_along_axis(lambda row, k: row.sum() * k, 1, x, 3),
    ],
)
def test_arguments_before_those_of_any_number(call: Callable[..., Any]) -> None:
    x = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 6.0]])
    np.testing.assert_allclose(call(gp.from_numpy(x)).to_numpy(), call(x), rtol=1e-15)
