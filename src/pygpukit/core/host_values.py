"""Elements of arrays as Python numbers."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.errors import InvalidIndexError, InvalidValueError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pygpukit._native import GPUArray


def python_values(host: NDArray[Any]) -> Any:
    """host.tolist(); ml_dtypes values become Python's float and int."""
    if host.dtype.isbuiltin != 1:
        host = host.astype("int8" if "int" in host.dtype.name else "float32")
    return host.tolist()


def _checked(index: object, size: int, where: str) -> int:
    from operator import index as as_index

    given = as_index(index)  # type: ignore[arg-type]
    if not -size <= given < size:
        raise InvalidIndexError(f"item: index {given} is out of bounds for {where} {size}")
    return given % size


def _position(shape: tuple[int, ...], args: tuple[Any, ...]) -> tuple[int, ...]:
    """The index tuple for the arguments of item()."""
    if len(args) == 1 and isinstance(args[0], tuple):
        args = args[0]
    if len(args) == len(shape) and len(args) != 1:
        return tuple(
            _checked(arg, size, f"axis {axis} with size")
            for axis, (arg, size) in enumerate(zip(args, shape, strict=True))
        )
    if len(args) != 1:
        raise InvalidValueError(f"item: {len(args)} indices for an array of shape {shape}")
    rest = _checked(args[0], prod(shape), "size")
    position = []
    for size in reversed(shape):
        rest, at = divmod(rest, size)
        position.append(at)
    return tuple(reversed(position))


def element_value(array: GPUArray, args: tuple[Any, ...]) -> Any:
    """array.item(*args); transfers only that element."""
    if not args:
        if array.size != 1:
            raise InvalidValueError(
                "item: can only convert an array of size 1 to a Python scalar, "
                f"the array has shape {array.shape}"
            )
        position = (0,) * array.ndim
    else:
        position = _position(array.shape, args)
    if array.dtype.bits < 8:  # such elements have no address of their own
        index: tuple[Any, ...] = (*position, ...)
        return python_values(array.to_numpy()[index])
    return python_values(_native.element(array, position).to_numpy())
