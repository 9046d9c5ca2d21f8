"""Embedding lookups and writes to contiguous caches."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(10, 4)).astype(np.float32)


def test_embedding() -> None:
    table, ids = gp.from_numpy(TABLE), np.array([[3, 0], [9, 3]], np.int32)
    np.testing.assert_array_equal(gp.embedding(table, gp.from_numpy(ids)).to_numpy(), TABLE[ids])
    out = gp.empty((2, 2, 4))
    assert gp.embedding(table, gp.from_numpy(ids), scale=2.0, out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), 2 * TABLE[ids])
    assert gp.embedding(table, gp.from_numpy(ids), out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), TABLE[ids])
    with pytest.raises(TypeError, match="embedding: ids has dtype float32"):
        gp.embedding(table, gp.ones(2))
    with pytest.raises(ValueError, match=r"embedding: table has shape \(4,\)"):
        gp.embedding(table[0], gp.from_numpy(ids))


def test_lookups() -> None:
    table, out = gp.from_numpy(TABLE), gp.empty((1, 4))
    gp.embedding_lookup(table, out, 7)
    np.testing.assert_array_equal(out.to_numpy(), TABLE[7:8])
    gp.embedding_lookup_ptr(table, out, gp.from_numpy(np.array([2], np.int32)))
    np.testing.assert_array_equal(out.to_numpy(), TABLE[2:3])
    rows = gp.empty((3, 4))
    ids = np.array([5, 1, 8, 0], np.int32)
    gp.embedding_lookup_batch(table, rows, gp.from_numpy(ids), 3)
    np.testing.assert_array_equal(rows.to_numpy(), TABLE[ids[:3]])
    with pytest.raises(IndexError):
        gp.embedding_lookup(table, out, 10)
    with pytest.raises(ValueError, match="embedding_lookup: out has shape"):
        gp.embedding_lookup(table, rows, 1)
    with pytest.raises(ValueError, match="embedding_lookup_batch: the ids have shape"):
        gp.embedding_lookup_batch(table, gp.empty((5, 4)), gp.from_numpy(ids), 5)


def tokens(seq: int, heads: int = 2) -> np.ndarray:
    return RNG.normal(size=(seq, heads, 3)).astype(np.float32)


def test_cache_by_token() -> None:
    cache, want = gp.zeros((8, 2, 3)), np.zeros((8, 2, 3), np.float32)
    first, second = tokens(4), tokens(1)
    gp.kv_cache_prefill(gp.from_numpy(first), cache, 1)
    gp.kv_cache_update(gp.from_numpy(second), cache, 5)
    want[1:5], want[5] = first, second[0]
    np.testing.assert_array_equal(cache.to_numpy(), want)


def test_cache_by_head() -> None:
    cache, want = gp.zeros((6, 8, 3)), np.zeros((6, 8, 3), np.float32)
    first, second, third = tokens(4), tokens(1), tokens(1)
    gp.kv_cache_prefill_gqa(gp.from_numpy(first), cache, 6, 1)
    gp.kv_cache_update_gqa(gp.from_numpy(second), cache, 6, 5)
    position = gp.from_numpy(np.array([7], np.int32))
    gp.kv_cache_update_gqa_ptr(gp.from_numpy(third), cache, 6, position)
    for head in range(6):
        want[head, 1:5], want[head, 5] = first[:, head // 3], second[0, head // 3]
        want[head, 7] = third[0, head // 3]
    np.testing.assert_array_equal(cache.to_numpy(), want)


def test_a_position_on_the_device_can_be_replayed() -> None:
    cache, position = gp.zeros((2, 4, 3)), gp.zeros(1, "int32")
    new = gp.from_numpy(tokens(1, 1))
    graph = gp.CudaGraph()
    with graph:
        gp.kv_cache_update_gqa_ptr(new, cache, 2, position)
    for _ in range(2):
        graph.replay()
        position += 1
    filled = cache.to_numpy()
    np.testing.assert_array_equal(filled[:, :2], np.broadcast_to(new.to_numpy(), (2, 2, 3)))
    assert not filled[:, 2:].any()


def test_errors() -> None:
    cache, new = gp.zeros((6, 8, 3)), gp.from_numpy(tokens(2))
    with pytest.raises(TypeError, match="kv_cache_prefill: cache"):
        gp.kv_cache_prefill(new, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kv_cache_update: new_kv has shape"):
        gp.kv_cache_update(new, cache, 0)
    with pytest.raises(ValueError, match="kv_cache_update_gqa: new_kv has 2 tokens, expected 1"):
        gp.kv_cache_update_gqa(new, cache, 6, 0)
    with pytest.raises(
        ValueError, match="kv_cache_prefill_gqa: positions 7 to 9 of a cache with 8"
    ):
        gp.kv_cache_prefill_gqa(new, cache, 6, 7)
    with pytest.raises(ValueError, match=r"kv_cache_prefill_gqa: .* \(4, max, dim\)"):
        gp.kv_cache_prefill_gqa(new, cache, 4)
    with pytest.raises(ValueError, match="5 heads are no multiple of new_kv's 2"):
        gp.kv_cache_prefill_gqa(new, gp.zeros((5, 8, 3)), 5)
    with pytest.raises(TypeError, match="new_kv has dtype float32, the cache float16"):
        gp.kv_cache_prefill_gqa(new, gp.zeros((6, 8, 3), "float16"), 6)
    with pytest.raises(ValueError, match="position"):
        gp.kv_cache_prefill(new, gp.zeros((8, 2, 3)), -1)
    with pytest.raises(ValueError, match="position_buf has shape"):
        gp.kv_cache_update_gqa_ptr(new[:1], cache, 6, gp.zeros(2, "int32"))
