"""Cases of the elementwise ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np

import pygpukit as gp

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
COMPUTE = ("bool", *INTEGERS, *FLOATS, *COMPLEX)
STORAGE = ("float8_e4m3fn", "float8_e5m2", "int4", "uint4", "float4_e2m1fn")

SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (0,),
    (1,),
    (31,),
    (32,),
    (33,),
    (4099,),
    (3, 0, 5),
    (7, 11, 13),
    (1, 1, 1, 1, 1, 1, 1, 1, 2, 1),
)


def _rounded(wide: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`wide` in float64, rounded to the operands' dtype: exact for + and * up to float32."""

    def reference(a: Any, b: Any) -> Any:
        dtype = np.result_type(a, b) if a.dtype == b.dtype else a.dtype
        if dtype.name in ("float16", "bfloat16", "float32"):
            return wide(a.astype(np.float64), b.astype(np.float64)).astype(dtype)
        return wide(a, b)

    return reference


@dataclass(frozen=True)
class Op:
    """An op: what it means in NumPy, and the dtypes whose results must be exact."""

    reference: Callable[[Any, Any], Any]
    exact: tuple[str, ...]


OPS = {
    "add": Op(_rounded(lambda a, b: a + b), exact=COMPUTE),
    "mul": Op(_rounded(lambda a, b: a * b), exact=("bool", *INTEGERS, *FLOATS)),
}


@dataclass(frozen=True)
class Case:
    """One call. An operand is a shape (a random array) or a number."""

    op: str
    dtype: str
    a: Any
    b: Any
    out: str = "new"  # "new", "given" or "a": in place

    def __str__(self) -> str:
        return f"{self.op}-{self.dtype}-{self.a}-{self.b}-{self.out}".replace(" ", "")


def scalars(dtype: str) -> list[Any]:
    """Numbers an array of that dtype takes without changing its dtype."""
    if dtype == "bool":
        return [True, False]
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return [True, 3, int(info.min), int(info.max), np.dtype(dtype).type(5)]
    found: list[Any] = [True, -2, 0.1, float("nan"), float("-inf"), 2**64 - 1, np.array(1.5)]
    return [*found, 0.5 - 2.5j, np.complex64(1j)] if dtype in COMPLEX else found


def cases() -> Iterator[Case]:
    for op in OPS:
        for dtype in COMPUTE:
            for shape in SHAPES:
                yield Case(op, dtype, shape, shape)
            for out in ("given", "a"):
                yield Case(op, dtype, (33,), (33,), out)
            for number in scalars(dtype):
                yield Case(op, dtype, (33,), number)
                yield Case(op, dtype, number, (33,))
            yield Case(op, dtype, (0,), scalars(dtype)[0])
            yield Case(op, dtype, (4099,), scalars(dtype)[1], "a")


CASES = list(cases())


@dataclass(frozen=True)
class MustRaise:
    """A call that is refused: `call` gets the op and a function that makes arrays of ones."""

    name: str
    call: Callable[[Callable[..., Any], Callable[..., gp.GPUArray]], object]
    error: type[Exception]
    words: tuple[str, ...]  # in the message, after the op's name


MUST_RAISE = [
    MustRaise(
        "shapes",
        lambda op, ones: op(ones((2, 3)), ones((3, 2))),
        ValueError,
        ("same shape", "(2, 3)", "(3, 2)"),
    ),
    MustRaise(
        "ranks",
        lambda op, ones: op(ones((4,)), ones((1, 4))),
        ValueError,
        ("same shape", "(4,)", "(1, 4)"),
    ),
    MustRaise(
        "out shape",
        lambda op, ones: op(ones((4,)), ones((4,)), out=ones((5,))),
        ValueError,
        ("same shape", "out", "(5,)"),
    ),
    MustRaise(
        "dtypes",
        lambda op, ones: op(ones((4,)), ones((4,), "float64")),
        TypeError,
        ("same dtype", "float32", "float64"),
    ),
    MustRaise(
        "out dtype",
        lambda op, ones: op(ones((4,)), ones((4,)), out=ones((4,), "int32")),
        TypeError,
        ("same dtype", "out", "int32"),
    ),
    MustRaise(
        "out is no array",
        lambda op, ones: op(ones((4,)), 1, out=np.ones(4, np.float32)),
        TypeError,
        ("out", "GPUArray"),
    ),
    MustRaise("two numbers", lambda op, ones: op(1, 2), TypeError, ("must be an array",)),
    MustRaise("None", lambda op, ones: op(ones((4,)), None), TypeError, ("b is None",)),
    MustRaise("str", lambda op, ones: op("x", ones((4,))), TypeError, ("a is 'x'",)),
    MustRaise(
        "NumPy array",
        lambda op, ones: op(ones((4,)), np.ones(4, np.float32)),
        TypeError,
        ("b is array", "GPUArray"),
    ),
    MustRaise(
        "float to int",
        lambda op, ones: op(ones((4,), "int32"), 0.5),
        TypeError,
        ("0.5", "float", "int32"),
    ),
    MustRaise(
        "complex to float",
        lambda op, ones: op(ones((4,)), 1j),
        TypeError,
        ("complex", "float32"),
    ),
    MustRaise(
        "int to bool", lambda op, ones: op(ones((4,), "bool"), 2), TypeError, ("integer", "bool")
    ),
    MustRaise(
        "too large",
        lambda op, ones: op(ones((4,), "int8"), 128),
        ValueError,
        ("128", "does not fit", "int8"),
    ),
    MustRaise(
        "negative to unsigned",
        lambda op, ones: op(ones((4,), "uint64"), -1),
        ValueError,
        ("-1", "does not fit", "uint64"),
    ),
    MustRaise(
        "more than 64 bits",
        lambda op, ones: op(ones((4,), "int64"), 2**64),
        ValueError,
        ("does not fit",),
    ),
]
