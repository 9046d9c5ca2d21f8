"""Numbers in a trace: the dtype they bring, and the values that are allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pygpukit import _native
from pygpukit._native import DataType
from pygpukit.core.errors import InvalidOverflowError, InvalidValueError

PYTHON_NUMBERS = (bool, int, float, complex)
_COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


@dataclass(frozen=True)
class Constant:
    """A number that the function contains: Python's are weak, a NumPy scalar brings its dtype."""

    value: complex
    dtype: DataType | None = None


def scalar_dtype(number: Any) -> DataType | None:
    """Of a NumPy scalar or 0-d array; Python's numbers have none."""
    given = getattr(number, "dtype", None)
    return None if given is None else _native.result_type(given)


def constant(op: str, number: Any, beside: Iterable[DataType]) -> Constant:
    """A number beside operands of these dtypes."""
    dtype = scalar_dtype(number)
    if dtype is not None:
        value = number.item()
        return Constant(value if isinstance(value, PYTHON_NUMBERS) else float(value), dtype)
    if isinstance(number, int) and not -(2**63) <= number < 2**64:
        if not all(_is_whole(x) for x in beside):
            number = _as_float(number)
        elif op in _COMPARISONS:
            number = math.copysign(math.inf, number)
    return Constant(number)


def _as_float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return number  # the op refuses it by its name


def _is_whole(dtype: DataType) -> bool:
    return dtype.name == "bool" or dtype.name.startswith(("int", "uint"))


def limits(op: str, position: int, common: DataType) -> tuple[int, int] | None:
    """The least and the largest integer as this operand of an op that computes in `common`."""
    if common.name == "bool" or not _is_whole(common) or (op == "where" and position == 0):
        return None
    signed = common.name.startswith("int")
    values = 8 * common.itemsize - signed
    is_exponent = op == "pow" and position == 1
    return (-(2**values) if signed and not is_exponent else 0), 2**values - 1


def check_constant(op: str, position: int, number: Constant, common: DataType) -> None:
    """Raises what the op alone would."""
    allowed = limits(op, position, common)
    if allowed is None or type(number.value) is not int:
        return
    if allowed[0] <= number.value <= allowed[1]:
        return
    if op == "pow" and position == 1 and number.value < 0:
        raise InvalidValueError(
            f"pow: integers to negative integer powers are not allowed, got {number.value} "
            f"for dtype {common}"
        )
    raise InvalidOverflowError(f"{op}: {number.value} does not fit in {common}")
