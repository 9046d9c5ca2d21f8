"""Conversions to NumPy that a program did not write: numpy.asarray(x), plotting, pandas.

On the CPU there is no transfer to hide, so they happen. On a GPU they raise
ImplicitConversionError unless allow_implicit_conversion() is on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.errors import ImplicitConversionError, InvalidValueError

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray

    from pygpukit._native import GPUArray

_allowed = False


class allow_implicit_conversion:
    """Lets NumPy's functions copy arrays from a GPU by themselves, and NumPy arrays beside a
    GPUArray to its device.

    A call switches it for the whole process; as a context manager, until the block ends:

    >>> with gp.allow_implicit_conversion():
    ...     plt.imshow(x)
    """

    def __init__(self, allowed: bool = True) -> None:
        global _allowed
        self._before = _allowed
        _allowed = bool(allowed)

    def __enter__(self) -> allow_implicit_conversion:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _allowed
        _allowed = self._before


def is_allowed() -> bool:
    """Whether allow_implicit_conversion() is on."""
    return _allowed


def may_convert(x: GPUArray) -> bool:
    """Whether NumPy may have a copy without being told to_numpy()."""
    return _allowed or not x.on_gpu


def to_host(x: GPUArray, dtype: Any, copy: bool | None) -> NDArray[Any]:
    """GPUArray.__array__: always a copy, so that both backends behave alike."""
    if not may_convert(x):
        raise ImplicitConversionError(
            f"GPUArray: implicit conversion of an array on {x.device} to a NumPy array; call "
            "to_numpy(), or allow it with gp.allow_implicit_conversion()"
        )
    if copy is False:
        raise InvalidValueError("GPUArray: a NumPy array of it is a copy, and copy is False")
    host = _native.to_numpy(x, None, None, True)
    return host if dtype is None else host.astype(dtype, copy=False)
