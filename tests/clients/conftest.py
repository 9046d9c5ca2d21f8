"""On CPU simulation, with SciPy's support of other arrays switched on before it is imported."""

from __future__ import annotations

import os

os.environ["PYGPUKIT_DEVICE"] = "cpu"
os.environ["SCIPY_ARRAY_API"] = "1"
