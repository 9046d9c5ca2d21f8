"""Writes to key/value caches, contiguous ones: by position, or by one that the device holds."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def kv_cache_update(new_kv: GPUArray, cache: GPUArray, position: int) -> None:
    """Writes one token [1, kv_heads, dim] at a position of a cache [max, kv_heads, dim]."""
    op = "kv_cache_update"
    _check(op, new_kv, cache)
    _one_token(op, new_kv)
    cache[_room(op, cache.shape[0], position, 1)] = new_kv


def kv_cache_prefill(new_kv: GPUArray, cache: GPUArray, start_pos: int = 0) -> None:
    """Writes tokens [seq, kv_heads, dim] to a cache [max, kv_heads, dim]."""
    op = "kv_cache_prefill"
    _check(op, new_kv, cache)
    cache[_room(op, cache.shape[0], start_pos, new_kv.shape[0])] = new_kv


def kv_cache_update_gqa(new_kv: GPUArray, cache: GPUArray, num_heads: int, position: int) -> None:
    """Writes one token [1, kv_heads, dim] to a cache [num_heads, max, dim].

    Each of the kv_heads is written to its num_heads / kv_heads query heads.
    """
    op = "kv_cache_update_gqa"
    groups = _groups(op, new_kv, cache, num_heads)
    _one_token(op, new_kv)
    groups[:, :, _room(op, cache.shape[1], position, 1)] = _heads_first(new_kv)


def kv_cache_update_gqa_ptr(
    new_kv: GPUArray, cache: GPUArray, num_heads: int, position_buf: GPUArray
) -> None:
    """kv_cache_update_gqa with the position in an int32 array of one element on the device."""
    op = "kv_cache_update_gqa_ptr"
    require_arrays(op, position_buf=position_buf)
    groups = _groups(op, new_kv, cache, num_heads)
    _one_token(op, new_kv)
    if position_buf.size != 1 or position_buf.dtype.name not in ("int32", "int64"):
        raise InvalidValueError(
            f"{op}: position_buf has shape {position_buf.shape} and dtype {position_buf.dtype}, "
            "expected one int32"
        )
    groups[:, :, position_buf.reshape((1,))] = _heads_first(new_kv)


def kv_cache_prefill_gqa(
    new_kv: GPUArray, cache: GPUArray, num_heads: int, start_pos: int = 0
) -> None:
    """Writes tokens [seq, kv_heads, dim] to a cache [num_heads, max, dim]."""
    op = "kv_cache_prefill_gqa"
    groups = _groups(op, new_kv, cache, num_heads)
    rows = _room(op, cache.shape[1], start_pos, new_kv.shape[0])
    groups[:, :, rows] = _heads_first(new_kv)


def _check(op: str, new_kv: GPUArray, cache: GPUArray) -> None:
    require_arrays(op, new_kv=new_kv, cache=cache)
    if new_kv.ndim != 3 or cache.ndim != 3 or new_kv.shape[1:] != cache.shape[1:]:
        raise InvalidValueError(
            f"{op}: new_kv has shape {new_kv.shape}, the cache {cache.shape}; expected (seq, "
            "kv_heads, dim) and (max, kv_heads, dim)"
        )
    _check_dtype(op, new_kv, cache)


def _check_dtype(op: str, new_kv: GPUArray, cache: GPUArray) -> None:
    if new_kv.dtype != cache.dtype:
        raise InvalidTypeError(f"{op}: new_kv has dtype {new_kv.dtype}, the cache {cache.dtype}")


def _groups(op: str, new_kv: GPUArray, cache: GPUArray, num_heads: int) -> GPUArray:
    """The cache as [kv_heads, heads of each, max, dim]."""
    require_arrays(op, new_kv=new_kv, cache=cache)
    num_heads = whole(op, "num_heads", num_heads, 1)
    fits = new_kv.ndim == cache.ndim == 3 and cache.shape[0] == num_heads
    if not fits or new_kv.shape[2] != cache.shape[2] or not new_kv.shape[1]:
        raise InvalidValueError(
            f"{op}: new_kv has shape {new_kv.shape}, the cache {cache.shape}; expected (seq, "
            f"kv_heads, dim) and ({num_heads}, max, dim)"
        )
    if num_heads % new_kv.shape[1]:
        raise InvalidValueError(
            f"{op}: {num_heads} heads are no multiple of new_kv's {new_kv.shape[1]}"
        )
    _check_dtype(op, new_kv, cache)
    shape = (new_kv.shape[1], num_heads // new_kv.shape[1], *cache.shape[1:])
    return _native.reshape(cache, shape, copy=False)


def _heads_first(new_kv: GPUArray) -> GPUArray:
    """[kv_heads, 1, seq, dim]"""
    return _native.expand_dims(_native.permute_dims(new_kv, (1, 0, 2)), 1)


def _one_token(op: str, new_kv: GPUArray) -> None:
    if new_kv.shape[0] != 1:
        raise InvalidValueError(f"{op}: new_kv has {new_kv.shape[0]} tokens, expected 1")


def _room(op: str, rows: int, start: int, count: int) -> slice:
    start = whole(op, "position", start)
    if start + count > rows:
        raise InvalidValueError(
            f"{op}: positions {start} to {start + count} of a cache with {rows}"
        )
    return slice(start, start + count)


__all__ = [
    "kv_cache_prefill",
    "kv_cache_prefill_gqa",
    "kv_cache_update",
    "kv_cache_update_gqa",
    "kv_cache_update_gqa_ptr",
]

name_all(globals(), __all__)
