"""New arrays: filled, evenly spaced, triangular matrices and grids."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import array_argument, is_whole
from pygpukit.ops._declared import creation as _declared
from pygpukit.ops._declared.creation import *  # noqa: F403

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from pygpukit._native import _ArrayLike, _DeviceLike, _DTypeLike, _ScalarLike, _ShapeLike


# --- filled --------------------------------------------------------------------------------------


def _like(
    x: GPUArray, dtype: _DTypeLike | None, device: _DeviceLike, shape: _ShapeLike | None
) -> tuple[_ShapeLike, _DTypeLike, _DeviceLike]:
    return (
        x.shape if shape is None else shape,
        x.dtype if dtype is None else dtype,
        x.device if device is None else device,
    )


def empty_like(
    x: _ArrayLike,
    /,
    dtype: _DTypeLike | None = None,
    *,
    device: _DeviceLike = None,
    shape: _ShapeLike | None = None,
) -> GPUArray:
    """A new array with undefined contents, with x's shape, dtype and device unless given."""
    x = array_argument("empty_like", "x", x)
    size, kind, where = _like(x, dtype, device, shape)
    return _native.empty(size, kind, device=where)


def zeros_like(
    x: _ArrayLike,
    /,
    dtype: _DTypeLike | None = None,
    *,
    device: _DeviceLike = None,
    shape: _ShapeLike | None = None,
) -> GPUArray:
    """A new array of zeros, with x's shape, dtype and device unless given."""
    x = array_argument("zeros_like", "x", x)
    size, kind, where = _like(x, dtype, device, shape)
    return _native.zeros(size, kind, device=where)


def ones_like(
    x: _ArrayLike,
    /,
    dtype: _DTypeLike | None = None,
    *,
    device: _DeviceLike = None,
    shape: _ShapeLike | None = None,
) -> GPUArray:
    """A new array of ones, with x's shape, dtype and device unless given."""
    x = array_argument("ones_like", "x", x)
    size, kind, where = _like(x, dtype, device, shape)
    return _native.ones(size, kind, device=where)


def full_like(
    x: _ArrayLike,
    /,
    fill_value: _ScalarLike | GPUArray,
    dtype: _DTypeLike | None = None,
    *,
    device: _DeviceLike = None,
    shape: _ShapeLike | None = None,
) -> GPUArray:
    """A new array of fill_value, with x's shape, dtype and device unless given."""
    x = array_argument("full_like", "x", x)
    size, kind, where = _like(x, dtype, device, shape)
    return _native.full(size, fill_value, kind, device=where)


# --- evenly spaced -------------------------------------------------------------------------------


def arange(
    start: complex,
    /,
    stop: complex | None = None,
    step: complex = 1,
    dtype: _DTypeLike | None = None,
    *,
    device: _DeviceLike = None,
) -> GPUArray:
    """start, start + step, ... up to but excluding stop; with one argument, from 0 up to it."""
    first, last = (0, start) if stop is None else (start, stop)
    default, device = _defaults((first, last, step), device)
    numbers = [_real(n, "arange") for n in (first, last, step)]
    begin, end, by = numbers
    if by == 0:
        raise ZeroDivisionError("arange: step is 0")
    if all(isinstance(n, int) for n in numbers):
        count = -((begin - end) // by)
        kind = _native.result_type("int64" if dtype is None else dtype)
    else:
        length = (end - begin) / by
        if not math.isfinite(length):
            from pygpukit.core.errors import InvalidValueError

            raise InvalidValueError(
                f"arange: from {begin} to {end} in steps of {by} is not a finite number of elements"
            )
        count = math.ceil(length)
        kind = _native.result_type(default if dtype is None else dtype)
        if "int" in kind.name:  # like NumPy: steps between truncated numbers
            begin, by = int(begin), int(begin + by) - int(begin)
    count = max(int(count), 0)
    if count > 2**62:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(f"arange: {count} elements are more than memory can hold")
    if "int" in kind.name:
        by = (by + 2**63) % 2**64 - 2**63  # integers are modulo 2**64
    return _native.arange(count, begin, by, kind, device)


def _defaults(bounds: tuple[Any, ...], device: _DeviceLike) -> tuple[str, _DeviceLike]:
    """The real dtype and the device of numbers between bounds, of which some may be 0-d arrays."""
    arrays = [n for n in bounds if isinstance(n, GPUArray)]
    if device is None and arrays:
        device = arrays[0].device
    wide = any(n.dtype.name in ("float64", "complex128") for n in arrays)
    return "float64" if wide else "float32", device


def _real(value: Any, op: str) -> Any:
    """An int or a float of any real number; the value of a 0-d array is read back."""
    if isinstance(value, GPUArray) and value.ndim == 0 and not _is_complex(value):
        return value.item()
    if is_whole(value):
        return value.__index__()
    try:
        return float(value)
    except (TypeError, ValueError):
        from pygpukit.core.errors import InvalidTypeError

        raise InvalidTypeError(f"{op}: {safe_repr(value)} is not a real number") from None


@overload
def linspace(
    start: complex | _ArrayLike,
    stop: complex | _ArrayLike,
    /,
    num: int = 50,
    endpoint: bool = True,
    retstep: Literal[False] = False,
    dtype: _DTypeLike | None = None,
    axis: int = 0,
    *,
    device: _DeviceLike = None,
) -> GPUArray: ...
@overload
def linspace(
    start: complex | _ArrayLike,
    stop: complex | _ArrayLike,
    /,
    num: int = 50,
    endpoint: bool = True,
    *,
    retstep: Literal[True],
    dtype: _DTypeLike | None = None,
    axis: int = 0,
    device: _DeviceLike = None,
) -> tuple[GPUArray, Any]: ...
def linspace(
    start: complex | _ArrayLike,
    stop: complex | _ArrayLike,
    /,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: _DTypeLike | None = None,
    axis: int = 0,
    *,
    device: _DeviceLike = None,
) -> GPUArray | tuple[GPUArray, Any]:
    """num numbers from start to stop (excluding stop when endpoint is False).

    With retstep also the step, a Python number (NaN where there is none). Between arrays or lists
    the numbers are along a new axis, and the step is an array.
    """
    if _has_axes(start) or _has_axes(stop):
        from pygpukit.ops._lines import lines

        numbers, step = lines(start, stop, num, endpoint, dtype, axis, device)
        return (numbers, step) if retstep else numbers
    default, device = _defaults((start, stop), device)
    begin, end = (_number(n, "linspace") for n in (start, stop))
    if dtype is None:
        narrow = "complex64" if default == "float32" else "complex128"
        dtype = narrow if _is_complex(begin, end) else default
    numbers = _native.linspace(begin, end, num, endpoint, dtype, device)
    if not retstep:
        return numbers
    steps = num - 1 if endpoint else num
    return numbers, (end - begin) / steps if steps > 0 else math.nan


def _has_axes(bound: Any) -> bool:
    return isinstance(bound, (list, tuple)) or (isinstance(bound, GPUArray) and bound.ndim > 0)


def _number(value: Any, op: str) -> Any:
    """A float or a complex of any number."""
    if isinstance(value, GPUArray) and value.ndim == 0 and _is_complex(value):
        return value.item()
    return value if isinstance(value, complex) else float(_real(value, op))


def _is_complex(*values: Any) -> bool:
    return any(
        value.dtype.name.startswith("complex")
        if isinstance(value, GPUArray)
        else isinstance(value, complex)
        for value in values
    )


def logspace(
    start: complex,
    stop: complex,
    /,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: _DTypeLike | None = None,
    *,
    device: _DeviceLike = None,
) -> GPUArray:
    """base ** x for num evenly spaced x from start to stop."""
    from pygpukit.ops.elementwise import pow

    default, device = _defaults((start, stop), device)
    wide = "complex128" if _is_complex(start, stop) else "float64"
    exponents = linspace(start, stop, num, dtype=wide, device=device, endpoint=endpoint)
    powers: GPUArray = pow(base, exponents)
    narrow = default if wide == "float64" else wide if default == "float64" else "complex64"
    return _native.astype(powers, narrow if dtype is None else dtype, False)


def geomspace(
    start: float,
    stop: float,
    /,
    num: int = 50,
    endpoint: bool = True,
    dtype: _DTypeLike | None = None,
    *,
    device: _DeviceLike = None,
) -> GPUArray:
    """num numbers from start to stop in geometric progression; both ends are exact."""
    default, device = _defaults((start, stop), device)
    begin, end = (float(_real(n, "geomspace")) for n in (start, stop))
    if begin == 0 or end == 0 or (begin < 0) != (end < 0):
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(
            f"geomspace: start {start} and stop {stop} must not be zero and have one sign"
        )
    sign = -1.0 if begin < 0 else 1.0
    result = logspace(
        math.log10(sign * begin),
        math.log10(sign * end),
        num,
        dtype="float64",
        device=device,
        endpoint=endpoint,
    )
    if sign < 0:
        from pygpukit.ops.elementwise import negative

        result = negative(result)
    if num > 0:
        _put(result, 0, begin)
    if num > 1 and endpoint:
        _put(result, num - 1, end)
    return _native.astype(result, default if dtype is None else dtype, False)


def _put(x: GPUArray, index: int, value: float) -> None:
    place = _native.slice_axis(x, 0, index, 1)
    _native.copy_into(place, _native.full((), value, x.dtype, device=x.device))


# --- matrices and grids --------------------------------------------------------------------------


def identity(n: int, dtype: _DTypeLike | None = None, *, device: _DeviceLike = None) -> GPUArray:
    """The square matrix with ones on its main diagonal."""
    return _native.eye(n, None, 0, dtype, device=device)


def tri(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: _DTypeLike | None = None,
    *,
    device: _DeviceLike = None,
) -> GPUArray:
    """Ones on and below diagonal k, zeros above."""
    return _native.tril(_native.ones((N, N if M is None else M), dtype, device=device), k)


def diag(x: _ArrayLike, /, k: int = 0) -> GPUArray:
    """For a vector, the matrix with it on diagonal k; for a matrix, that diagonal (a view)."""
    x = array_argument("diag", "x", x)
    if x.ndim == 1:
        return _native.diagflat(x, k)
    if x.ndim != 2:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(f"diag: x has shape {x.shape}, expected one or two dimensions")
    return _native.diagonal(x, k)


def vander(x: _ArrayLike, /, N: int | None = None, increasing: bool = False) -> GPUArray:
    """The matrix whose columns are powers of a vector, highest first unless increasing."""
    x = array_argument("vander", "x", x)
    from pygpukit.ops.elementwise import pow

    if x.ndim != 1:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(f"vander: x has shape {x.shape}, expected one dimension")
    count = x.size if N is None else N
    base = _native.astype(x, _native.result_type(x, "int64"), False)
    exponents = _native.arange(count, 0, 1, "int64", x.device)
    powers: GPUArray = pow(_native.expand_dims(base, 1), exponents)
    return powers if increasing else _native.flip(powers, 1)


def meshgrid(
    *arrays: GPUArray, indexing: str = "xy", sparse: bool = False, copy: bool = True
) -> list[GPUArray]:
    """Coordinates of a grid: one array per axis, from one-dimensional arrays."""
    from pygpukit.core.errors import InvalidValueError

    if indexing not in ("xy", "ij"):
        raise InvalidValueError(
            f"meshgrid: indexing is {safe_repr(indexing)}, expected 'xy' or 'ij'"
        )
    beside = next((x for x in arrays if isinstance(x, GPUArray)), None)
    arrays = tuple(array_argument("meshgrid", "arrays", x, beside) for x in arrays)
    for n, x in enumerate(arrays):
        if x.ndim > 1:
            raise InvalidValueError(f"meshgrid: array {n} has shape {x.shape}, expected one axis")
    swaps = indexing == "xy" and len(arrays) >= 2
    axes = [1 - n if swaps and n < 2 else n for n in range(len(arrays))]
    sizes = [0] * len(arrays)
    for x, axis in zip(arrays, axes, strict=True):
        sizes[axis] = x.size
    grid = []
    for x, axis in zip(arrays, axes, strict=True):
        line = _native.reshape(x, [-1 if n == axis else 1 for n in range(len(arrays))])
        whole = line if sparse else _native.broadcast_to(line, sizes)
        grid.append(_native.copy(whole) if copy else whole)
    return grid


def indices(
    dimensions: Sequence[int],
    dtype: _DTypeLike | None = None,
    sparse: bool = False,
    *,
    device: _DeviceLike = None,
) -> GPUArray | tuple[GPUArray, ...]:
    """The indices of an array of that shape: one array per axis, stacked unless sparse."""
    kind = "int64" if dtype is None else dtype
    lines = [arange(size, dtype=kind, device=device) for size in dimensions]
    if not lines:
        return () if sparse else _native.empty((0,), kind, device=device)
    grid = meshgrid(*lines, indexing="ij", sparse=sparse, copy=False)
    return tuple(grid) if sparse else _native.stack(grid, 0)


__all__ = [
    "arange",
    "diag",
    "empty_like",
    "full_like",
    "geomspace",
    "identity",
    "indices",
    "linspace",
    "logspace",
    "meshgrid",
    "ones_like",
    "tri",
    "vander",
    "zeros_like",
]
__all__ += _declared.__all__

name_all(globals(), __all__)
