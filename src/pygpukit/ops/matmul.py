"""GEMM and linear layers. See docs/matmul.md."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.arguments import require_arrays
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops._declared import matmul as _declared
from pygpukit.ops._declared.matmul import *  # noqa: F403

# 0.2 exported them here.
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
from pygpukit.ops.packed_names import *  # noqa: F403


def batched_matmul(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """matmul of batches: at least three dimensions each."""
    require_arrays("batched_matmul", a=a, b=b)
    for name, x in (("a", a), ("b", b)):
        if x.ndim < 3:
            raise InvalidValueError(
                f"batched_matmul: {name} has shape {x.shape}, expected at least three dimensions"
            )
    return _native.matmul(a, b, out=out)


def linear_bias_gelu(
    x: GPUArray, w: GPUArray, b: GPUArray, *, out: GPUArray | None = None
) -> GPUArray:
    """gelu(x @ w.T + b), tanh approximation: linear with activation="gelu"."""
    return _native.linear(x, w, b, "gelu", out=out)


def gemv_bf16(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """b @ a of bfloat16, accumulated in float32: a [k] and b [n, k] give [n]."""
    require_arrays("gemv_bf16", a=a, b=b)
    for name, x, ndim in (("a", a, 1), ("b", b, 2)):
        if x.dtype.name != "bfloat16":
            raise InvalidTypeError(f"gemv_bf16: {name} has dtype {x.dtype}, expected bfloat16")
        if x.ndim != ndim:
            raise InvalidValueError(
                f"gemv_bf16: {name} has shape {x.shape}, expected {ndim} dimensions"
            )
    return _native.linear(a, b, out=out)


gemv_bf16_bf16_sm120 = gemv_bf16


__all__ = ["batched_matmul", "gemv_bf16", "gemv_bf16_bf16_sm120", "linear_bias_gelu"]
__all__ += _declared.__all__
