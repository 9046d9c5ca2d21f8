"""Ops over rows of a traced function: norms, softmax and reductions of the last axis.

Each becomes reductions (one value per row) and a value per element of them. They compute and round
as the op does alone.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pygpukit import _native
from pygpukit._native import DataType, GPUArray, safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops._fusion.trace import (
    REDUCTIONS,
    Expr,
    Reduction,
    RowUse,
    RowValue,
    Trace,
    cuda_type,
)

_FLOATS = ("float16", "bfloat16", "float32")


class _RowOp:
    """The arguments of one call."""

    def __init__(self, trace: Trace, op: str, given: dict[str, Any]) -> None:
        self.trace = trace
        self.op = op
        self.given = given
        if given.get("out") is not None:
            raise self.wrong("out", "None: only the fused function has a result to put somewhere")
        self.x = self.array("x")
        if self.x.dtype.name not in _FLOATS:
            raise InvalidTypeError(
                f"fuse: {op}: x has dtype {self.x.dtype}, expected float16, bfloat16 or float32"
            )

    def wrong(self, argument: str, expected: str) -> InvalidTypeError:
        value = self.given[argument]
        got = "a GPUArray" if isinstance(value, GPUArray) else safe_repr(value)
        return InvalidTypeError(f"fuse: {self.op}: {argument} is {got}, expected {expected}")

    def array(self, argument: str) -> Expr:
        value = self.given[argument]
        if not isinstance(value, Expr) or value._weak is not None:
            raise self.wrong(argument, "an array of the function's arguments")
        return value

    def number(self, argument: str) -> float:
        value = self.given[argument]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.wrong(argument, "a number known when the function is traced")
        return float(value)

    def eps(self) -> str:
        eps = self.number("eps")
        if not math.isfinite(eps) or eps < 0:
            raise InvalidValueError(f"fuse: {self.op}: eps is {eps!r}, expected a number >= 0")
        return _float(eps)

    def check_axis(self) -> None:
        axis = self.given["axis"]
        if isinstance(axis, (tuple, list)) and len(axis) == 1:
            axis = axis[0]
        try:
            is_last = not isinstance(axis, bool) and operator.index(axis) == -1
        except TypeError:
            is_last = False
        if not is_last:
            raise InvalidValueError(
                f"fuse: {self.op}: axis is {safe_repr(axis)}, expected -1: a fused function has "
                "rows along the last axis"
            )

    def weight(self, argument: str) -> Expr | None:
        if self.given[argument] is None:
            return None
        weight = self.array(argument)
        if weight.dtype not in (self.x.dtype, _native.float32):
            raise InvalidTypeError(
                f"fuse: {self.op}: {argument} has dtype {weight.dtype}, expected {self.x.dtype} "
                "(as x) or float32"
            )
        self.trace.uses.append(
            RowUse(self.op, argument, weight._columns, weight._arrays, weight.dtype, is_vector=True)
        )
        return weight

    def use_x(self, *, needs_elements: bool = False) -> None:
        x = self.x
        self.trace.uses.append(
            RowUse(self.op, "x", x._columns, x._arrays, x.dtype, needs_elements=needs_elements)
        )

    # --- nodes

    def reduce(self, part: str, kind: str = "float", initial: str = "", *row: str) -> str:
        """A reduction of x; `row` are the names in `initial`. Its own name."""
        name = self.trace.new_name("r")
        self.trace.nodes.append(
            Reduction(name, kind, part, initial, self.x._name, (self.x._name, *row))
        )
        return name

    def of_row(self, kind: str, text: str, *operands: str) -> str:
        """A value computed from others of the row."""
        name = self.trace.new_name("r")
        self.trace.nodes.append(RowValue(name, kind, text, operands))
        return name

    def result(
        self, text: str, row: tuple[str, ...], elements: tuple[Expr, ...], dtype: DataType
    ) -> Expr:
        """`text` of row values and elements; its last axis is that of the elements."""
        stand_ins = tuple(Expr(self.trace, r, dtype, 0, self.x._arrays) for r in row)
        return self.trace.value(dtype, f"convert<{cuda_type(dtype)}>({text})", stand_ins + elements)


def _float(value: float) -> str:
    """A number as float32 in CUDA C."""
    try:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        bits = 0x7F800000 if value > 0 else 0xFF800000
    return f"__int_as_float(0x{bits:08x}) /* {value!r} */"


def _norm(call: _RowOp, *, mean: str, offset: str) -> Expr:
    call.use_x()
    weight = call.weight("weight") if "weight" in call.given else None
    bias = call.weight("bias") if "bias" in call.given else None
    names = () if mean == "0.0f" else (mean,)
    square = call.reduce("MeanSquarePart", "float", mean, *names)
    scale = call.of_row("float", f"norm_scale({square}, {call.eps()})", square)
    text = f"normalised(to_compute({call.x._name}), {mean}, {scale})"
    elements = [call.x]
    if weight is not None:
        text = f"weighted({text}, {offset}, to_compute({weight._name}))"
        elements.append(weight)
    if bias is not None:
        text = f"biased({text}, to_compute({bias._name}))"
        elements.append(bias)
    return call.result(text, (*names, scale), tuple(elements), call.x.dtype)


def _rmsnorm(call: _RowOp) -> Expr:
    offset = _float(call.number("offset")) if "offset" in call.given else "0.0f"
    return _norm(call, mean="0.0f", offset=offset)


def _layernorm(call: _RowOp) -> Expr:
    call.eps()
    return _norm(call, mean=call.reduce("MeanPart"), offset="0.0f")


def _softmax(call: _RowOp) -> Expr:
    call.check_axis()
    if call.given["mask"] is not None:
        raise call.wrong("mask", "None: use softmax(where(mask, x, -inf))")
    if call.number("scale") != 1.0:
        raise InvalidValueError(
            f"fuse: {call.op}: scale is {call.number('scale')!r}, expected 1.0: multiply x instead"
        )
    call.use_x()
    stored = cuda_type(call.x.dtype)
    log = "true" if call.op == "log_softmax" else "false"
    top = call.reduce(f"SoftmaxMaxPart<{stored}, R::kOnline>")
    initial = f"part_{top}, {top}"
    total = call.reduce(f"SoftmaxSumPart<{stored}, R::kOnline>", "float", initial, top)
    kind = f"SoftmaxResult<{stored}, {log}>"
    result = call.of_row(kind, f"{kind}({top}, {total})", top, total)
    text = f"{result}(to_compute({call.x._name}))"
    return call.result(text, (result,), (call.x,), call.x.dtype)


def _reduction(call: _RowOp) -> Expr:
    call.check_axis()
    if call.given["keepdims"] is not True:
        raise InvalidValueError(
            f"fuse: {call.op}: keepdims is {safe_repr(call.given['keepdims'])}, expected True: the "
            "result has to broadcast to its rows"
        )
    dtype = call.x.dtype
    if call.given.get("dtype") is not None:
        dtype = _native.DataType.from_string(str(call.given["dtype"]))
        if dtype.name not in _FLOATS:
            raise InvalidTypeError(
                f"fuse: {call.op}: dtype is {dtype}, expected float16, bfloat16 or float32"
            )
    call.use_x(needs_elements=call.op in ("max", "min"))
    if call.op in ("max", "min"):
        name = call.reduce(f"ExtremePart<{'true' if call.op == 'max' else 'false'}>")
    else:
        name = call.reduce("WideSumPart<R::kV>", "double")
        if call.op == "mean":
            name = call.of_row("double", f"{name} / row.exact_length()", name)
    return call.result(name, (name,), (), dtype)


_ROW_OPS: dict[str, Callable[[_RowOp], Expr]] = {
    "rmsnorm": _rmsnorm,
    "l2norm": _rmsnorm,
    "layernorm": _layernorm,
    "softmax": _softmax,
    "log_softmax": _softmax,
    **dict.fromkeys(REDUCTIONS, _reduction),
}


def apply_row_op(trace: Trace, op: str, arguments: dict[str, Any]) -> Expr:
    """The op on tracers; `arguments` are all of its signature, by name."""
    apply = _ROW_OPS.get(op)
    if apply is None:
        ops = ", ".join(_ROW_OPS)
        raise InvalidTypeError(f"fuse: {op} cannot be part of a fused function; over rows: {ops}")
    call = _RowOp(trace, op, arguments)
    known = len(trace.uses)
    result = apply(call)
    trace.uses[known:] = [replace(use, value=result._name) for use in trace.uses[known:]]
    return result
