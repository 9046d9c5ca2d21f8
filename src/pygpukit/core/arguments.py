"""Argument checks ahead of the C++ core."""

from __future__ import annotations

import math
import operator
import os
from typing import Any

from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this module
if TYPE_CHECKING:
    from typing import TypeGuard

    from numpy.typing import NDArray

_MAX_SIZE = 2**64 - 1


def require_arrays(op: str, **arguments: object) -> None:
    """Raises InvalidTypeError naming the first argument that is not a GPUArray."""
    for name, value in arguments.items():
        if not isinstance(value, GPUArray):
            raise _not_an_array(op, name, value)


def array_argument(op: str, name: str, value: Any, beside: GPUArray | None = None) -> GPUArray:
    """`value`, or what array_beside() makes of a list or tuple beside `beside`."""
    if isinstance(value, GPUArray):
        return value
    if not isinstance(value, (list, tuple)):
        raise _not_an_array(op, name, value)
    from pygpukit.ops.conversion import array_beside

    try:
        return array_beside(value, () if beside is None else (beside,))
    except (TypeError, ValueError):
        given = safe_repr(value)
        raise InvalidTypeError(
            f"{op}: {name} is {given}, expected a GPUArray or a list of numbers"
        ) from None


def array_arguments(op: str, **arguments: Any) -> list[GPUArray]:
    """The arguments, lists and tuples as asarray() makes them on the device of the first array."""
    beside = next((x for x in arguments.values() if isinstance(x, GPUArray)), None)
    return [array_argument(op, name, value, beside) for name, value in arguments.items()]


def is_traced(value: object) -> TypeGuard[GPUArray]:
    """Whether it stands for an array while fuse() traces a function."""
    return hasattr(value, "_elementwise")


def _not_an_array(op: str, name: str, value: object) -> InvalidTypeError:
    if is_traced(value):
        return InvalidTypeError(f"{op}: it cannot be part of a fused function")
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    hint = "; from_numpy() copies it to the device" if kind == "numpy.ndarray" else ""
    return InvalidTypeError(f"{op}: {name} is of type {kind}, expected a GPUArray{hint}")


def is_number(value: Any) -> TypeGuard[complex]:
    """Whether it is a Python number, a NumPy scalar or a 0-d NumPy array."""
    if isinstance(value, (int, float, complex)):
        return True
    host = hasattr(value, "dtype") and not isinstance(value, GPUArray)
    return host and getattr(value, "shape", None) == ()


def is_whole(value: Any) -> bool:
    """Whether it is one integer: NumPy's arrays have __index__ too, and it raises."""
    return hasattr(value, "__index__") and getattr(value, "ndim", 0) == 0


def whole(op: str, name: str, value: Any, low: int = 0, high: int = _MAX_SIZE) -> int:
    """`value` as an int from `low` to `high`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise _wrong_type(op, name, value, "int") from None
    if not low <= number <= high:
        bounds = f"at least {low}" if high == _MAX_SIZE else f"{low} to {high}"
        raise InvalidValueError(f"{op}: {name} is {number}, expected {bounds}")
    return number


def amount(op: str, name: str, value: Any, low: float = 0.0, high: float = math.inf) -> float:
    """`value` as a finite float from `low` to `high`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise _wrong_type(op, name, value, "a number") from None
    if not low <= number <= high or math.isinf(number):
        bounds = f" of at least {low}" if math.isinf(high) else f" from {low} to {high}"
        if math.isinf(low):
            bounds = ""
        raise InvalidValueError(f"{op}: {name} is {number}, expected a finite number{bounds}")
    return number


def positive(op: str, name: str, value: Any) -> float:
    """`value` as a finite float above 0."""
    number = amount(op, name, value, -math.inf)
    if number <= 0:
        raise InvalidValueError(f"{op}: {name} is {number}, expected a number above 0")
    return number


def items(op: str, name: str, values: Any, expected: str) -> list[Any]:
    """What `values` has to iterate over."""
    try:
        return list(values)
    except TypeError:
        raise _wrong_type(op, name, values, expected) from None


def file_path(op: str, path: Any) -> str:
    """os.fspath(path), without NUL characters: the C library would take them for the end."""
    try:
        encoded = os.fsencode(path)
    except TypeError:
        raise _wrong_type(op, "path", path, "a str or a path") from None
    except UnicodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        given = safe_repr(path)
        raise InvalidValueError(f"{op}: path is {given}, which no file can have")
    return os.fspath(path)  # type: ignore[no-any-return]


def host_numbers(op: str, name: str, values: Any) -> NDArray[Any]:
    """Numbers on the host, as float64."""
    import numpy as np

    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise _wrong_type(op, name, values, "numbers") from None


def require_callable(op: str, name: str, value: object) -> None:
    if not callable(value):
        raise _wrong_type(op, name, value, "a function")


def _wrong_type(op: str, name: str, value: object, expected: str) -> InvalidTypeError:
    given = f"{type(value).__name__} {safe_repr(value)}"
    return InvalidTypeError(f"{op}: {name} is {given}, expected {expected}")
