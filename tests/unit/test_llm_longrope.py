"""LongRoPE on CPU simulation, against NumPy in float64."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cases import llm_longrope as cases
from cases.llm_longrope import BORDER, FOLDER, Reference, text

import pygpukit as gp


@pytest.fixture(scope="module")
def model() -> gp.llm.LanguageModel:
    return cases.load("cpu")


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(FOLDER)


@pytest.mark.parametrize("max_length", [BORDER, BORDER + 1, 256])
def test_golden_of_a_short_text(max_length: int) -> None:
    golden = np.load(FOLDER / "golden.npz")
    got = cases.load("cpu", max_length).logits(golden["ids"].tolist()).to_numpy()
    np.testing.assert_allclose(got, golden["logits"], atol=1e-3)


@pytest.mark.parametrize("length", [BORDER - 1, BORDER, BORDER + 1, 200])
def test_logits(model: gp.llm.LanguageModel, reference: Reference, length: int) -> None:
    cases.check_logits(model, reference, length)


@pytest.mark.parametrize("length", [BORDER - 4, BORDER - 1, BORDER, BORDER + 1])
def test_a_text_that_grows(model: gp.llm.LanguageModel, reference: Reference, length: int) -> None:
    cases.check_growth(model, reference, length)


def test_batch(model: gp.llm.LanguageModel, reference: Reference) -> None:
    cases.check_batch(model, reference)


def test_engine(model: gp.llm.LanguageModel, reference: Reference) -> None:
    cases.check_engine(model, reference)


def test_refusals(model: gp.llm.LanguageModel, tmp_path: Path) -> None:
    sequence = model._runner.make_sequence()
    model._runner.forward(sequence, text(BORDER), False)
    with pytest.raises(ValueError, match="129 tokens, expected at most 128, original_max"):
        model._runner.forward(sequence, [1], False)
    config = json.loads((FOLDER / "config.json").read_text())
    config["rope_parameters"] = {
        "rope_type": "dynamic",
        "factor": 2.0,
        "original_max_position_embeddings": 64,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes((FOLDER / "model.safetensors").read_bytes())
    with pytest.raises(ValueError, match=r"max_length is 65, expected at most 64.*dynamic"):
        gp.llm.load(tmp_path, "float32", device="cpu", max_length=65)
