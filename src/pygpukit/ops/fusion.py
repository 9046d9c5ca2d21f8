"""fuse: compiles a Python function of array expressions into one kernel.

The function is called once per combination of dtypes with tracers that record the ops it
applies; CUDA C is generated from the record. Every op computes and rounds as it does alone, so the
result is bit-identical to the separate ops, without their round trips through memory.
"""

from __future__ import annotations

import functools
import struct
import warnings
from collections.abc import Callable
from typing import Any

from pygpukit import _native
from pygpukit._native import DataType, FusedKernel, GPUArray, safe_repr

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
_MAX_INPUTS = 8


def _cuda_type(dtype: DataType) -> str:
    return _CUDA_TYPES.get(dtype.name, f"{dtype.name}")


def _literal(value: Any) -> str:
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
        return f"complex128{{{_literal(value.real)}, {_literal(value.imag)}}}"
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return f"__longlong_as_double(0x{bits:016x}ll) /* {value!r} */"


class Expr:
    """Represents an array (or a number given at the call) while a function is traced."""

    __slots__ = ("_dtype", "_name", "_trace", "_weak")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, trace: _Trace, name: str, dtype: DataType, weak: Any = None) -> None:
        self._trace = trace
        self._name = name
        self._dtype = dtype
        self._weak = weak  # for a number: an example of its kind

    @property
    def dtype(self) -> DataType:
        return self._dtype

    def _elementwise(self, op: str, operands: tuple[Any, ...]) -> Expr:
        return self._trace.apply(op, operands)

    def astype(self, dtype: Any) -> Expr:
        return self._trace.cast(self, _native.DataType.from_string(str(dtype)))

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


class _Trace:
    """The record of one call: lines of CUDA C."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def _new(self, dtype: DataType, value: str) -> Expr:
        name = f"v{self.count}"
        self.count += 1
        self.lines.append(f"const {_cuda_type(dtype)} {name} = {value};")
        return Expr(self, name, dtype)

    def _operand(self, operand: Any, common: DataType) -> str:
        stored = _cuda_type(common)
        if isinstance(operand, Expr):
            if operand._weak is None:
                return f"convert<Compute<{stored}>>({operand._name})"
            value = operand._name
        else:
            value = _literal(operand)
        return f"to_compute(convert<{stored}>({value}))"

    def apply(self, op: str, operands: tuple[Any, ...]) -> Expr:
        for operand in operands:
            if not isinstance(operand, (Expr, bool, int, float, complex)):
                kind = "a GPUArray" if isinstance(operand, GPUArray) else safe_repr(operand)
                raise TypeError(
                    f"fuse: {op} got {kind}; arrays used by a fused function must be its arguments"
                )
        typed = tuple(
            (x._dtype if x._weak is None else x._weak) if isinstance(x, Expr) else x
            for x in operands
        )
        if not any(isinstance(x, DataType) for x in typed):
            raise TypeError(f"fuse: {op} has only numbers as operands; one must be an array")
        common, result, functor = _native.elementwise_types(op, typed)
        values = [self._operand(x, common) for x in operands]
        if op == "where":  # the condition is a truth value, whatever the others are
            condition = operands[0]
            flag = condition._name if isinstance(condition, Expr) else _literal(condition)
            values[0] = f"convert<Compute<{_cuda_type(common)}>>(convert<bool>({flag}))"
        call = f"{functor}::run<{_cuda_type(common)}>({', '.join(values)})"
        return self._new(result, f"convert<{_cuda_type(result)}>({call})")

    def cast(self, value: Expr, dtype: DataType) -> Expr:
        return self._new(dtype, f"convert<{_cuda_type(dtype)}>({value._name})")


def _signature(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key of a trace: dtypes of arrays, kinds of numbers."""
    signature: list[Any] = []
    for i, argument in enumerate(args):
        if isinstance(argument, GPUArray):
            signature.append(argument.dtype)
        elif isinstance(argument, (bool, int, float, complex)):
            signature.append(type(argument))
        else:
            raise TypeError(
                f"fuse: argument {i} is {safe_repr(argument)}, "
                "expected a GPUArray or a Python number"
            )
    return tuple(signature)


_NUMBERS: dict[type, tuple[str, Any]] = {
    bool: ("bool", False),
    int: ("int64", 1),
    float: ("float64", 0.5),
    complex: ("complex128", 0.5j),
}


class FusedFunction:
    """The result of fuse(): call it like the original function.

    On a GPU with NVRTC a call runs one kernel. On CPU simulation, and where NVRTC is missing (one
    warning), it runs op by op with the same result.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._kernels: dict[tuple[Any, ...], FusedKernel] = {}
        self._last: FusedKernel | None = None

    @property
    def source(self) -> str:
        """The CUDA C of the last call, or of the last trace()."""
        if self._last is None:
            from pygpukit.core.errors import OperationError

            raise OperationError(
                "fuse: nothing has been traced yet; call the function or trace(*args)"
            )
        return self._last.source

    def trace(self, *args: Any) -> str:
        """The CUDA C for arguments like these; runs nothing and needs no GPU."""
        self._last = self._kernel(args)
        return self._last.source

    def __call__(self, *args: Any, out: GPUArray | None = None) -> GPUArray:
        on_gpu = any(isinstance(x, GPUArray) and x.on_gpu for x in args)
        if on_gpu and _native.jit_available():
            self._last = self._kernel(args)
            result = self._last.run(args, out)
            return result if out is None else out
        if on_gpu:
            _warn_once()
        self._last = self._kernel(args)
        result = self._function(*args)
        return result if out is None else _native.positive(result, out=out)

    def _kernel(self, args: tuple[Any, ...]) -> FusedKernel:
        signature = _signature(args)
        found = self._kernels.get(signature)
        if found is None:
            found = self._kernels[signature] = self._make(signature)
        return found

    def _make(self, signature: tuple[Any, ...]) -> FusedKernel:
        name = getattr(self._function, "__name__", "fused")
        if not 1 <= len(signature) <= _MAX_INPUTS:
            raise ValueError(
                f"fuse: {name} got {len(signature)} arguments, expected 1 to {_MAX_INPUTS}"
            )
        trace = _Trace()
        inputs: list[tuple[DataType, bool]] = []
        stand_ins = []
        for i, kind in enumerate(signature):
            if isinstance(kind, DataType):
                inputs.append((kind, False))
                stand_ins.append(Expr(trace, f"x{i}", kind))
            else:
                dtype_name, example = _NUMBERS[kind]
                dtype = _native.DataType.from_string(dtype_name)
                inputs.append((dtype, True))
                stand_ins.append(Expr(trace, f"x{i}", dtype, example))
        result = self._function(*stand_ins)
        if not isinstance(result, Expr) or result._weak is not None:
            raise TypeError(
                f"fuse: {name} returned {safe_repr(result)}, "
                "expected one array computed by elementwise ops"
            )
        return FusedKernel(name, _source(name, trace, inputs, result), inputs, result.dtype)


def _source(name: str, trace: _Trace, inputs: list[tuple[DataType, bool]], result: Expr) -> str:
    parameters = ", ".join(
        f"Compute<{_cuda_type(dtype)}> x{i}" for i, (dtype, _) in enumerate(inputs)
    )
    body = "\n".join(f"    {line}" for line in trace.lines)
    return f"""
namespace gpk {{
struct Fused {{  // {name}
  template <class T>
  static __device__ __forceinline__ auto run({parameters}) {{
{body}
    return {result._name};
  }}
}};
}}  // namespace gpk
"""


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "fuse: NVRTC is not available, fused functions run op by op", RuntimeWarning, stacklevel=3
    )


def fuse(function: Callable[..., Any]) -> FusedFunction:
    """Compiles a function of arrays and numbers built from elementwise ops into one kernel.

    >>> @gp.fuse
    ... def f(a, b, c):
    ...     return gp.gelu(a * b + c) * 0.5
    >>> y = f(a, b, c)          # one launch; f.source is the CUDA C
    """
    return FusedFunction(function)


__all__ = ["FusedFunction", "fuse"]
