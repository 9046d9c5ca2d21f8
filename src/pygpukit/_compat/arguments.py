"""What the adapters share: checked numbers, forwarded attributes, figures, numbered enums."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import fields
from enum import Enum, IntEnum
from typing import Any, TypeVar

from pygpukit._native import safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

T = TypeVar("T")


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


def amount(op: str, name: str, value: Any, low: float = 0.0, high: float = math.inf) -> float:
    """`value` as a finite float from `low` to `high`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"{op}: {name} is {type(value).__name__} {safe_repr(value)}, expected a number"
        ) from None
    if not low <= number <= high or math.isinf(number):
        raise InvalidValueError(
            f"{op}: {name} is {number}, expected a finite number from {low} to {high}"
        )
    return number


def check_fields(config: object, **lows: float) -> None:
    """Checks attributes against their lowest values: whole numbers for an int, else amounts."""
    for name, low in lows.items():
        check: Any = whole if isinstance(low, int) else amount
        check(type(config).__name__, name, getattr(config, name), low)


def sum_shares(shares: Iterable[float]) -> float:
    """To nine digits, so that tenths add up to one and shares that are returned leave zero."""
    return round(sum(shares), 9)


def forward(path: str) -> property:
    """A read-only property: the attribute at `path`."""
    return property(operator.attrgetter(path))


def figures(kind: type[T], source: object, **others: Any) -> T:
    """A dataclass whose fields are the attributes of `source` with their names, and `others`."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: getattr(source, name) for name in names if name not in others}, **others)
