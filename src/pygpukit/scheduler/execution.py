"""The module name of version 0.2 for its execution contexts."""

from pygpukit._compat.execution import *  # noqa: F403
from pygpukit._compat.execution import __all__ as __all__
