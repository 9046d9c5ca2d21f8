"""PyGPUkit: a lightweight GPU runtime with a C++ core.

>>> import pygpukit as gp
>>> x = gp.ones((2, 3))
>>> (x + x).to_numpy()

Importing touches no GPU and loads no heavy module: names below are resolved when first used.
"""

import atexit

import pygpukit.core.array_protocols as _array_protocols  # noqa: F401 - methods of GPUArray

# Now: loaded later, the package would take the place of the function jit.
import pygpukit.jit as _jit_package  # noqa: F401
from pygpukit import _native
from pygpukit._lazy import lazy_names
from pygpukit._native import (
    BoundKernel,
    CudaEvent,
    CudaGraph,
    DataType,
    GPUArray,
    JITKernel,
    RawModule,
    Stream,
    add,
    bfloat16,
    complex64,
    complex128,
    current_stream,
    default_stream,
    empty,
    event_elapsed_ms,
    event_elapsed_us,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    from_numpy,
    full,
    int4,
    int8,
    int16,
    int32,
    int64,
    ones,
    pinned_empty,
    synchronize,
    uint4,
    uint8,
    uint16,
    uint32,
    uint64,
    zeros,
)
from pygpukit.ops.elementwise import mul

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from pygpukit import benchmark, core, ops
    from pygpukit.core.device import (
        DeviceCapabilities,
        DeviceInfo,
        KernelType,
        get_device_capabilities,
        get_device_count,
        get_device_info,
        get_sm_version,
        is_cuda_available,
    )
    from pygpukit.core.errors import (
        CaptureError,
        CompileError,
        CudaError,
        DeviceLostError,
        ExchangeError,
        GpuUnavailable,
        ImplicitConversionError,
        InvalidArgument,
        NvrtcError,
        OutOfMemory,
        PyGPUkitError,
    )
    from pygpukit.core.stream import StreamManager, StreamPriority
    from pygpukit.jit.compiler import (
        NvrtcErrorCode,
        check_driver_compatibility,
        get_driver_requirements,
        get_nvrtc_path,
        get_nvrtc_version,
        get_warmup_error,
        is_nvrtc_available,
        is_warmup_done,
        jit,
        warmup,
    )
    from pygpukit.ops.interop import from_cuda_array_interface, from_dlpack, frombuffer

__version__: str = _native.__version__

atexit.register(_native.finish)  # lets kernels end, so that what they print arrives

if not TYPE_CHECKING:  # type checkers would take any name for one of the package
    __getattr__ = lazy_names(
        "pygpukit",
        {
            "pygpukit.core.device": (
                "DeviceCapabilities",
                "DeviceInfo",
                "KernelType",
                "get_device_capabilities",
                "get_device_count",
                "get_device_info",
                "get_sm_version",
                "is_cuda_available",
            ),
            "pygpukit.core.errors": (
                "CaptureError",
                "CompileError",
                "CudaError",
                "DeviceLostError",
                "ExchangeError",
                "GpuUnavailable",
                "ImplicitConversionError",
                "InvalidArgument",
                "NvrtcError",
                "OutOfMemory",
                "PyGPUkitError",
            ),
            "pygpukit.core.stream": ("StreamManager", "StreamPriority"),
            "pygpukit.ops.interop": ("frombuffer", "from_cuda_array_interface", "from_dlpack"),
            "pygpukit.jit.compiler": (
                "NvrtcErrorCode",
                "check_driver_compatibility",
                "get_driver_requirements",
                "get_nvrtc_path",
                "get_nvrtc_version",
                "get_warmup_error",
                "is_nvrtc_available",
                "is_warmup_done",
                "jit",
                "warmup",
            ),
        },
        submodules=("benchmark", "core", "ops"),
    )
del jit  # the function, not the package


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "BoundKernel",
    "CaptureError",
    "CompileError",
    "CudaError",
    "CudaEvent",
    "CudaGraph",
    "DataType",
    "DeviceCapabilities",
    "DeviceInfo",
    "DeviceLostError",
    "ExchangeError",
    "GPUArray",
    "GpuUnavailable",
    "ImplicitConversionError",
    "InvalidArgument",
    "JITKernel",
    "KernelType",
    "NvrtcError",
    "NvrtcErrorCode",
    "OutOfMemory",
    "PyGPUkitError",
    "RawModule",
    "Stream",
    "StreamManager",
    "StreamPriority",
    "add",
    "benchmark",
    "bfloat16",
    "check_driver_compatibility",
    "complex64",
    "complex128",
    "core",
    "current_stream",
    "default_stream",
    "empty",
    "event_elapsed_ms",
    "event_elapsed_us",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "from_cuda_array_interface",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "get_device_capabilities",
    "get_device_count",
    "get_device_info",
    "get_driver_requirements",
    "get_nvrtc_path",
    "get_nvrtc_version",
    "get_sm_version",
    "get_warmup_error",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_cuda_available",
    "is_nvrtc_available",
    "is_warmup_done",
    "jit",
    "mul",
    "ones",
    "ops",
    "pinned_empty",
    "synchronize",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "warmup",
    "zeros",
]
