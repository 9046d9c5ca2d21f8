"""Shape and cast functions under 0.2's names. New code uses the array API's names."""

from pygpukit._compat.tensor_shapes import *  # noqa: F403
from pygpukit._compat.tensor_shapes import __all__ as __all__
