"""Memory info, pinned memory and raw copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit._native import (
    copy_device_to_device_async,
    copy_device_to_device_offset,
    copy_to_device,
    copy_to_device_async,
    pinned_empty,
    synchronize,
    trim,
)

if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def get_memory_info(device: str | int | None = None) -> tuple[int, int]:
    """(free, total) bytes of a device; of the host on CPU simulation."""
    return _native.memory_info(device)


def copy_to_device_async_raw_stream(
    dst: GPUArray, src_ptr: int, size_bytes: int, stream_handle: int
) -> None:
    """copy_to_device_async on a stream given by its CUstream handle."""
    copy_to_device_async(dst, src_ptr, size_bytes, stream_handle)


__all__ = [
    "copy_device_to_device_async",
    "copy_device_to_device_offset",
    "copy_to_device",
    "copy_to_device_async",
    "copy_to_device_async_raw_stream",
    "get_memory_info",
    "pinned_empty",
    "synchronize",
    "trim",
]
