"""Quantised models on a GPU: tokens and perplexity beside those of CPU simulation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.llm import TINY

import pygpukit as gp

IDS = np.load(TINY / "val_ids.npy").reshape(-1)[:192].astype(int).tolist()


@pytest.mark.parametrize("quantization", ["fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4"])
def test_as_on_the_cpu(quantization: str) -> None:
    options = {"max_length": 256, "max_batch": 2, "quantization": quantization}
    there = gp.llm.load(TINY, "bfloat16", **options)
    here = gp.llm.load(TINY, "bfloat16", device="cpu", **options)
    ratio = there.perplexity(IDS) / here.perplexity(IDS)
    assert abs(ratio - 1) < 0.01
    new = there.generate(IDS[:16], max_new_tokens=16, stop_tokens=[])
    assert len(new) == 16
    # A batch gives what one text gives.
    assert there.generate_batch([IDS[:16], IDS[16:40]], max_new_tokens=16, stop_tokens=[])[0] == new


# The table of docs/quantization.md, with room for other orders of summation.
MOST_PERPLEXITY: tuple[tuple[dict[str, Any], float], ...] = (
    ({"quantization": "fp8"}, 1.003),
    ({"quantization": "int8"}, 1.003),
    ({"quantization": "int4"}, 1.02),
    ({"quantization": "nvfp4"}, 1.015),
    ({"quantization": "mxfp4"}, 1.01),
    ({"quantization": "mxfp8"}, 1.003),
    ({"quantization": "nf4"}, 1.005),
    ({"kv_dtype": "fp8"}, 1.003),
)


@pytest.mark.skipif("GPK_TEST_MODELS" not in os.environ, reason="GPK_TEST_MODELS is not set")
def test_perplexity_of_the_small_model() -> None:
    """GPK_TEST_MODELS: a folder with small-qwen3-14m, which is too large for this repository."""
    small = Path(os.environ["GPK_TEST_MODELS"]) / "small-qwen3-14m"
    texts = np.load(small / "val_ids.npy").reshape(-1, 512)[:20].astype(int).tolist()

    def perplexity(**options: Any) -> float:
        model = gp.llm.load(small, "float32", max_length=512, max_batch=1, **options)
        return float(np.exp(np.mean([np.log(model.perplexity(text)) for text in texts])))

    plain = perplexity()
    assert abs(plain / 77.16 - 1) < 1e-3
    for options, most in MOST_PERPLEXITY:
        assert 0.997 < perplexity(**options) / plain < most, options


def test_quantized_checkpoints(tmp_path: Path) -> None:
    import sys

    sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
    import make_quantized_checkpoints as checkpoints

    for format in checkpoints.FORMATS:
        packed, plain = checkpoints.make(TINY, tmp_path, format)
        model = gp.llm.load(packed, "bfloat16", max_length=64, max_batch=1)
        twin = gp.llm.load(plain, "bfloat16", max_length=64, max_batch=1)
        got = model.logits(IDS[:24]).to_numpy().astype(np.float64)
        want = twin.logits(IDS[:24]).to_numpy().astype(np.float64)
        assert np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2)) < 0.02, format


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_cache_in_fp8(dtype: str) -> None:
    options = {"max_length": 256, "max_batch": 2, "kv_dtype": "fp8"}
    there = gp.llm.load(TINY, dtype, **options)
    here = gp.llm.load(TINY, dtype, device="cpu", **options)
    wide = gp.llm.load(TINY, dtype, max_length=256, max_batch=1)
    assert abs(there.perplexity(IDS) / here.perplexity(IDS) - 1) < 0.01
    assert abs(there.perplexity(IDS) / wide.perplexity(IDS) - 1) < 0.02
    new = there.generate(IDS[:16], max_new_tokens=16, stop_tokens=[])
    assert there.generate_batch([IDS[:16], IDS[16:40]], max_new_tokens=16, stop_tokens=[])[0] == new
    with gp.llm.Engine(there, max_batch=2, max_length=64) as engine:
        assert list(engine.submit(IDS[:16], max_new_tokens=16, stop_tokens=[])) == new
