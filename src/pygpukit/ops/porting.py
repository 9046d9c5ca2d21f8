"""Functions that programs written for several array libraries call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit._naming import name_all
from pygpukit._native import GPUArray

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray


def asnumpy(
    a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True
) -> NDArray[Any]:
    """A NumPy array of any array: a host copy of a GPUArray (its to_numpy), others as asarray."""
    import numpy as np

    if isinstance(a, GPUArray):
        host = a.to_numpy(out, stream, blocking)
        return np.asfortranarray(host) if order == "F" else host
    result = np.asarray(a, order="F" if order == "F" else "C")
    if out is None:
        return result
    out[...] = result
    return out  # type: ignore[no-any-return]


def ndenumerate(arr: Any) -> Any:
    """Pairs of an index tuple and the number there; the array is read back once."""
    import numpy as np

    return np.ndenumerate(asnumpy(arr))


def get_array_module(*args: Any) -> ModuleType:
    """pygpukit when an argument is a GPUArray, else numpy."""
    if any(isinstance(arg, GPUArray) for arg in args):
        import pygpukit

        return pygpukit
    import numpy

    return numpy


__all__ = ["asnumpy", "get_array_module", "ndenumerate"]

name_all(globals(), __all__)
