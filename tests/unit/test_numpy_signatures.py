"""The arguments of every function and method that NumPy has too: by the same position and name.

What differs is listed here, with the reason.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pygpukit as gp

Parameter = inspect.Parameter

# Arguments of NumPy that no function here has.
EVERYWHERE = {
    "casting": "results are cast within their kind; astype() is the explicit cast",
    "like": "the namespace says which library makes the array",
    "order": "new arrays are C-contiguous; where the order of elements matters, order is there",
    "signature": "a ufunc's inner loops are NumPy's own",
    "subok": "GPUArray has no subclasses",
}
# function -> argument -> why it is missing
MISSING: dict[str, dict[str, str]] = {
    "array": {"ndmax": "a sequence is nested as deep as it is"},
    "divmod": {"out": "floor_divide(out=) and remainder(out=) write into arrays"},
    "dot": {"out": "matmul(out=) writes into an array"},
    "einsum": {"kwargs": "dtype, order and casting: cast the operands with astype()"},
    "empty_like": {"subok": "GPUArray has no subclasses"},
    "geomspace": {"axis": "start and stop are numbers"},
    "logspace": {"axis": "start and stop are numbers"},
    "may_share_memory": {"max_work": "the bounds of the memory decide"},
    "nanstd": {"mean": "the mean is computed in the same pass"},
    "nanvar": {"mean": "the mean is computed in the same pass"},
    "outer": {"out": "multiply(x[:, None], y, out=) writes into an array"},
    "pad": {"kwargs": "constant_values is spelled out; the modes that need more do not exist"},
    "shares_memory": {"max_work": "the search is always complete"},
    "std": {"mean": "the mean is computed in the same pass"},
    "trace": {"out": "the result is one number: y[...] = trace(x)"},
    "var": {"mean": "the mean is computed in the same pass"},
    "clip": {"kwargs": "options of a ufunc"},
}
# Functions with fewer arguments than NumPy's; docs/numpy-functions.md has theirs.
FEWER_ARGUMENTS = {
    "bitwise_count": "composed of other ops: no out",
    "float_power": "composed of other ops: no out",
    "frexp": "composed of other ops: no out",
    "fromfunction": "the function's own keyword arguments are bound before",
    "ldexp": "composed of other ops: no out",
    "load": "files are never unpickled",
    "matvec": "composed of other ops: no out",
    "modf": "composed of other ops: no out",
    "nanmedian": "NaN are sorted last, not overwritten: no overwrite_input",
    "nanpercentile": "NaN are sorted last, not overwritten: no overwrite_input",
    "nanquantile": "NaN are sorted last, not overwritten: no overwrite_input",
    "polyfit": "no ranks or covariances",
    "save": "arrays are never pickled",
    "spacing": "composed of other ops: no out",
    "trim_zeros": "one dimension",
    "ufunc": "a class",
    "vecmat": "composed of other ops: no out",
}
# Options of ufuncs that are composites or generalised ufuncs here.
UFUNC_OPTIONS = {
    "where": "composed of other ops: where(mask, f(x), out) selects",
    "dtype": "composed of other ops: the common dtype of the operands is computed in",
    "axes": "generalised ufuncs: matmul and vecdot are functions here",
    "axis": "generalised ufuncs: matmul and vecdot are functions here",
    "keepdims": "generalised ufuncs: matmul and vecdot are functions here",
}
# Another order of arguments that may be given by position.
ORDER = {
    "arange": "dtype by position is an addition",
    "array": "NumPy's copy, order and subok are keywords, ours too",
    "asarray": "order is left out",
    "clip": "a_min and a_max are min and max by position",
    "empty": "order is left out",
    "empty_like": "order and subok are left out",
    "eye": "order is left out",
    "full": "order is left out",
    "full_like": "order and subok are left out",
    "ones": "order is left out",
    "ones_like": "order and subok are left out",
    "zeros": "order is left out",
    "vecdot": "out is a keyword",
    "zeros_like": "order and subok are left out",
}
# NumPy's classes and functions of another kind.
OTHER_KINDS = {
    "broadcast_shapes": "a function of the core without a signature, like NumPy's",
    "ndarray": "a class",
    "ndenumerate": "a function, NumPy's is a class",
}


def functions() -> list[str]:
    found = []
    for name in gp.__all__:
        theirs, ours = getattr(np, name, None), getattr(gp, name)
        if name.startswith("_") or not callable(theirs) or isinstance(ours, gp.DataType):
            continue
        if ours is theirs:
            continue
        if isinstance(theirs, ModuleType) or isinstance(ours, ModuleType) or name in OTHER_KINDS:
            continue
        found.append(name)
    return found


def parameters(function: Any) -> list[Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def ufunc_parameters(function: np.ufunc) -> list[Parameter]:
    names = [f"x{n}" for n in range(function.nin)]
    leading = [Parameter(name, Parameter.POSITIONAL_ONLY) for name in names]
    options = [Parameter(name, Parameter.KEYWORD_ONLY) for name in UFUNC_OPTIONS]
    return [*leading, Parameter("out", Parameter.POSITIONAL_OR_KEYWORD), *options]


def differences(
    name: str, theirs: list[Parameter], ours: list[Parameter], accepted: dict[str, str]
) -> list[str]:
    """What a call that NumPy takes would stumble over."""
    found = []
    by_name = {p.name: p for p in ours}
    by_position = [p for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    place = 0
    for parameter in theirs:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            if not any(p.kind is p.VAR_POSITIONAL for p in ours):
                found.append(f"*{parameter.name} is missing")
            break
        at = by_position[place] if place < len(by_position) else None
        left_out = parameter.name in accepted and parameter.name not in by_name
        if parameter.kind is not Parameter.KEYWORD_ONLY and not left_out:
            # The standard's positional-only arguments may have any name.
            fits = at is not None and (at.kind is at.POSITIONAL_ONLY or at.name == parameter.name)
            if not fits and name not in ORDER:
                found.append(f"argument {place} is {at and at.name}, NumPy's is {parameter.name}")
            elif fits and at is not None and at.kind is at.POSITIONAL_ONLY:
                place += 1
                continue
            place += 1
        if parameter.name not in by_name and parameter.name not in accepted:
            found.append(f"{parameter.name} is missing")
    return found


def test_fewer_arguments_are_of_functions() -> None:
    assert set(FEWER_ARGUMENTS) <= set(functions())


@pytest.mark.parametrize("name", [f for f in functions() if f not in FEWER_ARGUMENTS])
def test_arguments_of_functions(name: str) -> None:
    theirs = getattr(np, name)
    ours = parameters(getattr(gp, name))
    assert ours is not None, "no signature"
    is_ufunc = isinstance(theirs, np.ufunc)
    wanted = ufunc_parameters(theirs) if is_ufunc else parameters(theirs)
    if wanted is None:
        pytest.skip(f"NumPy {np.__version__} has no signature of {name}")
    accepted = {**EVERYWHERE, **MISSING.get(name, {}), **(UFUNC_OPTIONS if is_ufunc else {})}
    assert differences(name, wanted, ours, accepted) == []


# method -> argument -> why it is missing
METHODS: dict[str, dict[str, str]] = {
    "astype": {
        "order": "results are C-contiguous",
        "casting": "unsafe, as NumPy's default",
        "subok": "GPUArray has no subclasses",
    },
    "clip": {"kwargs": "options of a ufunc"},
    "dot": {"out": "matmul(out=) writes into an array"},
    "max": {"kwargs": "keepdims, initial and where are spelled out"},
    "mean": {"kwargs": "keepdims and where are spelled out"},
    "min": {"kwargs": "keepdims, initial and where are spelled out"},
    "prod": {"kwargs": "keepdims, initial and where are spelled out"},
    "argpartition": {"order": "there are no fields to name"},
    "partition": {"order": "there are no fields to name"},
    "sort": {"order": "there are no fields to name"},
    "argsort": {"order": "there are no fields to name"},
    "std": {"kwargs": "keepdims, where and correction are spelled out"},
    "sum": {"kwargs": "keepdims, initial and where are spelled out"},
    "tobytes": {"order": "C order"},
    "trace": {"out": "the result is one number"},
    "var": {"kwargs": "keepdims, where and correction are spelled out"},
    "view": {"args": "a shape or a dtype", "kwargs": "GPUArray has no subclasses"},
}
# Members of numpy.ndarray that GPUArray does not have.
NO_MEMBERS = {
    "base": "views share a buffer, not an owner",
    "byteswap": "elements are in the machine's byte order",
    "choose": "where() and take() select",
    "ctypes": "device_ptr is the address",
    "data": "device_ptr is the address",
    "dump": "pickle.dump(x, file)",
    "dumps": "pickle.dumps(x)",
    "flags": "is_contiguous() tells",
    "getfield": "there are no fields",
    "resize": "memory is not resized in place",
    "setfield": "there are no fields",
    "setflags": "memory is writable or not",
    "tofile": "x.to_numpy().tofile(file)",
}


@pytest.mark.parametrize("name", [n for n in dir(np.ndarray) if not n.startswith("_")])
def test_members_of_arrays(name: str) -> None:
    theirs = getattr(np.ndarray, name)
    if not hasattr(gp.GPUArray, name):
        assert NO_MEMBERS.get(name), f"GPUArray has no {name}, and no reason is given"
        return
    if not callable(theirs):
        return
    wanted, ours = parameters(theirs), parameters(getattr(gp.GPUArray, name))
    if wanted is None:
        pytest.skip(f"NumPy {np.__version__} has no signature of ndarray.{name}")
    assert ours is not None
    accepted = METHODS.get(name, {})
    names = {p.name for p in ours}
    has_rest = any(p.kind is p.VAR_POSITIONAL for p in ours)
    for parameter in wanted[1:]:  # not self
        if parameter.kind is Parameter.POSITIONAL_ONLY or parameter.name in accepted:
            continue
        if parameter.kind is Parameter.VAR_POSITIONAL:
            assert has_rest, parameter.name
            continue
        assert parameter.name in names, f"{parameter.name} is missing"


def test_the_lists_are_not_stale() -> None:
    every = set(gp.__all__)
    for table in (MISSING, ORDER, OTHER_KINDS):
        assert set(table) <= every
    for name in NO_MEMBERS:
        assert not hasattr(gp.GPUArray, name), name
