"""The backend interface of 0.2: memory and streams by integer handle.

A layer over arrays and streams, which new code uses directly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import count
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import DataType, GPUArray, Stream
from pygpukit.core.device import DeviceInfo, _info, is_cuda_available
from pygpukit.core.errors import InvalidIndexError, OperationError

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import DTypeLike, NDArray


class Backend(ABC):
    """Memory and streams of one kind of device."""

    @abstractmethod
    def is_available(self) -> bool:
        """True when it is usable."""

    @abstractmethod
    def get_device_count(self) -> int:
        """Devices of this kind."""

    @abstractmethod
    def get_device_properties(self, device_id: int = 0) -> DeviceInfo:
        """Properties of a device."""

    @abstractmethod
    def allocate(self, size_bytes: int) -> int:
        """Allocates memory with undefined contents; returns a handle, not an address."""

    @abstractmethod
    def free(self, ptr: int) -> None:
        """Frees memory; the handle becomes invalid."""

    @abstractmethod
    def copy_host_to_device(self, host_array: NDArray[Any], device_ptr: int) -> None:
        """Copies a NumPy array's bytes to the start of the memory."""

    @abstractmethod
    def copy_device_to_host(
        self, device_ptr: int, size_bytes: int, dtype: DTypeLike | DataType
    ) -> NDArray[Any]:
        """The first bytes of the memory as a new one-dimensional NumPy array."""

    @abstractmethod
    def memset(self, device_ptr: int, value: int, size_bytes: int) -> None:
        """Sets the first bytes of the memory to a value from 0 to 255."""

    @abstractmethod
    def synchronize(self) -> None:
        """Waits for all work."""

    @abstractmethod
    def create_stream(self, priority: int = 0) -> Stream:
        """A new stream; a negative priority means high."""

    @abstractmethod
    def destroy_stream(self, stream: Stream) -> None:
        """Waits for the stream's work; it is destroyed with its last reference."""

    @abstractmethod
    def stream_synchronize(self, stream: Stream) -> None:
        """Waits for the stream's work."""


class _ArrayBackend(Backend):
    """Handles into byte arrays on one device."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._arrays: dict[int, GPUArray] = {}
        self._handles = count(1)

    def _array(self, op: str, handle: int) -> GPUArray:
        array = self._arrays.get(handle)
        if array is None:
            raise OperationError(f"{op}: {handle} is not memory of this backend, or was freed")
        return array

    def allocate(self, size_bytes: int) -> int:
        array = _native.empty(size_bytes, "uint8", device=self._device)
        handle = next(self._handles)
        self._arrays[handle] = array
        return handle

    def free(self, ptr: int) -> None:
        if self._arrays.pop(ptr, None) is None:
            raise OperationError(f"free: {ptr} is not memory of this backend, or was freed")

    def copy_host_to_device(self, host_array: NDArray[Any], device_ptr: int) -> None:
        import numpy as np

        source = np.ascontiguousarray(host_array)
        array = self._array("copy_host_to_device", device_ptr)
        _native.copy_to_device(array, source.ctypes.data, source.nbytes)

    def copy_device_to_host(
        self, device_ptr: int, size_bytes: int, dtype: DTypeLike | DataType
    ) -> NDArray[Any]:
        array = self._array("copy_device_to_host", device_ptr)
        wanted = DataType.from_numpy_dtype(dtype).to_numpy_dtype()
        if size_bytes != array.nbytes:
            part = _native.empty(size_bytes, "uint8", device=self._device)
            _native.copy_device_to_device_offset(part, 0, array, 0, size_bytes)
            array = part
        result: NDArray[Any] = array.to_numpy().view(wanted)
        return result

    def memset(self, device_ptr: int, value: int, size_bytes: int) -> None:
        array = self._array("memset", device_ptr)
        source = _native.full(size_bytes, value, "uint8", device=self._device)
        _native.copy_device_to_device_offset(array, 0, source, 0, size_bytes)

    def synchronize(self) -> None:
        _native.synchronize()

    def create_stream(self, priority: int = 0) -> Stream:
        return Stream(priority="high" if priority < 0 else "low", device=self._device)

    def destroy_stream(self, stream: Stream) -> None:
        stream.synchronize()

    def stream_synchronize(self, stream: Stream) -> None:
        stream.synchronize()


class CPUSimulationBackend(_ArrayBackend):
    """Host memory; work is synchronous."""

    def __init__(self) -> None:
        super().__init__("cpu")

    def is_available(self) -> bool:
        return True

    def get_device_count(self) -> int:
        return 1

    def get_device_properties(self, device_id: int = 0) -> DeviceInfo:
        if device_id != 0:
            raise InvalidIndexError(
                f"get_device_properties: device_id is {device_id}, CPU simulation has one device, 0"
            )
        return _info(_native.device_traits("cpu"))


class NativeBackend(_ArrayBackend):
    """The first GPU. Without one, all but the queries raise GpuUnavailable."""

    def __init__(self) -> None:
        super().__init__("cuda")

    def is_available(self) -> bool:
        return is_cuda_available()

    def get_device_count(self) -> int:
        return _native.cuda_device_count()

    def get_device_properties(self, device_id: int = 0) -> DeviceInfo:
        return _info(_native.device_traits(device_id))


_backend: Backend | None = None


def get_backend() -> Backend:
    """The backend of the process: that of the default device, unless set_backend chose another."""
    global _backend
    if _backend is None:
        on_cpu = _native.default_device()[0] == "cpu"
        _backend = CPUSimulationBackend() if on_cpu else NativeBackend()
    return _backend


def set_backend(backend: Backend) -> None:
    """Makes get_backend return `backend`."""
    global _backend
    _backend = backend


def reset_backend() -> None:
    """Makes the next get_backend choose again."""
    global _backend
    _backend = None


def has_native_module() -> bool:
    """True: the C++ core is part of the package."""
    return True


def get_native_module() -> ModuleType:
    """The C++ core."""
    return _native


def get_rust_module() -> ModuleType | None:
    """None: 0.2's Rust parts are C++ now."""
    return None


def has_rust_module() -> bool:
    """False."""
    return False


__all__ = [
    "Backend",
    "CPUSimulationBackend",
    "NativeBackend",
    "get_backend",
    "get_native_module",
    "get_rust_module",
    "has_native_module",
    "has_rust_module",
    "reset_backend",
    "set_backend",
]
