"""Attention under the names of 0.2: heads first, [heads, seq, dim]."""

from __future__ import annotations

import math

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import amount, require_arrays, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.positions import irope_scale_q

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def sdpa_causal(
    Q: GPUArray, K: GPUArray, V: GPUArray, scale: float = 0.0, *, out: GPUArray | None = None
) -> GPUArray:
    """Causal attention of Q [heads, q, dim], K and V [heads, kv, dim].

    scale <= 0: 1 / sqrt(dim).
    """
    op = "sdpa_causal"
    _check(op, Q, K, V)
    result = _native.attention(
        *(_rows_first(x) for x in (Q, K, V)),
        causal=True,
        scale=_scale(op, scale),
        out=None if out is None else _rows_first(out),
    )
    return _rows_first(result) if out is None else out


def sdpa_causal_fixed_cache(
    Q: GPUArray, K: GPUArray, V: GPUArray, out: GPUArray, context_len: int, scale: float = 0.0
) -> None:
    """sdpa_causal with caches [heads, max, dim] of which the first context_len keys are valid."""
    op = "sdpa_causal_fixed_cache"
    _check(op, Q, K, V, out=out)
    length = whole(op, "context_len", context_len)
    if not Q.shape[1] <= length <= K.shape[1]:
        raise InvalidValueError(
            f"{op}: context_len is {length}, expected {Q.shape[1]} (queries) "
            f"to {K.shape[1]} (cache)"
        )
    sdpa_causal(Q, K[:, :length], V[:, :length], scale, out=out)


def sdpa_causal_fixed_cache_ptr(
    Q: GPUArray,
    K: GPUArray,
    V: GPUArray,
    out: GPUArray,
    context_len_buf: GPUArray,
    max_kv_len: int,
    scale: float = 0.0,
) -> None:
    """sdpa_causal_fixed_cache with the length in an int32 array of one element on the device."""
    op = "sdpa_causal_fixed_cache_ptr"
    _check(op, Q, K, V, out=out, context_len_buf=context_len_buf)
    most = whole(op, "max_kv_len", max_kv_len)
    if not 1 <= most <= K.shape[1]:
        raise InvalidValueError(f"{op}: max_kv_len is {most}, expected 1 to {K.shape[1]} (cache)")
    if context_len_buf.size != 1 or context_len_buf.dtype.name != "int32":
        raise InvalidValueError(
            f"{op}: context_len_buf has shape {context_len_buf.shape} and dtype "
            f"{context_len_buf.dtype}, expected one int32"
        )
    _native.attention(
        *(_rows_first(x)[None] for x in (Q, K[:, :most], V[:, :most])),
        causal=True,
        scale=_scale(op, scale),
        lengths=context_len_buf.reshape((1,)),
        out=_rows_first(out)[None],
    )


def sdpa_causal_fp8(
    Q: GPUArray, K: GPUArray, V: GPUArray, out: GPUArray, scale: float = 0.0
) -> None:
    """sdpa_causal with K and V rounded to float8_e4m3fn."""
    _check("sdpa_causal_fp8", Q, K, V, out=out)
    keys, values = (_native.astype(x, "float8_e4m3fn") for x in (K, V))
    sdpa_causal(Q, keys, values, scale, out=out)


def fa3_fp8_available() -> bool:
    """Whether the default device's tensor cores read 8-bit keys and values (SM89 and later)."""
    return int(_native.device_traits()["sm"]) >= 89


def sdpa_irope(
    Q: GPUArray,
    K: GPUArray,
    V: GPUArray,
    positions: GPUArray,
    attn_scale: float = 0.1,
    floor_scale: float = 8192.0,
    causal_offset: int = 0,
) -> GPUArray:
    """Attention with queries scaled by irope_scale_q; query i sees keys up to i + causal_offset.

    Q is [heads, q, dim], K and V are [kv_heads, kv, dim].
    """
    op = "sdpa_irope"
    _check(op, Q, K, V, positions=positions)
    offset = whole(op, "causal_offset", causal_offset)
    queries = irope_scale_q(_native.copy(_rows_first(Q)), positions, attn_scale, floor_scale)
    mask = _native.tril(_native.ones((Q.shape[1], K.shape[1]), "bool", device=Q.device), offset)
    return _rows_first(_native.attention(queries, _rows_first(K), _rows_first(V), mask=mask))


def paged_attention_v1(
    Q: GPUArray,
    K_cache: GPUArray,
    V_cache: GPUArray,
    block_tables: GPUArray,
    context_lens: GPUArray,
    scale: float = 0.0,
    *,
    out: GPUArray | None = None,
) -> GPUArray:
    """Decode: one query [seqs, heads, dim] each against pages [blocks, kv_heads, page, dim]."""
    op = "paged_attention_v1"
    _check(op, Q, K_cache, V_cache, block_tables=block_tables, context_lens=context_lens)
    pages = (_native.permute_dims(x, (0, 2, 1, 3)) for x in (K_cache, V_cache))
    result = _native.attention(
        Q[:, None],
        *pages,
        causal=True,
        scale=_scale(op, scale),
        lengths=context_lens,
        block_table=block_tables,
        out=None if out is None else out[:, None],
    )
    return result[:, 0] if out is None else out


def _check(op: str, Q: GPUArray, K: GPUArray, V: GPUArray, **others: GPUArray) -> None:
    require_arrays(op, Q=Q, K=K, V=V, **others)
    for name, x, ndim in (
        ("Q", Q, 3),
        ("K", K, K.ndim if op.startswith("paged") else 3),
        ("V", V, K.ndim),
    ):
        if x.ndim != ndim or x.ndim not in (3, 4):
            raise InvalidValueError(f"{op}: {name} has shape {x.shape}, expected {ndim} dimensions")


def _rows_first(x: GPUArray) -> GPUArray:
    return _native.permute_dims(x, (1, 0, 2))


def _scale(op: str, scale: float) -> float | None:
    """None where it is not above 0: the default."""
    number = amount(op, "scale", scale, -math.inf)
    return number if number > 0 else None


__all__ = [
    "fa3_fp8_available",
    "paged_attention_v1",
    "sdpa_causal",
    "sdpa_causal_fixed_cache",
    "sdpa_causal_fixed_cache_ptr",
    "sdpa_causal_fp8",
    "sdpa_irope",
]

name_all(globals(), __all__)
