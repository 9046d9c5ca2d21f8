"""Neural-network ops: norms, softmax, attention, likelihoods, positions, gated activations."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import (  # the activations, which are elementwise
    gelu,
    gelu_erf,
    leaky_relu,
    quick_gelu,
    relu,
    relu2,
    sigmoid,
    silu,
    snake,
    softplus,
    tanh,
)
from pygpukit.core.arguments import require_arrays, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops._declared import nn as _declared
from pygpukit.ops._declared.nn import *  # noqa: F403
from pygpukit.ops.embeddings import *  # noqa: F403
from pygpukit.ops.embeddings import __all__ as _embedding
from pygpukit.ops.kv_cache import *  # noqa: F403
from pygpukit.ops.kv_cache import __all__ as _kv_cache
from pygpukit.ops.paged_cache import *  # noqa: F403
from pygpukit.ops.paged_cache import __all__ as _paged_cache
from pygpukit.ops.positions import *  # noqa: F403
from pygpukit.ops.positions import __all__ as _positions
from pygpukit.ops.recurrent import lstm_bidirectional, lstm_forward  # 0.2's place
from pygpukit.ops.sdpa import *  # noqa: F403
from pygpukit.ops.sdpa import __all__ as _sdpa

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def rmsnorm_residual(
    x: GPUArray,
    residual: GPUArray,
    gamma: GPUArray,
    eps: float = 1e-5,
    *,
    out: GPUArray | None = None,
) -> GPUArray:
    """rmsnorm(x + residual). add_rmsnorm gives the sum, too."""
    return _native.add_rmsnorm(x, residual, gamma, eps, out=out)[0]


def swiglu(gate: GPUArray, up: GPUArray | None = None, *, out: GPUArray | None = None) -> GPUArray:
    """silu(gate) * up; without ``up`` gate and up are the halves of the last axis."""
    first, second = _halves("swiglu", gate) if up is None else (gate, up)
    return _native.silu_multiply(first, second, out=out)


def geglu(gate: GPUArray, up: GPUArray | None = None, *, out: GPUArray | None = None) -> GPUArray:
    """gelu(gate) * up; without ``up`` gate and up are the halves of the last axis."""
    first, second = _halves("geglu", gate) if up is None else (gate, up)
    return _native.gelu_multiply(first, second, out=out)


def _halves(op: str, x: GPUArray) -> tuple[GPUArray, GPUArray]:
    require_arrays(op, gate=x)
    if x.ndim == 0 or x.shape[-1] % 2:
        raise InvalidValueError(
            f"{op}: gate has shape {x.shape}, expected an even number of elements along the last "
            "axis"
        )
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def cross_entropy(
    logits: GPUArray,
    targets: GPUArray,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    out: GPUArray | None = None,
) -> GPUArray:
    """The negative log likelihood of targets: its mean, sum, or one number per row ("none").

    Rows whose target is ignore_index count neither in the sum nor in the mean.
    """
    op = "cross_entropy"
    if reduction not in ("mean", "sum", "none"):
        raise InvalidValueError(
            f"{op}: reduction is {_native.safe_repr(reduction)}, expected 'mean', 'sum' or 'none'"
        )
    likelihoods = _native.log_likelihood(logits, targets, ignore_index=ignore_index)
    if out is not None:
        require_arrays(op, out=out)
        shape = likelihoods.shape if reduction == "none" else ()
        if out.shape != shape or out.dtype.name != "float32" or out.device != logits.device:
            raise InvalidValueError(
                f"{op}: out has shape {out.shape} and dtype {out.dtype} on {out.device}, expected "
                f"{shape} and float32 on {logits.device}"
            )
    if reduction == "none":
        return _native.negative(likelihoods, out=out)
    total = _native.negative(_native.sum(likelihoods))
    if reduction == "sum":
        return total if out is None else _native.positive(total, out=out)
    count = _native.count_nonzero(_native.not_equal(targets, ignore_index))
    return _native.divide(total, _native.astype(count, "float32"), out=out)


def bias_add_inplace(y: GPUArray, bias: GPUArray) -> None:
    """y [rows, n] += bias [n], both of one dtype."""
    require_arrays("bias_add_inplace", y=y, bias=bias)
    if y.ndim != 2 or bias.shape != y.shape[1:] or bias.dtype != y.dtype:
        raise InvalidValueError(
            f"bias_add_inplace: y has shape {y.shape} and dtype {y.dtype}, bias {bias.shape} and "
            f"{bias.dtype}; expected (rows, n) and (n,) of one dtype"
        )
    _native.add(y, bias, out=y)


def split_qkv_batch(
    qkv: GPUArray,
    q_out: GPUArray,
    k_out: GPUArray,
    v_out: GPUArray,
    q_dim: int,
    k_dim: int,
    v_dim: int,
) -> None:
    """Copies the columns of qkv [seq, q_dim + k_dim + v_dim] to three arrays of seq rows."""
    require_arrays("split_qkv_batch", qkv=qkv, q_out=q_out, k_out=k_out, v_out=v_out)
    q_dim, k_dim, v_dim = (
        whole("split_qkv_batch", name, dim)
        for name, dim in (("q_dim", q_dim), ("k_dim", k_dim), ("v_dim", v_dim))
    )
    if qkv.ndim != 2 or qkv.shape[1] != q_dim + k_dim + v_dim:
        raise InvalidValueError(
            f"split_qkv_batch: qkv has shape {qkv.shape}, expected (seq, {q_dim + k_dim + v_dim})"
        )
    begin = 0
    for name, out, dim in (
        ("q_out", q_out, q_dim),
        ("k_out", k_out, k_dim),
        ("v_out", v_out, v_dim),
    ):
        if out.size != qkv.shape[0] * dim or not out.is_contiguous():
            raise InvalidValueError(
                f"split_qkv_batch: {name} has shape {out.shape}, expected {qkv.shape[0]} x {dim} "
                "contiguous elements"
            )
        _native.copy_into(out.reshape((qkv.shape[0], dim)), qkv[:, begin : begin + dim])
        begin += dim


def slice_rows_range_ptr(
    table: GPUArray, out: GPUArray, start_pos_buf: GPUArray, count: int
) -> None:
    """Copies `count` rows of a table to out, from the row that start_pos_buf[0] holds."""
    op = "slice_rows_range_ptr"
    require_arrays(op, table=table, out=out, start_pos_buf=start_pos_buf)
    count = whole(op, "count", count)
    if start_pos_buf.size != 1 or start_pos_buf.dtype.name not in ("int32", "int64"):
        raise InvalidValueError(
            f"{op}: start_pos_buf has shape {start_pos_buf.shape} and dtype "
            f"{start_pos_buf.dtype}, expected one int32"
        )
    if table.ndim == 0:
        raise InvalidValueError(f"{op}: table has shape (), expected rows")
    if out.shape != (count, *table.shape[1:]):
        raise InvalidValueError(
            f"{op}: out has shape {out.shape}, expected {(count, *table.shape[1:])}"
        )
    rows = _native.add(
        start_pos_buf.reshape((1,)), _native.arange(count, 0, 1, "int32", table.device)
    )
    _native.copy_into(out, _native.take(table, rows, axis=0))


__all__ = [
    "bias_add_inplace",
    "cross_entropy",
    "geglu",
    "rmsnorm_residual",
    "slice_rows_range_ptr",
    "split_qkv_batch",
    "swiglu",
]
__all__ += _declared.__all__
__all__ += [*_embedding, *_kv_cache, *_paged_cache, *_positions, *_sdpa]
# Of other modules.
__all__ += [
    "gelu",
    "gelu_erf",
    "leaky_relu",
    "lstm_bidirectional",
    "lstm_forward",
    "quick_gelu",
    "relu",
    "relu2",
    "sigmoid",
    "silu",
    "snake",
    "softplus",
    "tanh",
]

name_all(globals(), __all__)
