"""Keys and values in 8 bits, on CPU simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases.llm import TINY

import pygpukit as gp

IDS = np.load(TINY / "val_ids.npy").reshape(-1)[:128].astype(int).tolist()
OPTIONS: dict[str, Any] = {"max_length": 128, "max_batch": 2}
GREEDY: dict[str, Any] = {"max_new_tokens": 12, "stop_tokens": [], "temperature": 0.0}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_perplexity_hardly_changes(dtype: str) -> None:
    plain = gp.llm.load(TINY, dtype, **OPTIONS)
    model = gp.llm.load(TINY, dtype, kv_dtype="fp8", **OPTIONS)
    assert [x.dtype.name for x in model._runner.cache(0)] == ["float8_e4m3fn"] * 2
    wide = plain._runner.cache(0)[0]
    assert model._runner.cache(0)[0].nbytes * wide.dtype.itemsize == wide.nbytes
    ratio = model.perplexity(IDS) / plain.perplexity(IDS)
    assert ratio != 1
    assert abs(ratio - 1) < 0.02


def test_the_cache_holds_rounded_keys() -> None:
    plain = gp.llm.load(TINY, "float32", **OPTIONS)
    model = gp.llm.load(TINY, "float32", kv_dtype="fp8", **OPTIONS)
    for x in (plain, model):
        x.logits(IDS[:16])
    # The first layer's input is the same in both.
    for got, want in zip(model._runner.cache(0), plain._runner.cache(0), strict=True):
        wide = want.astype("float8_e4m3fn").astype("float32").to_numpy()[0, :16]
        np.testing.assert_array_equal(got.astype("float32").to_numpy()[0, :16], wide)


def test_texts_are_those_of_a_batch_and_of_the_engine() -> None:
    model = gp.llm.load(TINY, "float32", kv_dtype="fp8", **OPTIONS)
    alone = model.generate(IDS[:20], **GREEDY)
    assert model.generate_batch([IDS[:20], IDS[30:41]], **GREEDY)[0] == alone
    # Eight pages of 16 tokens: requests are preempted, and pages forked by the prefix cache.
    page = 2 * model._model.num_layers * model._runner.cache(0)[0][0, :16].nbytes
    with gp.llm.Engine(model, max_batch=4, page=16, kv_memory=8 * page, max_length=64) as engine:
        requests = [engine.submit(IDS[:20], **GREEDY) for _ in range(4)]
        assert [list(x) for x in requests] == [alone] * 4
        assert engine.metrics().pages == 8


@pytest.mark.parametrize("kv_dtype", ["int8", "float8_e5m2", ""])
def test_unknown_dtypes_are_refused(kv_dtype: str) -> None:
    with pytest.raises(ValueError, match=r"load: kv_dtype is .*, expected None"):
        gp.llm.load(TINY, kv_dtype=kv_dtype)
    with pytest.raises(ValueError, match="Engine: kv_dtype is "):
        gp.llm.Engine(gp.llm.load(TINY, **OPTIONS), kv_dtype=kv_dtype)
    model = gp.llm.load(TINY, "float32", **OPTIONS)._model
    with pytest.raises(TypeError, match="runner: kv_dtype is int8, expected float32"):
        gp._native.LlmRunner(model, 16, 1, 64, 0, 64, "int8")
