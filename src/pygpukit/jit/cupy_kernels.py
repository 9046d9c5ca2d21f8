"""Kernels in the form that CuPy has them: ElementwiseKernel, ReductionKernel, RawKernel.

All are compiled by gp.jit at the first call with new dtypes. On CPU simulation a call runs
`reference`, a function of the inputs as NumPy arrays that returns the results; without one it
runs in the simulator, as gp.jit's kernels do.
"""

from __future__ import annotations

import threading
from math import prod
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray, JITKernel
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.jit import kernel_text as text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Reference = Callable[..., Any] | None

_MAX_BLOCKS = 1 << 20  # kernels stride over the rest


class RawKernel:
    """RawKernel(code, name): called with grid, block and a tuple of arguments.

    >>> kernel = gp.RawKernel(code, "scale")
    >>> kernel((4,), (256,), (x, 2.0, x.size))
    """

    def __init__(
        self,
        code: str,
        name: str,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        *,
        reference: Reference = None,
    ) -> None:
        if backend != "nvrtc":
            raise InvalidValueError(f"RawKernel: backend is {backend!r}, only 'nvrtc' is supported")
        self.kernel = JITKernel(code, name, list(options), reference=reference)
        self.name, self.code, self.options = name, code, tuple(options)

    def __repr__(self) -> str:
        return f"RawKernel({self.name})"

    @property
    def attributes(self) -> dict[str, int]:
        """Registers, local, shared and constant bytes, thread limit; empty on the CPU."""
        return self.kernel.attributes

    def __call__(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        stream: Any = None,
    ) -> None:
        """Launches it."""
        self.kernel(*args, grid=grid, block=block, shared_mem=shared_mem, stream=stream)


class _Generated:
    """What ElementwiseKernel and ReductionKernel share: parameters, and a kernel per dtypes."""

    def __init__(
        self, in_params: str, out_params: str, name: str, options: Sequence[str], ref: Reference
    ) -> None:
        self.name = name
        self.options = tuple(options)
        self._kind = type(self).__name__
        self._inputs = text.parse(self._kind, "in_params", in_params)
        self._outputs = text.parse(self._kind, "out_params", out_params)
        if not self._outputs:
            raise InvalidValueError(f"{self._kind}: out_params is empty, expected a parameter")
        names = [p.name for p in (*self._inputs, *self._outputs)]
        if len(set(names)) < len(names):
            raise InvalidValueError(f"{self._kind}: a parameter name occurs twice: {names}")
        self._reference = ref
        self._kernels: dict[Any, JITKernel] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{self._kind}({self.name})"

    def _kernel(self, key: Any, source: Callable[[], str], reference: Reference) -> JITKernel:
        with self._lock:
            if key not in self._kernels:
                self._kernels[key] = JITKernel(
                    source(), self.name, list(self.options), reference=reference
                )
            return self._kernels[key]

    def _check_count(self, args: tuple[Any, ...]) -> None:
        least, most = len(self._inputs), len(self._inputs) + len(self._outputs)
        if len(args) not in (least, most):
            raise InvalidTypeError(
                f"{self.name}: {len(args)} arguments, expected {least} inputs"
                f" or {most} with the outputs"
            )

    def _device(self, values: Sequence[Any]) -> str:
        devices = {value.device for value in values if isinstance(value, GPUArray)}
        if len(devices) != 1:
            raise InvalidValueError(
                f"{self.name}: arrays are on {sorted(devices)}, expected one device"
            )
        return str(devices.pop())


class ElementwiseKernel(_Generated):
    """ElementwiseKernel(in_params, out_params, operation): CUDA C for one element.

    >>> squared_diff = gp.ElementwiseKernel(
    ...     "T x, T y", "T z", "z = (x - y) * (x - y)", "squared_diff")
    >>> squared_diff(x, y)

    Parameters are `dtype name` or `T name`, where T follows from the arguments; `raw` ones are
    pointers. `i` is the element's number and `_ind.size()` how many there are.
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        operation: str,
        name: str = "kernel",
        preamble: str = "",
        options: Sequence[str] = (),
        *,
        reference: Reference = None,
    ) -> None:
        super().__init__(in_params, out_params, name, options, reference)
        self.operation, self.preamble = operation, preamble

    def source(self, *args: Any) -> str:
        """The CUDA C that a call with these arguments compiles."""
        types = self._types(args)
        return self._text(self._described(args, types), types)

    def __call__(
        self, *args: Any, size: int | None = None, block_size: int = 128, stream: Any = None
    ) -> Any:
        """The output, or a tuple of several; outputs may be given after the inputs."""
        self._check_count(args)
        count = len(self._inputs)
        inputs, given = list(args[:count]), args[count:]
        device = self._device(args)
        types = self._types(args)
        shape = self._shape(inputs, given, size)
        described = self._described(inputs, types)
        ready: list[Any] = []
        for parameter, value in zip(self._inputs, inputs, strict=True):
            if isinstance(value, GPUArray) and not parameter.raw:
                value = _native.ascontiguousarray(_native.broadcast_to(value, shape))
            ready.append(value)
        outputs = []
        for n, parameter in enumerate(self._outputs):
            dtype = text.dtype_of(self.name, parameter, types)
            fresh = not given or not given[n].is_contiguous()
            outputs.append(_native.empty(shape, dtype, device=device) if fresh else given[n])
        key = (tuple(row[1:] for row in described), tuple(sorted(types.items())))
        kernel = self._kernel(key, lambda: self._text(described, types), self._stand_in())
        total = prod(shape) if size is None else size
        if total > 0:
            grid = min(-(-total // block_size), _MAX_BLOCKS)
            kernel(*ready, *outputs, total, grid=grid, block=block_size, stream=stream)
        for n, array in enumerate(given):
            if outputs[n] is not array:
                _native.copy_into(array, outputs[n])
                outputs[n] = array
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _types(self, args: Sequence[Any]) -> dict[str, str]:
        parameters = (*self._inputs, *self._outputs)[: len(args)]
        return text.resolve(self.name, parameters, args, {})

    def _described(self, inputs: Sequence[Any], types: dict[str, str]) -> Any:
        return [
            (p, text.dtype_of(self.name, p, types), isinstance(value, GPUArray))
            for p, value in zip(self._inputs, inputs, strict=False)
        ]

    def _text(self, inputs: Any, types: dict[str, str]) -> str:
        outputs = [(p, text.dtype_of(self.name, p, types)) for p in self._outputs]
        return text.elementwise_source(
            self.name, self.operation, self.preamble, inputs, outputs, types
        )

    def _shape(
        self, inputs: Sequence[Any], given: Sequence[GPUArray], size: int | None
    ) -> tuple[int, ...]:
        shapes = [
            value.shape
            for p, value in zip(self._inputs, inputs, strict=True)
            if isinstance(value, GPUArray) and not p.raw
        ]
        if given:
            shape = given[0].shape
            if shapes and _native.broadcast_shapes(*shapes) != shape:
                raise InvalidValueError(
                    f"{self.name}: the output has shape {shape}, the inputs "
                    f"{_native.broadcast_shapes(*shapes)}"
                )
            return shape
        if shapes:
            return _native.broadcast_shapes(*shapes)
        if size is None:
            raise InvalidValueError(
                f"{self.name}: all arrays are raw, so size= or the outputs must be given"
            )
        return (size,)

    def _stand_in(self) -> Reference:
        return _stand_in(self._reference, len(self._inputs), len(self._outputs))


class ReductionKernel(_Generated):
    """ReductionKernel(in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name).

    >>> l2norm = gp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
    >>> l2norm(x, axis=1)

    map_expr makes a value of the inputs, reduce_expr combines two (`a` and `b`), post_map_expr
    writes the output from the last `a`. Values are of reduce_type, by default the output's type.
    One block per result, in a fixed order.
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str,
        identity: Any,
        name: str = "reduce_kernel",
        reduce_type: str | None = None,
        preamble: str = "",
        options: Sequence[str] = (),
        *,
        reference: Reference = None,
    ) -> None:
        super().__init__(in_params, out_params, name, options, reference)
        if len(self._outputs) != 1 or any(p.raw for p in (*self._inputs, *self._outputs)):
            raise InvalidValueError("ReductionKernel: one output and no raw parameters, please")
        self._expressions = (map_expr, reduce_expr, post_map_expr, str(identity))
        self._reduce_type = reduce_type
        self.preamble = preamble

    def source(self, *args: Any) -> str:
        """The CUDA C that a call with these arguments compiles."""
        types = text.resolve(self.name, self._inputs, args[: len(self._inputs)], {})
        return self._text(args, types)

    def __call__(
        self,
        *args: Any,
        axis: int | tuple[int, ...] | None = None,
        keepdims: bool = False,
        out: GPUArray | None = None,
        stream: Any = None,
    ) -> GPUArray:
        """The inputs, broadcast, reduced along axes (None: all of them)."""
        if len(args) != len(self._inputs):
            raise InvalidTypeError(
                f"{self.name}: {len(args)} arguments, expected {len(self._inputs)}"
            )
        device = self._device(args)
        types = text.resolve(self.name, self._inputs, args, {})
        shape = _native.broadcast_shapes(*(a.shape for a in args if isinstance(a, GPUArray)))
        axes = tuple(range(len(shape))) if axis is None else _axes(self.name, axis, len(shape))
        rest = tuple(n for n in range(len(shape)) if n not in axes)
        ready = [
            _native.ascontiguousarray(
                _native.permute_dims(_native.broadcast_to(a, shape), (*rest, *axes))
            )
            if isinstance(a, GPUArray)
            else a
            for a in args
        ]
        outer = tuple(shape[n] for n in rest)
        inner = prod(shape[n] for n in axes)
        dtype = text.dtype_of(self.name, self._outputs[0], types)
        result = _native.empty(outer, dtype, device=device)
        key = (tuple(isinstance(a, GPUArray) for a in args), tuple(sorted(types.items())))
        reference = _stand_in(self._reference, len(self._inputs), 1, inner)
        kernel = self._kernel(
            (key, reference and inner), lambda: self._text(args, types), reference
        )
        if result.size > 0:
            block = text.REDUCE_THREADS
            kernel(*ready, result, inner, grid=result.size, block=block, stream=stream)
        kept = tuple(1 if n in axes else size for n, size in enumerate(shape))
        result = _native.reshape(result, kept if keepdims else outer)
        if out is None:
            return result
        _native.copy_into(out, result)
        return out

    def _text(self, args: Sequence[Any], types: dict[str, str]) -> str:
        inputs = [
            (p, text.dtype_of(self.name, p, types), isinstance(value, GPUArray))
            for p, value in zip(self._inputs, args, strict=True)
        ]
        output = self._outputs[0]
        dtype = text.dtype_of(self.name, output, types)
        kind = text.C_TYPES[dtype] if self._reduce_type is None else self._reduce_type
        kind = text.C_TYPES.get(kind, kind)
        return text.reduction_source(
            self.name, *self._expressions, kind, self.preamble, inputs, (output, dtype), types
        )


def _axes(op: str, axis: int | tuple[int, ...], ndim: int) -> tuple[int, ...]:
    from pygpukit.core.errors import AxisError

    given = (axis,) if isinstance(axis, int) else tuple(axis)
    for n in given:
        if not -ndim <= n < ndim:
            raise AxisError(f"{op}: axis {n} is out of bounds for array of dimension {ndim}")
    return tuple(n % ndim for n in given)


def _stand_in(
    reference: Reference, num_inputs: int, num_outputs: int, inner: int | None = None
) -> Reference:
    """The kernel's stand-in on CPU simulation, from a function of the inputs alone."""
    if reference is None:
        return None

    def run(*parameters: Any) -> None:
        inputs = list(parameters[:num_inputs])
        if inner is not None:  # rows, each of which becomes one number
            inputs = [x.reshape(-1, inner) if hasattr(x, "reshape") else x for x in inputs]
        results = reference(*inputs)
        outputs = parameters[num_inputs : num_inputs + num_outputs]
        for output, value in zip(outputs, results if num_outputs > 1 else (results,), strict=True):
            output.reshape(-1)[...] = value.reshape(-1) if hasattr(value, "reshape") else value

    return run


__all__ = ["ElementwiseKernel", "RawKernel", "ReductionKernel"]
