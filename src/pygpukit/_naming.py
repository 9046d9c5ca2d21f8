"""Errors of public functions start with the name of the function that was called.

A composite of ops may fail in one of them, in Python itself or in NumPy. A module of public
functions ends with name_all(), which replaces each by one that looks at what was raised: nothing is
done, and next to nothing costs, until then.
"""

from pygpukit import _native

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from typing import Any


class _Object:
    def method(self) -> None: ...


_METHOD = type(_Object().method)
# They call functions of the program, whose errors are its own.
_CALLBACKS = frozenset(
    ["apply_along_axis", "apply_over_axes", "fromfunction", "fromiter", "fuse", "piecewise"]
)
# One function has several names, or explains another one: they name themselves.
_SEVERAL = frozenset(["fusion", "low_precision", "matmul", "matmul_plan", "packed_names"])
# Other beginnings of messages of ops.
_OPERATORS = frozenset(["getitem", "setitem", "item", "copy_into", "broadcast"])


_replaced: "dict[Any, Any]" = {}


def named(name: str, value: "Any", module: str = "") -> "Any":
    """`value`, or for a Python function one whose errors start with its name."""
    is_method = type(value) is _METHOD
    known = is_method or type(value) is type(named)
    if not known or name in _CALLBACKS or hasattr(value, "__wrapped__"):
        return value
    home = value.__module__
    if not home.startswith("pygpukit.") or home.rpartition(".")[2] in _SEVERAL:
        return value
    if value in _replaced:
        return _replaced[value]
    if not is_method:  # aliases too have its own name
        name = value.__name__

    def call(*args: "Any", **kwargs: "Any") -> "Any":
        try:
            return value(*args, **kwargs)
        except Exception as error:
            translated = _translated(name, error, args, kwargs)
            if translated is None:
                raise
            raise translated from getattr(translated, "_original", error)

    call.__name__, call.__doc__ = value.__name__, value.__doc__
    call.__wrapped__ = value  # type: ignore[attr-defined]
    if is_method:  # pickled by the name that it has in this module
        call.__module__, call.__qualname__ = module, name
    else:
        call.__module__, call.__qualname__ = value.__module__, value.__qualname__
        _replace(value, call)
    _replaced[value] = call
    return call


def name_all(scope: "MutableMapping[str, Any]", names: "list[str]") -> None:
    """named() for the functions of a module."""
    for name in names:
        scope[name] = named(name, scope[name], scope["__name__"])


def _replace(function: "Callable[..., Any]", by: "Callable[..., Any]") -> None:
    """Also where it is defined, so that it can be pickled by name."""
    import sys

    home = sys.modules.get(function.__module__)
    if getattr(home, function.__name__, None) is function:
        setattr(home, function.__name__, by)


def _translated(
    name: str, error: Exception, args: "tuple[Any, ...]", kwargs: "dict[str, Any]"
) -> Exception | None:
    """The error to raise instead. One of ours is given the right name in place."""
    from pygpukit.core import errors
    from pygpukit.linalg._errors import LinAlgError

    if isinstance(error, (errors.InvalidArgument, LinAlgError)):
        original = getattr(error, "_original", None)
        if original is None:
            rename(name, error)
            return None
        error = original  # another function translated it, with its own name and arguments
    kind = _kind(error, errors)
    text = str(error)
    if kind is None:
        return None
    if text.startswith(f"{name}: "):
        return kind(text)  # type: ignore[no-any-return]
    if isinstance(error, KeyError):
        text = f"there is no {text}"
    short = name.rpartition(".")[2]
    text = text.removeprefix(f"{short}() ")
    translated: Any = kind(f"{name}: {text}; given ({_described(args, kwargs)})"[:500])
    translated._original = error
    return translated  # type: ignore[no-any-return]


def _described(args: "tuple[Any, ...]", kwargs: "dict[str, Any]") -> str:
    def short(value: "Any") -> str:
        if isinstance(value, _native.GPUArray):
            return f"GPUArray of shape {value.shape}"
        text = _native.safe_repr(value)
        return text if len(text) <= 40 else f"{text[:37]}..."

    return ", ".join([*map(short, args), *(f"{key}={short(v)}" for key, v in kwargs.items())])


def rename(name: str, error: Exception) -> None:
    """Where a message starts with the name of an op, it starts with `name` then."""
    op, colon, rest = str(error.args[0] if error.args else "").partition(": ")
    if colon and op != name and _is_op(op):
        error.args = (f"{name}: {rest}", *error.args[1:])


def _is_op(op: str) -> bool:
    from pygpukit import linalg
    from pygpukit._names import OPS
    from pygpukit.random import Generator

    if op in _OPERATORS or any(op in names for names in OPS.values()):
        return True
    return any(hasattr(home, op) for home in (_native, linalg, Generator))


def _kind(error: Exception, errors: "Any") -> "Any":
    """Our class for an error of Python or NumPy; None for errors of other libraries."""
    if type(error).__module__.split(".")[0] not in ("builtins", "numpy"):
        return None
    if isinstance(error, (TypeError, AttributeError)):
        return errors.InvalidTypeError
    if isinstance(error, OverflowError):
        return errors.InvalidOverflowError
    if type(error).__name__ == "AxisError":
        return errors.AxisError
    if isinstance(error, IndexError):
        return errors.InvalidIndexError
    if isinstance(error, (UnicodeError, NotImplementedError)) or "LinAlg" in type(error).__name__:
        return None
    known = isinstance(error, (ValueError, KeyError))
    return errors.InvalidValueError if known else None
