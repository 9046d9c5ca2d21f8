"""Arrays from other libraries' memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all

if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def from_dlpack(
    x: object, /, *, device: str | int | None = None, copy: bool | None = None
) -> GPUArray:
    """An array over the memory of a PyTorch, CuPy, JAX or NumPy array (any DLPack producer).

    The current stream waits for the producer's work, and its memory is kept alive as long as the
    result. device: of the result, by default that of `x`. copy: True always copies,
    False raises BufferError where a copy would be needed, None copies only then.
    """
    return _native.from_dlpack(x, device, copy)


def from_cuda_array_interface(x: object, /) -> GPUArray:
    """An array over the memory of an object with __cuda_array_interface__ (Numba, CuPy, ...)."""
    return _native.from_cuda_array_interface(x)


def frombuffer(
    buffer: object,
    dtype: Any = "float32",
    count: int = -1,
    offset: int = 0,
    *,
    device: str | int | None = None,
) -> GPUArray:
    """A 1-D array with a copy of `count` elements of a buffer (bytes, mmap, ...) from `offset`."""
    import numpy as np

    wanted = dtype
    if isinstance(dtype, (str, _native.DataType)):
        found = _native.DataType.from_string(dtype) if isinstance(dtype, str) else dtype
        wanted = found.to_numpy_dtype()
    host = np.frombuffer(buffer, wanted, count, offset)  # type: ignore[call-overload]
    return _native.from_numpy(host, device=device)


__all__ = ["from_cuda_array_interface", "from_dlpack", "frombuffer"]

name_all(globals(), __all__)
