"""Views of arrays, made alike of NumPy arrays and GPUArrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pygpukit as gp

Shape = tuple[int, ...]


def permuted(array: Any, axes: Shape) -> Any:
    if isinstance(array, np.ndarray):
        return array.transpose(axes)
    return gp.permute_dims(array, axes)


def broadcast(array: Any, shape: Shape) -> Any:
    module: Any = np if isinstance(array, np.ndarray) else gp
    return module.broadcast_to(array, shape)


@dataclass(frozen=True)
class View:
    """take(array of shape base(shape)) is a view of that shape."""

    base: Callable[[Shape], Shape]
    take: Callable[[Any], Any]


def _last(shape: Shape, change: Callable[[int], int]) -> Shape:
    return (*shape[:-1], change(shape[-1]))


def _first(shape: Shape, change: Callable[[int], int]) -> Shape:
    return (change(shape[0]), *shape[1:])


# What each does to strides: "offset" leaves 1-d arrays misaligned, "rows" leaves gaps between rows.
VIEWS: dict[str, View] = {
    "whole": View(lambda s: s, lambda a: a),
    "offset": View(lambda s: _first(s, lambda n: n + 1), lambda a: a[1:]),
    "rows": View(lambda s: _last(s, lambda n: n + 8), lambda a: a[..., 4:-4]),
    "odd rows": View(lambda s: _last(s, lambda n: n + 3), lambda a: a[..., 1:-2]),
    "step": View(lambda s: _last(s, lambda n: 2 * n), lambda a: a[..., ::2]),
    "step 3 at 1": View(lambda s: _last(s, lambda n: 3 * n + 1), lambda a: a[..., 1::3]),
    "reversed": View(lambda s: s, lambda a: a[tuple(slice(None, None, -1) for _ in a.shape)]),
    "reversed rows": View(lambda s: s, lambda a: a[::-1]),
    "transposed": View(lambda s: s[::-1], lambda a: permuted(a, tuple(range(len(a.shape)))[::-1])),
    "rotated": View(
        lambda s: (s[-1], *s[:-1]), lambda a: permuted(a, (*range(1, len(a.shape)), 0))
    ),
    "column": View(lambda s: (*s, 3), lambda a: a[..., 1]),
}
