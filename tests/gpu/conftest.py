"""SciPy's support of other arrays is switched on before anything imports it (test_clients.py)."""

from __future__ import annotations

import os

os.environ["SCIPY_ARRAY_API"] = "1"
