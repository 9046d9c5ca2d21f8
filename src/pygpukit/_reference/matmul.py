"""Products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _wide(x: NDArray[Any]) -> NDArray[Any]:
    """float16 and bfloat16 compute in float32 and round once, as the kernels do."""
    return x.astype(np.float32) if x.dtype.name in ("float16", "bfloat16") else x


def matmul(x1: NDArray[Any], x2: NDArray[Any], *, out: NDArray[Any]) -> None:
    """out = x1 @ x2, at least two dimensions each"""
    with np.errstate(all="ignore"):
        out[...] = np.matmul(_wide(x1), _wide(x2)).astype(out.dtype, copy=False)


def vecdot(x1: NDArray[Any], x2: NDArray[Any], *, out: NDArray[Any]) -> None:
    """out = sum over the last axis of conj(x1) * x2"""
    row, column = _wide(np.conj(x1))[..., None, :], _wide(x2)[..., None]
    with np.errstate(all="ignore"):
        out[...] = np.matmul(row, column)[..., 0, 0].astype(out.dtype, copy=False)


__all__ = ["matmul", "vecdot"]
