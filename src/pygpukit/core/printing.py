"""str() and repr() of arrays: NumPy's formatting, from a few edge items for a large array."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.errors import PyGPUkitError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pygpukit._native import GPUArray

_PREFIX = "GPUArray("


def _edges(host: NDArray[Any], edge: int) -> NDArray[Any]:
    """The first edge + 1 and the last edge items of each longer axis."""
    import numpy as np

    if edge == 0:  # NumPy then shows the last item
        return host[tuple(slice(-1, None) for _ in host.shape)]
    for axis, size in enumerate(host.shape):
        if size > 2 * edge + 1:
            kept = [*range(edge + 1), *range(size - edge, size)]
            host = np.take(host, kept, axis=axis)
    return host


def _packed_edges(array: GPUArray, edge: int) -> NDArray[Any]:
    """Same for a four-bit array: whole bytes are transferred, two values each."""
    import numpy as np

    if array.shape[-1] % 2:
        return _edges(array.to_numpy(), edge)
    packed = _native.edge_items(_native.packed_bytes(array), max(edge, 1)).to_numpy()
    values = np.stack([packed & 15, packed >> 4], axis=-1)
    host = values.reshape(*packed.shape[:-1], 2 * packed.shape[-1])
    return _edges(host.view(array.dtype.to_numpy_dtype()), edge)


def _values(array: GPUArray) -> tuple[NDArray[Any], dict[str, Any]]:
    """The values for NumPy to print, and the options that make it print the whole array's text.

    A summary shows `edgeitems` at each end of an axis that is longer than two times that. So one
    item more than those shown makes NumPy summarise the small array as it would the large one.
    """
    import numpy as np

    options = np.get_printoptions()
    if array.size <= options["threshold"]:
        return array.to_numpy(), {}
    edge = int(options["edgeitems"])
    if array.dtype.bits < 8:
        return _packed_edges(array, edge), {"threshold": 0}
    host = _native.edge_items(array, max(edge, 1)).to_numpy()
    return _edges(host, edge), {"threshold": 0}


def _facts(array: GPUArray) -> str:
    return f"shape={array.shape}, dtype={array.dtype.name}, device='{array.device}'"


def array_str(array: GPUArray) -> str:
    """The values in NumPy's format."""
    import numpy as np

    # Text is most useful after a failure; and a capture has no values yet.
    with contextlib.suppress(PyGPUkitError):
        host, options = _values(array)
        return np.array2string(host, separator=" ", **options) if array.ndim else str(host[()])
    return f"{_PREFIX}{_facts(array)})"


def array_repr(array: GPUArray) -> str:
    """GPUArray([1., 2.], shape=(2,), dtype=float32, device='cpu')"""
    import numpy as np

    facts = _facts(array)
    try:
        host, options = _values(array)
    except PyGPUkitError:
        return f"{_PREFIX}{facts})"
    text = np.array2string(host, separator=", ", prefix=_PREFIX, suffix=",", **options)
    head = f"{_PREFIX}{text},"
    last_line = len(head) - (head.rfind("\n") + 1)
    fits = last_line + 1 + len(facts) + 1 <= np.get_printoptions()["linewidth"]
    return f"{head}{' ' if fits else chr(10) + ' ' * len(_PREFIX)}{facts})"
