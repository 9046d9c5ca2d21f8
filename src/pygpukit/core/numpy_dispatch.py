"""NumPy's functions called with GPUArrays: each runs our function of the same meaning."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

import pygpukit
from pygpukit._native import GPUArray
from pygpukit.core.errors import InvalidTypeError

# Other names under which we may have a NumPy function, tried in order after its own.
_OTHER_NAMES = {
    "absolute": ("abs",),
    "amax": ("max",),
    "amin": ("min",),
    "arccos": ("acos",),
    "arccosh": ("acosh",),
    "arcsin": ("asin",),
    "arcsinh": ("asinh",),
    "arctan": ("atan",),
    "arctan2": ("atan2",),
    "arctanh": ("atanh",),
    "around": ("round",),
    "bitwise_not": ("bitwise_invert",),
    "concat": ("concatenate",),
    "concatenate": ("concat",),
    "conjugate": ("conj",),
    "cumprod": ("cumulative_prod",),
    "cumsum": ("cumulative_sum",),
    "divide": ("div",),
    "fabs": ("abs",),
    "invert": ("bitwise_invert",),
    "left_shift": ("bitwise_left_shift",),
    "multiply": ("mul",),
    "power": ("pow",),
    "right_shift": ("bitwise_right_shift",),
    "rint": ("round",),
    "subtract": ("sub",),
    "transpose": ("permute_dims",),
    "true_divide": ("divide", "div"),
}

_REDUCTIONS = {
    "add": "sum",
    "logical_and": "all",
    "logical_or": "any",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
}

# What NumPy's optional arguments are when they ask for nothing.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "casting": ("same_kind",),
    "dtype": (None,),
    "order": ("K", "C", None),
    "out": (None,),
    "subok": (True, False),
    "where": (True,),
}
# Those of them that our functions may have too.
_SHARED = ("dtype", "out")

# Arguments that the array API standard spells differently.
_RENAMED = {"ddof": "correction"}
# Arguments that change nothing here: every sort of ours is stable.
_WITHOUT_EFFECT = ("kind",)

_PLAIN: dict[str, Callable[..., object]] = {
    "array2string": lambda a, *_, **__: str(a),
    "array_repr": lambda a, *_, **__: repr(a),
    "array_str": lambda a, *_, **__: str(a),
    "iscomplexobj": lambda a: a.dtype.name.startswith("complex"),
    "isrealobj": lambda a: not a.dtype.name.startswith("complex"),
    "ndim": lambda a: a.ndim,
    "shape": lambda a: a.shape,
    "size": lambda a, axis=None: a.size if axis is None else a.shape[axis],
}


def _ours(name: str, module: str = "numpy") -> Callable[..., Any] | None:
    """Our function for numpy.<name>, or for numpy.linalg.<name>."""
    home: object = pygpukit
    for part in module.split(".")[1:]:
        if not part.startswith("_"):
            home = getattr(home, part, None)
    for candidate in (name, *_OTHER_NAMES.get(name, ())):
        found = getattr(home, candidate, None)
        if callable(found) and not isinstance(found, type):
            return found  # type: ignore[no-any-return]
    return None


def _missing(call: str) -> InvalidTypeError:
    return InvalidTypeError(f"{call}: not available for GPUArray; call to_numpy() first")


def _check_values(call: str, values: Iterable[object]) -> bool:
    """False when a value belongs to another library that may know what to do. Raises for NumPy
    arrays; NumPy's 0-d arrays are numbers."""
    for value in values:
        if isinstance(value, (GPUArray, np.generic)):
            continue
        if isinstance(value, np.ndarray):
            if value.ndim > 0:
                raise InvalidTypeError(
                    f"{call}: a numpy.ndarray of shape {value.shape} and a GPUArray cannot be "
                    "mixed; use pygpukit.from_numpy() on one or to_numpy() on the other"
                )
        elif isinstance(value, (list, tuple)):
            if not _check_values(call, value):
                return False
        elif hasattr(type(value), "__array_ufunc__"):
            return False
    return True


def _numbers(values: Iterable[object]) -> list[Any]:
    """0-d NumPy arrays as scalars, which carry their dtype too."""
    return [v[()] if isinstance(v, np.ndarray) and v.ndim == 0 else v for v in values]


def _without_neutral(call: str, options: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for name, value in options.items():
        simple = value is None or isinstance(value, (bool, str))
        if simple and value in _NEUTRAL.get(name, ()):
            continue
        if name in _NEUTRAL and name not in _SHARED:
            raise InvalidTypeError(f"{call}: {name}={value!r} is not available for GPUArray")
        kept[name] = value
    return kept


def _output(call: str, out: Any) -> Any:
    """NumPy hands over out= as a tuple; ours is an array, or a tuple for several results."""
    for array in out:
        if array is not None and not isinstance(array, GPUArray):
            raise InvalidTypeError(f"{call}: out is a {type(array).__name__}, expected a GPUArray")
    return out[0] if len(out) == 1 else out


def call_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> object:
    """What GPUArray.__array_ufunc__ does."""
    name = ufunc.__name__
    call = f"numpy.{name}" if method == "__call__" else f"numpy.{name}.{method}"
    out = options.pop("out", None)
    if not _check_values(call, (*inputs, *(out or ()))):
        return NotImplemented
    options = _without_neutral(call, options)
    if out is not None and any(array is not None for array in out):
        options["out"] = _output(call, out)
    if method == "__call__":
        function = _ours(name)
    elif method == "reduce" and name in _REDUCTIONS:
        function = _ours(_REDUCTIONS[name])
        options = _reduce_options(inputs, options)
        inputs = inputs[:1]
    else:
        function = None
    if function is None:
        raise _missing(call)
    return function(*_numbers(inputs), **options)


def _reduce_options(inputs: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """A ufunc reduces axis 0 unless told otherwise."""
    if len(inputs) > 1:
        options["axis"] = inputs[1]
    return {"axis": 0, **options}


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # written in C
        return None


def _adapt(
    theirs: Callable[..., Any], ours: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a NumPy call as our function takes them: the array API standard takes by
    name what NumPy takes by position, and the other way round for arrays."""
    their_signature, our_signature = _signature(theirs), _signature(ours)
    if their_signature is None or our_signature is None:
        return list(args), kwargs
    capacity = sum(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in our_signature.parameters.values()
    )
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for their_name, value in their_signature.bind(*args, **kwargs).arguments.items():
        kind = their_signature.parameters[their_name].kind
        name = their_name
        if name not in _keywords(ours):
            if name in _WITHOUT_EFFECT:
                continue
            name = _RENAMED.get(name, name)
        if kind is inspect.Parameter.VAR_POSITIONAL:
            positional.extend(value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        elif not named and len(positional) < capacity and name not in _keywords(ours):
            positional.append(value)
        else:
            named[name] = value
    return positional, named


@cache
def _keywords(function: Callable[..., Any]) -> frozenset[str]:
    """Names that are taken by keyword."""
    signature = _signature(function)
    assert signature is not None
    parameters = signature.parameters.values()
    return frozenset(
        p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
    )


def call_function(
    function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> object:
    """What GPUArray.__array_function__ does."""
    if not all(issubclass(t, (GPUArray, np.ndarray)) for t in types):
        return NotImplemented
    module, name = function.__module__, function.__name__
    call = f"{module}.{name}"
    _check_values(call, (*args, *kwargs.values()))
    if module == "numpy" and name in _PLAIN:
        return _PLAIN[name](*args, **kwargs)
    ours = _ours(name, module)
    if ours is None:
        raise _missing(call)
    args = tuple(_numbers(args))
    kwargs = _without_neutral(call, kwargs)
    positional, named = _adapt(function, ours, args, kwargs)
    return ours(*positional, **named)
