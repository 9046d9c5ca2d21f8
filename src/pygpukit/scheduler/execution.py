"""The module name of version 0.2 for its execution contexts."""

from pygpukit._lazy import lazy_names
from pygpukit.scheduler import _COMPAT

_HOME = "pygpukit._compat.execution"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._compat.execution import *  # noqa: F403
else:
    __getattr__ = lazy_names(__name__, {_HOME: _COMPAT[_HOME]})
    __all__ = list(_COMPAT[_HOME])
