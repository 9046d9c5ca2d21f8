"""Argument checks ahead of the C++ core."""

from __future__ import annotations

from pygpukit._native import GPUArray


def require_arrays(op: str, **arguments: object) -> None:
    """Raises InvalidTypeError naming the first argument that is not a GPUArray."""
    for name, value in arguments.items():
        if not isinstance(value, GPUArray):
            from pygpukit.core.errors import InvalidTypeError

            raise InvalidTypeError(
                f"{op}: {name} is of type {type(value).__name__}, expected a GPUArray"
            )
