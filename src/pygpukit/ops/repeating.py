"""Repetition, rolling and padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import array_argument, is_whole, whole
from pygpukit.ops._declared import repeating as _declared
from pygpukit.ops._declared.repeating import *  # noqa: F403
from pygpukit.ops.manipulation import _axis_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from pygpukit._native import _ArrayLike

    PadMode = Literal[
        "constant",
        "edge",
        "empty",
        "linear_ramp",
        "maximum",
        "mean",
        "median",
        "minimum",
        "reflect",
        "symmetric",
        "wrap",
    ]


def repeat(
    x: _ArrayLike, /, repeats: int | Sequence[int] | GPUArray, axis: int | None = None
) -> GPUArray:
    """Repeats each element along an axis; without one, of the flattened array.

    An array of counts, one per element, synchronises: the size of the result depends on it.
    """
    if is_whole(repeats) and not isinstance(repeats, GPUArray):
        return _native.repeat(x, repeats, axis)  # type: ignore[arg-type]
    x = array_argument("repeat", "x", x)
    source, along = (_native.reshape(x, -1), 0) if axis is None else (x, axis)
    size = _axis_size(source, along)
    if isinstance(repeats, GPUArray):
        _check_repeats(repeats.shape, size)
        return _repeat_on_device(source, repeats, along, size)
    import numpy as np

    counts = np.asarray(repeats)
    _check_repeats(counts.shape, size)
    if counts.size and counts.dtype.kind not in "biu":
        _bad_repeats_dtype(counts.dtype.name)
    if counts.size and counts.min() < 0:
        _negative_repeats(int(counts.min()))
    if counts.size == 1:
        return _native.repeat(x, int(counts.reshape(-1)[0]), axis)
    places = np.repeat(np.arange(size, dtype=np.int64), counts.astype(np.int64))
    return _take(source, _native.from_numpy(places, device=x.device), along)


def _repeat_on_device(x: GPUArray, repeats: GPUArray, axis: int, size: int) -> GPUArray:
    from pygpukit.ops.reduction import min, sum
    from pygpukit.ops.scan import cumsum
    from pygpukit.ops.searching import searchsorted

    if "int" not in repeats.dtype.name and repeats.dtype.name != "bool":
        _bad_repeats_dtype(repeats.dtype.name)
    if size == 0:
        return _native.copy(x)
    counts = _native.broadcast_to(_native.astype(repeats, "int64", False), (size,))
    total, lowest = _native.stack([sum(counts), min(counts)]).to_numpy().tolist()
    if lowest < 0:
        _negative_repeats(lowest)
    places = searchsorted(
        cumsum(counts), _native.arange(total, 0, 1, "int64", x.device), side="right"
    )
    return _take(x, places, axis)


def _take(x: GPUArray, places: GPUArray, axis: int) -> GPUArray:
    from pygpukit.ops.indexing import take

    return take(x, places, axis=axis)


def _check_repeats(shape: tuple[int, ...], size: int) -> None:
    if len(shape) > 1 or (len(shape) == 1 and shape[0] not in (1, size)):
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(
            f"repeat: repeats has shape {shape}, which does not fit an axis of size {size}"
        )


def _bad_repeats_dtype(name: str) -> None:
    from pygpukit.core.errors import InvalidTypeError

    raise InvalidTypeError(f"repeat: repeats has dtype {name}, expected integers")


def _negative_repeats(lowest: int) -> None:
    from pygpukit.core.errors import InvalidValueError

    raise InvalidValueError(f"repeat: repeats has the negative number {lowest}")


def _width(value: Any) -> int:
    return whole("pad", "pad_width", int(value), high=2**62)


def pad(
    x: _ArrayLike,
    /,
    pad_width: Any,
    mode: PadMode = "constant",
    *,
    constant_values: Any = 0,
    stat_length: Any = None,
    end_values: Any = 0,
) -> GPUArray:
    """Pads the array by pad_width elements: a number, (before, after), or one per axis.

    mode: 'constant', 'edge', 'reflect', 'symmetric', 'wrap', 'empty', 'linear_ramp' (to
    end_values), 'maximum', 'mean', 'median' or 'minimum' (of stat_length elements), as in NumPy.
    """
    x = array_argument("pad", "x", x)
    pairs = _pairs(pad_width, x.ndim, "pad_width")
    widths = [(_width(before), _width(after)) for before, after in pairs]
    values: list[tuple[Any, Any]] = []
    if mode in _COMPUTED:
        from pygpukit.core.errors import InvalidValueError
        from pygpukit.ops._pad_modes import pad_by

        if x.size == 0:
            raise InvalidValueError(f"pad: x has shape {x.shape}, mode {mode!r} needs elements")
        lengths = _pairs(stat_length, x.ndim, "stat_length")
        for length in (one for pair in lengths for one in pair if one is not None):
            whole("pad", "stat_length", length, 1)
        return pad_by(mode, x, widths, lengths, _pairs(end_values, x.ndim, "end_values"))
    if mode == "constant":
        pairs = _pairs(constant_values, x.ndim, "constant_values")
        values = [(_as_value(a, x), _as_value(b, x)) for a, b in pairs]
    return _native.pad(x, widths, mode, values)


_COMPUTED = ("linear_ramp", "maximum", "mean", "median", "minimum")


def _pairs(value: Any, rank: int, argument: str) -> list[tuple[Any, Any]]:
    """One pair per axis, from a number, a pair, a list of pairs, or a dict of axes."""
    from pygpukit.core.errors import InvalidTypeError, InvalidValueError

    def pair(item: Any) -> tuple[Any, Any]:
        if not isinstance(item, (list, tuple)):
            return (item, item)
        if len(item) not in (1, 2):
            raise InvalidValueError(
                f"pad: {argument} has {safe_repr(item)}, expected (before, after)"
            )
        return (item[0], item[-1])

    if isinstance(value, dict):
        by_axis = {axis % rank: pair(item) for axis, item in value.items()}
        return [by_axis.get(axis, (0, 0)) for axis in range(rank)]
    if hasattr(value, "tolist") and not isinstance(value, GPUArray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return [(value, value)] * rank
    if not value:
        raise InvalidTypeError(f"pad: {argument} is empty")
    if not isinstance(value[0], (list, tuple)):
        if len(value) > 2:
            raise InvalidValueError(
                f"pad: {argument} is {safe_repr(value)}, expected (before, after)"
            )
        return [pair(value)] * rank
    if len(value) not in (1, rank):
        raise InvalidValueError(f"pad: {argument} is for {len(value)} axes, the array has {rank}")
    pairs = [pair(item) for item in value]
    return pairs if len(pairs) == rank else pairs * rank


def _as_value(value: Any, x: GPUArray) -> Any:
    """Casts to the array's dtype like NumPy."""
    if "int" in x.dtype.name and isinstance(value, float):
        return int(value)
    return bool(value) if x.dtype.name == "bool" else value


__all__ = ["pad", "repeat"]
__all__ += _declared.__all__

name_all(globals(), __all__)
