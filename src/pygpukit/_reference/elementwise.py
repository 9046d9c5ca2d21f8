"""Element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _compute_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float16 and bfloat16 compute in float32 and round once, as the kernels do."""
    return np.dtype(np.float32) if dtype.name in ("float16", "bfloat16") else dtype


def _binary(ufunc: np.ufunc, a: Any, b: Any, out: NDArray[Any]) -> None:
    compute = _compute_type(out.dtype)
    with np.errstate(all="ignore"):
        left, right = (np.asarray(x).astype(out.dtype).astype(compute) for x in (a, b))
        result = ufunc(left, right)
        out[...] = result.astype(out.dtype, copy=False)


def add(a: Any, b: Any, *, out: NDArray[Any]) -> None:
    """out = a + b"""
    _binary(np.add, a, b, out)


def mul(a: Any, b: Any, *, out: NDArray[Any]) -> None:
    """out = a * b"""
    _binary(np.multiply, a, b, out)


def copy(a: Any, *, out: NDArray[Any]) -> None:
    """out[...] = a, cast to its dtype"""
    with np.errstate(all="ignore"):
        np.copyto(out, a, casting="unsafe")
