"""NumPy's other names for functions, and a few small ones that follow from others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import require_arrays, require_callable
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.conversion import asarray
from pygpukit.ops.elementwise import round as around
from pygpukit.ops.indexing import diag_indices, tril_indices, triu_indices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pygpukit._native import GPUArray, _DeviceLike, _DTypeLike

amax = _native.max
amin = _native.min
asanyarray = asarray


def asarray_chkfinite(a: Any, dtype: _DTypeLike | None = None) -> GPUArray:
    """asarray; ValueError where an element is infinite or NaN, so this waits for the GPU."""
    x = asarray(a, dtype=dtype)
    if not bool(_native.all(_native.isfinite(x))):
        raise InvalidValueError("asarray_chkfinite: array must not contain infs or NaNs")
    return x


def isscalar(element: Any) -> bool:
    """Whether it is a Python or NumPy number, or text; not a 0-d array."""
    import numbers

    import numpy as np

    return isinstance(element, (np.generic, str, bytes, numbers.Number))


def fromiter(
    iter: Iterable[Any], dtype: _DTypeLike, count: int = -1, *, device: _DeviceLike = None
) -> GPUArray:
    """A vector of the values of an iterable, all of them or the first `count`."""
    from itertools import islice

    values = list(iter) if count < 0 else list(islice(iter, count))
    if len(values) < count:
        raise InvalidValueError(
            f"fromiter: iterator too short: expected {count} but iterator had only {len(values)} "
            "items"
        )
    return asarray(values, dtype=dtype, device=device)


def diag_indices_from(arr: GPUArray) -> tuple[GPUArray, ...]:
    """diag_indices of an array with at least two axes of one length."""
    require_arrays("diag_indices_from", arr=arr)
    if arr.ndim < 2 or len(set(arr.shape)) != 1:
        raise InvalidValueError(
            f"diag_indices_from: arr has shape {arr.shape}, expected two equal sizes or more"
        )
    return diag_indices(arr.shape[0], arr.ndim, device=arr.device)


def tril_indices_from(arr: GPUArray, k: int = 0) -> tuple[GPUArray, GPUArray]:
    """tril_indices of a matrix."""
    rows, columns = _matrix("tril_indices_from", arr)
    return tril_indices(rows, k, columns, device=arr.device)


def triu_indices_from(arr: GPUArray, k: int = 0) -> tuple[GPUArray, GPUArray]:
    """triu_indices of a matrix."""
    rows, columns = _matrix("triu_indices_from", arr)
    return triu_indices(rows, k, columns, device=arr.device)


def _matrix(op: str, arr: GPUArray) -> tuple[int, int]:
    require_arrays(op, arr=arr)
    if arr.ndim != 2:
        raise InvalidValueError(f"{op}: arr has shape {arr.shape}, input array must be 2-d")
    return arr.shape[0], arr.shape[1]


def mask_indices(
    n: int, mask_func: Callable[..., GPUArray], k: Any = 0, *, device: _DeviceLike = None
) -> tuple[GPUArray, ...]:
    """The coordinates where mask_func (tril, triu) leaves a matrix of ones."""
    require_callable("mask_indices", "mask_func", mask_func)
    ones = _native.ones((n, n), "int64", device=device)
    return _native.nonzero(_native.not_equal(mask_func(ones, k), 0))


def sort_complex(a: Any) -> GPUArray:
    """Sorted along the last axis by the real part, then the imaginary part, as complex numbers."""
    x = asarray(a)
    if not x.dtype.name.startswith("complex"):
        small = x.dtype.name in ("int8", "uint8", "int16", "uint16", "float16", "float32")
        return _native.astype(_native.sort(x), "complex64" if small else "complex128")
    return _native.sort(x)


__all__ = [
    "amax",
    "amin",
    "around",
    "asanyarray",
    "asarray_chkfinite",
    "diag_indices_from",
    "fromiter",
    "isscalar",
    "mask_indices",
    "sort_complex",
    "tril_indices_from",
    "triu_indices_from",
]

name_all(globals(), __all__)
