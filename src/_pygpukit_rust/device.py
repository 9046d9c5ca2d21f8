"""What a device can do."""

from pygpukit.core.device import DeviceCapabilities, KernelType

__all__ = ["DeviceCapabilities", "KernelType"]
