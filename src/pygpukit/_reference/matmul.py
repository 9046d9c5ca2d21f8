"""GEMM and contractions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pygpukit._reference.elementwise import FUNCTIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def _wide(x: NDArray[Any]) -> NDArray[Any]:
    """Narrow floats compute in float32 and round once, like the kernels."""
    return x.astype(np.float32) if x.dtype.name in _NARROW else x


def _sums(x1: NDArray[Any], x2: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
    """x1 @ x2 in the accumulator dtype; int8 wraps unless the result is int32."""
    if x1.dtype == np.int8 and out.dtype == np.int32:
        return np.asarray(np.matmul(x1.astype(np.int32), x2.astype(np.int32)))
    return np.asarray(np.matmul(_wide(x1), _wide(x2)))


def _per_row(scale: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
    """A scalar scale, one per row, or one per row of every matrix."""
    if scale.size == 1:
        return scale.reshape(())
    return scale.reshape(out.shape[:-1] if scale.ndim > 1 else (-1,))[..., None]


def matmul(x1: NDArray[Any], x2: NDArray[Any], *, out: NDArray[Any]) -> None:
    """out = x1 @ x2, at least two dimensions each"""
    if x1.dtype is x2.dtype is out.dtype and x1.dtype.char in "?bhilqBHILQfdFD":
        np.matmul(x1, x2, out=out)
        return
    with np.errstate(all="ignore"):
        out[...] = _sums(x1, x2, out).astype(out.dtype, copy=False)


def product(
    x1: NDArray[Any],
    x2: NDArray[Any],
    *,
    out: NDArray[Any],
    conjugate: bool = False,
    alpha: float = 1.0,
    beta: float = 1.0,
    scale_a: NDArray[Any] | None = None,
    scale_b: NDArray[Any] | None = None,
    bias: NDArray[Any] | None = None,
    activation: str = "none",
    residual: NDArray[Any] | None = None,
) -> None:
    """out = activation(alpha * scale_a * scale_b * (x1 @ x2) + bias) + beta * residual

    At least two dimensions each; conjugate applies to x1. Computed in the accumulator dtype
    and rounded once. A residual with beta 0 is not read.
    """
    with np.errstate(all="ignore"):
        value = _sums(np.conj(x1) if conjugate else x1, x2, out)
        factor = np.asarray(alpha, value.dtype)
        if scale_a is not None:
            factor = factor * _per_row(scale_a, out)
        if scale_b is not None:
            factor = factor * (scale_b if scale_b.size > 1 else scale_b.reshape(()))
        value = value * factor
        if bias is not None:
            value = value + _wide(bias)
        if activation != "none":
            value = np.asarray(FUNCTIONS[activation](value))
        if residual is not None and beta != 0.0:
            value = value + value.dtype.type(beta) * _wide(residual)
        out[...] = value.astype(out.dtype, copy=False)


def vecdot(x1: NDArray[Any], x2: NDArray[Any], *, out: NDArray[Any]) -> None:
    """out = sum over the last axis of conj(x1) * x2"""
    row, column = _wide(np.conj(x1))[..., None, :], _wide(x2)[..., None]
    with np.errstate(all="ignore"):
        out[...] = np.matmul(row, column)[..., 0, 0].astype(out.dtype, copy=False)


def grouped_gemm(
    x: NDArray[Any],
    w: NDArray[Any],
    *,
    out: NDArray[Any],
    group_sizes: NDArray[Any] | None = None,
    expert_ids: NDArray[Any] | None = None,
) -> None:
    """out[i] = x[i] @ w[expert of row i].T, zero for rows without an expert

    expert_ids gives it per row; group_sizes the number of consecutive rows of each expert,
    truncated at the last row, with negative sizes taken as 0.
    """
    experts = w.shape[0]
    if group_sizes is not None:
        sizes = np.maximum(group_sizes.astype(np.int64), 0)
        expert_ids = np.repeat(np.arange(experts), sizes)[: len(x)]
        expert_ids = np.pad(expert_ids, (0, len(x) - len(expert_ids)), constant_values=-1)
    out[...] = 0
    with np.errstate(all="ignore"):
        for expert in range(experts):
            rows = np.flatnonzero(expert_ids == expert)
            out[rows] = np.matmul(_wide(x[rows]), _wide(w[expert]).T).astype(out.dtype, copy=False)


def swiglu(
    both: NDArray[Any],
    *,
    out: NDArray[Any],
    bias: NDArray[Any] | None = None,
    residual: NDArray[Any] | None = None,
) -> None:
    """out = silu(g) * u + residual; g and u are the halves of the last axis of both + bias"""
    with np.errstate(all="ignore"):
        value = both if bias is None else both + _wide(bias)
        gate, up = np.split(value, 2, axis=-1)
        value = FUNCTIONS["silu"](gate) * up
        if residual is not None:
            value = value + _wide(residual)
        out[...] = value.astype(out.dtype, copy=False)


__all__ = ["grouped_gemm", "matmul", "product", "swiglu", "vecdot"]
