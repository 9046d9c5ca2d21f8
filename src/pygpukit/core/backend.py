"""The module name of 0.2 for its backends."""

from pygpukit._compat.backend import *  # noqa: F403
from pygpukit._compat.backend import __all__ as __all__
