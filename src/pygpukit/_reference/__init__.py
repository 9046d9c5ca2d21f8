"""The NumPy definition of every op: the CPU backend, and the oracle the GPU is tested against.

Each function takes NumPy arrays (or Python numbers) and writes its result to ``out``. The C++ core
calls them in a context where NumPy ignores floating-point errors, as GPUs do.
"""

from pygpukit._reference.attention import *  # noqa: F403
from pygpukit._reference.audio import *  # noqa: F403
from pygpukit._reference.composites import *  # noqa: F403
from pygpukit._reference.conv import *  # noqa: F403
from pygpukit._reference.creation import *  # noqa: F403
from pygpukit._reference.elementwise import *  # noqa: F403
from pygpukit._reference.fft import *  # noqa: F403
from pygpukit._reference.indexing import *  # noqa: F403
from pygpukit._reference.kv_cache import *  # noqa: F403
from pygpukit._reference.linalg import *  # noqa: F403
from pygpukit._reference.matmul import *  # noqa: F403
from pygpukit._reference.moe import *  # noqa: F403
from pygpukit._reference.nn import *  # noqa: F403
from pygpukit._reference.quantize import *  # noqa: F403
from pygpukit._reference.random import *  # noqa: F403
from pygpukit._reference.recurrent import *  # noqa: F403
from pygpukit._reference.reduction import *  # noqa: F403
from pygpukit._reference.sampling import *  # noqa: F403
from pygpukit._reference.sorting import *  # noqa: F403
from pygpukit._reference.spectrum import *  # noqa: F403
from pygpukit._reference.variates import *  # noqa: F403
