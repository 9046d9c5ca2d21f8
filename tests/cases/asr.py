"""What the tests of gp.asr share: the trained model, its golden outputs, word errors."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit import _native
from pygpukit.asr.options import TranscribeOptions

DATA = Path(__file__).resolve().parents[1] / "data"
TINY = DATA / "tiny-whisper-words"
SHAPES = ("even", "turbo")


@functools.cache
def golden() -> dict[str, dict[str, Any]]:
    """By name: clip0 .. clip9, long."""
    clips = json.loads((TINY / "golden.json").read_text(encoding="utf-8"))["clips"]
    return {clip["name"]: clip for clip in clips}


def clips() -> list[dict[str, Any]]:
    return [clip for name, clip in golden().items() if name != "long"]


def wav(name: str) -> Path:
    return TINY / f"{name}.wav"


def word_errors(said: str, wanted: str) -> tuple[int, int]:
    """(insertions + deletions + substitutions, words)"""
    a, b = said.split(), wanted.split()
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            cost = min(row[j] + 1, row[j - 1] + 1, last + (word != other))
            last, row[j] = row[j], cost
    return row[-1], len(b)


def check_word_errors(texts: dict[str, str], most: float = 0.04) -> None:
    pairs = [word_errors(text, golden()[name]["text"]) for name, text in texts.items()]
    wrong, words = sum(p[0] for p in pairs), sum(p[1] for p in pairs)
    assert words > 0
    assert wrong <= most * words, f"{wrong} of {words} words: {texts}"


def decode(model: gp.asr.WhisperModel, source: Any, language: str, **options: Any) -> list[int]:
    chosen = TranscribeOptions(**options)
    prompt = model.tokens.prompt(language, "transcribe", timestamps=chosen.timestamps)
    return model._windows.decode([source], [prompt], chosen)[0].tokens


def check_clip(model: gp.asr.WhisperModel, name: str, device: str, tolerance: float) -> None:
    """Spectrogram, states, language and tokens of a clip against Transformers'."""
    wanted = golden()[name]
    mel = gp.asr.preprocess_audio(wav(name), device=device)
    total = float(mel.to_numpy().astype(np.float64).sum())
    assert abs(total - wanted["mel_sum"]) < 1e-3 * abs(wanted["mel_sum"])
    states = model.encoder(gp.expand_dims(mel, 0))
    host = states.astype("float32").to_numpy()[0]
    np.testing.assert_allclose(host[0, :8], wanted["encoder_first"], atol=tolerance)
    norm = np.linalg.norm(host.astype(np.float64))
    assert abs(norm - wanted["encoder_norm"]) < tolerance * wanted["encoder_norm"]
    with model._windows.sources_of(states) as (source,):
        logits = model._windows.logits(source, [model.tokens.start]).astype("float32")
        row = logits.to_numpy()[0]
        for code, value in wanted["language_logits"].items():
            assert abs(row[model.tokens.languages[code]] - value) < 20 * tolerance
        assert model._windows.detect_language(source)[0] == wanted["language"]
        language = wanted["language"]
        assert decode(model, source, language, timestamps=False) == wanted["greedy"]
        assert decode(model, source, language, timestamps=False, num_beams=5) == wanted["beam5"]
        assert decode(model, source, language) == wanted["timestamps"]


def check_shape(name: str, device: str, dtype: str, tolerance: float) -> None:
    """A model of random weights, cut after each layer, against Transformers'."""
    values = np.load(DATA / "whisper-golden" / f"{name}.npz")
    sizes = json.loads(str(values["config"]))
    weights = {
        key.removeprefix("weight:"): values[key].astype(np.float32)
        for key in values.files
        if key.startswith("weight:")
    }

    def model_of(encoder: int, decoder: int) -> gp.asr.WhisperModel:
        config = gp.asr.WhisperConfig.from_dict(
            {**sizes, "encoder_layers": encoder, "decoder_layers": decoder}
        )
        parts = {"encoder": encoder, "decoder": decoder}
        kept = {
            key: gp.from_numpy(value, device=device)
            for key, value in weights.items()
            if ".layers." not in key
            or int(key.split(".layers.")[1].split(".")[0]) < parts[key.split(".")[1]]
        }
        return gp.asr.WhisperModel.from_tensors(
            config, kept, dtype, device=device, max_batch=2, max_beams=1
        )

    mel = gp.from_numpy(values["mel"].astype(np.float32), device=device)
    for layers in range(1, sizes["encoder_layers"] + 1):
        states = model_of(layers, 1).encoder(mel)
        assert_close(states, values[f"encoder_{layers}"], tolerance)
    for layers in range(1, sizes["decoder_layers"] + 1):
        model = model_of(sizes["encoder_layers"], layers)
        logits = model.decoder(values["ids"].tolist(), model.encoder(mel))
        assert_close(logits, values[f"logits_{layers}"], tolerance)
    if dtype == "float32":
        check_greedy(model, states, values["ids"][:, :3].tolist(), values["greedy"].tolist())


def check_greedy(
    model: gp.asr.WhisperModel, states: gp.GPUArray, prompts: Any, wanted: list[list[int]]
) -> None:
    """The decode steps themselves, both texts at a time; the token that ends one does not come."""
    never = next(i for i in range(model.config.vocab_size) if not any(i in row for row in wanted))
    options = _native.AsrTextOptions(
        suppressed=[],
        begin_suppressed=[],
        eos=never,
        first_timestamp=-1,
        max_initial_timestamp=-1,
        temperature=0.0,
        top_k=0,
        seed=0,
        max_new_tokens=len(wanted[0]),
        num_beams=1,
        length_penalty=1.0,
        start_token=-1,
        no_speech_token=-1,
    )
    with model._windows.sources_of(states) as sources:
        texts = model._windows._decoder.decode(sources, prompts, options)
    assert [text.tokens for text in texts] == wanted


def assert_close(got: gp.GPUArray, wanted: Any, tolerance: float) -> None:
    """Relative to the largest value."""
    host = got.astype("float32").to_numpy()
    assert host.shape == wanted.shape
    assert np.abs(host - wanted).max() < tolerance * np.abs(wanted).max()
