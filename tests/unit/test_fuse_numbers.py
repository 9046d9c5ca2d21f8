"""Numbers in fused functions: what the ops alone make of them, and no kernel where that differs."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.core.errors import InvalidTypeError
from pygpukit.ops.fusion import simulated

needs_nvrtc = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

SMALL = np.array([1, 44, 200], "uint8")
FLOATS = np.array([0.5, 1.5, -2.0], "float32")
WHOLE = np.array([1, 2, -3])
HUGE = 2**70
LAST: Any = {"axis": -1, "keepdims": True}


class Gain(IntEnum):
    TWO = 2


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        result = function(*args)
    except (TypeError, ValueError, ArithmeticError) as error:
        return type(error), str(error)
    return result.dtype.name, result.tolist()


@needs_nvrtc
@pytest.mark.parametrize(
    ("function", "args"),
    [
        # an integer that the array's dtype does not hold
        (lambda x: x + 300, (SMALL,)),
        (lambda x: gp.where(x > 3, x, -1), (SMALL,)),
        (lambda x: x.astype("uint8") * 256, (FLOATS,)),
        (lambda x, n: x + n, (SMALL, 300)),
        (lambda x, n: gp.maximum(n, x), (SMALL, -1)),
        (lambda x, n: x + n, (WHOLE, 2**63)),
        # compared, it fits
        (lambda x: x == 300, (SMALL,)),
        (lambda x, n: x == n, (SMALL, 300)),
        (lambda x, n: n > x, (SMALL, 300)),
        (lambda x: x < HUGE, (WHOLE,)),
        (lambda x, n: x < n, (WHOLE, HUGE)),
        (lambda x, n: x >= n, (WHOLE, -HUGE)),
        # beside floats it is one
        (lambda x: x * 10**20, (FLOATS,)),
        (lambda x, n: x * n, (FLOATS, 10**20)),
        (lambda x: x * 10**400, (FLOATS,)),
        # exponents
        (lambda x: x**-1, (WHOLE,)),
        (lambda x, n: x**n, (WHOLE, -1)),
        (lambda x, n: x**n, (WHOLE, 2)),
        (lambda x, n: x**n, (FLOATS, -1)),
        # NumPy's scalars bring their dtype
        (lambda x: x * np.sqrt(2.0), (FLOATS,)),
        (lambda x: np.sqrt(2.0) * x, (FLOATS,)),
        (lambda x: x * np.float32(2.5), (FLOATS.astype("float16"),)),
        (lambda x: np.int64(2) - x, (SMALL,)),
        (lambda x: x + np.array(3, "int16"), (SMALL,)),
        (lambda x, n: x * n, (FLOATS, np.float64(0.1))),
        (lambda x, n: x * n, (FLOATS, np.float32(0.1))),
        (lambda x, n: x + n, (FLOATS.astype("float16"), np.float16(0.1))),
        (lambda x, n: x + n, (SMALL, np.int8(-3))),
        (lambda x, n: gp.where(x > n, x, n), (WHOLE, np.bool_(True))),
        (lambda x, n: x * n, (FLOATS, np.complex64(2j))),
        (lambda x, n: gp.max(x, **LAST) * n, (FLOATS, np.float64(0.1))),
        (lambda x, n: x * n, (FLOATS, Gain.TWO)),
        # arguments without a part in the result
        (lambda x, y: x + 1, (FLOATS, np.ones((2, 1), "float32"))),
        (lambda x, y: y + 1, (np.ones(2), FLOATS)),
        (lambda x, y, n: gp.max(y, **LAST) * n, (np.ones((4, 1)), FLOATS, 2)),
        (lambda x, n: x + 1, (FLOATS, HUGE)),
        # clip is one of the ops
        (lambda x: gp.clip(x, -1, 1), (FLOATS,)),
        (lambda x: gp.clip(x, -5, 300), (SMALL,)),
        (lambda x, n: gp.clip(x, None, n), (FLOATS, 1.0)),
    ],
)
def test_the_same_as_op_by_op(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    given = tuple(gp.from_numpy(x) if isinstance(x, np.ndarray) else x for x in args)
    fused = gp.fuse(function)
    with simulated():
        assert outcome(fused, given) == outcome(function, given)
    assert outcome(fused, given) == outcome(function, given)


@needs_nvrtc
def test_numbers_that_fit_share_a_kernel() -> None:
    calls = []

    @gp.fuse
    def add(x: Any, n: Any) -> Any:
        calls.append(n)
        return x + n

    x = gp.from_numpy(SMALL)
    with simulated():
        assert add(x, 1).tolist() == [2, 45, 201]
        assert add(x, 2).tolist() == [3, 46, 202]
        assert len(calls) == 1
        with pytest.raises(OverflowError, match=r"^add: 300 does not fit in uint8"):
            add(x, 300)
        assert add(x, 3).tolist() == [4, 47, 203]


def test_a_number_is_no_result() -> None:
    with pytest.raises(
        TypeError, match=r"^fuse: <lambda> returned <fuse.Expr .*expected one array"
    ):
        gp.fuse(lambda x, n: n)(gp.ones(2), np.float32(1))
    with pytest.raises(TypeError, match=r"^fuse: argument 1 is 'a', expected a GPUArray or a"):
        gp.fuse(lambda x, n: x)(gp.ones(2), "a")


@pytest.mark.parametrize("name", ["round", "nan_to_num", "fabs"])
def test_functions_that_are_no_single_op_are_named(name: str) -> None:
    with pytest.raises(InvalidTypeError, match=f"^{name}: it cannot be part of a fused function"):
        gp.fuse(getattr(gp, name))(gp.ones(2))
