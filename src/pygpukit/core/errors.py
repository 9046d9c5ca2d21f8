"""The exception classes. The C++ core raises them; see native/base/error.h for their meaning."""

from __future__ import annotations


class PyGPUkitError(Exception):
    """Base of all errors raised by PyGPUkit."""


class InvalidArgument(PyGPUkitError):
    """Bad input; nothing was launched or allocated."""


class InvalidValueError(InvalidArgument, ValueError):
    """A value that is not allowed."""


class InvalidTypeError(InvalidArgument, TypeError):
    """A type that is not allowed."""


class ImplicitConversionError(InvalidTypeError):
    """Implicit conversion of a GPUArray to a NumPy array; call to_numpy()."""


class InvalidIndexError(InvalidArgument, IndexError):
    """An index out of range."""


class InvalidOverflowError(InvalidArgument, OverflowError):
    """A number that does not fit the dtype."""


class AxisError(InvalidArgument, ValueError, IndexError):
    """An axis out of bounds."""


class OperationError(PyGPUkitError, RuntimeError):
    """An operation that is not possible in the current state."""


class UnsupportedError(PyGPUkitError, NotImplementedError):
    """Not supported; the message names an alternative."""


class MissingPackageError(PyGPUkitError, ImportError):
    """An optional package that is not installed; the message has the pip command."""


class GpuUnavailable(PyGPUkitError, RuntimeError):
    """No usable driver or GPU where one is required; the message lists what was tried."""


class CaptureError(PyGPUkitError, RuntimeError):
    """Not allowed during a graph capture, or a capture begun or ended out of order."""


class ExchangeError(PyGPUkitError, BufferError):
    """Memory that cannot be exchanged with another library as requested."""


class OutOfMemory(PyGPUkitError, MemoryError):
    """Out of memory, even after cached memory was released. All figures in bytes."""

    def __init__(
        self,
        message: str,
        asked: int = 0,
        used: int = 0,
        cached: int = 0,
        largest_free: int = 0,
        limit: int = 0,
        device_free: int = 0,
        evicted: int = 0,
        account: str = "",
        account_used: int = 0,
        account_limit: int = 0,
    ) -> None:
        super().__init__(message)
        self.asked = asked
        self.used = used
        self.cached = cached
        self.largest_free = largest_free
        self.limit = limit
        self.device_free = device_free
        self.evicted = evicted
        self.account = account  # charged for the thread's allocations
        self.account_used = account_used
        self.account_limit = account_limit


class CudaError(PyGPUkitError, RuntimeError):
    """The driver refused a call or reported a failed launch."""

    def __init__(
        self,
        message: str,
        code: int = 999,
        name: str = "CUDA_ERROR_UNKNOWN",
        call: str = "",
        launches: list[str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.call = call
        self.launches = launches if launches is not None else []


class DeviceLostError(CudaError):
    """The GPU context was lost to an earlier error, which the message names."""


class NvrtcError(PyGPUkitError, RuntimeError):
    """NVRTC is missing, refused a call, or its output could not be loaded."""

    def __init__(self, message: str, code: int = 11, compilation_log: str = "") -> None:
        from pygpukit.jit.compiler import NvrtcErrorCode

        self._code = NvrtcErrorCode(code)
        self._log = compilation_log
        super().__init__(f"[{self._code.name}] {message}")

    @property
    def code(self) -> int:
        """The NvrtcErrorCode."""
        return self._code

    @property
    def compilation_log(self) -> str:
        """The compiler's output."""
        return self._log


class CompileError(NvrtcError):
    """CUDA C source that does not compile; the text holds log, numbered source and flags."""

    def __init__(
        self,
        message: str,
        code: int = 6,
        compilation_log: str = "",
        source: str = "",
        flags: list[str] | None = None,
    ) -> None:
        super().__init__(message, code, compilation_log)
        self.source = source
        self.flags = flags if flags is not None else []
