"""GEMM and linear layers. See docs/matmul.md."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._native import (
    GPUArray,
    get_matmul_precision,
    linear,
    matmul,
    set_matmul_precision,
)
from pygpukit.core.arguments import require_arrays
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

# 0.2 had them here.
from pygpukit.ops.contraction import dot as dot
from pygpukit.ops.contraction import einsum as einsum
from pygpukit.ops.contraction import inner as inner
from pygpukit.ops.contraction import kron as kron
from pygpukit.ops.contraction import matrix_transpose as matrix_transpose
from pygpukit.ops.contraction import outer as outer
from pygpukit.ops.contraction import tensordot as tensordot
from pygpukit.ops.contraction import trace as trace
from pygpukit.ops.contraction import vdot as vdot
from pygpukit.ops.contraction import vecdot as vecdot
from pygpukit.ops.low_precision import *  # noqa: F403
from pygpukit.ops.manipulation import transpose as transpose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import SupportsIndex


def addmm(
    c: GPUArray,
    a: GPUArray,
    b: GPUArray,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    out: GPUArray | None = None,
    use_tf32: bool | None = None,
    batch_invariant: bool = False,
) -> GPUArray:
    """alpha * (a @ b) + beta * c, rounded once.

    c has the product's dtype and broadcasts to its shape. It may be `out`. With beta 0 it is not
    read. Integers take whole numbers only.
    """
    return _native.addmm(c, a, b, alpha, beta, out, use_tf32, batch_invariant)


def batched_matmul(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """matmul of batches: at least three dimensions each."""
    require_arrays("batched_matmul", a=a, b=b)
    for name, x in (("a", a), ("b", b)):
        if x.ndim < 3:
            raise InvalidValueError(
                f"batched_matmul: {name} has shape {x.shape}, expected at least three dimensions"
            )
    return matmul(a, b, out=out)


def linear_bias_gelu(
    x: GPUArray, w: GPUArray, b: GPUArray, *, out: GPUArray | None = None
) -> GPUArray:
    """gelu(x @ w.T + b), in the tanh form: linear with activation="gelu"."""
    return linear(x, w, b, "gelu", out=out)


def gemv_bf16(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """b @ a of bfloat16, summed in float32: a [k] and b [n, k] give [n]."""
    require_arrays("gemv_bf16", a=a, b=b)
    for name, x, ndim in (("a", a, 1), ("b", b, 2)):
        if x.dtype.name != "bfloat16":
            raise InvalidTypeError(f"gemv_bf16: {name} has dtype {x.dtype}, expected bfloat16")
        if x.ndim != ndim:
            raise InvalidValueError(
                f"gemv_bf16: {name} has shape {x.shape}, expected {ndim} dimensions"
            )
    return linear(a, b, out=out)


gemv_bf16_bf16_sm120 = gemv_bf16


def grouped_gemm(
    x: GPUArray,
    w: GPUArray,
    group_sizes: GPUArray | Sequence[SupportsIndex] | None = None,
    expert_ids: GPUArray | None = None,
    *,
    out: GPUArray | None = None,
) -> GPUArray:
    """Row i of x [m, k] times the transposed matrix of its expert, w[e] of w [experts, n, k].

    Either the rows are sorted by expert and group_sizes says how many each one has, or expert_ids
    (m elements) names the expert of every row. Sizes on the host, as a sequence of ints, must add
    up to m, and every group is a product of its own. Sizes and ids on the device, int32 or int64,
    stay there and nothing waits for them: rows that no expert has, by sizes that add up to less or
    ids out of range (-1), are zero.
    """
    return _native.grouped_gemm(x, w, group_sizes, expert_ids, out)


__all__ = [
    "addmm",
    "batched_matmul",
    "gemv_bf16",
    "gemv_bf16_bf16_sm120",
    "get_matmul_precision",
    "grouped_gemm",
    "linear",
    "linear_bias_gelu",
    "matmul",
    "set_matmul_precision",
]
