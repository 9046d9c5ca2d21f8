"""The exception of the module."""

from __future__ import annotations

import numpy as np

from pygpukit.core.errors import PyGPUkitError


class LinAlgError(PyGPUkitError, np.linalg.LinAlgError):
    """Matrices that are singular, not square or not positive definite; no convergence."""
