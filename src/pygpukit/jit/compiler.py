"""Run-time compilation of CUDA C: kernels, NVRTC, warm-up and driver checks."""

from __future__ import annotations

import os
import threading
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from pygpukit import _native
from pygpukit._native import BoundKernel, JITKernel, RawModule
from pygpukit.core.errors import CompileError, NvrtcError, PyGPUkitError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MIN_DRIVER = 11000  # in cuDriverGetVersion's encoding
_MIN_SM = 80
_WARMUP_SOURCE = "__global__ void pygpukit_warmup(int* x) { *x = 1; }"


class NvrtcErrorCode(IntEnum):
    """NVRTC's result codes; from 1000 on our own. A code not listed here is an InternalError."""

    Success = 0
    OutOfMemory = 1
    ProgramCreationFailure = 2
    InvalidInput = 3
    InvalidProgram = 4
    InvalidOption = 5
    Compilation = 6
    BuiltinOperationFailure = 7
    NoNameExpressionsAfterCompilation = 8
    NoLoweredNamesBeforeCompilation = 9
    NameExpressionNotValid = 10
    InternalError = 11
    NotLoaded = 1000
    PtxLoadFailed = 1001
    FunctionNotFound = 1002
    LaunchFailed = 1003

    @classmethod
    def _missing_(cls, value: object) -> NvrtcErrorCode | None:
        # Newer NVRTC versions add codes; raising one of them must not fail.
        return cls.InternalError if isinstance(value, int) else None


class CompiledPTX(NamedTuple):
    """Result of compile_to_ptx."""

    ptx: str
    log: str


def jit(
    source: str,
    func: str,
    options: Sequence[str] | None = None,
    block_size: int = 256,
    *,
    reference: Callable[..., Any] | None = None,
    include_folders: Sequence[str] | None = None,
) -> JITKernel:
    """Compiles the kernel `func` of a CUDA C source.

    >>> scale = gp.jit("__global__ void scale(float* x, float f, int n) {...}", "scale")
    >>> scale(x, f=0.5, n=x.size)

    `options` are NVRTC flags; nvcc spellings of a default (-O3) are ignored, and NvrtcError
    names any others and what to write instead. On CPU simulation a call runs `reference`, a Python
    function with the kernel's parameters that gets NumPy views of the arrays; without one the
    kernel runs in the simulator, and without NVRTC the call raises GpuUnavailable.

    `include_folders`, for untrusted source: the only folders, apart from CUDA's own headers,
    that `#include` may read; anything else is refused before compilation (docs/security.md).
    """
    return JITKernel(
        source, func, options, block_size, reference=reference, include_folders=include_folders
    )


def compile_to_ptx(
    source: str,
    name: str = "kernel.cu",
    options: Sequence[str] = (),
    *,
    include_folders: Sequence[str] | None = None,
) -> CompiledPTX:
    """PTX and compiler log of a source; needs NVRTC but no GPU. `include_folders`: as for jit."""
    ptx, log = _native.compile_to_ptx(source, name, list(options), include_folders=include_folders)
    return CompiledPTX(ptx, log)


def _nvrtc() -> dict[str, Any]:
    """Info about NVRTC; empty when it is not available."""
    try:
        info: dict[str, Any] = _native.nvrtc_info()
    except PyGPUkitError:
        return {}
    return info if info["available"] else {}


def is_nvrtc_available() -> bool:
    """True when CUDA C can be compiled. Never raises."""
    return bool(_nvrtc())


def get_nvrtc_version() -> tuple[int, int] | None:
    """(major, minor) of NVRTC, None without it. Never raises."""
    version: tuple[int, int] | None = _nvrtc().get("version")
    return version


def get_nvrtc_path() -> str | None:
    """File of the NVRTC library, None without one. Never raises."""
    path: str = _nvrtc().get("path", "")
    return path if os.path.isfile(path) else None


class _Warmup:
    """The warm-up of the process: not started, running or done."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.begun = False
        self.done = threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            kernel = JITKernel(_WARMUP_SOURCE, "pygpukit_warmup")
            if not kernel.is_compiled:
                kernel.ptx  # noqa: B018 - raises the error that lists what was tried
        except Exception as error:
            self.error = error
        finally:
            self.done.set()


_warmup = _Warmup()


def warmup(background: bool = False, callback: Callable[[], object] | None = None) -> bool:
    """Loads and warms up the compiler, once per process.

    True on success, False on failure (see get_warmup_error). With `background` it runs
    on a daemon thread and True is returned at once. `callback` is called when it is done.
    """

    def finish(first: bool) -> None:
        if first:
            _warmup.run()
        else:
            _warmup.done.wait()
        if callback is not None:
            callback()

    with _warmup.lock:
        first = not _warmup.begun
        _warmup.begun = True
    if background and not _warmup.done.is_set():
        threading.Thread(target=finish, args=(first,), name="pygpukit-warmup", daemon=True).start()
        return True
    finish(first)
    return _warmup.error is None


def is_warmup_done() -> bool:
    """True when the warm-up has ended, successfully or not."""
    return _warmup.done.is_set()


def get_warmup_error() -> Exception | None:
    """Why the warm-up failed; None when it did not."""
    return _warmup.error


def get_driver_requirements() -> dict[str, str]:
    """The driver and GPU requirements of PyGPUkit, as text."""
    return {
        "min_driver_version": "11.0",
        "min_gpu_architecture": "SM 80 (Ampere)",
        "recommended_driver_version": "12.4",
        "recommended_gpu": "SM 90 (Hopper) or newer",
        "supported_architectures": "SM 80, 86, 89, 90, 100, 120 and newer",
        "notes": "Only the NVIDIA driver is needed; jit() also needs NVRTC: pip install "
        "pygpukit[jit]. Without a GPU everything runs on CPU simulation.",
    }


def check_driver_compatibility() -> tuple[bool, str]:
    """Whether driver and GPU are usable, with the reason. Never raises."""
    try:
        driver = _native.driver_info()
        if driver["problem"]:
            return False, driver["problem"]
        if driver["version"] < _MIN_DRIVER:
            return False, f"the driver's version is {driver['version']}, {_MIN_DRIVER} is needed"
        gpu = _native.device_traits("cuda:0")
    except Exception as error:
        return False, str(error)
    text = f"{gpu['name']} (SM {gpu['sm']})"
    if gpu["sm"] < _MIN_SM:
        return False, f"{text}: SM {_MIN_SM} or newer is required"
    return True, f"{text}, driver {driver['version']}"


__all__ = [
    "BoundKernel",
    "CompileError",
    "CompiledPTX",
    "JITKernel",
    "NvrtcError",
    "NvrtcErrorCode",
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
    "warmup",
]
