"""Batches of sequences as one array of tokens: 0.2's helpers, on the device."""

from pygpukit._compat.batching import *  # noqa: F403
from pygpukit._compat.batching import __all__ as __all__
