"""The inspection API of the array API standard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygpukit import _native

if TYPE_CHECKING:
    from pygpukit._native import DataType, _DeviceLike

    _Kind = str | tuple[str, ...] | None

_STANDARD = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


class ArrayNamespaceInfo:
    """Capabilities, devices and dtypes of this package."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """Boolean indexing, data-dependent shapes, and the maximum rank."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 32,
        }

    def default_device(self) -> str:
        """Where new arrays go: 'cuda:0', or 'cpu' without a GPU."""
        return _native.empty(0).device

    def default_dtypes(self, *, device: _DeviceLike = None) -> dict[str, DataType]:
        """The dtypes of results where no dtype is given."""
        _check_device(device)
        return {
            "real floating": _native.float32,
            "complex floating": _native.complex64,
            "integral": _native.int64,
            "indexing": _native.int64,
        }

    def dtypes(self, *, device: _DeviceLike = None, kind: _Kind = None) -> dict[str, DataType]:
        """The standard's dtypes, of one or several kinds, by name.

        float16, bfloat16, float8 and the 4-bit types exist as well, but are not part of the
        standard and so not listed.
        """
        from pygpukit.ops.data_types import isdtype

        _check_device(device)
        found = {name: getattr(_native, name) for name in _STANDARD}
        if kind is None:
            return found
        return {name: dtype for name, dtype in found.items() if isdtype(dtype, kind)}

    def devices(self) -> list[str]:
        """Every device an array can be on."""
        from pygpukit.core.device import get_device_count, is_cuda_available

        count = get_device_count() if is_cuda_available() else 0
        return [f"cuda:{n}" for n in range(count)] + ["cpu"]


def _check_device(device: _DeviceLike) -> None:
    if device is not None:
        _native.empty(0, device=device)  # raises for an invalid device


__all__ = ["ArrayNamespaceInfo"]
