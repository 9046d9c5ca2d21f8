"""Attention in float32, sequence by sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Optional = NDArray[Any] | None

# Scores computed at once: rows are taken in blocks of so many elements.
_BLOCK = 1 << 18


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    *,
    causal: bool,
    mask: Optional,
    bias: Optional,
    window: int,
    softcap: float,
    sinks: Optional,
    scale: float,
    lengths: Optional,
    cu_seqlens_q: Optional,
    cu_seqlens_k: Optional,
    block_table: Optional,
    k_scale: float,
    v_scale: float,
    out: NDArray[Any],
) -> None:
    """softmax(scale * q @ k.T + bias) @ v, for each head of each sequence"""
    if not out.size:
        return
    narrow = k.dtype != q.dtype
    scale = (scale or q.shape[-1] ** -0.5) * (k_scale if narrow else 1.0)
    batch = q.shape[0] if cu_seqlens_q is None and q.ndim == 4 else 1
    if cu_seqlens_q is not None:
        batch = len(cu_seqlens_q) - 1
    spread = (batch, q.shape[-2], q.shape[-3], k.shape[-3])
    mask = None if mask is None else np.broadcast_to(mask, spread)
    bias = None if bias is None else np.broadcast_to(bias, spread)
    for b in range(batch):
        rows = slice(None)
        if cu_seqlens_q is not None:
            rows = slice(int(cu_seqlens_q[b]), int(cu_seqlens_q[b + 1]))
            queries, target = q[rows], out[rows]
        else:
            queries, target = (q[b], out[b]) if q.ndim == 4 else (q, out)
        keys, values = _keys(b, k, v, lengths, cu_seqlens_k, block_table)
        _sequence(
            queries,
            keys,
            values,
            target,
            mask=None if mask is None else mask[b, :, :, : len(keys)],
            bias=None if bias is None else bias[b, :, :, : len(keys)],
            left=window - 1 if window else None,
            right=0 if causal else None,
            softcap=softcap,
            sinks=sinks,
            scale=np.float32(scale),
            v_scale=np.float32(v_scale if narrow else 1.0),
        )


def _keys(
    b: int,
    k: NDArray[Any],
    v: NDArray[Any],
    lengths: Optional,
    cu_seqlens_k: Optional,
    block_table: Optional,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The keys and values of one sequence, [length, kv_heads, dim]."""
    if cu_seqlens_k is not None:
        rows = slice(int(cu_seqlens_k[b]), int(cu_seqlens_k[b + 1]))
        return k[rows], v[rows]
    if block_table is not None:
        assert lengths is not None
        length = min(max(0, int(lengths[b])), block_table.shape[1] * k.shape[1])
        pages = block_table[b, : -(-length // k.shape[1])]
        _check_pages(pages, b, len(k))
        both = (x[pages].reshape(-1, *x.shape[2:])[:length] for x in (k, v))
        return next(both), next(both)
    keys, values = (k[b], v[b]) if k.ndim == 4 else (k, v)
    length = len(keys) if lengths is None else max(0, int(lengths[b]))
    return keys[:length], values[:length]


def _check_pages(pages: NDArray[Any], b: int, count: int) -> None:
    from pygpukit.core.errors import InvalidIndexError

    wrong = pages[(pages < 0) | (pages >= count)]
    if wrong.size:
        raise InvalidIndexError(
            f"attention: block_table of sequence {b} has block {wrong[0]}, expected 0 to "
            f"{count - 1} (blocks of k) within its length"
        )


def _sequence(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    out: NDArray[Any],
    *,
    mask: Optional,
    bias: Optional,
    left: int | None,
    right: int | None,
    softcap: float,
    sinks: Optional,
    scale: np.float32,
    v_scale: np.float32,
) -> None:
    heads = q.shape[1]
    group = heads // k.shape[1]
    # [heads, rows, dim]
    wide = (np.moveaxis(x.astype(np.float32), 1, 0) for x in (q, k, v))
    queries, keys, values = wide
    if group > 1:
        keys, values = np.repeat(keys, group, 0), np.repeat(values, group, 0)
    positions = np.arange(len(q)) + len(k) - len(q)
    columns = np.arange(len(k))
    step = max(1, _BLOCK // max(1, heads * len(k)))
    for first in range(0, len(q), step):
        rows = slice(first, first + step)
        at = positions[rows, None]
        scores = queries[:, rows] @ np.swapaxes(keys, 1, 2)
        scores *= scale
        if softcap:
            scores = np.float32(softcap) * np.tanh(scores / np.float32(softcap))
        if bias is not None:
            scores = scores + bias[:, rows].astype(np.float32)
        if right is not None or left is not None or mask is not None:
            seen = np.ones((len(at), len(k)), bool)
            if right is not None:
                seen &= columns <= at + right
            if left is not None:
                seen &= columns >= at - left
            visible = seen if mask is None else seen & mask[:, rows]
            scores = np.where(visible, scores, np.float32(-np.inf))
        logits = None if sinks is None else sinks.astype(np.float32)[:, None, None]
        top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
        top = top if logits is None else np.maximum(top, logits)
        top = np.where(np.isneginf(top), np.float32(0), top)
        weights = np.exp(np.subtract(scores, top, out=scores), out=scores)
        total = np.sum(weights, axis=-1, keepdims=True)
        total = total if logits is None else total + np.exp(logits - top)
        result = weights @ values * v_scale / np.where(total == 0, np.float32(1), total)
        out[rows] = np.moveaxis(result, 0, 1)


__all__ = ["attention"]
