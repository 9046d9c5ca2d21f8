"""0.2's helpers for batches of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.ops import batching

LENGTHS = np.array([3, 1, 2], np.int32)


def on_device(*values: Any) -> gp.GPUArray:
    return gp.from_numpy(np.array(values, np.int32))


def test_starts_and_positions() -> None:
    starts = batching.compute_cumsum(gp.from_numpy(LENGTHS))
    assert starts.dtype.name == "int32"
    np.testing.assert_array_equal(starts.to_numpy(), [0, 3, 4])
    positions = batching.prepare_position_ids(
        starts, on_device(0, 17, 0), on_device(1, 0, 1), gp.from_numpy(LENGTHS), 3, 6
    )
    assert positions.dtype.name == "int32"
    np.testing.assert_array_equal(positions.to_numpy(), [0, 1, 2, 17, 0, 1])


def test_rows() -> None:
    table = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float16)
    ids = np.array([2, 8, 0, 1], np.int32)
    rows = batching.gather_embeddings(gp.from_numpy(ids), gp.from_numpy(table), 3)
    np.testing.assert_array_equal(rows.to_numpy(), table[ids[:3]])
    logits = np.random.default_rng(1).normal(size=(6, 5)).astype(np.float16)
    last = batching.scatter_last_token_logits(
        gp.from_numpy(logits), on_device(0, 3, 4), gp.from_numpy(LENGTHS), 3, 5
    )
    np.testing.assert_array_equal(last.to_numpy(), logits[[2, 3, 5]])
    tokens = batching.argmax_sample(last, 3, 5)
    assert tokens.dtype.name == "int32"
    np.testing.assert_array_equal(tokens.to_numpy(), logits[[2, 3, 5]].argmax(-1))
    ended = batching.check_eos(on_device(4, 7, 4), 4)
    assert ended.dtype.name == "int32"
    np.testing.assert_array_equal(ended.to_numpy(), [1, 0, 1])


def test_errors() -> None:
    x, i = gp.ones((2, 5)), on_device(0, 1)
    with pytest.raises(TypeError, match="gather_embeddings: token_ids has dtype float32"):
        batching.gather_embeddings(gp.ones(2), x, 2)
    with pytest.raises(ValueError, match=r"gather_embeddings: token_ids has shape \(2,\)"):
        batching.gather_embeddings(i, x, 3)
    with pytest.raises(ValueError, match=r"logits has shape \(2, 5\), expected \(tokens, 6\)"):
        batching.scatter_last_token_logits(x, i, i, 2, 6)
    with pytest.raises(ValueError, match=r"seq_lens has shape \(2,\), expected \(3,\)"):
        batching.scatter_last_token_logits(x, on_device(0, 1, 1), i, 3, 5)
    with pytest.raises(ValueError, match="prepare_position_ids: is_prefill has shape"):
        batching.prepare_position_ids(i, i, on_device(0), i, 2, 2)
    with pytest.raises(ValueError, match="argmax_sample: logits has shape"):
        batching.argmax_sample(x, 2, 4)
    with pytest.raises(TypeError, match="check_eos: tokens has dtype float32"):
        batching.check_eos(x, 1)
    with pytest.raises(ValueError, match=r"compute_cumsum: input has shape \(1, 2\)"):
        batching.compute_cumsum(i.reshape((1, 2)))
