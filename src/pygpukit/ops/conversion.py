"""Arrays from other objects: numbers, sequences, NumPy arrays, buffers, other libraries' arrays."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray, from_numpy, full
from pygpukit.core.errors import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygpukit._native import DataType, _DeviceLike, _DTypeLike

_NUMBERS = (bool, int, float, complex)
_MAX_NESTING = 32  # the maximum rank of an array; a list may contain itself
_STORAGE = ("float8_e4m3fn", "float8_e5m2", "int4", "uint4", "float4_e2m1fn")


def asarray(
    obj: Any,
    /,
    dtype: _DTypeLike | None = None,
    *,
    device: _DeviceLike = None,
    copy: bool | None = None,
) -> GPUArray:
    """An array from numbers, nested sequences, NumPy arrays, buffers or arrays of other libraries.

    copy=True always copies, copy=False raises ValueError where a copy is needed, None copies where
    needed. Python floats give float32, Python complex numbers complex64; NumPy dtypes are kept.
    """
    if isinstance(obj, GPUArray):
        return _from_gpu_array(obj, dtype, device, copy)
    if isinstance(obj, _NUMBERS) and not hasattr(obj, "dtype"):
        _no_view(copy, "a Python number")
        return _from_number(obj, dtype, device)
    if not _is_numpy(obj):
        if hasattr(obj, "__dlpack__") or hasattr(obj, "__cuda_array_interface__"):
            return _from_gpu_array(_exchange(obj, device, copy), dtype, device, None)
        if isinstance(obj, (list, tuple)) or _is_sequence(obj):
            _no_view(copy, "a sequence")
            return _from_sequence(obj, dtype, device)
    if copy is False:
        return _from_gpu_array(_exchange(obj, device, copy), dtype, device, False)
    return _from_host(obj, dtype, device)


def device_beside(*values: Any) -> str | None:
    """The device of the first GPUArray: where lists and numbers beside it go."""
    return next((value.device for value in values if isinstance(value, GPUArray)), None)


def as_operands(*values: Any) -> list[GPUArray]:
    """asarray() of lists and numbers, on the device of the first GPUArray among the values."""
    arrays = [value for value in values if isinstance(value, GPUArray)]
    return [
        value if isinstance(value, GPUArray) else array_beside(value, arrays) for value in values
    ]


def array_beside(value: Any, arrays: Sequence[GPUArray]) -> GPUArray:
    """asarray() on the device of the first array; Python's floats are float64 beside float64."""
    made = asarray(value, device=arrays[0].device if arrays else None)
    wide = {"float32": "float64", "complex64": "complex128"}.get(made.dtype.name)
    if wide is None or holds_array(value):
        return made
    if not any(x.dtype.name in ("float64", "complex128") for x in arrays):
        return made
    import numpy as np

    if np.asarray(value).dtype.name != wide:  # NumPy's scalars keep their dtype
        return made
    return asarray(value, dtype=wide, device=made.device)


def array(
    object: Any,
    dtype: _DTypeLike | None = None,
    *,
    copy: bool | None = True,
    ndmin: int = 0,
    device: _DeviceLike = None,
) -> GPUArray:
    """Like asarray, but copies by default; with at least `ndmin` axes."""
    result = asarray(object, dtype=dtype, device=device, copy=copy)
    missing = ndmin - result.ndim
    return result if missing <= 0 else _native.reshape(result, (1,) * missing + result.shape)


def _no_view(copy: bool | None, what: str) -> None:
    if copy is False:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(f"asarray: {what} must be copied, and copy is False")


def _from_gpu_array(
    x: GPUArray, dtype: _DTypeLike | None, device: _DeviceLike, copy: bool | None
) -> GPUArray:
    moved = x if device is None else _native.to_device(x, device)
    kind = x.dtype if dtype is None else _native.result_type(dtype)
    if moved.device == x.device and kind == x.dtype:
        return _native.copy(x) if copy else x
    _no_view(copy, f"an array of {x.dtype} on {x.device}")
    return _native.astype(moved, kind, False)


def _from_number(value: complex, dtype: _DTypeLike | None, device: _DeviceLike) -> GPUArray:
    if dtype is None:
        return full((), value, device=device)
    kind = _native.result_type(dtype)
    if kind.name in _STORAGE:
        return _native.astype(full((), value, "float32", device=device), kind)
    if kind == _native.result_type(kind, value):
        return full((), value, kind, device=device)
    # Lossy casts must be as explicit here as with astype.
    if isinstance(value, complex) and kind.name != "bool":
        from pygpukit.core.errors import InvalidTypeError

        raise InvalidTypeError(f"asarray: the complex number {value} cannot be cast to {kind}")
    number = bool(value) if kind.name == "bool" else int(value.real)
    return full((), number, kind, device=device)


def _is_numpy(obj: object) -> bool:
    import sys

    numpy = sys.modules.get("numpy")  # not loaded: nothing can be one of its arrays
    return numpy is not None and isinstance(obj, (numpy.ndarray, numpy.generic))


def _is_sequence(obj: object) -> bool:
    """A sequence of Python objects; not text, and not a buffer."""
    if isinstance(obj, (str, bytes, bytearray, memoryview, dict)) or hasattr(obj, "__array__"):
        return False
    return isinstance(obj, range) or (
        hasattr(obj, "__getitem__") and hasattr(obj, "__len__") and not _has_buffer(obj)
    )


def _has_buffer(obj: Any) -> bool:
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def _exchange(obj: Any, device: _DeviceLike, copy: bool | None) -> GPUArray:
    """Through DLPack or the CUDA array interface: without a copy where the memory allows it."""
    from pygpukit.ops import interop

    if hasattr(obj, "__dlpack__"):
        try:
            result = interop.from_dlpack(obj, copy=copy)
        except BufferError:
            _no_view(copy, f"memory of {type(obj).__name__}")
            raise
    else:
        result = interop.from_cuda_array_interface(obj)
        if copy:
            result = _native.copy(result)
    # Host memory goes to the default device, like NumPy arrays.
    if device is None and result.device == "cpu" and _native.default_device()[0] != "cpu":
        _no_view(copy, "an object in host memory")
        return _native.to_device(result, None)
    return result


def _from_host(obj: Any, dtype: _DTypeLike | None, device: _DeviceLike) -> GPUArray:
    import numpy as np

    if isinstance(obj, bytes):
        obj = memoryview(obj)  # numbers, not text
    try:
        host = np.asarray(obj, dtype=None if dtype is None else _numpy_dtype(dtype))
    except ValueError as error:  # rows of different lengths, text
        raise InvalidValueError(f"asarray: {error}") from None
    if not host.dtype.isnative:
        host = host.astype(host.dtype.newbyteorder("="))
    return from_numpy(host, device=device)


def _numpy_dtype(dtype: _DTypeLike) -> Any:
    return _native.result_type(dtype).to_numpy_dtype()


def _from_sequence(obj: Any, dtype: _DTypeLike | None, device: _DeviceLike) -> GPUArray:
    if not isinstance(obj, (list, tuple, range)):
        obj = list(islice(obj, len(obj)))  # once: iteration need not end, nor repeat
    leaves: set[type] = set()
    if _collect(obj, leaves):
        parts = [asarray(item, dtype=dtype, device=device) for item in obj]
        if device is None:
            where = next(p.device for i, p in zip(obj, parts, strict=True) if holds_array(i))
            parts = [_native.to_device(part, where) for part in parts]
        return _native.stack(parts, dtype=dtype)
    if dtype is None:
        dtype = _default_of(leaves)
    return _from_host(obj, dtype, device)


def _collect(obj: Any, leaves: set[type], depth: int = 0) -> bool:
    """Collects the types of all numbers; True when there are GPUArrays among them."""
    if depth > _MAX_NESTING:
        raise InvalidValueError(f"asarray: lists are nested more than {_MAX_NESTING} deep")
    kinds = set(map(type, obj))
    if kinds <= set(_NUMBERS):
        leaves |= kinds
        return False
    found = False
    for item in obj:
        if isinstance(item, GPUArray):
            found = True
        elif isinstance(item, (list, tuple, range)):
            found = _collect(item, leaves, depth + 1) or found
        else:
            leaves.add(type(item))
    return found


def holds_array(obj: Any) -> bool:
    """Whether it is a GPUArray, or a list with one in it."""
    if isinstance(obj, GPUArray):
        return True
    return isinstance(obj, (list, tuple)) and any(map(holds_array, obj))


def _default_of(leaves: set[type]) -> DataType | None:
    """Our defaults for Python numbers; None where NumPy's dtypes or the integers' size decide."""
    if not leaves:
        return _native.float32
    if not leaves <= set(_NUMBERS):
        return None
    if complex in leaves:
        return _native.complex64
    return _native.float32 if float in leaves else None


__all__ = ["array", "asarray"]

name_all(globals(), __all__)
