"""Small models with what Transformers computed from them (scripts/make_llm_goldens.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import pygpukit as gp

DATA = Path(__file__).parent.parent / "data"
TINY = DATA / "tiny-qwen3-1m"
FAMILIES = sorted(p.name for p in (DATA / "families").iterdir()) if DATA.exists() else []


def golden() -> Any:
    return json.loads((TINY / "golden.json").read_text())


def check_family(family: str, device: str, dtype: str) -> None:
    """Logits of a prompt at once and in pieces, and the greedy continuation."""
    folder = DATA / "families" / family
    wanted = np.load(folder / "golden.npz")
    ids = wanted["ids"].tolist()
    model = gp.llm.load(folder, dtype, device=device, max_length=128, max_batch=2)

    def error(of: gp.llm.LanguageModel) -> float:
        got = of.logits(ids).to_numpy().astype(np.float64)
        want = wanted["logits"].astype(np.float64)
        return float(np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2)))

    if dtype != "float32":
        assert error(model) < 2.0 * float(wanted["bfloat16_error"])
        return
    assert error(model) < 2e-5
    new = model.generate(ids, max_new_tokens=len(wanted["greedy"]), stop_tokens=[])
    assert new == wanted["greedy"].tolist()
    assert error(gp.llm.LanguageModel(model._model, max_length=128, chunk=7)) < 2e-5  # in pieces
