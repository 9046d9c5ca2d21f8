"""Cases of the elementwise ops: operands and expected results."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from cases.elementwise_ops import (
    COMPLEX,
    COMPUTE,
    FLOATS,
    INTEGERS,
    OPS,
    STORAGE,
    Op,
    numpy_type,
)
from cases.views import VIEWS, Shape

__all__ = [
    "CASES",
    "COMPLEX",
    "COMPUTE",
    "FLOATS",
    "INTEGERS",
    "OPS",
    "SHAPES",
    "STORAGE",
    "numpy_type",
]

SHAPES: tuple[Shape, ...] = (
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

# --- operands -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arg:
    """An array of random numbers, or a view of one."""

    shape: Shape
    dtype: str
    view: str = "whole"

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"{self.dtype}({shape})" + ("" if self.view == "whole" else f"[{self.view}]")


def special_values(dtype: str) -> list[Any]:
    """Zeros, ones, extremes, infinities, NaN."""
    if dtype == "bool":
        return [False, True]
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return [
            0,
            1,
            2,
            7,
            int(info.max),
            int(info.min),
            int(info.max) // 2,
            max(int(info.min), -1),
        ]
    if dtype in COMPLEX:
        return [0, 1, -1, 1j, -1j, 1 + 1j, 2 - 0.5j, -0.5 + 0j, 0.25 - 3j]
    info = ml_dtypes.finfo(numpy_type(dtype))
    small, least, most = (
        float(info.smallest_normal),
        float(info.smallest_subnormal),
        float(info.max),
    )
    signed = [0.0, 0.5, 1.0, 3.0, float("inf"), most, small, least]
    return [*signed, *(-x for x in signed), float("nan")]


def _random(rng: np.random.Generator, op: Op, operand: int, dtype: str, count: int) -> Any:
    type_ = numpy_type(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        low, high = int(info.min), int(info.max)
        if op.integers is not None:
            low = max(low, int(op.integers[operand][0]))
            high = min(high, int(op.integers[operand][1]))
        return rng.integers(low, high, count, dtype=type_, endpoint=True)
    if dtype in COMPLEX:
        return (rng.normal(size=count) + 1j * rng.normal(size=count)).astype(type_)
    return rng.uniform(*op.domain, count).astype(type_)


def make_operand(op: Op, operand: int, shape: Shape, dtype: str, seed: int) -> Any:
    """Random numbers of the op's domain, and special values in every combination of operands."""
    rng = np.random.default_rng(seed + operand)
    flat = _random(rng, op, operand, dtype, int(np.prod(shape)))
    special = special_values(dtype)
    if dtype in INTEGERS and op.integers is not None:
        low, high = op.integers[operand]
        special = [x for x in special if low <= x <= high]
    stride = len(special) ** operand
    places = np.arange(min(len(special) ** op.arity, flat.size // 2))
    if flat.size >= 2 * len(special):
        wide = flat.dtype if dtype in INTEGERS else None  # uint64 would become float64
        flat[places] = np.array(special, wide)[places // stride % len(special)].astype(flat.dtype)
    if flat.dtype.kind in op.nonzero and operand == op.arity - 1:
        flat[flat == 0] = 1
    return flat.reshape(shape)


# --- expected results ---------------------------------------------------------------------------


def _is_weak(value: Any) -> bool:
    return type(value) in (bool, int, float, complex)


def _stand_ins(values: list[Any]) -> list[Any]:
    """Arrays whose dtypes NumPy promotes as ours: it has no rules for bfloat16."""
    names = {value.dtype.name for value in values if not _is_weak(value)}
    other = np.float32 if "float16" in names else np.float16
    return [
        value
        if _is_weak(value)
        else np.ones(1, other if value.dtype.name == "bfloat16" else value.dtype)
        for value in values
    ]


def _own(dtype: np.dtype[Any], values: list[Any]) -> np.dtype[Any]:
    is_bfloat16 = any(not _is_weak(v) and v.dtype.name == "bfloat16" for v in values)
    return numpy_type("bfloat16") if dtype == np.float16 and is_bfloat16 else dtype


def result_dtype(name: str, values: list[Any]) -> np.dtype[Any]:
    """By NumPy's own rules; TypeError where NumPy has no such op."""
    with np.errstate(all="ignore"):
        return _own(np.asarray(OPS[name].like(*_stand_ins(values))).dtype, values)


def _common_dtype(name: str, values: list[Any], result: np.dtype[Any]) -> np.dtype[Any]:
    promoted = values[1:] if name == "where" else values
    common = _own(np.result_type(*_stand_ins(promoted)), promoted)
    if common.kind in "biu" and result.kind in "fV":
        return result
    return np.dtype(np.int8) if common.kind == "b" and result == np.int8 else common


def _wide_dtype(op: Op, common: np.dtype[Any]) -> np.dtype[Any]:
    narrow = common.name in ("float16", "bfloat16")
    if op.native:
        return np.dtype(np.float32) if narrow and op is not OPS["nextafter"] else common
    if narrow or common == np.float32:
        return np.dtype(np.float64)
    if common == np.complex64:
        return np.dtype(np.complex128)
    exact = op.ulps == 0  # a second rounding would spoil what is exact
    if common == np.float64 and not exact:
        return np.dtype(np.longdouble)
    return np.dtype(np.clongdouble) if common == np.complex128 else common


def expected(name: str, values: list[Any]) -> tuple[Any, np.dtype[Any]]:
    """The result, in a wider dtype where the op is not exact, and the dtype it has."""
    op = OPS[name]
    result = result_dtype(name, values)
    with np.errstate(all="ignore"):
        if result.kind == "b" and not any(
            _own(np.dtype(np.float16), [v]).kind == "V" for v in values
        ):
            return np.asarray(op.function(*values)), result
        common = _common_dtype(name, values, result)
        wide = _wide_dtype(op, common)
        operands = [np.asarray(value).astype(common).astype(wide) for value in values]
        if name == "where":
            operands[0] = np.asarray(values[0]).astype(bool)
        return np.asarray(op.function(*operands)), result


def ulps_of(op: Op, result: np.dtype[Any], operands: list[Any]) -> float:
    """Sixteen bits are computed in float32: off by the final rounding only."""
    if any(not _is_weak(value) and value.dtype.kind == "c" for value in operands):
        return op.complex_ulps if result.kind in "fc" else 0
    return min(op.ulps, 1) if result.name in ("float16", "bfloat16") else op.ulps


# --- cases --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One call. Operands are arrays or numbers; `out` is new, given, first (in place) or dtype."""

    op: str
    operands: tuple[Any, ...]
    out: str = "new"
    gpu: bool = True  # not only on CPU simulation: every new combination is a kernel to compile

    def __str__(self) -> str:
        operands = ",".join(
            str(x) if isinstance(x, Arg) else f"{type(x).__name__}({x})" for x in self.operands
        )
        return f"{self.op}({operands})" + ("" if self.out == "new" else f"-{self.out}")

    @property
    def seed(self) -> int:
        return zlib.crc32(str(self).encode())

    @property
    def needs_views(self) -> bool:
        return any(isinstance(x, Arg) and x.view != "whole" for x in self.operands)


def is_defined(op: str, dtype: str) -> bool:
    try:
        result_dtype(op, [np.ones(1, numpy_type(dtype))] * OPS[op].arity)
    except TypeError:
        return False
    return True


# Every operation of these on every integer dtype, also on the GPU; of others on one or two.
ALL_INTEGERS = (
    "add",
    "multiply",
    "floor_divide",
    "remainder",
    "pow",
    "less",
    "bitwise_right_shift",
)


def every_op_and_dtype() -> Iterator[Case]:
    for number, op in enumerate(OPS):
        exact = [d for d in ("bool", *INTEGERS) if is_defined(op, d)]
        count = 1 if is_defined(op, "complex64") else 2
        chosen = {exact[(2 * number + i) % len(exact)] for i in range(count)} if exact else set()
        for dtype in COMPUTE:
            if is_defined(op, dtype):
                gpu = dtype not in exact or dtype in chosen or op in ALL_INTEGERS
                condition = (Arg((1073,), "bool"),) if op == "where" else ()
                arrays = (Arg((1073,), dtype),) * (OPS[op].arity - len(condition))
                yield Case(op, condition + arrays, gpu=gpu)


REPRESENTATIVES = (
    ("add", "float32"),
    ("multiply", "int16"),
    ("maximum", "complex128"),
    ("exp", "float16"),
)


def every_shape() -> Iterator[Case]:
    for op, dtype in REPRESENTATIVES:
        for shape in SHAPES:
            yield Case(op, (Arg(shape, dtype),) * OPS[op].arity)
        yield Case(op, (Arg((33,), dtype),) * OPS[op].arity, "given")
        yield Case(op, (Arg((4099,), dtype),) * OPS[op].arity, "first")


BROADCASTS: tuple[tuple[Shape, Shape], ...] = (
    ((3, 1), (1, 4)),
    ((5, 1, 4), (4,)),
    ((), (33,)),
    ((33,), (1,)),
    ((1,), ()),
    ((64, 1), (64, 128)),
    ((128,), (64, 128)),
    ((0, 1), (1, 7)),
    ((2, 1, 3, 1, 2, 1), (1, 3, 1, 2, 1, 5)),
    ((1, 40, 1), (6, 1, 32)),
)


def broadcasts() -> Iterator[Case]:
    for op, dtype in (("add", "float32"), ("less", "int8")):
        for a, b in BROADCASTS:
            yield Case(op, (Arg(a, dtype), Arg(b, dtype)))
            yield Case(op, (Arg(b, dtype), Arg(a, dtype)))
    for shapes in (((4, 1), (3,), ()), ((), (5,), (5,)), ((7, 1, 8), (8,), (3, 1))):
        yield Case("where", (Arg(shapes[0], "bool"), *(Arg(s, "float32") for s in shapes[1:])))
        yield Case("clip", tuple(Arg(s, "float32") for s in shapes))
    yield Case("where", (Arg((9,), "int64"), Arg((9,), "int32"), 5))
    yield Case("where", (Arg((9,), "float16"), Arg((9,), "int32"), Arg((9,), "int32")))
    yield Case("where", (True, Arg((9,), "int32"), Arg((3, 1), "int32")))
    yield Case("nan_to_num", (Arg((77,), "float32"), 0.5, 1e30, -1e30))
    yield Case("nan_to_num", (Arg((77,), "complex64"), 0.5, 1e30, -1e30))


def views() -> Iterator[Case]:
    for op, dtype in (("add", "float32"), ("multiply", "int8"), ("sqrt", "complex128")):
        count = OPS[op].arity
        for view in VIEWS:
            for shape in ((24, 40), (7, 11, 13)):
                yield Case(op, (Arg(shape, dtype, view),) * count)
        for view in ("offset", "step", "reversed"):
            yield Case(op, (Arg((4099,), dtype, view),) * count)
        if count == 2:
            for view in ("rows", "transposed", "step", "reversed"):
                yield Case(op, (Arg((24, 40), dtype), Arg((24, 40), dtype, view)))
            yield Case(op, (Arg((1, 40), dtype, "step"), Arg((24, 1), dtype, "offset")))
    deep = (2, 3, 2, 1, 3, 2, 2)
    yield Case("add", (Arg(deep, "float32", "transposed"), Arg(deep, "float32", "column")))
    yield Case("add", (Arg((4099,), "float32", "offset"), 1.5))


def numbers(dtype: str) -> list[Any]:
    """Python numbers, which are weak, and NumPy scalars, which have a dtype."""
    if dtype == "bool":
        return [True, 3, 0.5, 1j, np.int8(3), np.float32(2.5)]
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        weak = [True, 3, int(info.min), int(info.max), 0.1, 2j]
        return [*weak, np.dtype(dtype).type(5), np.int64(-7), np.float16(0.5), np.array(2.5)]
    found = [True, -2, 0.1, float("nan"), float("-inf"), 2**64 - 1, 0.5 - 2.5j]
    return [*found, np.float64(0.1), np.float16(3), np.int16(9), np.complex64(1j), np.True_]


def scalars() -> Iterator[Case]:
    for dtype in COMPUTE:
        for index, number in enumerate(numbers(dtype)):
            gpu = dtype in ("int16", "bfloat16", "float32") and index % 2 == 0
            yield Case("add", (Arg((33,), dtype), number), gpu=gpu)
            yield Case("multiply", (number, Arg((33,), dtype)), gpu=gpu)
    for dtype in ("int8", "uint8", "int64", "uint64"):
        for number in (1000, -1, 2**63, 2**63 - 1, -(2**63), 300.5):
            for op in ("equal", "less", "greater_equal"):
                yield Case(op, (Arg((33,), dtype), number), gpu=op == "less")
                yield Case(op, (number, Arg((33,), dtype)), gpu=False)
    yield Case("logical_and", (Arg((33,), "int8"), 1000))
    yield Case("subtract", (2, Arg((33,), "uint8")))
    yield Case("divide", (1, Arg((33,), "int32")))
    yield Case("pow", (2.0, Arg((33,), "float32")))
    yield Case("pow", (Arg((33,), "float16"), -1))
    yield Case("atan2", (1, Arg((33,), "int8")))


def mixed_dtypes() -> Iterator[Case]:
    """Every pair; on the GPU one in six."""
    for i, a in enumerate(COMPUTE):
        for j, b in enumerate(COMPUTE):
            gpu = (i * len(COMPUTE) + j) % 6 == 0
            yield Case("add", (Arg((33,), a), Arg((33,), b)), gpu=gpu)
            if {a, b} != {"int64", "uint64"}:  # compared as float64, unlike in NumPy
                yield Case("less_equal", (Arg((33,), a), Arg((33,), b)), gpu=gpu and i % 2 == 0)


def outputs() -> Iterator[Case]:
    """An `out` of another dtype that the result casts to within its kind."""
    for op, dtype, out in (
        ("add", "float32", "float64"),
        ("add", "float32", "float16"),
        ("add", "float64", "bfloat16"),
        ("add", "float16", "float32"),
        ("add", "int8", "int32"),
        ("multiply", "uint8", "int64"),
        ("add", "int64", "int8"),
        ("multiply", "int16", "float32"),
        ("add", "bool", "uint8"),
        ("less", "float32", "int32"),
        ("less", "int32", "complex64"),
        ("real", "complex64", "complex128"),
        ("sqrt", "int32", "float32"),
    ):
        yield Case(op, (Arg((1073,), dtype),) * OPS[op].arity, out)


CASES = [
    case
    for group in (
        every_op_and_dtype,
        every_shape,
        broadcasts,
        views,
        scalars,
        mixed_dtypes,
        outputs,
    )
    for case in group()
]
