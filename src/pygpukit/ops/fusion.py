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
from typing import Any

from pygpukit import _native
from pygpukit._native import DataType, FusedKernel, FusedRows, GPUArray, safe_repr
from pygpukit.core.arguments import require_callable
from pygpukit.ops._fusion.source import RowSource, elementwise_source
from pygpukit.ops._fusion.trace import Expr, Trace

_MAX_INPUTS = 8


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
    warning), it runs op by op with the same result. gp.sim.check, profile and step run the kernel
    itself, in the simulator.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        require_callable("fuse", "function", function)
        functools.update_wrapper(self, function)
        self._function = function
        self._kernels: dict[tuple[Any, ...], FusedKernel | FusedRows] = {}
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
        self._last = self._kernel(args)
        return self._last.source

    def __call__(self, *args: Any, out: GPUArray | None = None) -> GPUArray:
        on_gpu = any(isinstance(x, GPUArray) and x.on_gpu for x in args)
        self._last = kernel = self._kernel(args)
        if (on_gpu or _num_simulated > 0) and _native.jit_available():
            result = kernel.run(args, out)
            return result if out is None else out
        if on_gpu:
            _warn_once()
        if isinstance(kernel, FusedRows):
            kernel.check(args, out)
        result = self._function(*args)
        return result if out is None else _native.positive(result, out=out)

    def _kernel(self, args: tuple[Any, ...]) -> FusedKernel | FusedRows:
        signature = _signature(args)
        found = self._kernels.get(signature)
        if found is None:
            found = self._kernels[signature] = self._make(signature)
        return found

    def _make(self, signature: tuple[Any, ...]) -> FusedKernel | FusedRows:
        name = getattr(self._function, "__name__", "fused")
        if not 1 <= len(signature) <= _MAX_INPUTS:
            raise ValueError(
                f"fuse: {name} got {len(signature)} arguments, expected 1 to {_MAX_INPUTS}"
            )
        trace = Trace()
        inputs: list[tuple[DataType, bool]] = []
        stand_ins = []
        for i, kind in enumerate(signature):
            if isinstance(kind, DataType):
                inputs.append((kind, False))
                stand_ins.append(Expr(trace, f"x{i}", kind, 1 << i, 1 << i))
            else:
                dtype_name, example = _NUMBERS[kind]
                dtype = _native.DataType.from_string(dtype_name)
                inputs.append((dtype, True))
                stand_ins.append(Expr(trace, f"x{i}", dtype, 0, 0, example))
        result = self._function(*stand_ins)
        if not isinstance(result, Expr) or result._weak is not None:
            raise TypeError(
                f"fuse: {name} returned {safe_repr(result)}, "
                "expected one array computed by elementwise ops and ops over rows"
            )
        trace.drop_unused(result)
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
