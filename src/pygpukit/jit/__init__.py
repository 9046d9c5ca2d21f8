"""Custom CUDA C kernels, compiled at run time."""

from pygpukit._lazy import lazy_names
from pygpukit._native import BoundKernel, JITKernel, RawModule

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from pygpukit._native import Program, program_counts, programs
    from pygpukit.core.errors import CompileError, NvrtcError
    from pygpukit.jit.compiler import (
        CompiledPTX,
        NvrtcErrorCode,
        check_driver_compatibility,
        compile_to_ptx,
        get_driver_requirements,
        get_nvrtc_path,
        get_nvrtc_version,
        get_warmup_error,
        is_nvrtc_available,
        is_warmup_done,
        jit,
        warmup,
    )

if not TYPE_CHECKING:  # type checkers would accept any name
    __getattr__ = lazy_names(
        "pygpukit.jit",
        {
            "pygpukit._native": ("Program", "program_counts", "programs"),
            "pygpukit.core.errors": ("CompileError", "NvrtcError"),
            "pygpukit.jit.compiler": (
                "CompiledPTX",
                "NvrtcErrorCode",
                "check_driver_compatibility",
                "compile_to_ptx",
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
        submodules=("compiler",),
    )

__all__ = [
    "BoundKernel",
    "CompileError",
    "CompiledPTX",
    "JITKernel",
    "NvrtcError",
    "NvrtcErrorCode",
    "Program",
    "RawModule",
    "check_driver_compatibility",
    "compile_to_ptx",
    "get_driver_requirements",
    "get_nvrtc_path",
    "get_nvrtc_version",
    "get_warmup_error",
    "is_nvrtc_available",
    "is_warmup_done",
    "jit",
    "program_counts",
    "programs",
    "warmup",
]
