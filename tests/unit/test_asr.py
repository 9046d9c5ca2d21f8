"""Whisper on CPU simulation, against what Transformers computed."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from pathlib import Path
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
    decode,
    golden,
    wav,
)

import pygpukit as gp
from pygpukit.asr.batched import cut_at_pauses
from pygpukit.asr.options import TranscribeOptions
from pygpukit.asr.sequential import one_source
from pygpukit.asr.words import split_words

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def model() -> gp.asr.WhisperModel:
    return gp.asr.WhisperModel.from_pretrained(TINY, device="cpu", max_batch=5)


def samples(name: str) -> Any:
    return gp.ops.audio.load(wav(name), device="cpu").to_numpy()


@pytest.mark.parametrize("name", [clip["name"] for clip in clips()])
def test_clip(model: gp.asr.WhisperModel, name: str) -> None:
    check_clip(model, name, "cpu", 1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_random_weights(shape: str) -> None:
    check_shape(shape, "cpu", "float32", 1e-4)


def test_long_sound_window_by_window(model: gp.asr.WhisperModel) -> None:
    seen: list[tuple[int, int]] = []
    result = model.transcribe(
        wav("long"), language="en", progress=lambda done, total: seen.append((done, total))
    )
    wanted = golden()["long"]
    assert abs(result.duration - wanted["seconds"]) < 1e-3
    assert [s.text for s in result.segments] == [s["text"] for s in wanted["segments"]]
    for got, want in zip(result.segments, wanted["segments"], strict=True):
        assert abs(got.start - want["start"]) < 1e-6
        assert abs(got.end - want["end"]) < 1e-6
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]


def test_clips_at_another_rate_and_with_two_channels(model: gp.asr.WhisperModel) -> None:
    texts = {}
    for clip in clips():
        mono = gp.from_numpy(samples(clip["name"]), device="cpu")
        fast = gp.ops.audio.resample(mono, 16000, 44100).to_numpy()
        stereo = np.stack([0.8 * fast, 1.2 * fast])
        texts[clip["name"]] = model.transcribe(stereo, 44100, clip["language"]).text
    check_word_errors(texts)


def test_clips_cut_at_pauses(model: gp.asr.WhisperModel) -> None:
    """One recording of clips with silence between them, five pieces at a time."""
    parts, gap, wanted = [], np.zeros(16000 * 4, np.float32), []
    for clip in [clip for clip in clips() if clip["language"] == "en"][:5]:
        parts += [samples(clip["name"]), gap]
        wanted.append(clip["name"])
    result = model.transcribe(np.concatenate(parts), language="en", method="batched")
    begins = np.cumsum([0, *map(len, parts)])[:-1:2] / 16000
    ends = [*begins[1:], 1e9]
    texts = {
        name: "".join(s.text for s in result.segments if begin <= (s.start + s.end) / 2 < end)
        for name, begin, end in zip(wanted, begins, ends, strict=True)
    }
    check_word_errors(texts)


def test_more_windows_than_the_cross_cache_holds() -> None:
    """Sources of one batch, or window, leave before the next ones enter."""
    alone = gp.asr.WhisperModel.from_pretrained(TINY, device="cpu", max_batch=1)
    first, second = (samples(clip["name"]) for clip in clips()[:2])
    pause = np.zeros(16000 * 30, np.float32)
    sound = np.concatenate([first, pause, second])
    for method in ("batched", "sequential"):
        segments = alone.transcribe(sound, language="en", method=method).segments
        assert segments[0].start < 10
        assert segments[-1].start > 25


def test_clips_in_a_stream(model: gp.asr.WhisperModel) -> None:
    """tests/gpu streams all clips and decodes every half second, which takes a minute here."""
    texts = {}
    early = 0
    for clip in clips()[:6]:
        stream = model.stream(clip["language"], interval=1.0)
        sound, said = samples(clip["name"]), ""
        for first in range(0, sound.size, 8000):
            said += stream.push(sound[first : first + 8000]).confirmed
            assert stream.text == said
            early += bool(said)
        texts[clip["name"]] = said + stream.finish().confirmed
        assert stream.text == texts[clip["name"]]
        with pytest.raises(ValueError, match="finished"):
            stream.push(sound[:100])
    assert early > 3
    check_word_errors(texts)


def test_words(model: gp.asr.WhisperModel) -> None:
    clip = golden()["clip3"]
    result = model.transcribe(wav("clip3"), language="en", word_timestamps=True)
    words = [word for segment in result.segments for word in segment.words]
    assert "".join(word.text for word in words) == clip["greedy_text"]
    times = [time for word in words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert times[0] >= 0.0
    assert times[-1] <= result.duration + 0.1
    assert all(0.0 < word.probability <= 1.0 for word in words)
    assert sum(word.end - word.start > 0.1 for word in words) >= len(words) - 1


def test_language_and_task(model: gp.asr.WhisperModel) -> None:
    language, shares = model.detect_language(wav("clip0"))
    assert language == "de"
    assert abs(sum(shares.values()) - 1) < 1e-6
    result = model.transcribe(wav("clip0"))
    assert (result.language, result.text) == ("de", golden()["clip0"]["text"])
    assert model.languages == ["de", "en"]
    tokens = model.tokens
    assert tokens.prompt("German", "translate", timestamps=True) == [421, 423, 424]
    assert tokens.prompt("<|en|>", "transcribe", timestamps=False) == [421, 422, 425, 429]
    assert tokens.context([1, 2, 3], 3) == [427, 2, 3]


def test_temperatures(model: gp.asr.WhisperModel) -> None:
    """A text that no threshold accepts is decoded at every temperature, and sampled by its seed."""
    options: dict[str, Any] = {"logprob_threshold": 0.0, "no_speech_threshold": None}
    result = model.transcribe(wav("clip1"), language="de", temperature=(0.0, 0.2, 1.5), **options)
    assert {s.temperature for s in result.segments} == {1.5}
    again = model.transcribe(wav("clip1"), language="de", temperature=(0.0, 0.2, 1.5), **options)
    assert [s.tokens for s in again.segments] == [s.tokens for s in result.segments]
    good = model.transcribe(wav("clip1"), language="de", temperature=(0.0, 0.5))
    assert {s.temperature for s in good.segments} == {0.0}
    silent = model.transcribe(
        wav("clip1"), language="de", logprob_threshold=0.0, no_speech_threshold=0.0
    )
    assert silent.segments == []


def test_prompts(model: gp.asr.WhisperModel) -> None:
    """What is said before is ahead of the prompt, and changes how likely a text is."""
    mel = gp.asr.preprocess_audio(wav("clip5"), device="cpu")
    start = model.tokens.prompt("en", "transcribe", timestamps=True)
    context = model.tokens.context(model.tokens.encode(" kernel music"), 64)
    options = TranscribeOptions()
    with one_source(model._windows, mel) as source:
        plain, hot = (
            model._windows.decode([source], [p], options)[0] for p in (start, context + start)
        )
    result = model.transcribe(wav("clip5"), language="en", hotwords="kernel music")
    found = result.segments[0].tokens
    assert found == hot.tokens[: len(found)]
    assert plain.avg_logprob != hot.avg_logprob
    begun = model.transcribe(wav("clip5"), language="en", initial_prompt="kernel music")
    assert begun.segments[0].tokens == found


def test_a_batch_gives_the_same_tokens(model: gp.asr.WhisperModel) -> None:
    names = ["clip2", "clip5", "clip8"]
    mel = gp.asr.preprocess_audio_batch([wav(name) for name in names], device="cpu")
    assert mel.shape == (3, 80, 3000)
    prompt = model.tokens.prompt("en", "transcribe", timestamps=False)
    short = TranscribeOptions(timestamps=False, max_new_tokens=2)
    with model._windows.sources(mel) as sources:
        for beams, wanted in ((1, "greedy"), (3, "beam5")):
            options = TranscribeOptions(timestamps=False, num_beams=beams)
            texts = model._windows.decode(sources, [prompt] * 3, options)
            assert [text.tokens for text in texts] == [golden()[name][wanted] for name in names]
        texts = model._windows.decode(sources, [prompt] * 3, short)
    assert [text.tokens for text in texts] == [golden()[name]["greedy"][:2] for name in names]


def test_half_precision() -> None:
    half = gp.asr.WhisperModel.from_pretrained(TINY, "float16", device="cpu", max_batch=1)
    mel = gp.expand_dims(gp.asr.preprocess_audio(wav("clip4"), device="cpu"), 0)
    with half._windows.sources(mel) as (source,):
        assert decode(half, source, "de", timestamps=False) == golden()["clip4"]["greedy"]


# --- names of 0.2 --------------------------------------------------------------------------------


def test_names_of_0_2(model: gp.asr.WhisperModel) -> None:
    asr = gp.asr
    rate, n_fft, hop = asr.WHISPER_SAMPLE_RATE, asr.WHISPER_N_FFT, asr.WHISPER_HOP_LENGTH
    assert (rate, n_fft, hop) == (16000, 400, 160)
    assert (asr.WHISPER_N_MELS, asr.WHISPER_CHUNK_LENGTH) == (80, 30)
    assert (asr.WHISPER_N_SAMPLES, asr.WHISPER_N_FRAMES) == (480000, 3000)
    np.testing.assert_array_equal(asr.pad_or_trim(np.ones((2, 3)), 5)[:, 3:], 0)
    assert asr.pad_or_trim(gp.ones(7, device="cpu"), 4).shape == (4,)
    assert asr.normalize_mel(np.array([4.0]))[0] == 2.0
    sound = samples("clip4")
    mel = asr.preprocess_audio(sound, 16000, 80, device="cpu")
    assert mel.shape == (80, 3000)
    short = asr.preprocess_audio(gp.from_numpy(sound, device="cpu"), padding=False)
    assert short.shape == (80, sound.size // 160)
    states = model.encoder(gp.expand_dims(mel, 0))
    assert isinstance(model.encoder, asr.WhisperEncoder)
    assert isinstance(model.decoder, asr.WhisperDecoder)
    assert model.encoder.config is model.decoder.config is model.config
    assert states.shape == (1, 1500, 160)
    logits = model.decoder([[421, 423, 425]], states)
    assert logits.shape == (1, 3, 1931)
    ids = model.decoder.generate(states, max_length=20, temperature=0.0)
    assert ids == [[421, 423, 425, 429, *golden()["clip4"]["greedy"]]]
    assert model.decoder.generate(states, 6, 1.0, 1, language="de")[0][:6] == ids[0][:6]
    segments = list(model.transcribe_streaming(wav("clip4"), "de", chunk_length=30, overlap=0))
    assert isinstance(segments[0], asr.TranscriptionSegment)
    assert "".join(s.text for s in segments).strip() == golden()["clip4"]["text"]
    result = model.transcribe(sound, 16000, "de", 448, 0.0)
    assert isinstance(result, asr.TranscriptionResult)
    assert result.text == golden()["clip4"]["text"]


def test_config(tmp_path: Path) -> None:
    config = gp.asr.WhisperConfig()
    assert (config.d_model, config.vocab_size, config.num_mel_bins) == (1280, 51866, 128)
    assert (config.eos_token_id, config.decoder_start_token_id) == (50257, 50258)
    assert (config.head_dim, config.is_distilled) == (64, False)
    assert gp.asr.WHISPER_CONFIGS["large-v3-turbo"].is_distilled
    assert gp.asr.WHISPER_CONFIGS["tiny"].head_dim == 64
    assert gp.asr.WhisperConfig.from_pretrained("kotoba-v2").decoder_layers == 2
    (tmp_path / "config.json").write_text(config.to_json())
    assert gp.asr.WhisperConfig.from_json(tmp_path / "config.json") == config
    assert gp.asr.WhisperConfig.from_pretrained(tmp_path) == config
    assert gp.asr.WhisperConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ValueError, match="model_type is 'llama'"):
        gp.asr.WhisperConfig.from_dict({"model_type": "llama"})
    with pytest.raises(ValueError, match="encoder_attention_heads is 7"):
        gp.asr.WhisperConfig(encoder_attention_heads=7)
    with pytest.raises(TypeError, match="d_model"):
        gp.asr.WhisperConfig.from_dict({"d_model": "wide"})


# --- pure parts ----------------------------------------------------------------------------------


def test_pieces_are_cut_at_pauses() -> None:
    speech = [(100, 200), (250, 300), (900, 950), (1000, 3500)]
    pieces = cut_at_pauses(speech, 4000, 1000, pause=700, padding=10)
    assert pieces[0] == (90, 960)
    assert cut_at_pauses(speech, 4000, 1000, pause=500, padding=10)[:2] == [(90, 310), (890, 960)]
    assert all(b - a <= 1000 for a, b in pieces)
    assert pieces[-1][1] == 3510
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(pieces))
    assert cut_at_pauses([], 4000, 1000) == []


def test_words_keep_their_punctuation() -> None:
    pieces = [" hello", ",", " (", "big", ")", " wor", "ld", ".", " -", " a"]

    class Pieces:
        def decode(self, ids: list[int]) -> str:
            return "".join(pieces[i] for i in ids)

    class Tokens:
        tokenizer = Pieces()

    def words(ids: list[int], language: str | None = "en") -> list[str]:
        return [text for text, _ in split_words(Tokens(), ids, language)]  # type: ignore[arg-type]

    assert words(list(range(10))) == [" hello,", " (big)", " world.", " -a"]
    assert words([0, 5, 6, 8]) == [" hello", " world", " -"]
    assert words([0, 3, 6], "ja") == [" hello", "big", "ld"]
    assert words([]) == []


def test_formats() -> None:
    segments = [
        gp.asr.TranscriptionSegment(" one --> two", 0.0, 1.5),
        gp.asr.TranscriptionSegment(" three", 3661.2345, 3662.0),
    ]
    result = gp.asr.TranscriptionResult("one two three", segments, "en", 3662.0)
    text = {kind: gp.asr.format_transcript(result, kind) for kind in gp.asr.FORMATS}
    assert text["txt"] == "one --> two\nthree\n"
    assert text["srt"].startswith("1\n00:00:00,000 --> 00:00:01,500\none -> two\n\n2\n01:01:01,")
    assert text["vtt"].startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.500\none --&gt; two\n")
    assert json.loads(text["json"])["segments"][1]["text"] == " three"
    marked = gp.asr.TranscriptionResult("", [gp.asr.TranscriptionSegment(" a <b> & c", 0, 1)], "en")
    assert gp.asr.format_transcript(marked, "vtt").endswith("\na &lt;b&gt; &amp; c\n")
    assert gp.asr.format_transcript(marked, "srt").endswith("\na <b> & c\n")
    with pytest.raises(ValueError, match="kind is 'pdf'"):
        gp.asr.format_transcript(result, "pdf")


# --- errors --------------------------------------------------------------------------------------


def changed(tmp_path: Path, **values: Any) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(TINY, folder, ignore=shutil.ignore_patterns("*.wav"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))
    return folder


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model_type": "mamba"}, ("'mamba'", "'whisper'")),
        ({"encoder_layers": 4}, ("tensors of whisper encoder are missing", "encoder.layers.3.")),
        ({"encoder_layers": 2}, ("are none of whisper encoder's", "encoder.layers.2.")),
        ({"decoder_layers": 2}, ("are none of whisper decoder's", "decoder.layers.2.")),
        ({"vocab_size": 99}, ("embed_tokens.weight has shape (1931, 160)", "(99, 160)")),
        ({"num_mel_bins": 128}, ("conv1.weight has shape (160, 80, 3)", "(160, 128, 3)")),
        ({"decoder_attention_heads": 7}, ("decoder_attention_heads is 7", "divisor")),
        ({"activation_function": "relu"}, ("'relu'", "gelu")),
        ({"max_source_positions": 0}, ("max_source_positions is 0",)),
    ],
)
def test_bad_config(tmp_path: Path, values: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=re.escape(words[0])) as error:
        gp.asr.WhisperModel.from_pretrained(changed(tmp_path, **values), device="cpu")
    for word in words:
        assert word in str(error.value)


def test_bad_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no folder"):
        gp.asr.WhisperModel.from_pretrained("openai/whisper-nowhere")
    folder = changed(tmp_path)
    (folder / "generation_config.json").write_text('{"suppress_tokens": ["a"]}')
    with pytest.raises(TypeError, match="suppress_tokens is no list"):
        gp.asr.WhisperModel.from_pretrained(folder, device="cpu")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        gp.asr.WhisperModel.from_pretrained(folder, device="cpu")


def test_bad_calls(model: gp.asr.WhisperModel) -> None:
    quiet = np.zeros(1600, np.float32)
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"language": "klingon"}, ValueError, "language is 'klingon', the model knows de, en"),
        ({"language": 3}, TypeError, "language is int 3"),
        ({"task": "sing"}, ValueError, "task is 'sing'"),
        ({"temperature": -1.0}, ValueError, "temperature is -1.0"),
        ({"temperature": ()}, ValueError, "temperature is empty"),
        ({"num_beams": 6}, ValueError, "num_beams is 6, the model was loaded with max_beams 5"),
        ({"beams": 5}, TypeError, "unknown option 'beams'"),
        ({"method": "magic"}, ValueError, "method is 'magic'"),
        ({"sample_rate": 0}, ValueError, "sample_rate is 0"),
        ({"timestamps": 1}, TypeError, "timestamps is int 1"),
        ({"max_length": 0}, ValueError, "max_length is 0"),
        ({"no_speech_threshold": 2.0}, ValueError, "no_speech_threshold is 2.0"),
    ]
    for options, error, words in cases:
        with pytest.raises(error, match=re.escape(words)):
            model.transcribe(quiet, **options)
    with pytest.raises(TypeError, match="audio is of type int"):
        model.transcribe(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="audio has dtype int64"):
        model.transcribe(np.zeros(10, np.int64))
    with pytest.raises(ValueError, match=r"expected \(samples,\)"):
        model.transcribe(np.zeros((1, 2, 3), np.float32))
    with pytest.raises(FileNotFoundError):
        model.transcribe("nowhere.wav")
    with pytest.raises(ValueError, match="mel has shape"):
        model.encoder(gp.zeros((1, 79, 3000), device="cpu"))
    with pytest.raises(TypeError, match=r"mel is of type numpy\.ndarray"):
        model.encoder(np.zeros((1, 80, 3000)))  # type: ignore[arg-type]
    states = gp.zeros((1, 1500, 160), device="cpu")
    with pytest.raises(ValueError, match="ids has 2 rows"):
        model.decoder([[1], [2]], states)
    with pytest.raises(ValueError, match="token 5000"):
        model.decoder([[5000]], states)
    with pytest.raises(ValueError, match="states has shape"):
        model.decoder([[1]], states[:, :, :80])
    with pytest.raises(TypeError, match="ids has an element"):
        model.decoder([["a"]], states)
    with pytest.raises(ValueError, match=r"interval is 0\.0"):
        model.stream(interval=0.0)
    with pytest.raises(ValueError, match="chunk_length is 60"):
        model.transcribe_streaming(quiet, chunk_length=60)


def test_empty_and_silent_sound(model: gp.asr.WhisperModel) -> None:
    nothing = model.transcribe(np.zeros(0, np.float32), language="en")
    assert (nothing.text, nothing.segments, nothing.duration) == ("", [], 0.0)
    silence = model.transcribe(np.zeros(16000, np.float32), language="en", method="batched")
    assert silence.segments == []
    assert model.stream("en").finish().confirmed == ""


def test_explain(model: gp.asr.WhisperModel) -> None:
    lines = model.explain().splitlines()
    assert lines[0].startswith("whisper encoder, ")
    assert "layer 0: heads = attention(query, cross cache)" in lines
    assert lines[-1] == "logits = selected @ embedding^T"
    assert model.num_bytes == 4 * model.num_parameters


def test_samples_of_other_dtypes_and_layouts() -> None:
    sound = np.sin(np.arange(1600) / 10).astype(np.float32)
    short = (sound * 32767).astype(np.int16)
    expected = gp.asr.preprocess_audio(short, padding=False).to_numpy()
    given = gp.asr.preprocess_audio(gp.from_numpy(short), padding=False).to_numpy()
    np.testing.assert_allclose(given, expected, atol=1e-5)
    with pytest.raises(TypeError, match="preprocess_audio: audio has dtype int32"):
        gp.asr.preprocess_audio(gp.from_numpy(short.astype(np.int32)))
    with pytest.raises(ValueError, match=r"\(1600, 2\), expected .*, at most 256 channels"):
        gp.asr.preprocess_audio(np.stack([sound, sound], axis=1))
