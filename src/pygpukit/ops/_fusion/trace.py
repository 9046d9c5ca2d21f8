"""The trace of a function: tracers stand in for its arguments and record the ops on them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from pygpukit import _native
from pygpukit._native import DataType, GPUArray, safe_repr
from pygpukit.core.arguments import is_number
from pygpukit.ops._fusion.numbers import Constant, check_constant, constant, limits

_CUDA_TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "float32": "float",
    "float64": "double",
}


def cuda_type(dtype: DataType) -> str:
    return _CUDA_TYPES.get(dtype.name, f"{dtype.name}")


def literal(value: Any) -> str:
    """A Python number in CUDA C, bit-exact."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return (
            f"{value}ull"
            if value >= 2**63
            else f"({value}ll)"
            if value > -(2**63)
            else ("(-9223372036854775807ll - 1)")
        )
    if isinstance(value, complex):
        return f"complex128{{{literal(value.real)}, {literal(value.imag)}}}"
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return f"__longlong_as_double(0x{bits:016x}ll) /* {value!r} */"


REDUCTIONS = ("sum", "mean", "max", "min")


# --- the record ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Value:
    """One value per element: `text` in CUDA C, of the names in `operands`."""

    name: str
    dtype: DataType
    text: str
    operands: tuple[str, ...]
    columns: int


@dataclass(frozen=True)
class RowValue:
    """One value per row, computed from others of the row."""

    name: str
    type: str
    text: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Reduction:
    """One value per row: a Part of kernels/nn/row_parts.cuh that is shown every element."""

    name: str
    type: str
    part: str
    initial: str  # of the Part, in CUDA C
    element: str
    operands: tuple[str, ...]  # the element, and those of `initial`


Node = Value | RowValue | Reduction


@dataclass(frozen=True)
class RowUse:
    """An array that an op over rows takes; what its shape has to be is checked at the call."""

    op: str
    argument: str
    columns: int
    arrays: int
    dtype: DataType
    is_vector: bool = False  # of one row's width, as weights are
    needs_elements: bool = False
    value: str = ""  # the op's result

    def as_tuple(self) -> tuple[str, str, int, int, bool, bool]:
        """As FusedRows takes it."""
        return (
            self.op,
            self.argument,
            self.columns,
            self.arrays,
            self.is_vector,
            self.needs_elements,
        )


class Expr:
    """Represents an array (or a number given at the call) while a function is traced.

    `columns` and `arrays` are sets of arguments, as bits: those that its last axis comes from, and
    all that it is computed from.
    """

    __slots__ = ("_arrays", "_columns", "_dtype", "_name", "_trace", "_weak")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # operators of NumPy's scalars are left to this class

    def __init__(
        self,
        trace: Trace,
        name: str,
        dtype: DataType,
        columns: int,
        arrays: int,
        weak: Any = None,
    ) -> None:
        self._trace = trace
        self._name = name
        self._dtype = dtype
        self._columns = columns
        self._arrays = arrays
        self._weak = weak  # for a number: an example of its kind

    @property
    def dtype(self) -> DataType:
        return self._dtype

    def _elementwise(self, op: str, operands: tuple[Any, ...]) -> Expr:
        return self._trace.apply(op, operands)

    def _row_op(self, op: str, arguments: dict[str, Any]) -> Expr:
        from pygpukit.ops._fusion.row_ops import apply_row_op

        return apply_row_op(self._trace, op, arguments)

    def astype(self, dtype: Any) -> Expr:
        return self._trace.cast(self, _native.DataType.from_string(str(dtype)))

    def sum(
        self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Expr:
        given = {"x": self, "axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims}
        return self._row_op("sum", given)

    def mean(
        self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Expr:
        given = {"x": self, "axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims}
        return self._row_op("mean", given)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Expr:
        return self._row_op("max", {"x": self, "axis": axis, "out": out, "keepdims": keepdims})

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Expr:
        return self._row_op("min", {"x": self, "axis": axis, "out": out, "keepdims": keepdims})

    def __bool__(self) -> bool:
        raise TypeError(
            "fuse: the function uses the truth value of an array; use where() instead of if"
        )

    def __repr__(self) -> str:
        return f"<fuse.Expr {self._name}: {self._dtype}>"


def _add_operators() -> None:
    names = {
        "add": "add",
        "sub": "subtract",
        "mul": "multiply",
        "truediv": "divide",
        "floordiv": "floor_divide",
        "mod": "remainder",
        "pow": "pow",
        "lshift": "bitwise_left_shift",
        "rshift": "bitwise_right_shift",
        "and": "bitwise_and",
        "or": "bitwise_or",
        "xor": "bitwise_xor",
    }
    for python, op in names.items():
        setattr(Expr, f"__{python}__", lambda a, b, op=op: a._elementwise(op, (a, b)))
        setattr(Expr, f"__r{python}__", lambda a, b, op=op: a._elementwise(op, (b, a)))
    for python, op in {
        "lt": "less",
        "le": "less_equal",
        "eq": "equal",
        "ne": "not_equal",
        "gt": "greater",
        "ge": "greater_equal",
    }.items():
        setattr(Expr, f"__{python}__", lambda a, b, op=op: a._elementwise(op, (a, b)))
    for python, op in {
        "neg": "negative",
        "pos": "positive",
        "abs": "abs",
        "invert": "bitwise_invert",
    }.items():
        setattr(Expr, f"__{python}__", lambda a, op=op: a._elementwise(op, (a,)))


_add_operators()


class Trace:
    """The record of one call: every node after those it needs."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.uses: list[RowUse] = []
        self.limits: set[tuple[str, int, int]] = set()  # of integers given at the call

    @property
    def row_dtype(self) -> DataType | None:
        """Decides how a row is spread over threads: the dtype of the first norm or softmax, whose
        sums have the order that they have alone; else of the first op over rows, if any.
        """
        rows = [use for use in self.uses if not use.is_vector]
        exact = [use for use in rows if use.op not in REDUCTIONS]
        return (exact or rows)[0].dtype if rows else None

    def drop_unused(self, result: Expr) -> set[str]:
        """Keeps only what the result is computed from; returns the names."""
        needed = {result._name}
        for node in reversed(self.nodes):
            if node.name in needed:
                needed.update(node.operands)
        self.nodes = [node for node in self.nodes if node.name in needed]
        self.uses = [use for use in self.uses if use.value in needed]
        return needed

    def new_name(self, letter: str) -> str:
        return f"{letter}{len(self.nodes)}"

    def value(self, dtype: DataType, text: str, operands: tuple[Expr, ...]) -> Expr:
        """A value of `operands`, element by element."""
        columns, arrays = 0, 0
        for operand in operands:
            columns |= operand._columns
            arrays |= operand._arrays
        name = self.new_name("v")
        names = tuple(operand._name for operand in operands)
        self.nodes.append(Value(name, dtype, text, names, columns))
        return Expr(self, name, dtype, columns, arrays)

    def _operand(self, operand: Expr | Constant, common: DataType) -> str:
        stored = cuda_type(common)
        if isinstance(operand, Expr):
            value = operand._name
            typed = operand._weak is None
        else:
            value = literal(operand.value)
            typed = operand.dtype is not None
            if operand.dtype is not None:
                value = f"convert<{cuda_type(operand.dtype)}>({value})"
        if typed:
            return f"convert<Compute<{stored}>>({value})"
        return f"to_compute(convert<{stored}>({value}))"

    def _check_numbers(
        self, op: str, operands: tuple[Expr | Constant, ...], common: DataType
    ) -> None:
        for position, operand in enumerate(operands):
            if isinstance(operand, Constant):
                check_constant(op, position, operand, common)
            elif type(operand._weak) is int:
                allowed = limits(op, position, common)
                if allowed is not None:
                    self.limits.add((operand._name, *allowed))

    def apply(self, op: str, given: tuple[Any, ...]) -> Expr:
        for operand in given:
            if not isinstance(operand, Expr) and not is_number(operand):
                kind = "a GPUArray" if isinstance(operand, GPUArray) else safe_repr(operand)
                raise TypeError(
                    f"fuse: {op} got {kind}; arrays used by a fused function must be its arguments"
                )
        arrays = [x._dtype for x in given if isinstance(x, Expr) and x._weak is None]
        if not arrays:
            raise TypeError(f"fuse: {op} has only numbers as operands; one must be an array")
        operands = tuple(x if isinstance(x, Expr) else constant(op, x, arrays) for x in given)
        typed = tuple(_type_of(x) for x in operands)
        common, result, functor = _native.elementwise_types(op, typed)
        self._check_numbers(op, operands, common)
        values = [self._operand(x, common) for x in operands]
        if op == "where":  # the condition is a truth value, whatever the others are
            condition = operands[0]
            flag = condition._name if isinstance(condition, Expr) else literal(condition.value)
            values[0] = f"convert<Compute<{cuda_type(common)}>>(convert<bool>({flag}))"
        call = f"{functor}::run<{cuda_type(common)}>({', '.join(values)})"
        expressions = tuple(x for x in operands if isinstance(x, Expr))
        return self.value(result, f"convert<{cuda_type(result)}>({call})", expressions)

    def cast(self, value: Expr, dtype: DataType) -> Expr:
        return self.value(dtype, f"convert<{cuda_type(dtype)}>({value._name})", (value,))


def _type_of(operand: Expr | Constant) -> Any:
    """As elementwise_types() takes it: a dtype, or a number of the kind."""
    if isinstance(operand, Expr):
        return operand._dtype if operand._weak is None else operand._weak
    return operand.value if operand.dtype is None else operand.dtype
