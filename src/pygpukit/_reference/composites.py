"""Composites of ops that NumPy has as one function: the CPU runs them as such.

Called by pygpukit.ops through _native.run_reference, with arguments that are checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def convolution(a: NDArray[Any], v: NDArray[Any], *, out: NDArray[Any]) -> None:
    """numpy.convolve of all positions"""
    out[...] = np.convolve(a, v)


def interpolation(
    x: NDArray[Any],
    points: NDArray[Any],
    values: NDArray[Any],
    left: Any,
    right: Any,
    *,
    out: NDArray[Any],
) -> None:
    """numpy.interp"""
    out[...] = np.interp(x, points, values, left, right)


def ufunc_at(name: str, places: NDArray[Any], values: Any, *, out: NDArray[Any]) -> None:
    """numpy.<name>.at of a vector, in place"""
    getattr(np, name).at(out, places, values)


def euclidean_norm(x: NDArray[Any], *, out: NDArray[Any]) -> None:
    """The root of the sum of squares of all elements, in one pass"""
    flat = x.reshape(-1)
    out[...] = np.sqrt(np.dot(flat, flat))


__all__ = ["convolution", "euclidean_norm", "interpolation", "ufunc_at"]
