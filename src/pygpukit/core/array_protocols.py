"""The methods of GPUArray that are written in Python: protocols, pickling, copies, text.

Imported with the package, so nothing heavy is imported at the top.
"""

from __future__ import annotations

from pygpukit import _native
from pygpukit._native import GPUArray

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from typing import Any

    import numpy.typing


# --- exchange -------------------------------------------------------------------------------------


def __dlpack__(
    self: GPUArray,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> object:
    """A DLPack capsule over this array's memory."""
    return _native.dlpack_capsule(self, stream, max_version, dl_device, copy)


def __dlpack_device__(self: GPUArray) -> tuple[int, int]:
    """(1, 0) on the CPU, (2, index) on a GPU."""
    return _native.dlpack_device(self)


def __cuda_array_interface__(self: GPUArray) -> dict[str, Any]:
    """Version 3 of the interface; AttributeError where it does not apply."""
    return _native.cuda_array_interface(self)


def to_numpy(
    self: GPUArray,
    out: numpy.typing.NDArray[Any] | None = None,
    stream: Any = None,
    blocking: bool = True,
) -> numpy.typing.NDArray[Any]:
    """A host copy; waits only for this array's own work.

    out: the destination, a C-contiguous NumPy array of the same shape and dtype. stream: where the
    copy runs, the current stream by default. blocking=False returns before the copy is done, and
    requires `out` from pinned_empty; wait for the stream before reading it.
    """
    return _native.to_numpy(self, out, stream, blocking)


# --- NumPy ----------------------------------------------------------------------------------------


def __array__(
    self: GPUArray, dtype: Any = None, copy: bool | None = None
) -> numpy.typing.NDArray[Any]:
    """A copy for NumPy. On a GPU only where allow_implicit_conversion() says so: transfers are
    explicit."""
    from pygpukit.core.implicit import to_host

    return to_host(self, dtype, copy)


def __array_ufunc__(
    self: GPUArray, ufunc: Any, method: str, *inputs: object, **options: Any
) -> object:
    """numpy.add(x, y) runs pygpukit.add(x, y)."""
    from pygpukit.core.numpy_dispatch import call_ufunc

    return call_ufunc(self, ufunc, method, inputs, options)


def __array_function__(
    self: GPUArray, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> object:
    """numpy.sum(x) runs pygpukit.sum(x)."""
    from pygpukit.core.numpy_dispatch import call_function

    return call_function(self, function, types, args, kwargs)


def __dask_tokenize__(self: GPUArray) -> object:
    """Dask's name for the contents."""
    from pygpukit.core.dask_protocol import token

    return token(self)


# --- values ---------------------------------------------------------------------------------------


def item(self: GPUArray, *args: int | tuple[int, ...]) -> bool | int | float | complex:
    """One element as a Python number: the only one, or the one at a flat index or index tuple."""
    from pygpukit.core.host_values import element_value

    value: bool | int | float | complex = element_value(self, args)
    return value


def tolist(self: GPUArray) -> Any:
    """The elements as nested lists of Python numbers."""
    from pygpukit.core.host_values import python_values

    return python_values(self.to_numpy())


def __contains__(self: GPUArray, value: object) -> bool:
    """Whether an element is equal to the value, as in NumPy; waits for the GPU."""
    same = self == value
    return bool(_native.any(same)) if isinstance(same, GPUArray) else bool(same)


# --- copies and pickling --------------------------------------------------------------------------


def __copy__(self: GPUArray) -> GPUArray:
    return _native.copied(self)


def __deepcopy__(self: GPUArray, memo: dict[int, object]) -> GPUArray:
    return _native.copied(self)


def __reduce_ex__(self: GPUArray, protocol: int) -> tuple[Any, ...]:
    """Through host memory; with protocol 5 the bytes can be out-of-band."""
    host = self.to_numpy().reshape(-1).view("uint8")
    content: object = host.tobytes()
    if protocol >= 5:
        from pickle import PickleBuffer

        content = PickleBuffer(host.data)
    return rebuild, (content, self.shape, self.dtype.name, self.device)


def __reduce__(self: GPUArray) -> tuple[Any, ...]:
    return __reduce_ex__(self, 2)


def rebuild(content: Any, shape: tuple[int, ...], dtype: str, device: str) -> GPUArray:
    """Unpickles an array; on the default device where its own does not exist."""
    import numpy as np

    host_type = _native.DataType.from_string(dtype).to_numpy_dtype()
    host = np.asarray(memoryview(content).cast("B")).view(host_type).reshape(shape)
    kind, _, index = device.partition(":")
    exists = kind != "cuda" or int(index) < _native.cuda_device_count()
    return _native.from_numpy(host, device=device if exists else None)


def __sizeof__(self: GPUArray) -> int:
    """Host memory in bytes: includes the data on the CPU, not on a GPU."""
    return object.__sizeof__(self) + (0 if self.on_gpu else self.nbytes)


def __round__(self: GPUArray, ndigits: int | None = None) -> Any:
    """round(x) of a 0-d array, as of NumPy's scalars: an int; with ndigits a 0-d array."""
    if self.ndim > 0:
        from pygpukit.core.errors import InvalidTypeError

        raise InvalidTypeError(
            f"round: x has shape {self.shape}, expected a 0-d array; gp.round() takes any"
        )
    if ndigits is None:
        return round(item(self))  # type: ignore[arg-type]
    from pygpukit.ops import elementwise

    return elementwise.round(self, ndigits)


# --- text -----------------------------------------------------------------------------------------


def __str__(self: GPUArray) -> str:
    from pygpukit.core.printing import array_str

    return array_str(self)


def __repr__(self: GPUArray) -> str:
    from pygpukit.core.printing import array_repr

    return array_repr(self)


def __format__(self: GPUArray, spec: str) -> str:
    """A 0-d array as its number, others as str()."""
    if self.ndim == 0:
        return format(item(self), spec)
    return object.__format__(self, spec)


_METHODS = (
    __array__,
    __array_function__,
    __array_ufunc__,
    __contains__,
    __copy__,
    __dask_tokenize__,
    __deepcopy__,
    __dlpack__,
    __dlpack_device__,
    __format__,
    __reduce__,
    __reduce_ex__,
    __repr__,
    __round__,
    __sizeof__,
    __str__,
    item,
    to_numpy,
    tolist,
)

for _method in _METHODS:
    _method.__qualname__ = f"GPUArray.{_method.__name__}"
    setattr(GPUArray, _method.__name__, _method)
setattr(GPUArray, "__cuda_array_interface__", property(__cuda_array_interface__))  # noqa: B010
setattr(GPUArray, "__array_priority__", 1_000_000.0)  # noqa: B010
