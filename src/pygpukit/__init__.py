"""PyGPUkit: a lightweight GPU runtime with a C++ core.

>>> import pygpukit as gp
>>> x = gp.ones((2, 3))
>>> (x + x).to_numpy()

The functions follow NumPy and the Python array API standard 2024.12. Importing touches no GPU and
loads no heavy module: the names below are resolved on first use.
"""

import atexit

# Imported eagerly: they attach the methods of GPUArray and ufunc.
import pygpukit.core.array_methods as _array_methods  # noqa: F401
import pygpukit.core.array_protocols as _array_protocols  # noqa: F401
import pygpukit.core.ufunc_methods as _ufunc_methods  # noqa: F401

# Imported eagerly: loaded later, the package would shadow the function jit.
import pygpukit.jit as _jit_package  # noqa: F401
from pygpukit import _native
from pygpukit._lazy import lazy_names
from pygpukit._names import OPS as _OPS
from pygpukit._native import (
    BoundKernel,
    CudaEvent,
    CudaGraph,
    DataType,
    GPUArray,
    JITKernel,
    RawModule,
    Stream,
    bfloat16,
    bool,
    complex64,
    complex128,
    current_stream,
    default_stream,
    event_elapsed_ms,
    event_elapsed_us,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int4,
    int8,
    int16,
    int32,
    int64,
    pinned_empty,
    synchronize,
    ufunc,
    uint4,
    uint8,
    uint16,
    uint32,
    uint64,
)

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from pygpukit import (
        asr,
        benchmark,
        core,
        dispatch,
        fft,
        lib,
        linalg,
        llm,
        memory,
        ops,
        pipeline,
        profiling,
        random,
        scheduler,
        sim,
        special,
        testing,
        transfer,
        tts,
    )
    from pygpukit._array_info import ArrayNamespaceInfo
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
        AxisError,
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
        UnsupportedError,
    )
    from pygpukit.core.implicit import allow_implicit_conversion
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
    from pygpukit.jit.cupy_kernels import ElementwiseKernel, RawKernel, ReductionKernel
    from pygpukit.ops import basic as _basic
    from pygpukit.ops.basic import *  # noqa: F403

__version__: str = _native.__version__
__array_api_version__ = "2024.12"

e = 2.718281828459045
euler_gamma = 0.5772156649015329
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793

atexit.register(_native.finish)  # waits for kernels, so that their printf output arrives


def __array_namespace_info__() -> "ArrayNamespaceInfo":
    """The inspection API of the standard: capabilities, devices, dtypes."""
    from pygpukit._array_info import ArrayNamespaceInfo

    return ArrayNamespaceInfo()


if not TYPE_CHECKING:  # type checkers would accept any name
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
                "AxisError",
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
                "UnsupportedError",
            ),
            "pygpukit.core.implicit": ("allow_implicit_conversion",),
            "pygpukit.core.stream": ("StreamManager", "StreamPriority"),
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
            "pygpukit.jit.cupy_kernels": ("ElementwiseKernel", "RawKernel", "ReductionKernel"),
            **_OPS,
        },
        submodules=(
            "asr",
            "benchmark",
            "core",
            "dispatch",
            "lib",
            "linalg",
            "fft",
            "llm",
            "memory",
            "ops",
            "pipeline",
            "profiling",
            "random",
            "scheduler",
            "sim",
            "special",
            "testing",
            "transfer",
            "tts",
        ),
    )
del jit  # the function, not the package


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AxisError",
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
    "ElementwiseKernel",
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
    "RawKernel",
    "RawModule",
    "ReductionKernel",
    "Stream",
    "StreamManager",
    "StreamPriority",
    "UnsupportedError",
    "__array_api_version__",
    "__array_namespace_info__",
    "allow_implicit_conversion",
    "asr",
    "benchmark",
    "bfloat16",
    "bool",
    "check_driver_compatibility",
    "complex64",
    "complex128",
    "core",
    "current_stream",
    "default_stream",
    "dispatch",
    "e",
    "euler_gamma",
    "event_elapsed_ms",
    "event_elapsed_us",
    "fft",
    "float4_e2m1fn",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "get_device_capabilities",
    "get_device_count",
    "get_device_info",
    "get_driver_requirements",
    "get_nvrtc_path",
    "get_nvrtc_version",
    "get_sm_version",
    "get_warmup_error",
    "inf",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_cuda_available",
    "is_nvrtc_available",
    "is_warmup_done",
    "jit",
    "lib",
    "linalg",
    "llm",
    "memory",
    "nan",
    "newaxis",
    "ops",
    "pi",
    "pinned_empty",
    "pipeline",
    "profiling",
    "random",
    "scheduler",
    "sim",
    "special",
    "synchronize",
    "testing",
    "transfer",
    "tts",
    "ufunc",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "warmup",
]
if TYPE_CHECKING:
    __all__ += _basic.__all__
else:
    __all__ = sorted({*__all__, *(_name for _names in _OPS.values() for _name in _names)})
