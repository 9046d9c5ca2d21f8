"""Whisper on a GPU, against what Transformers computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases.asr import (
    SHAPES,
    TINY,
    check_clip,
    check_shape,
    check_word_errors,
    clips,
    golden,
    wav,
)

import pygpukit as gp
from pygpukit.asr.options import TranscribeOptions

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def model() -> gp.asr.WhisperModel:
    return gp.asr.WhisperModel.from_pretrained(TINY, device="cuda", max_batch=10)


@pytest.mark.hardware("too long")
@pytest.mark.parametrize("name", [clip["name"] for clip in clips()])
def test_clip(model: gp.asr.WhisperModel, name: str) -> None:
    check_clip(model, name, "cuda", 1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_random_weights(shape: str) -> None:
    check_shape(shape, "cuda", "float32", 1e-4)
    check_shape(shape, "cuda", "bfloat16", 5e-2)


@pytest.mark.hardware("too long")
def test_long_sound(model: gp.asr.WhisperModel) -> None:
    result = model.transcribe(wav("long"), language="en")
    wanted = golden()["long"]["segments"]
    assert [s.text for s in result.segments] == [s["text"] for s in wanted]
    assert all(
        abs(a.start - b["start"]) < 1e-6 for a, b in zip(result.segments, wanted, strict=True)
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_modes(dtype: str) -> None:
    """All clips in one batch, in a stream, at another rate."""
    model = gp.asr.WhisperModel.from_pretrained(TINY, dtype, device="cuda", max_batch=10)
    most = 0.04 if dtype == "float32" else 0.10
    texts: dict[str, Any] = {}
    for clip in clips():
        stream = model.stream(clip["language"])
        sound = gp.ops.audio.load(wav(clip["name"])).to_numpy()
        for first in range(0, sound.size, 8000):
            stream.push(sound[first : first + 8000])
        stream.finish()
        texts[clip["name"]] = stream.text
    check_word_errors(texts, most)
    for clip in clips():
        mono = gp.ops.audio.load(wav(clip["name"]))
        fast = gp.ops.audio.resample(mono.data, 16000, 44100).to_numpy()
        texts[clip["name"]] = model.transcribe(np.stack([fast, fast]), 44100, clip["language"]).text
    check_word_errors(texts, most)


def test_a_text_is_the_same_in_every_batch_and_as_a_graph() -> None:
    model = gp.asr.WhisperModel.from_pretrained(TINY, "float16", device="cuda", max_batch=10)
    eager = gp.asr.WhisperModel(model._model, model.config, TINY, max_batch=10, use_graph=False)
    mel = gp.asr.preprocess_audio_batch([wav(clip["name"]) for clip in clips()], device="cuda")
    for options in (TranscribeOptions(), TranscribeOptions(num_beams=4)):
        prompt = model.tokens.prompt("en", "transcribe", timestamps=True)
        with model._windows.sources(mel) as sources:
            together = model._windows.decode(sources, [prompt] * len(sources), options)
            alone = [model._windows.decode([s], [prompt], options)[0] for s in sources]
        assert [text.tokens for text in together] == [text.tokens for text in alone]
        with eager._windows.sources(mel) as sources:
            without = eager._windows.decode(sources, [prompt] * len(sources), options)
        assert [text.tokens for text in without] == [text.tokens for text in together]


def test_timestamp_rules() -> None:
    """Logits of random rows, against the CPU backend."""
    rng = np.random.default_rng(2)
    width, rows, first = 5000, 9, 3400
    for dtype in ("float32", "float16", "bfloat16"):
        logits = (rng.standard_normal((rows, width)) * 4).astype(np.float32)
        history = np.stack(
            [
                rng.integers(-1, 4, rows),
                rng.integers(0, width, rows),
                rng.integers(0, width, rows),
                rng.integers(first, width, rows) * rng.integers(0, 2, rows),
            ]
        ).astype(np.int32)
        tokens = rng.integers(0, width, rows).astype(np.int32)
        bits = rng.integers(0, 2**32, (2, -(-width // 32)), dtype=np.uint32)
        results = []
        for device in ("cpu", "cuda"):
            arrays = [gp.from_numpy(x, device=device) for x in (tokens, history, bits[0], bits[1])]
            x = gp.from_numpy(logits, device=device).astype(dtype)
            out = gp.ops.sampling.timestamp_rules(
                x, *arrays, eos=3000, first_timestamp=first, max_initial=50
            )
            results.append((out.astype("float32").to_numpy(), arrays[1].to_numpy()))
        np.testing.assert_array_equal(results[0][0], results[1][0])
        np.testing.assert_array_equal(results[0][1], results[1][1])
