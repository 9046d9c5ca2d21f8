"""x.flat: the elements of an array as a vector that can be written, and an iterator over them."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.arguments import is_whole

if TYPE_CHECKING:
    from collections.abc import Callable


class Flat:
    """The elements in C order. Reading copies the elements that are read, and only those.

    A value that is written is repeated or cut to the number of elements, as in NumPy.
    """

    def __init__(self, base: GPUArray) -> None:
        self.base = base
        self._index = 0

    @property
    def index(self) -> int:
        """Of the next element."""
        return self._index

    @property
    def coords(self) -> tuple[int, ...]:
        """Those of the next element."""
        return _coordinates(self._index, self.base.shape)

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Flat:
        return self

    def __next__(self) -> GPUArray:
        if self._index >= self.base.size:
            raise StopIteration
        self._index += 1
        return self[self._index - 1]

    def __getitem__(self, key: Any) -> GPUArray:
        source, key = self._at(key)
        part = source[key]
        return part if _gathers(key) else _native.copy(part)

    def __setitem__(self, key: Any, value: Any) -> None:
        new = _values(value, self.base)
        if isinstance(new, GPUArray) and new.ndim > 0 and not _is_integer(key):
            if new.size == 0:
                return
            if isinstance(key, slice):
                shape: tuple[int, ...] = (len(range(self.base.size)[key]),)
            else:
                key = self._places(key)
                shape = key.shape
            new = _repeated(new, shape)
        target, key = self._at(key)
        target[key] = new

    def copy(self) -> GPUArray:
        """The elements as a vector of their own."""
        return _native.reshape(self.base, -1, copy=True)

    def _at(self, key: Any) -> tuple[GPUArray, Any]:
        """An array that shares the base's memory, and what `key` is there."""
        base = self.base
        if base.is_contiguous():
            return _native.reshape(base, -1), key
        if _is_integer(key):
            return base, _coordinates(_checked(index(key), base.size), base.shape)
        return base, _native.unravel_index(self._places(key), base.shape)

    def _places(self, key: Any) -> GPUArray:
        """The indices that `key` selects."""
        size, device = self.base.size, self.base.device
        if isinstance(key, slice):
            chosen = range(size)[key]
            return _native.arange(len(chosen), chosen.start, chosen.step, "int64", device)
        return _native.arange(size, 0, 1, "int64", device)[key]

    def _compare(self, compare: Callable[[Any, Any], Any], other: Any) -> Any:
        if isinstance(other, Flat):
            other = _native.reshape(other.base, -1)
        return compare(_native.reshape(self.base, -1), other)

    def __eq__(self, other: object) -> Any:
        return self._compare(GPUArray.__eq__, other)

    def __ne__(self, other: object) -> Any:
        return self._compare(GPUArray.__ne__, other)

    def __lt__(self, other: object) -> Any:
        return self._compare(GPUArray.__lt__, other)

    def __le__(self, other: object) -> Any:
        return self._compare(GPUArray.__le__, other)

    def __gt__(self, other: object) -> Any:
        return self._compare(GPUArray.__gt__, other)

    def __ge__(self, other: object) -> Any:
        return self._compare(GPUArray.__ge__, other)


def assign(array: GPUArray, value: Any) -> None:
    """array.flat = value: repeated or cut."""
    new = _values(value, array)
    if isinstance(new, GPUArray) and new.ndim > 0:
        if new.size == 0:
            return
        new = _repeated(new, array.shape)
    array[...] = new


def _values(value: Any, array: GPUArray) -> Any:
    """What an array is assigned: a number, or an array on its device."""
    from pygpukit._naming import rename
    from pygpukit.core.errors import InvalidArgument
    from pygpukit.ops.conversion import asarray

    if isinstance(value, Flat):
        return _native.reshape(value.base, -1)
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0
    if is_scalar or isinstance(value, (GPUArray, bool, int, float, complex)):
        return value
    dtype = array.dtype if isinstance(value, (list, tuple)) else None  # numbers have to fit
    try:
        return asarray(value, dtype, device=array.device)
    except InvalidArgument as error:
        rename("flat", error)
        raise


def _repeated(values: GPUArray, shape: tuple[int, ...]) -> GPUArray:
    """`values`, as often as needed or as many as needed."""
    from math import prod

    from pygpukit.ops.editing import resize

    count = prod(shape)
    if count > values.size:
        return resize(values, shape)
    return _native.reshape(_native.reshape(values, -1)[:count], shape)


def _is_integer(key: Any) -> bool:
    return is_whole(key) and not isinstance(key, (bool, GPUArray))


def _gathers(key: Any) -> bool:
    """Whether array[key] is no view."""
    parts = key if isinstance(key, tuple) else (key,)
    return any(isinstance(part, (list, GPUArray)) or getattr(part, "ndim", 0) for part in parts)


def _checked(place: int, size: int) -> int:
    if -size <= place < size:
        return place % size
    from pygpukit.core.errors import InvalidIndexError

    raise InvalidIndexError(f"flat: index {place} is out of bounds for size {size}")


def _coordinates(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    coordinates = []
    for n in reversed(shape[1:]):
        place, rest = divmod(place, n)
        coordinates.append(rest)
    return (place, *reversed(coordinates)) if shape else ()


__all__ = ["Flat", "assign"]
