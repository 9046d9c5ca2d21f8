"""What Dask has to know about our arrays. Imported when it names the first of them.

Dask computes with chunks through NumPy's functions, which run ours. A few of its own functions
make NumPy arrays on the way, which must not be mixed with ours; it has tables to replace them.
"""

from __future__ import annotations

import sys
from functools import cache
from hashlib import sha256
from math import prod
from typing import Any

from pygpukit import _native
from pygpukit._native import GPUArray


def token(x: GPUArray) -> tuple[str, ...]:
    """The same for equal contents: Dask names graphs by it. Reads the data back."""
    if "dask.array" in sys.modules:
        register()
    digest = sha256(x.to_numpy().reshape(-1).view("uint8").data).hexdigest()
    return "pygpukit", str(x.shape), x.dtype.name, x.device, digest


@cache
def register() -> None:
    """Adds our functions to Dask's tables."""
    from dask.array.dispatch import (
        empty_lookup,
        numel_lookup,
        percentile_lookup,
        to_numpy_dispatch,
    )

    empty_lookup.register(GPUArray, _native.empty)
    numel_lookup.register(GPUArray, _number_of_elements)
    percentile_lookup.register(GPUArray, _percentile)
    to_numpy_dispatch.register(GPUArray, lambda data, **options: data.to_numpy())


def _number_of_elements(x: GPUArray, **options: Any) -> GPUArray:
    """How many elements a reduction of x along axes adds up, beside each of its results."""
    axis, keep = options.get("axis"), options.get("keepdims", False)
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    gone = {n % x.ndim for n in axes}
    shape = tuple(
        1 if n in gone else size for n, size in enumerate(x.shape) if keep or n not in gone
    )
    count = prod(x.shape[n] for n in gone)
    return _native.full(shape, count, options.get("dtype", "float64"), device=x.device)


def _percentile(x: GPUArray, q: Any, method: str = "linear") -> tuple[GPUArray | None, int]:
    """The percentiles of a chunk, and how many elements it has."""
    from pygpukit.ops.histograms import percentile
    from pygpukit.ops.porting import asnumpy

    count = x.shape[0]
    return (percentile(x, asnumpy(q), method=method) if count else None), count  # type: ignore[arg-type]


__all__ = ["register", "token"]
