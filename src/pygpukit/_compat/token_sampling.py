"""sample_token of 0.2: a token of logits on the host. gp.ops.sampling draws on the device."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidValueError


def sample_token(
    logits: npt.ArrayLike, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> int:
    """A token drawn by np.random after top_k (0: off) and top_p (1: off); temperature 0: greedy."""
    row = np.asarray(logits, np.float64).reshape(-1)
    temperature = amount("sample_token", "temperature", temperature)
    top_k = whole("sample_token", "top_k", top_k)
    top_p = amount("sample_token", "top_p", top_p, high=1.0)
    if row.size == 0 or np.isnan(row).any() or not row.max() > -np.inf:
        raise InvalidValueError("sample_token: logits is empty, or has NaN or no finite number")
    if temperature == 0.0:
        return int(row.argmax())
    row = row / temperature
    weights = np.exp(row - row.max())
    order = np.argsort(-weights, kind="stable")[: top_k or None]  # most likely first
    shares = weights[order] / weights[order].sum()
    if top_p < 1.0:
        kept = int(np.searchsorted(np.cumsum(shares), top_p)) + 1
        order, shares = order[:kept], shares[:kept] / shares[:kept].sum()
    return int(np.random.choice(order, p=shares))


__all__ = ["sample_token"]
