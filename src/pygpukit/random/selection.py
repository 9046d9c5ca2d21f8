"""Samples and random orders of what is there: choice, permutation, permuted, shuffle."""

from __future__ import annotations

from operator import index

from pygpukit import _native
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import require_arrays
from pygpukit.core.errors import AxisError, InvalidValueError
from pygpukit.random.distributions import as_shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Size = int | Sequence[int] | None


class Selection:
    """Methods that a Generator inherits. A sequence counts as the array of its elements."""

    if TYPE_CHECKING:
        _device: Any

        def _array(self, value: Any) -> GPUArray: ...
        def _draw(
            self,
            op: str,
            function: Callable[..., GPUArray],
            size: Size,
            dtype: Any,
            out: GPUArray | None,
            wide: bool | None,
            *parameters: Any,
        ) -> GPUArray: ...
        def integers(self, low: int, high: int | None = None, size: Size = None) -> GPUArray: ...
        def random(self, size: Size = None, dtype: Any = None) -> GPUArray: ...
        def standard_exponential(self, size: Size = None, dtype: Any = None) -> GPUArray: ...

    def permutation(self, x: int | GPUArray | Sequence[Any], axis: int = 0) -> GPUArray:
        """0 to x - 1 (int64) in random order, or a copy of x with an axis in random order."""
        population = self._population(x)
        if not isinstance(population, GPUArray):
            return self._order("permutation", (population,))
        size = population.shape[_axis("permutation", axis, population)]
        import pygpukit as gp

        return gp.take(population, self._order("permutation", (size,)), axis=axis)

    def permuted(
        self, x: GPUArray | Sequence[Any], axis: int | None = None, out: GPUArray | None = None
    ) -> GPUArray:
        """A copy of x with every slice along an axis in an order of its own; without an axis, all
        elements."""
        import pygpukit as gp

        array = self._array(x)
        if axis is None:
            order = self._order("permuted", (array.size,))
            result = gp.reshape(gp.take(gp.reshape(array, (-1,)), order, axis=0), array.shape)
        else:
            at = _axis("permuted", axis, array)
            moved = gp.moveaxis(array, at, -1)
            order = self._order("permuted", moved.shape)
            result = gp.moveaxis(gp.take_along_axis(moved, order, axis=-1), -1, at)
        if out is None:
            return result
        require_arrays("permuted", out=out)
        if out.shape != array.shape:
            raise InvalidValueError(
                f"permuted: out has shape {out.shape}, x {array.shape}; expected the same"
            )
        out[...] = result
        return out

    def shuffle(self, x: GPUArray | list[Any], axis: int = 0) -> None:
        """Shuffles x along an axis, in place. The items of a list may be of any type."""
        if isinstance(x, list):
            if axis != 0:
                raise AxisError(f"shuffle: axis is {safe_repr(axis)}, a list has axis 0 only")
            order = self._order("shuffle", (len(x),)).to_numpy().tolist()
            x[:] = [x[place] for place in order]
            return
        require_arrays("shuffle", x=x)
        x[...] = self.permutation(x, axis)

    def _population(self, a: Any) -> Any:
        """An array, or how many numbers from 0."""
        if isinstance(a, GPUArray):
            return a if a.ndim > 0 else index(a)
        is_sequence = hasattr(a, "__len__") and getattr(a, "ndim", None) != 0
        return self._array(a) if is_sequence else index(a)

    def _order(self, op: str, shape: tuple[int, ...]) -> GPUArray:
        """Random permutations along the last axis: argsort of random 64-bit keys."""
        import pygpukit as gp

        top = 2**64 - 1
        size = tuple(max(n, 0) for n in shape)
        keys = self._draw(op, _native.random_integers, size, "uint64", None, True, 0, top)
        return gp.argsort(keys, stable=True)

    def choice(
        self,
        a: int | GPUArray | Sequence[Any],
        size: Size = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> GPUArray:
        """Random samples of 0 to a - 1, or of an axis of a.

        ``p`` are the probabilities, as a sequence (checked) or a GPUArray (not checked, since
        that would synchronise). Without replacement the result is in random order regardless of
        ``shuffle``.
        """
        import pygpukit as gp

        whole: Any = self._population(a)
        array = whole if isinstance(whole, GPUArray) else None
        population: int = whole if array is None else array.shape[_axis("choice", axis, array)]
        count = _count("choice", size)
        if population <= 0 and count > 0:
            raise InvalidValueError(
                f"choice: a has {population} elements, must be positive unless no samples are taken"
            )
        if not replace and count > population:
            raise InvalidValueError(
                f"choice: cannot take a larger sample ({count}) than population ({population}) "
                "when replace is False"
            )
        weights = None if p is None else _probabilities(p, population, count, replace, self._device)
        if weights is None and replace:
            # An empty population is allowed only where nothing is drawn.
            chosen = self.integers(0, max(population, 1), size=size)
        elif weights is None:
            chosen = self._order("choice", (population,))[:count]
        elif replace:
            sums = gp.cumulative_sum(weights)
            u = self.random(count, dtype="float64") * sums[-1]
            chosen = gp.searchsorted(sums, u, side="right")
            chosen = gp.minimum(chosen, population - 1)
        else:
            # The smallest exponential numbers over their weights: equivalent to sequential draws.
            times = self.standard_exponential(population, dtype="float64") / weights
            chosen = gp.argsort(times, stable=True)[:count]
        chosen = gp.reshape(chosen, as_shape("choice", size))
        return chosen if array is None else gp.take(array, chosen, axis=axis)


def _count(op: str, size: Size) -> int:
    count = 1
    for n in as_shape(op, size):
        count *= n
    return count


def _axis(op: str, axis: int, x: GPUArray) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise AxisError(f"{op}: axis {axis} is out of bounds for array of dimension {x.ndim}")
    return axis % x.ndim


def _probabilities(p: Any, population: int, count: int, replace: bool, device: Any) -> GPUArray:
    import pygpukit as gp

    if not isinstance(p, GPUArray):
        import numpy as np

        values = np.asarray(p, dtype=np.float64)
        if values.size == population and not (values >= 0).all():
            raise InvalidValueError("choice: probabilities are not non-negative")
        if values.size == population and abs(values.sum() - 1.0) > 1e-8:
            raise InvalidValueError(f"choice: probabilities do not sum to 1, but {values.sum()}")
        if not replace and count > int((values > 0).sum()):
            raise InvalidValueError("choice: fewer non-zero entries in p than size")
        p = gp.from_numpy(values, device=device)
    if p.shape != (population,):
        raise InvalidValueError(
            f"choice: p has shape {p.shape}, a has {population} elements; a and p must have the "
            "same size"
        )
    return gp.astype(p, "float64")


__all__ = ["Selection"]
