"""The methods of elementwise functions: add.reduce, reduceat, accumulate, outer and at.

Imported with the package, so nothing heavy is imported at the top.
"""

from __future__ import annotations

from pygpukit import _native
from pygpukit._native import GPUArray, ufunc

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pygpukit._native import _DTypeLike

# Functions with a reduction or a scan of their own.
_REDUCTIONS = {
    "add": "sum",
    "logical_and": "all",
    "logical_or": "any",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
}
_SCANS = {"add": "cumsum", "multiply": "cumprod"}
# Those whose order of evaluation does not matter: reduced by halves.
_ASSOCIATIVE = frozenset(
    [
        "add",
        "multiply",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "gcd",
        "lcm",
        "hypot",
        "logaddexp",
        "logaddexp2",
    ]
)
_IDENTITIES: dict[str, object] = {
    "add": 0,
    "multiply": 1,
    "logical_and": True,
    "logical_or": False,
    "logical_xor": False,
    "bitwise_and": -1,
    "bitwise_or": 0,
    "bitwise_xor": 0,
    "gcd": 0,
    "hypot": 0,
    "logaddexp": float("-inf"),
    "logaddexp2": float("-inf"),
}
# x.at(a, i, b) where several b go to one place: combined by this function, then applied once.
_COMBINED_BY = {"subtract": "add", "divide": "multiply"}


def identity(self: ufunc) -> Any:
    """What reduce gives for no elements; None where there is none."""
    return _IDENTITIES.get(self.__name__)


def nargs(self: ufunc) -> int:
    """Number of operands and results."""
    return self.nin + 1


def reduce(
    self: ufunc,
    array: Any,
    axis: int | tuple[int, ...] | None = 0,
    dtype: _DTypeLike | None = None,
    out: GPUArray | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> GPUArray:
    """The function applied along an axis (default: the first), element after element.

    Sums, products, extremes, any and all are reductions of their own; other associative functions
    take log2(n) launches, and those where the order matters (subtract, divide, ...) n.
    """
    _require_binary(self, "reduce")
    name = self.__name__
    x = _array(array)
    mask = None
    if where is not True:
        mask = _native.broadcast_to(_array(where, x.device), x.shape)
        x = _masked(self, x, mask, initial)
    kind = _REDUCTIONS.get(name)
    options: dict[str, Any] = {}
    if dtype is not None and name in _SCANS:
        options["dtype"] = dtype
    elif dtype is not None and name not in ("logical_and", "logical_or"):
        x = _native.astype(x, dtype, False)
    if kind is not None and initial is None:
        if out is not None:
            options["out"] = out
        return getattr(_native, kind)(x, axis, keepdims=keepdims, **options)  # type: ignore[no-any-return]
    rows, shape, kept = _rows(self, x, axis)
    if rows.shape[-1] == 0:
        result = _of_nothing(self, rows, initial, dtype)
    elif name not in _ASSOCIATIVE:
        counts = None if mask is None else _rows(self, mask, axis)[0]
        result = _fold_in_order(self, rows, initial, counts)
    else:
        whole = getattr(_native, kind) if kind is not None else None
        result = _fold(self, rows) if whole is None else whole(rows, -1, **options)
        if initial is not None:
            result = self(result, initial)
    result = _native.reshape(result, kept if keepdims else shape)
    return result if out is None else _into(result, out)


def accumulate(
    self: ufunc,
    array: Any,
    axis: int = 0,
    dtype: _DTypeLike | None = None,
    out: GPUArray | None = None,
) -> GPUArray:
    """The results of reduce for the first 1, 2, ... elements along an axis.

    Sums and products are scans; other associative functions take log2(n) launches, the rest n.
    """
    _require_binary(self, "accumulate")
    x = _array(array)
    if x.ndim == 0:
        raise TypeError(f"{self.__name__}.accumulate: array is 0-d, cannot accumulate on a scalar")
    if dtype is not None:
        x = _native.astype(x, dtype, False)
    scan = _SCANS.get(self.__name__)
    if scan is not None:
        result = getattr(_native, scan)(x, axis)
    else:
        result = _scan(self, x, axis)
    return result if out is None else _into(result, out)


def reduceat(
    self: ufunc,
    array: Any,
    indices: Any,
    axis: int = 0,
    dtype: _DTypeLike | None = None,
    out: GPUArray | None = None,
) -> GPUArray:
    """reduce over slices of an axis: from each index to the next, from the last to the end.

    Where an index is not below the next one, the element at it. Indices in a GPUArray are read
    back. Associative functions take log2(n) launches, the rest as many as there are elements.
    """
    _require_binary(self, "reduceat")
    x = _array(array)
    kind = _reduced_dtype(self, x) if dtype is None else dtype
    rows = _native.moveaxis(_native.astype(x, kind, False), axis, -1)
    starts, stops = _bounds(self, indices, rows.shape[-1])
    if self.__name__ in _ASSOCIATIVE:
        result = _reduce_slices(self, rows, starts, stops)
    else:
        bounds = zip(starts, stops, strict=True)
        parts = [_fold_in_order(self, rows[..., a:b]) for a, b in bounds]
        result = _native.stack(parts, -1)
    result = _native.moveaxis(result, -1, axis)
    return result if out is None else _into(result, out)


def _reduced_dtype(self: ufunc, x: GPUArray) -> _DTypeLike:
    """What reduce makes of x's dtype: sums of small integers are int64, logical results bool."""
    if self.__name__ not in _ASSOCIATIVE:
        return _value_dtype(self, x)
    one = _native.ones((1,), x.dtype, device=x.device)
    kind = _REDUCTIONS.get(self.__name__)
    result: GPUArray = self(one, one) if kind is None else getattr(_native, kind)(one)
    return result.dtype


def _bounds(self: ufunc, indices: Any, count: int) -> tuple[list[int], list[int]]:
    """Where each slice starts and stops."""
    import numpy as np

    from pygpukit.core.errors import InvalidIndexError, InvalidTypeError

    host = indices.to_numpy() if isinstance(indices, GPUArray) else np.asarray(indices)
    if host.ndim != 1 or (host.size and host.dtype.kind not in "iu"):
        raise InvalidTypeError(
            f"{self.__name__}.reduceat: indices has shape {host.shape} and dtype {host.dtype}, "
            "expected a vector of integers"
        )
    starts = [int(n) for n in host]
    for n in starts:
        if not 0 <= n < count:
            raise InvalidIndexError(
                f"{self.__name__}.reduceat: index {n} is out of bounds for axis with size {count}"
            )
    ends = [*starts[1:], count]
    return starts, [max(end, start + 1) for start, end in zip(starts, ends, strict=False)]


def _reduce_slices(self: ufunc, rows: GPUArray, starts: list[int], stops: list[int]) -> GPUArray:
    """All slices side by side, then a scan that starts anew with each: its last values."""
    import numpy as np

    lengths = np.subtract(stops, starts).astype(np.int64)
    ends = np.cumsum(lengths)
    slices = np.repeat(np.arange(len(starts)), lengths)
    places = np.arange(slices.size) + np.repeat(np.asarray(starts) - (ends - lengths), lengths)

    def on_device(host: Any) -> GPUArray:
        return _native.from_numpy(host.astype(np.int64), device=rows.device)

    value = _native.take(rows, on_device(places), axis=-1)
    total = _segmented(self, on_device(slices), value, int(lengths.max(initial=0)))
    return _native.take(total, on_device(ends - 1), axis=-1)


def outer(self: ufunc, A: Any, B: Any, /, **kwargs: Any) -> GPUArray:
    """The function of all pairs: the axes of A, then those of B."""
    _require_binary(self, "outer")
    from pygpukit.ops.conversion import device_beside

    device = device_beside(A, B)
    first = _array(A, device)
    second = _array(B, device)
    shape = first.shape + (1,) * second.ndim
    result: GPUArray = self(_native.reshape(first, shape), second, **kwargs)
    return result


def at(self: ufunc, a: GPUArray, indices: Any, b: Any = None, /) -> None:
    """a[indices] = self(a[indices], b), in place, where an index may occur several times.

    Values for one place are combined in the order of the indices by pairs, so that sums are
    deterministic. Nothing is read back.
    """
    from pygpukit._naming import rename
    from pygpukit.core.arguments import require_arrays
    from pygpukit.core.errors import InvalidArgument

    require_arrays(f"{self.__name__}.at", a=a)
    if self.nin == 1:
        a[indices] = self(a[indices])
        return
    combine = getattr(_native, _COMBINED_BY.get(self.__name__, self.__name__))
    if combine.__name__ not in _ASSOCIATIVE:
        from pygpukit.core.errors import UnsupportedError

        raise UnsupportedError(
            f"{self.__name__}.at: not available, since the order of the indices would matter"
        )
    place = _native.arange(a.size, 0, 1, "int64", a.device)
    try:
        place = _native.reshape(place, a.shape)[indices]
    except InvalidArgument as error:
        rename(f"{self.__name__}.at", error)
        raise
    value = _array(b, a.device)
    beside = b if isinstance(b, (bool, int, float, complex)) else value.dtype
    _native.elementwise_types(self.__name__, (a.dtype, beside))  # raises where it is not defined
    value = _native.broadcast_to(value, place.shape)
    place, value = _native.reshape(place, (-1,)), _native.reshape(value, (-1,))
    if place.size == 0:
        return
    if not a.on_gpu and a.is_contiguous() and a.dtype.char in "?bhilqBHILQefdFD":
        value = _native.astype(value, a.dtype, False)
        flat = _native.reshape(a, (-1,))
        _native.run_reference("ufunc_at", (self.__name__, place, value), flat)
        return
    order = _native.argsort(place, stable=True)
    place, value = _native.take(place, order, axis=0), _native.take(value, order, axis=0)
    value = _native.astype(value, a.dtype, False)
    # Every place gets the combination of all its values, written as often as it occurs.
    total = _segmented(combine, place, value, value.size)
    last = _native.subtract(_native.searchsorted(place, place, side="right"), 1)
    total = _native.take(total, last, axis=0)
    new = self(_native.take(_native.reshape(a, (-1,)), place, axis=0), total)
    whole = _native.unravel_index(place, a.shape)
    a[whole] = _native.astype(new, a.dtype, False)


def _segmented(
    combine: Callable[..., GPUArray], place: GPUArray, value: GPUArray, longest: int
) -> GPUArray:
    """A scan along the last axis that starts anew at each place; `place` is sorted, and none
    occurs more often than `longest`."""
    step = 1
    while step < longest:
        same = _native.equal(place[step:], place[:-step])
        late = value[..., step:]
        joined = _native.where(same, combine(value[..., :-step], late), late)
        value = _native.concat([value[..., :step], joined], -1)
        step *= 2
    return value


def _array(value: Any, device: str | None = None) -> GPUArray:
    if isinstance(value, GPUArray):
        return value
    from pygpukit.ops.conversion import asarray

    return asarray(value, device=device)


def _require_binary(self: ufunc, method: str) -> None:
    if self.nin != 2:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(
            f"{self.__name__}.{method}: {method} only supported for binary functions"
        )


def _masked(self: ufunc, x: GPUArray, where: Any, initial: Any) -> GPUArray:
    """Elements that do not count, replaced by what changes nothing."""
    neutral: Any = _IDENTITIES.get(self.__name__, initial)
    if neutral is None:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(
            f"{self.__name__}.reduce: the function has no identity, so to use where= one has to "
            "give initial="
        )
    return _native.where(_array(where, x.device), x, neutral)


def _rows(
    self: ufunc, x: GPUArray, axis: int | tuple[int, ...] | None
) -> tuple[GPUArray, tuple[int, ...], tuple[int, ...]]:
    """The reduced axes as one last axis; the result's shape without and with them."""
    kept = _native.any(x, axis, keepdims=True).shape
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = tuple(n % x.ndim for n in axes) if x.ndim > 0 else ()
    if len(axes) > 1 and self.__name__ not in _ASSOCIATIVE:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(
            f"{self.__name__}.reduce: not reorderable, so at most one axis may be given"
        )
    shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    if not axes:
        return _native.expand_dims(x, -1), x.shape, x.shape
    moved = _native.moveaxis(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
    count = 1
    for n in axes:
        count *= x.shape[n]
    return _native.reshape(moved, (*shape, count)), shape, kept


def _of_nothing(
    self: ufunc, rows: GPUArray, initial: Any, asked: _DTypeLike | None = None
) -> GPUArray:
    value: Any = _IDENTITIES.get(self.__name__) if initial is None else initial
    if value is None:
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(
            f"{self.__name__}.reduce: zero-size array to reduction operation which has no identity"
        )
    kind = _reduced_dtype(self, rows) if asked is None else asked
    zero = _native.zeros((1,), kind, device=rows.device)
    dtype = self(zero, value).dtype
    return _native.full(rows.shape[:-1], value, dtype, device=rows.device)


def _value_dtype(self: ufunc, x: GPUArray) -> _DTypeLike:
    """Of the function of two elements; comparisons of one leave it as it is."""
    dtype = _native.elementwise_types(self.__name__, (x.dtype, x.dtype))[1]
    is_comparison = dtype.name == "bool" and self.__name__ not in _ASSOCIATIVE
    return x.dtype if is_comparison else dtype


def _fold_in_order(
    self: ufunc, rows: GPUArray, initial: Any = None, mask: GPUArray | None = None
) -> GPUArray:
    """Along the last axis, one element after another; those outside of the mask do not count."""
    result = initial
    for n in range(rows.shape[-1]):
        if result is None:
            result = _native.astype(rows[..., n], _value_dtype(self, rows), False)
            continue
        joined = self(result, rows[..., n])
        result = joined if mask is None else _native.where(mask[..., n], joined, result)
    return result  # type: ignore[no-any-return]


def _fold(self: ufunc, rows: GPUArray) -> GPUArray:
    """Along the last axis, by halves."""
    if rows.shape[-1] == 1:
        only = _native.astype(rows[..., 0], _value_dtype(self, rows), False)
        return _native.abs(only) if self.__name__ in ("gcd", "hypot") else only
    while rows.shape[-1] > 1:
        half = rows.shape[-1] // 2
        joined = self(rows[..., :half], rows[..., half : 2 * half])
        if rows.shape[-1] % 2:
            rest = _native.astype(rows[..., 2 * half :], joined.dtype, False)
            joined = _native.concat([joined, rest], -1)
        rows = joined
    return rows[..., 0]


def _scan(self: ufunc, x: GPUArray, axis: int) -> GPUArray:
    rows = _native.moveaxis(x, axis, -1)
    count = rows.shape[-1]
    if self.__name__ in _ASSOCIATIVE:
        step = 1
        while step < count:
            joined = self(rows[..., :-step], rows[..., step:])
            first = _native.astype(rows[..., :step], joined.dtype, False)
            rows = _native.concat([first, joined], -1)
            step *= 2
    elif count > 0:
        parts = [rows[..., 0]]
        for n in range(1, count):
            parts.append(self(parts[-1], rows[..., n]))
        rows = _native.stack([_native.astype(p, parts[-1].dtype, False) for p in parts], -1)
    if count <= 1:
        rows = _native.astype(rows, _value_dtype(self, rows), False)
    return _native.moveaxis(rows, -1, axis)


def _into(result: GPUArray, out: GPUArray) -> GPUArray:
    _native.copy_into(out, result)
    return out


for _method in (accumulate, at, outer, reduce, reduceat):
    _method.__qualname__ = f"ufunc.{_method.__name__}"
    setattr(ufunc, _method.__name__, _method)
for _getter in (identity, nargs):
    setattr(ufunc, _getter.__name__, property(_getter))
