"""fuse: compiles a Python function of array expressions into one kernel.

The function is called once per combination of dtypes with tracers that record the ops it
applies; CUDA C is generated from the record. Every op computes and rounds as it does alone, so the
result is bit-identical to the separate ops, without their round trips through memory; only sums and
means over rows have an order of their own.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pygpukit import _native
from pygpukit._native import DataType, FusedKernel, FusedRows, GPUArray, safe_repr
from pygpukit.core.arguments import is_number, require_callable
from pygpukit.ops._fusion.numbers import PYTHON_NUMBERS, scalar_dtype
from pygpukit.ops._fusion.source import RowSource, elementwise_source
from pygpukit.ops._fusion.trace import Expr, Trace

_MAX_INPUTS = 8


def _signature(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key of a trace: dtypes of arrays, kinds of numbers, (dtype,) of NumPy's scalars."""
    signature: list[Any] = []
    for i, argument in enumerate(args):
        if isinstance(argument, GPUArray):
            signature.append(argument.dtype)
        elif is_number(argument):
            kind = next((x for x in PYTHON_NUMBERS if isinstance(argument, x)), None)
            dtype = scalar_dtype(argument)
            signature.append(kind if dtype is None else (dtype,))
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


@dataclass(frozen=True)
class _Compiled:
    kernel: FusedKernel | FusedRows
    used: tuple[int, ...]  # the arguments that the result is computed from
    limits: tuple[tuple[int, int, int], ...]  # an argument, its least and its largest value

    def takes(self, args: tuple[Any, ...]) -> bool:
        """Whether its integers fit the dtypes that the kernel converts them to."""
        return all(low <= args[i] <= high for i, low, high in self.limits)

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args if len(self.used) == len(args) else tuple(args[i] for i in self.used)


_INT64 = (-(2**63), 2**63 - 1)


def _stand_in(trace: Trace, at: int, kind: Any) -> Expr:
    """For argument number `at` of the kernel, of the kind that _signature() says."""
    name = f"x{at}"
    if isinstance(kind, DataType):
        return Expr(trace, name, kind, 1 << at, 1 << at)
    if isinstance(kind, tuple):
        return Expr(trace, name, kind[0], 0, 0)
    dtype_name, example = _NUMBERS[kind]
    return Expr(trace, name, _native.DataType.from_string(dtype_name), 0, 0, example)


class FusedFunction:
    """The result of fuse(): call it like the original function.

    On a GPU with NVRTC a call runs one kernel. On CPU simulation, and where NVRTC is missing (one
    warning), it runs op by op with the same result. gp.sim.check, profile and step run the kernel
    itself, in the simulator.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        require_callable("fuse", "function", function)
        functools.update_wrapper(self, function)
        self._function = function
        self._compiled: dict[tuple[Any, ...], _Compiled] = {}
        self._last: FusedKernel | FusedRows | None = None

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
        self._last = self._compile(args).kernel
        return self._last.source

    def __call__(self, *args: Any, out: GPUArray | None = None) -> GPUArray:
        on_gpu = any(isinstance(x, GPUArray) and x.on_gpu for x in args)
        compiled = self._compile(args)
        self._last = kernel = compiled.kernel
        inputs = compiled.inputs(args)
        fits = compiled.takes(args)  # else op by op: one of the ops refuses the number, or compares
        if fits and (on_gpu or _num_simulated > 0) and _native.jit_available():
            result = kernel.run(inputs, out)
            return result if out is None else out
        if fits and on_gpu:
            _warn_once()
        if fits and isinstance(kernel, FusedRows):
            kernel.check(inputs, out)
        result = self._function(*args)
        return result if out is None else _native.positive(result, out=out)

    def _compile(self, args: tuple[Any, ...]) -> _Compiled:
        signature = _signature(args)
        found = self._compiled.get(signature)
        if found is None:
            found = self._compiled[signature] = self._make(signature, tuple(range(len(args))))
        return found

    def _make(self, signature: tuple[Any, ...], used: tuple[int, ...]) -> _Compiled:
        name = getattr(self._function, "__name__", "fused")
        if not 1 <= len(signature) <= _MAX_INPUTS:
            raise ValueError(
                f"fuse: {name} got {len(signature)} arguments, expected 1 to {_MAX_INPUTS}"
            )
        trace = Trace()
        inputs: list[tuple[DataType, bool]] = []
        stand_ins = []
        for i, kind in enumerate(signature):
            at = used.index(i) if i in used else _MAX_INPUTS + i
            stand_in = _stand_in(trace, at, kind)
            stand_ins.append(stand_in)
            if at < _MAX_INPUTS:
                inputs.append((stand_in.dtype, not isinstance(kind, DataType)))
        result = self._function(*stand_ins)
        if not isinstance(result, Expr) or result._weak is not None or result._arrays == 0:
            raise TypeError(
                f"fuse: {name} returned {safe_repr(result)}, "
                "expected one array computed by elementwise ops and ops over rows"
            )
        needed = trace.drop_unused(result)
        needed_too = tuple(i for i in used if stand_ins[i]._name in needed)
        if len(needed_too) < len(used):  # the others have no part in the shape
            return self._make(signature, needed_too)
        positions = {x._name: i for i, x in enumerate(stand_ins) if i in used}
        limits = {(name, *_INT64) for name, i in positions.items() if signature[i] is int}
        limits |= {limit for limit in trace.limits if limit[0] in positions}
        return _Compiled(
            self._kernel(name, trace, inputs, result),
            used,
            tuple((positions[name], low, high) for name, low, high in sorted(limits)),
        )

    def _kernel(
        self, name: str, trace: Trace, inputs: list[tuple[DataType, bool]], result: Expr
    ) -> FusedKernel | FusedRows:
        if trace.row_dtype is None:
            source = elementwise_source(name, trace, inputs, result)
            return FusedKernel(name, source, inputs, result.dtype)
        rows = RowSource(name, trace, inputs, result)
        return FusedRows(
            name,
            rows.text,
            inputs,
            result.dtype,
            result._columns,
            result._arrays,
            [use.as_tuple() for use in trace.uses],
            trace.row_dtype,
            rows.held_bytes,
            rows.num_values,
        )


_num_simulated = 0  # blocks of simulated() that are open


@contextmanager
def simulated() -> Iterator[None]:
    """Fused functions on CPU arrays run their kernel in the simulator meanwhile."""
    global _num_simulated
    _num_simulated += 1
    try:
        yield
    finally:
        _num_simulated -= 1


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "fuse: NVRTC is not available, fused functions run op by op", RuntimeWarning, stacklevel=3
    )


def fuse(function: Callable[..., Any]) -> FusedFunction:
    """Compiles a function of arrays and numbers into one kernel.

    It may use elementwise ops, and over the last axis rmsnorm, layernorm, l2norm, softmax,
    log_softmax and, with keepdims=True, sum, mean, max and min.

    >>> @gp.fuse
    ... def f(a, b, c):
    ...     return gp.gelu(a * b + c) * 0.5
    >>> y = f(a, b, c)          # one launch; f.source is the CUDA C
    """
    return FusedFunction(function)


__all__ = ["FusedFunction", "fuse"]
