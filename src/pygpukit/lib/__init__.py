"""NumPy's numpy.lib, as far as it applies to arrays on a device."""

from pygpukit.lib import stride_tricks

__all__ = ["stride_tricks"]
