"""What the adapters share: numbers that are checked, and enumerations that equal their numbers."""

from __future__ import annotations

import math
import operator
from enum import Enum, IntEnum
from typing import Any

from pygpukit._native import safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError


class NumberEnum(IntEnum):
    """Members equal their numbers and print their names."""

    __str__ = Enum.__str__


def whole(op: str, name: str, value: Any, low: int = 0, high: int = 2**64 - 1) -> int:
    """`value` as an int from `low` to `high`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidTypeError(
            f"{op}: {name} is {type(value).__name__} {safe_repr(value)}, expected int"
        ) from None
    if not low <= number <= high:
        raise InvalidValueError(f"{op}: {name} is {number}, expected {low} to {high}")
    return number


def amount(op: str, name: str, value: Any, high: float = math.inf) -> float:
    """`value` as a finite float from 0 to `high`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"{op}: {name} is {type(value).__name__} {safe_repr(value)}, expected a number"
        ) from None
    if not 0.0 <= number <= high or math.isinf(number):
        raise InvalidValueError(
            f"{op}: {name} is {number}, expected a finite number from 0 to {high}"
        )
    return number
