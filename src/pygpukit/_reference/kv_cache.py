"""Key/value caches: writes with what models do first, and pages. Computed in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST_FP8 = np.float32(448)


def _prepared(
    x: Any, weight: Any, eps: float, offset: float, cos: Any, sin: Any, positions: Any
) -> Any:
    """rmsnorm, then half-split rotation, of [tokens, heads, dim]."""
    y = x.astype(np.float32)
    if weight is not None:
        mean = np.mean(np.square(y), axis=-1, keepdims=True)
        y = y / np.sqrt(mean + np.float32(eps)) * (np.float32(offset) + weight.astype(np.float32))
    if cos is None:
        return y
    known = (positions >= 0) & (positions < len(cos))
    rows = np.where(known, positions, 0)
    c, s = (
        np.where(known[:, None], table.astype(np.float32)[rows], np.float32(np.nan))[:, None, :]
        for table in (cos, sin)
    )
    half = cos.shape[1]
    a, b = y[..., :half].copy(), y[..., half : 2 * half].copy()
    y[..., :half] = a * c - b * s
    y[..., half : 2 * half] = b * c + a * s
    return y


def _put(cache: Any, slots: Any, x: Any, scale: Any) -> None:
    page = cache.shape[-3]
    known = (slots >= 0) & (slots < page * (len(cache) if cache.ndim == 4 else 1))
    if cache.dtype.itemsize == 1:
        by = np.float32(scale.reshape(()) if isinstance(scale, np.ndarray) else scale)
        x = np.clip(x / by, -_LARGEST_FP8, _LARGEST_FP8)
    at: Any = (slots[known] // page, slots[known] % page) if cache.ndim == 4 else slots[known]
    cache[at] = x[known].astype(cache.dtype)


def kv_cache_write(
    k: NDArray[Any],
    v: NDArray[Any],
    slots: NDArray[Any],
    *,
    q: Any,
    cos: Any,
    sin: Any,
    positions: Any,
    q_weight: Any,
    k_weight: Any,
    eps: float,
    offset: float,
    k_scale: Any,
    v_scale: Any,
    out: tuple[NDArray[Any], ...],
) -> None:
    """Keys, normalised and rotated, and values to their slots"""
    _put(out[0], slots, _prepared(k, k_weight, eps, offset, cos, sin, positions), k_scale)
    _put(out[1], slots, v.astype(np.float32), v_scale)
    if q is not None:
        out[2][...] = _prepared(q, q_weight, eps, offset, cos, sin, positions)


def slot_mapping(
    block_tables: NDArray[Any],
    positions: NDArray[Any],
    sequences: Any,
    *,
    page: int,
    out: NDArray[Any],
) -> None:
    """Block times page plus the place in the page"""
    rows = np.arange(positions.size) if sequences is None else sequences
    column = positions // page
    known = (positions >= 0) & (column < block_tables.shape[1])
    known &= (rows >= 0) & (rows < len(block_tables))
    if block_tables.size == 0:
        out[...] = -1
        return
    block = block_tables[np.where(known, rows, 0), np.where(known, column, 0)]
    out[...] = np.where(known & (block >= 0), block * page + positions % page, -1)


def copy_pages(pairs: NDArray[Any], *, out: Any) -> None:
    """cache[to] = cache[from]"""
    for cache in out if isinstance(out, tuple) else (out,):
        known = ((pairs >= 0) & (pairs < len(cache))).all(axis=1)
        cache[pairs[known, 1]] = cache[pairs[known, 0]]


def gather_pages(
    cache: NDArray[Any],
    block_tables: NDArray[Any],
    lengths: Any,
    *,
    length: int,
    out: NDArray[Any],
) -> None:
    """The tokens of sequences, page after page"""
    page = cache.shape[1]
    for i, table in enumerate(block_tables):
        end = length if lengths is None else min(length, int(lengths[i]))
        for at in range(length):
            column = at // page
            block = table[column] if at < end and column < table.size else -1
            out[i, at] = cache[block, at % page] if 0 <= block < len(cache) else 0


__all__ = ["copy_pages", "gather_pages", "kv_cache_write", "slot_mapping"]
