"""Every op under one name, loaded when first used."""

from pygpukit._lazy import lazy_names
from pygpukit._names import OPS

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from pygpukit.ops.comparison import *  # noqa: F403
    from pygpukit.ops.contraction import *  # noqa: F403
    from pygpukit.ops.conversion import *  # noqa: F403
    from pygpukit.ops.creation import *  # noqa: F403
    from pygpukit.ops.data_types import *  # noqa: F403
    from pygpukit.ops.elementwise import *  # noqa: F403
    from pygpukit.ops.fusion import *  # noqa: F403
    from pygpukit.ops.histograms import *  # noqa: F403
    from pygpukit.ops.indexing import *  # noqa: F403
    from pygpukit.ops.interop import *  # noqa: F403
    from pygpukit.ops.joining import *  # noqa: F403
    from pygpukit.ops.low_precision import *  # noqa: F403
    from pygpukit.ops.manipulation import *  # noqa: F403
    from pygpukit.ops.matmul import *  # noqa: F403
    from pygpukit.ops.matmul_plan import *  # noqa: F403
    from pygpukit.ops.reduction import *  # noqa: F403
    from pygpukit.ops.repeating import *  # noqa: F403
    from pygpukit.ops.scan import *  # noqa: F403
    from pygpukit.ops.searching import *  # noqa: F403
    from pygpukit.ops.sets import *  # noqa: F403
    from pygpukit.ops.sorting import *  # noqa: F403
    from pygpukit.ops.tensor import *  # noqa: F403

if not TYPE_CHECKING:  # type checkers would take any name for one of the module
    __getattr__ = lazy_names("pygpukit.ops.basic", OPS)
    __all__ = sorted(name for names in OPS.values() for name in names)


def __dir__() -> list[str]:
    return sorted(name for names in OPS.values() for name in names)
