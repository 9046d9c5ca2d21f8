"""Calls of elementwise ops that must raise, on any device."""

from __future__ import annotations

import numpy as np

import pygpukit as gp
from cases.must_raise import Refused

# Calls get a binary op and a function that makes arrays of ones; words follow the op's name.
MUST_RAISE = [
    Refused(
        "shapes",
        lambda op, ones: op(ones((2, 3)), ones((3, 2))),
        ValueError,
        ("could not be broadcast together", "(2, 3)", "(3, 2)"),
    ),
    Refused(
        "shapes of other ranks",
        lambda op, ones: op(ones((4,)), ones((2, 1, 3))),
        ValueError,
        ("could not be broadcast together", "(4,)", "(2, 1, 3)"),
    ),
    Refused(
        "empty against two",
        lambda op, ones: op(ones((0,)), ones((2,))),
        ValueError,
        ("(0,)", "(2,)"),
    ),
    Refused(
        "out shape",
        lambda op, ones: op(ones((4,)), ones((4,)), out=ones((5,))),
        ValueError,
        ("(4,)", "(5,)"),
    ),
    Refused(
        "out too small",
        lambda op, ones: op(ones((2, 4)), ones((4,)), out=ones((4,))),
        ValueError,
        ("out has shape (4,)", "(2, 4)"),
    ),
    Refused(
        "out dtype",
        lambda op, ones: op(ones((4,)), ones((4,)), out=ones((4,), "int32")),
        TypeError,
        ("out has dtype int32", "float32", "cast"),
    ),
    Refused(
        "out unsigned",
        lambda op, ones: op(ones((4,), "int32"), 1, out=ones((4,), "uint32")),
        TypeError,
        ("out has dtype uint32", "int32", "cast"),
    ),
    Refused(
        "out is no array",
        lambda op, ones: op(ones((4,)), 1, out=np.ones(4, np.float32)),
        TypeError,
        ("out is a numpy.ndarray", "GPUArray", "from_numpy()"),
    ),
    Refused("None", lambda op, ones: op(ones((4,)), None), TypeError, ("x2 is None",)),
    Refused("str", lambda op, ones: op("x", ones((4,))), TypeError, ("x1 is 'x'",)),
    Refused("list", lambda op, ones: op(["a"], ones((4,))), TypeError, ("x1 is ['a']",)),
    Refused(
        "NumPy array",
        lambda op, ones: op(ones((4,)), np.ones(4, np.float32)),
        TypeError,
        ("x2 is a numpy.ndarray", "GPUArray", "from_numpy()"),
    ),
    Refused(
        "too large",
        lambda op, ones: op(ones((4,), "int8"), 128),
        OverflowError,
        ("128", "does not fit", "int8"),
    ),
    Refused(
        "negative to unsigned",
        lambda op, ones: op(-1, ones((4,), "uint64")),
        OverflowError,
        ("-1", "does not fit", "uint64"),
    ),
    Refused(
        "more than 64 bits",
        lambda op, ones: op(ones((4,), "int64"), 2**64),
        OverflowError,
        ("does not fit",),
    ),
    Refused("one operand", lambda op, ones: op(ones((4,))), TypeError, ("missing", "x2")),
    Refused(
        "three operands",
        lambda op, ones: op(ones((4,)), 1, None, 2),
        TypeError,
        ("takes 3 positional arguments but 4",),
    ),
    Refused(
        "unknown keyword",
        lambda op, ones: op(ones((4,)), 1, casting="no"),
        TypeError,
        ("unexpected keyword argument 'casting'",),
    ),
    Refused(
        "where is no mask",
        lambda op, ones: op(ones((4,)), 1, where=ones((4,))),
        TypeError,
        ("where has dtype float32, expected bool",),
    ),
    Refused(
        "where is a number",
        lambda op, ones: op(ones((4,)), 1, where=1),
        TypeError,
        ("where is 1, expected True, False, a GPUArray of bool or a list of them",),
    ),
    Refused(
        "where does not fit",
        lambda op, ones: op(ones((4,)), 1, where=ones((3,)) > 0),
        ValueError,
        ("(3,)", "(4,)"),
    ),
    Refused(
        "where is larger than out",
        lambda op, ones: op(ones((4,)), 1, out=ones((4,)), where=ones((2, 4)) > 0),
        ValueError,
        ("(2, 4)", "(4,)"),
    ),
    Refused(
        "dtype below the operands",
        lambda op, ones: op(ones((4,)), 1.0, dtype="int32"),
        TypeError,
        ("dtype is int32, the result has dtype float32",),
    ),
    Refused(
        "positional only",
        lambda op, ones: op(ones((4,)), x2=1),
        TypeError,
        ("unexpected keyword argument 'x2'",),
    ),
    Refused(
        "storage type",
        lambda op, ones: op(gp.zeros(4, "float8_e5m2"), gp.zeros(4, "float8_e5m2")),
        TypeError,
        ("float8_e5m2", "storage type", "astype"),
    ),
    Refused(
        "no common dtype",
        lambda op, ones: op(gp.zeros(4, "int4"), ones((4,))),
        TypeError,
        ("int4", "float32"),
    ),
]
