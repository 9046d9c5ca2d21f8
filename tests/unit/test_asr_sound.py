"""The sound that gp.asr takes: rates, levels, noise, what is not finite, what never ends."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.asr import TINY, golden, wav, word_errors

import pygpukit as gp
from pygpukit.asr.batched import find_speech

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
RATE = 16000


@pytest.fixture(scope="module")
def model() -> gp.asr.WhisperModel:
    return gp.asr.WhisperModel.from_pretrained(TINY, device="cpu", max_batch=2)


def samples(name: str) -> Any:
    return gp.ops.audio.load(wav(name), device="cpu").to_numpy()


def pieces(sound: Any) -> list[tuple[int, int]]:
    return find_speech(gp.from_numpy(np.asarray(sound, np.float32), device="cpu"))


# --- rates and values ----------------------------------------------------------------------------


def test_a_buffer_knows_its_rate(model: gp.asr.WhisperModel) -> None:
    buffer = gp.ops.audio.load(wav("clip4"), 24000, device="cpu")
    assert model.transcribe(buffer, language="de").text == golden()["clip4"]["text"]
    assert model.transcribe(buffer, 24000, language="de").text == golden()["clip4"]["text"]
    with pytest.raises(ValueError, match="audio has a rate of 24000 Hz, expected 16000"):
        model.transcribe(buffer, 16000)
    with pytest.raises(ValueError, match="audio has a rate of 16000 Hz, expected 8000"):
        model.transcribe(wav("clip4"), 8000)
    with pytest.raises(ValueError, match="push: audio has a rate of 24000 Hz, expected 16000"):
        model.stream("de").push(buffer)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_finite(
    model: gp.asr.WhisperModel, bad: float, tmp_path: Path
) -> None:
    sound = np.zeros(5000, np.float32)
    sound[[7, 4000]] = bad
    given: list[tuple[Any, int]] = [
        *((sound, 5000), (sound.astype(np.float64), 5000), (np.stack([sound, sound]), 10000)),
        *((gp.from_numpy(sound, device="cpu"), 5000), (gp.ops.audio.from_pcm(sound, 8000), 5000)),
    ]
    gp.ops.audio.save(tmp_path / "a.wav", gp.from_numpy(sound), RATE, subtype="float")
    given.append((tmp_path / "a.wav", 5000))
    for audio, count in given:
        bad_ones = 2 * count // 5000
        words = re.escape(f"audio has {bad_ones} of {count} samples that are not finite")
        for call in (model.transcribe, model.detect_language, model.transcribe_streaming):
            with pytest.raises(ValueError, match=words):
                call(audio)
    with pytest.raises(ValueError, match=r"push: audio has 2 of 5000 samples"):
        model.stream("en").push(sound)


# --- pieces by level -----------------------------------------------------------------------------


def test_where_speech_is_does_not_depend_on_the_gain() -> None:
    speech = samples("clip3")
    quiet = np.zeros(3 * RATE, np.float32)
    sound = np.concatenate([quiet, speech, quiet, speech, quiet])
    found = pieces(sound)
    for gain in (0.02, 0.2, 8.0):
        assert pieces(gain * sound) == found
    held = np.zeros(sound.size, bool)
    for begin, end in found:
        held[begin:end] = True
    loud = np.abs(sound) > 0.05 * np.abs(sound).max()
    assert held[loud].all()
    assert held[: 2 * RATE].sum() == held[-2 * RATE :].sum() == 0
    assert held.mean() < 0.55


@pytest.mark.parametrize("decibels", [12, 20, 40])
def test_speech_over_a_noise_floor(decibels: int) -> None:
    speech = samples("clip3")
    rng = np.random.default_rng(decibels)
    pause = np.zeros(4 * RATE)
    clean = np.concatenate([pause, speech, pause])
    floor = speech.std() * 10 ** (-decibels / 20)
    found = pieces(clean + floor * rng.normal(size=clean.size))
    held = np.zeros(clean.size, bool)
    for begin, end in found:
        held[begin:end] = True
    energy = np.square(clean)
    assert energy[held].sum() > 0.98 * energy.sum()
    assert held[: 3 * RATE].sum() + held[-3 * RATE :].sum() == 0


def test_nothing_that_sounds_is_dropped_as_a_whole() -> None:
    time = np.arange(5 * RATE) / RATE
    tone = 0.1 * np.sin(2 * np.pi * 40 * time)  # few zero crossings
    noise = 1e-3 * np.random.default_rng(0).normal(size=time.size)
    for steady in (tone, 1e-4 * tone, noise):
        assert pieces(steady) == [(0, time.size)]
    assert pieces(np.zeros(5 * RATE)) == []
    assert pieces(np.zeros(0)) == []
    assert pieces(tone[1000:1200]) == [(0, 200)]  # shorter than a frame
    word = np.zeros(60 * RATE)
    word[30 * RATE : 30 * RATE + 2000] = tone[:2000]  # an eighth of a second in a minute
    ((begin, end),) = pieces(word)
    assert 29 * RATE < begin <= 30 * RATE
    assert 30 * RATE + 2000 <= end < 31 * RATE
    low = np.concatenate([np.zeros(3 * RATE), tone, np.zeros(3 * RATE)])
    ((begin, end),) = pieces(low)
    assert begin <= 3 * RATE + 320
    assert end >= 8 * RATE - 320


@pytest.mark.parametrize("gain", [0.02, 0.2, 1.0])
def test_quiet_speech_in_batches(model: gp.asr.WhisperModel, gain: float) -> None:
    sound = (gain * samples("clip3")).astype(np.float32)
    said = model.transcribe(sound, language="en", method="batched").text
    assert said == model.transcribe(sound, language="en").text != ""


# --- sound that does not end ---------------------------------------------------------------------


def test_a_stream_longer_than_the_window(model: gp.asr.WhisperModel) -> None:
    """The sound of confirmed words is dropped on the way; what is confirmed stays."""
    wanted = golden()["long"]["segments"]
    stop = next(s["end"] for s in wanted if s["end"] > 40)
    sound = samples("long")[: int(stop * RATE)]
    stream, held, said = model.stream("en", interval=5.0), [0], ""
    for first in range(0, sound.size, 2 * RATE):
        said += stream.push(sound[first : first + 2 * RATE]).confirmed
        assert stream.text == said
        assert stream._sound is not None
        held.append(stream._sound.shape[0])
    said += stream.finish().confirmed
    assert max(held) <= 30 * RATE
    assert any(after < before for before, after in itertools.pairwise(held))
    text = "".join(s["text"] for s in wanted if s["end"] <= stop)
    wrong, words = word_errors(said, text)
    assert words > 30
    assert wrong <= 0.2 * words, said  # the model mishears some of it


def test_a_stream_of_an_array_that_is_written_again(model: gp.asr.WhisperModel) -> None:
    stream = model.stream("en", interval=1.0)
    block = gp.from_numpy(np.full(1600, 0.5, np.float32), device="cpu")
    stream.push(block)
    block[...] = 0.0
    assert stream._sound is not None
    assert stream._sound.to_numpy().tolist() == [0.5] * 1600


def test_chunks_that_overlap(model: gp.asr.WhisperModel) -> None:
    sound = samples("long")[: 24 * RATE]
    whole = model.transcribe(sound, language="en")
    for overlap in (0.0, 4.0):
        segments = list(model.transcribe_streaming(sound, "en", 10.0, overlap))
        times = [(s.start, s.end) for s in segments]
        assert times == sorted(times)
        assert all(0.0 <= begin <= end <= 24.1 for begin, end in times)
        assert all(a[1] <= b[0] + 0.5 for a, b in itertools.pairwise(times))
        said = "".join(s.text for s in segments)
        wrong, words = word_errors(said, whole.text)
        # A word at an edge may be lost; what overlaps is said once.
        assert wrong <= (0.04 if overlap else 0.1) * words, (overlap, said)


# --- folders that lie ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"lang_to_id": {"<|en|>": 99999}}, "lang_to_id has 99999 for '<|en|>', expected"),
        ({"lang_to_id": {"<|en|>": -1}}, "lang_to_id has -1"),
        ({"lang_to_id": {"<|en|>": True}}, "lang_to_id has True"),
        ({"lang_to_id": []}, "lang_to_id is no object"),
        ({"suppress_tokens": [99999]}, "token 99999 is suppressed"),
        ({"max_initial_timestamp_index": 2**40}, "max_initial_timestamp"),
        ({"alignment_heads": [[99, 99]]}, "head 99 of layer 99"),
    ],
)
def test_generation_config_out_of_range(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(TINY, folder, ignore=shutil.ignore_patterns("*.wav"))
    config = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**config, **values}))
    with pytest.raises(gp.PyGPUkitError, match=re.escape(words)):
        gp.asr.WhisperModel.from_pretrained(folder, device="cpu", max_batch=1).transcribe(
            samples("clip4"), language="en", word_timestamps=True
        )
