"""Calls of elementwise ops that must raise, on any device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pygpukit as gp


@dataclass(frozen=True)
class MustRaise:
    """A call that is refused: `call` gets a binary op and a function that makes arrays of ones."""

    name: str
    call: Callable[[Callable[..., Any], Callable[..., gp.GPUArray]], object]
    error: type[Exception]
    words: tuple[str, ...]  # in the message, after the op's name


MUST_RAISE = [
    MustRaise(
        "shapes",
        lambda op, ones: op(ones((2, 3)), ones((3, 2))),
        ValueError,
        ("could not be broadcast together", "(2, 3)", "(3, 2)"),
    ),
    MustRaise(
        "shapes of other ranks",
        lambda op, ones: op(ones((4,)), ones((2, 1, 3))),
        ValueError,
        ("could not be broadcast together", "(4,)", "(2, 1, 3)"),
    ),
    MustRaise(
        "empty against two",
        lambda op, ones: op(ones((0,)), ones((2,))),
        ValueError,
        ("(0,)", "(2,)"),
    ),
    MustRaise(
        "out shape",
        lambda op, ones: op(ones((4,)), ones((4,)), out=ones((5,))),
        ValueError,
        ("(4,)", "(5,)"),
    ),
    MustRaise(
        "out too small",
        lambda op, ones: op(ones((2, 4)), ones((4,)), out=ones((4,))),
        ValueError,
        ("out has shape (4,)", "(2, 4)"),
    ),
    MustRaise(
        "out dtype",
        lambda op, ones: op(ones((4,)), ones((4,)), out=ones((4,), "int32")),
        TypeError,
        ("out has dtype int32", "float32", "cast"),
    ),
    MustRaise(
        "out unsigned",
        lambda op, ones: op(ones((4,), "int32"), 1, out=ones((4,), "uint32")),
        TypeError,
        ("out has dtype uint32", "int32", "cast"),
    ),
    MustRaise(
        "out is no array",
        lambda op, ones: op(ones((4,)), 1, out=np.ones(4, np.float32)),
        TypeError,
        ("out is a numpy.ndarray", "GPUArray", "from_numpy()"),
    ),
    MustRaise("two numbers", lambda op, ones: op(1, 2), TypeError, ("must be an array",)),
    MustRaise("None", lambda op, ones: op(ones((4,)), None), TypeError, ("x2 is None",)),
    MustRaise("str", lambda op, ones: op("x", ones((4,))), TypeError, ("x1 is 'x'",)),
    MustRaise("list", lambda op, ones: op(["a"], ones((4,))), TypeError, ("x1 is ['a']",)),
    MustRaise(
        "NumPy array",
        lambda op, ones: op(ones((4,)), np.ones(4, np.float32)),
        TypeError,
        ("x2 is a numpy.ndarray", "GPUArray", "from_numpy()"),
    ),
    MustRaise(
        "too large",
        lambda op, ones: op(ones((4,), "int8"), 128),
        OverflowError,
        ("128", "does not fit", "int8"),
    ),
    MustRaise(
        "negative to unsigned",
        lambda op, ones: op(-1, ones((4,), "uint64")),
        OverflowError,
        ("-1", "does not fit", "uint64"),
    ),
    MustRaise(
        "more than 64 bits",
        lambda op, ones: op(ones((4,), "int64"), 2**64),
        OverflowError,
        ("does not fit",),
    ),
    MustRaise("one operand", lambda op, ones: op(ones((4,))), TypeError, ("missing", "x2")),
    MustRaise(
        "three operands",
        lambda op, ones: op(ones((4,)), 1, None, 2),
        TypeError,
        ("takes 3 positional arguments but 4",),
    ),
    MustRaise(
        "unknown keyword",
        lambda op, ones: op(ones((4,)), 1, where=True),
        TypeError,
        ("unexpected keyword argument 'where'",),
    ),
    MustRaise(
        "positional only",
        lambda op, ones: op(ones((4,)), x2=1),
        TypeError,
        ("unexpected keyword argument 'x2'",),
    ),
    MustRaise(
        "storage type",
        lambda op, ones: op(gp.zeros(4, "float8_e5m2"), gp.zeros(4, "float8_e5m2")),
        TypeError,
        ("float8_e5m2", "storage type", "astype"),
    ),
    MustRaise(
        "no common dtype",
        lambda op, ones: op(gp.zeros(4, "int4"), ones((4,))),
        TypeError,
        ("int4", "float32"),
    ),
]
