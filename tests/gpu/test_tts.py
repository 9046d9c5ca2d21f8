"""Kokoro on a GPU: the stages of the golden file, the CPU's results, streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native

pytestmark = pytest.mark.gpu

TINY = Path(__file__).resolve().parents[1] / "data" / "tiny-kokoro"
STAGES = (
    *("bert", "bert_encoder", "duration_encoder", "duration", "text_encoder", "pitch", "energy"),
    *("encode", "decode", "source", "spectrum"),
)


def run(dtype: str, golden: dict[str, Any], device: str | None = None) -> dict[str, Any]:
    """Every stage, with the noise, pitch and energy of the golden file."""
    config = (TINY / "config.json").read_text(encoding="utf-8")
    tensors = gp.tts.load_kokoro_weights(TINY, "float32", device=device)
    model = _native.KokoroModel(config, tensors, dtype)
    voice = gp.tts.load_voice_embedding(TINY / "voices" / "af_test.pt", 8, device=device)

    def array(values: Any) -> Any:
        return gp.asarray(values.astype("f4"), device=device)

    found: dict[str, Any] = {}
    samples, found["durations"] = model.run(
        golden["tokens"].tolist(),
        voice[len(golden["tokens"]) - 3],
        pitch=array(golden["pitch"][0]),
        energy=array(golden["energy"][0]),
        noise=array(golden["noise"][: len(golden["samples"])]),
        trace=lambda stage, value: found.update({stage: value.to_numpy()}),
    )
    found["samples"] = samples.to_numpy()
    return found


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    with np.load(TINY / "golden.npz") as file:
        return dict(file)


def test_every_stage(golden: dict[str, Any]) -> None:
    found = run("float32", golden)
    assert found["durations"] == golden["durations"].tolist()
    errors = {
        stage: float(
            np.abs(found[stage].reshape(golden[stage].shape) - golden[stage]).max()
            / np.abs(golden[stage]).max()
        )
        for stage in (*STAGES, "samples")
    }
    assert max(errors.values()) < 1e-4, errors


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 0.02), ("bfloat16", 0.15)])
def test_the_decoder_in_16_bits(golden: dict[str, Any], dtype: str, tolerance: float) -> None:
    found = run(dtype, golden)
    assert found["durations"] == golden["durations"].tolist()
    difference = found["samples"] - golden["samples"]
    error = np.sqrt((difference**2).mean() / (golden["samples"] ** 2).mean())
    assert error < tolerance


def test_speech_is_that_of_the_cpu() -> None:
    """The noise is the same for a seed; only the pitch's rounding errors differ."""
    models = [
        gp.tts.KokoroModel.from_pretrained(TINY, "af_test", "float32", device=device)
        for device in (None, "cpu")
    ]
    first, second = (model.synthesize("hello there.", phonemes=True) for model in models)
    assert first.audio.data.size == second.audio.data.size
    assert first.tokens == second.tokens
    assert np.isfinite(first.to_numpy()).all()
    error = np.sqrt(((first.to_numpy() - second.to_numpy()) ** 2).mean())
    assert error < 0.05 * np.sqrt((second.to_numpy() ** 2).mean())
    chunks = models[0].generate_stream("one two. three.", 500, phonemes=True)
    assert sum(len(chunk) for chunk in chunks) > 0


def test_a_model_on_another_stream(golden: dict[str, Any]) -> None:
    expected = run("float32", golden)["samples"]
    with gp.Stream():
        np.testing.assert_array_equal(run("float32", golden)["samples"], expected)
