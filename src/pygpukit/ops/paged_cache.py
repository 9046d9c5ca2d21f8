"""Paged key/value caches: fused writes, block tables, pages, and the functions of 0.2."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import require_arrays, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops._declared import paged_cache as _declared
from pygpukit.ops._declared.paged_cache import *  # noqa: F403

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def allocate_kv_cache(
    num_blocks: int, num_kv_heads: int, block_size: int, head_dim: int
) -> GPUArray:
    """A float16 cache [num_blocks, num_kv_heads, block_size, head_dim] of zeros: 0.2's layout."""
    sizes = {
        "num_blocks": num_blocks,
        "num_kv_heads": num_kv_heads,
        "block_size": block_size,
        "head_dim": head_dim,
    }
    shape = tuple(whole("allocate_kv_cache", name, size, 1) for name, size in sizes.items())
    return _native.zeros(shape, "float16")


def copy_to_paged_cache(
    K_new: GPUArray,
    V_new: GPUArray,
    K_cache: GPUArray,
    V_cache: GPUArray,
    slot_mapping: GPUArray,
) -> None:
    """kv_cache_write of new tokens to caches [num_blocks, kv_heads, block_size, dim]."""
    _write("copy_to_paged_cache", K_new, V_new, K_cache, V_cache, slot_mapping)


def reshape_and_cache(
    K: GPUArray, V: GPUArray, K_cache: GPUArray, V_cache: GPUArray, slot_mapping: GPUArray
) -> None:
    """kv_cache_write of a prompt to caches [num_blocks, kv_heads, block_size, dim]."""
    _write("reshape_and_cache", K, V, K_cache, V_cache, slot_mapping)


def _write(
    op: str, k: GPUArray, v: GPUArray, k_cache: GPUArray, v_cache: GPUArray, slots: GPUArray
) -> None:
    require_arrays(op, K=k, V=v, K_cache=k_cache, V_cache=v_cache, slot_mapping=slots)
    for name, cache in (("K_cache", k_cache), ("V_cache", v_cache)):
        if cache.ndim != 4:
            raise InvalidValueError(
                f"{op}: {name} has shape {cache.shape}, expected (num_blocks, kv_heads, "
                "block_size, dim)"
            )
    keys = _native.permute_dims(k_cache, (0, 2, 1, 3))
    values = _native.permute_dims(v_cache, (0, 2, 1, 3))
    _native.kv_cache_write(k, v, keys, values, slots)


__all__ = ["allocate_kv_cache", "copy_to_paged_cache", "reshape_and_cache"]
__all__ += _declared.__all__

name_all(globals(), __all__)
