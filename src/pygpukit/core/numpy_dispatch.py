"""NumPy functions called with GPUArrays: each is forwarded to our equivalent."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

import pygpukit
from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.errors import InvalidTypeError
from pygpukit.core.implicit import is_allowed, may_convert

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

# Defaults of NumPy's optional arguments.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "casting": ("same_kind",),
    "dtype": (None,),
    "order": ("K", "C", None),
    "out": (None,),
    "subok": (True, False),
    "where": (True,),
}
# Arguments that may affect how a result is computed, but not the result: all our sorts are stable,
# no input is overwritten, unique elements are sorted.
_WITHOUT_EFFECT = ("kind", "max_work", "optimize", "overwrite_input", "sorted")
# NumPy argument names that we spell as in the array API standard.
_RENAMED = {"N": "n", "a": "x", "a_max": "max", "a_min": "min", "ar": "x", "ddof": "correction"}

# NumPy functions whose result is a file: a transfer, like every other conversion.
_TO_FILES = ("save", "savetxt", "savez", "savez_compressed")
# NumPy functions with an argument `like`, which decides where the new array is.
_LIKE = frozenset(
    [
        "arange",
        "array",
        "asanyarray",
        "asarray",
        "ascontiguousarray",
        "asfortranarray",
        "empty",
        "eye",
        "frombuffer",
        "fromfile",
        "fromfunction",
        "fromiter",
        "fromstring",
        "full",
        "genfromtxt",
        "identity",
        "loadtxt",
        "ones",
        "require",
        "tri",
        "zeros",
    ]
)
# NumPy functions that only look at addresses, so that host arrays may be among their arguments.
_ADDRESSES = ("may_share_memory", "shares_memory")

# The maximum rank of an array; a self-referential list has no end.
_MAX_NESTING = 32

# NumPy functions that query an array, answered here.
_ANSWERS: dict[str, Callable[..., object]] = {
    "array2string": lambda x, /: str(x),
    "array_repr": lambda x, /: repr(x),
    "array_str": lambda x, /: str(x),
    "iscomplexobj": lambda x, /: x.dtype.name.startswith("complex"),
    "isrealobj": lambda x, /: not x.dtype.name.startswith("complex"),
}


def _empty_like(  # type: ignore[no-untyped-def]
    prototype, /, dtype=None, order="K", subok=True, shape=None, *, device=None
):
    """Only the signature is used."""


# NumPy functions written in C, whose signatures Python cannot inspect before NumPy 2.4.
_IN_C: dict[str, Callable[..., object]] = {
    "bincount": lambda x, /, weights=None, minlength=0: None,
    "can_cast": lambda from_, to, casting="safe": None,
    "concatenate": lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    "copyto": lambda dst, src, casting="same_kind", where=True: None,
    "dot": lambda a, b, out=None: None,
    "empty_like": _empty_like,
    "inner": lambda a, b, /: None,
    "lexsort": lambda keys, axis=-1: None,
    "may_share_memory": lambda a, b, /, max_work=0: None,
    "ravel_multi_index": lambda multi_index, dims, mode="raise", order="C": None,
    "result_type": lambda *arrays_and_dtypes: None,
    "shares_memory": lambda a, b, /, max_work=-1: None,
    "unravel_index": lambda indices, shape, order="C": None,
    "vdot": lambda a, b, /: None,
    "where": lambda condition, x=None, y=None, /: None,
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
    return InvalidTypeError(
        f"{call}: not available for GPUArray; call to_numpy() first, or allow conversions with "
        "gp.allow_implicit_conversion()"
    )


def _on_host(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], call: str
) -> object:
    """NumPy's own function, where its arguments may be converted: one that writes to a file, or any
    where the program allows it. Elsewhere a program that works on the CPU would fail on a GPU."""

    def host(value: Any) -> Any:
        if isinstance(value, GPUArray):
            allowed = may_convert(value) if function.__name__ in _TO_FILES else is_allowed()
            if not allowed:
                raise _missing(call)
            return value.to_numpy()
        return type(value)(map(host, value)) if type(value) in (list, tuple) else value

    return function(*map(host, args), **{name: host(value) for name, value in kwargs.items()})


def _beside(values: Any, device: str, depth: int = 0) -> Any:
    """NumPy arrays as arrays on `device`, where the program allows transfers."""
    if not is_allowed() or depth > _MAX_NESTING:
        return values
    moved: list[Any] = []
    for value in values:
        if isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.kind in "biufcV":
            moved.append(_native.from_numpy(value, device=device))
        elif type(value) in (list, tuple):
            moved.append(_beside(value, device, depth + 1))
        else:
            moved.append(value)
    return type(values)(moved)


def _check_values(call: str, values: Iterable[object], depth: int = 0) -> bool:
    """False when a value belongs to another library, which may handle the call. Raises for NumPy
    arrays; 0-d NumPy arrays count as numbers."""
    if depth > _MAX_NESTING:
        raise InvalidTypeError(f"{call}: lists are nested more than {_MAX_NESTING} deep")
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
            if not _check_values(call, value, depth + 1):
                return False
        elif hasattr(type(value), "__array_ufunc__"):
            return False
    return True


def _number(value: Any) -> Any:
    """A 0-d NumPy array as a scalar, which carries its dtype too."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _output(call: str, out: Any) -> Any:
    """NumPy passes out= as a tuple; ours is an array, or a tuple for several results."""
    for array in out:
        if array is not None and not isinstance(array, GPUArray):
            raise InvalidTypeError(f"{call}: out is a {type(array).__name__}, expected a GPUArray")
    return out[0] if len(out) == 1 else out


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # written in C
        stand_in = _IN_C.get(function.__name__)
        return None if stand_in is None else inspect.signature(stand_in)


def _is_default(value: object, default: object) -> bool:
    """Whether an argument has NumPy's default value. Arrays are not compared."""
    simple = value is None or isinstance(value, (bool, int, float, str))
    return value is np._NoValue or (simple and type(value) is type(default) and value == default)


def _asks_for_nothing(name: str, value: object) -> bool:
    simple = value is None or isinstance(value, (bool, str))
    return name in _WITHOUT_EFFECT or (simple and value in _NEUTRAL.get(name, ()))


class _Arguments:
    """The arguments of a NumPy call, mapped to our function's: matched by name, except for our
    positional-only ones, which are the first of NumPy's under any name."""

    def __init__(self, call: str, ours: Callable[..., Any]) -> None:
        self.call = call
        signature = _signature(ours)
        if signature is None:
            raise _missing(call)
        kinds = [p.kind for p in signature.parameters.values()]
        self.num_leading = kinds.count(inspect.Parameter.POSITIONAL_ONLY)
        self.keywords = {
            p.name
            for p in signature.parameters.values()
            if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
        }
        self.positional: list[Any] = []
        self.named: dict[str, Any] = {}

    def add(self, name: str, value: object, default: object = inspect.Parameter.empty) -> None:
        """Adds an argument by NumPy's name; InvalidTypeError where we have no equivalent."""
        if _is_default(value, default):
            return
        ours = name if name in self.keywords else _RENAMED.get(name, name)
        if ours not in self.keywords:
            if _asks_for_nothing(name, value):
                return
            raise InvalidTypeError(
                f"{self.call}: the argument {name} of type {type(value).__name__} is not available "
                "for GPUArray"
            )
        if ours in self.named:
            raise InvalidTypeError(f"{self.call}: the argument {name} was given twice")
        self.named[ours] = _number(value)

    def add_call(self, theirs: inspect.Signature, args: Any, kwargs: dict[str, Any]) -> None:
        """Adds all arguments of a NumPy call."""
        given = theirs.bind(*args, **kwargs).arguments
        leading = self.num_leading
        for index, parameter in enumerate(theirs.parameters.values()):
            if parameter.kind is parameter.VAR_POSITIONAL and given.get(parameter.name):
                leading = index  # what comes before *args is given by position, too
        for index, parameter in enumerate(theirs.parameters.values()):
            if parameter.name not in given:
                continue
            value = given[parameter.name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.positional.extend(_number(v) for v in value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                for name, option in value.items():
                    self.add(name, option)
            elif index < leading:
                self.positional.append(_number(value))
            else:
                self.add(parameter.name, value, parameter.default)


def _cast_operands(call: str, inputs: tuple[Any, ...], dtype: Any, casting: str) -> tuple[Any, ...]:
    """The operands in the dtype that a ufunc was told to compute in."""
    kind = _native.result_type(dtype)

    def cast(value: Any) -> Any:
        if not isinstance(value, GPUArray):
            return kind.type(value) if isinstance(value, np.generic) else value
        if not _native.can_cast(value.dtype, kind, casting):
            raise InvalidTypeError(
                f"{call}: cannot cast {value.dtype} to dtype {kind} with casting rule {casting!r}"
            )
        return _native.astype(value, kind, False)

    return tuple(map(cast, inputs))


def call_ufunc(
    self: GPUArray, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> object:
    """Implements GPUArray.__array_ufunc__."""
    name = ufunc.__name__
    call = f"numpy.{name}" if method == "__call__" else f"numpy.{name}.{method}"
    out = options.pop("out", None)
    inputs = _beside(inputs, self.device)
    indices = inputs[1:2] if method in ("at", "reduceat") else ()  # may be on the host
    values = [v for v in (*inputs, *(out or ())) if not any(v is i for i in indices)]
    if not _check_values(call, values):
        return NotImplemented
    function = None
    if method == "__call__":
        function = _ours(name)
    elif method == "reduce" and name in _REDUCTIONS:
        function = _ours(_REDUCTIONS[name])
        options = {"axis": 0, **options}  # a ufunc reduces axis 0 by default
    elif method in ("reduce", "reduceat", "accumulate", "outer", "at"):
        function = getattr(_ours(name), method, None)
    if function is None:
        raise _missing(call)
    dtype = options.pop("dtype", None) if method == "__call__" else None
    if dtype is not None:
        inputs = _cast_operands(call, inputs, dtype, options.pop("casting", "same_kind"))
    arguments = _Arguments(call, function)
    if out is not None and any(array is not None for array in out):
        arguments.add("out", _output(call, out))
    for option, value in options.items():
        arguments.add(option, value)
    return function(*map(_number, inputs), **arguments.named)


def call_function(
    self: GPUArray,
    function: Callable[..., Any],
    types: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> object:
    """Implements GPUArray.__array_function__. Our function checks its own arguments."""
    if not all(issubclass(t, (GPUArray, np.ndarray)) for t in types):
        return NotImplemented
    module, name = function.__module__, function.__name__
    call = f"{module}.{name}"
    if module == "numpy" and name in _LIKE:
        return _like(self, function, args, kwargs)
    if name in _ADDRESSES:
        return _share_memory(function, *args[:2])
    args = _beside(args, self.device)
    kwargs = dict(zip(kwargs, _beside(tuple(kwargs.values()), self.device), strict=True))
    ours = _ANSWERS.get(name) if module == "numpy" else None
    ours = ours or (None if name in _TO_FILES else _ours(name, module))
    theirs = _signature(function)
    if ours is None or theirs is None:
        return _on_host(function, args, kwargs, call)
    arguments = _Arguments(call, ours)
    arguments.add_call(theirs, args, kwargs)
    return ours(*arguments.positional, **arguments.named)


def _like(
    beside: GPUArray, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> GPUArray:
    """numpy.zeros(3, like=x): what NumPy makes of the arguments, on the device of x."""
    from pygpukit.ops.conversion import array, holds_array

    if args and holds_array(args[0]):
        copy = function.__name__ == "array" or None
        options = {"dtype": args[1] if len(args) > 1 else None, "copy": copy, **kwargs}
        chosen = {name: options[name] for name in ("dtype", "copy", "ndmin") if name in options}
        return array(args[0], device=beside.device, **chosen)
    return _native.from_numpy(function(*args, **kwargs), device=beside.device)


def _share_memory(function: Callable[..., Any], a: Any, b: Any) -> bool:
    """Also between an array here and one of NumPy's, which share memory after from_dlpack()."""
    from pygpukit.ops.manipulation import Layout

    if any(isinstance(x, GPUArray) and x.on_gpu for x in (a, b)):
        return all(isinstance(x, GPUArray) for x in (a, b)) and pygpukit.shares_memory(a, b)
    first, second = (np.asarray(Layout(x)) if isinstance(x, GPUArray) else x for x in (a, b))
    return bool(function(first, second))
