"""Arrays, dtypes, devices, streams and memory."""

from pygpukit._lazy import lazy_names
from pygpukit._native import (
    CudaEvent,
    DataType,
    GPUArray,
    Stream,
    bfloat16,
    copy_device_to_device_async,
    copy_device_to_device_offset,
    copy_to_device,
    copy_to_device_async,
    default_stream,
    empty,
    event_elapsed_ms,
    event_elapsed_us,
    float16,
    float32,
    float64,
    from_numpy,
    full,
    int8,
    int16,
    int32,
    int64,
    ones,
    synchronize,
    uint8,
    zeros,
)

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from pygpukit.core import array as array
    from pygpukit.core import backend as backend
    from pygpukit.core import device as device
    from pygpukit.core import dtypes as dtypes
    from pygpukit.core import errors as errors
    from pygpukit.core import factory as factory
    from pygpukit.core import memory as memory
    from pygpukit.core import stream as stream
    from pygpukit.core.device import DeviceInfo, get_device_info, is_cuda_available
    from pygpukit.core.memory import copy_to_device_async_raw_stream, get_memory_info
    from pygpukit.core.stream import StreamManager

if not TYPE_CHECKING:  # type checkers would accept any name
    __getattr__ = lazy_names(
        "pygpukit.core",
        {
            "pygpukit.core.device": ("DeviceInfo", "get_device_info", "is_cuda_available"),
            "pygpukit.core.memory": ("copy_to_device_async_raw_stream", "get_memory_info"),
            "pygpukit.core.stream": ("StreamManager",),
        },
        submodules=(
            "array",
            "backend",
            "device",
            "dtypes",
            "errors",
            "factory",
            "memory",
            "stream",
        ),
    )

__all__ = [
    "CudaEvent",
    "DataType",
    "DeviceInfo",
    "GPUArray",
    "Stream",
    "StreamManager",
    "bfloat16",
    "copy_device_to_device_async",
    "copy_device_to_device_offset",
    "copy_to_device",
    "copy_to_device_async",
    "copy_to_device_async_raw_stream",
    "default_stream",
    "empty",
    "event_elapsed_ms",
    "event_elapsed_us",
    "float16",
    "float32",
    "float64",
    "from_numpy",
    "full",
    "get_device_info",
    "get_memory_info",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_cuda_available",
    "ones",
    "synchronize",
    "uint8",
    "zeros",
]
