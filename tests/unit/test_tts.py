"""gp.tts on CPU simulation: text, voices, files, streams, the command line, layers."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import types
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.core.errors import MissingPackageError, OperationError
from pygpukit.tts.kokoro import layers
from pygpukit.tts.kokoro.phonemes import phonemizer
from pygpukit.tts.kokoro.sentences import pack

TINY = Path(__file__).resolve().parents[1] / "data" / "tiny-kokoro"


@pytest.fixture(scope="module")
def model() -> gp.tts.KokoroModel:
    return gp.tts.KokoroModel.from_pretrained(TINY, "af_test", "float32")


# --- text ---
def test_config() -> None:
    config = gp.tts.KokoroConfig()
    assert (config.sample_rate, config.hop_length, config.plbert_head_dim) == (24000, 300, 64)
    assert config.max_phonemes == 510
    assert len(config.vocab) == 114
    assert max(config.vocab.values()) == 177
    assert gp.tts.KokoroConfig.from_dict(config.to_dict()) == config
    tiny = gp.tts.KokoroConfig.from_json(TINY / "config.json")
    assert (tiny.hidden_dim, tiny.plbert_num_hidden_groups, tiny.hop_length) == (16, 2, 60)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "config.json is .*, expected an object"),
        ({"plbert": 3}, "plbert is 3"),
        ({"vocab": {"a": -1}}, "vocab has -1 for 'a'"),
        ({"vocab": []}, "vocab is"),
    ],
)
def test_configs_that_are_refused(values: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        gp.tts.KokoroConfig.from_dict(values)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json"):
        gp.tts.KokoroConfig.from_json(tmp_path / "config.json")


def test_tokenizer() -> None:
    tokenizer = gp.tts.KokoroTokenizer({"a": 1, "ab": 2, "abc": 3, " ": 4}, use_misaki=False)
    out = tokenizer.encode("abc ab xa")
    assert out == gp.tts.TokenizerOutput([3, 4, 2, 4, 1], "abc ab xa", "abc ab xa")
    assert tokenizer.decode([0, *out.tokens, 99]) == "abc ab a"
    assert tokenizer.vocab_size == 4
    assert "4 symbols" in repr(tokenizer)
    default = gp.tts.KokoroTokenizer(use_misaki=False)
    hello = "h\u0259l\u02c8O w\u02c8\u025c\u0279ld!"
    assert default.decode(default.encode(hello).tokens) == hello
    assert default.encode("h\u0259").tokens == [50, 83]
    with pytest.raises(TypeError, match="text is 3"):
        tokenizer.encode(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NUL"):
        tokenizer.encode("a\0")
    with pytest.raises(ValueError, match="lang is 'xx', expected one of 'a'"):
        gp.tts.KokoroTokenizer(lang="xx")
    assert gp.tts.KokoroTokenizer(lang="en-gb").lang == "b"


def without_phonemizers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "misaki", None)
    monkeypatch.setenv("PATH", "")


def test_text_without_a_phonemizer(monkeypatch: pytest.MonkeyPatch) -> None:
    without_phonemizers(monkeypatch)
    tokenizer = gp.tts.KokoroTokenizer()
    with pytest.raises(MissingPackageError, match=r"pip install 'pygpukit\[tts\]'"):
        tokenizer.phonemize("hello")
    with pytest.warns(UserWarning, match="taken as phonemes"):
        assert tokenizer.encode("ab").tokens == [43, 44]


def test_text_through_misaki(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in with misaki's interface."""
    made: list[dict[str, Any]] = []

    class G2P:
        def __init__(self, **options: Any) -> None:
            made.append(options)

        def __call__(self, text: str) -> tuple[str, None]:
            return text.upper(), None

    def refuse(**_: Any) -> None:
        raise RuntimeError("no espeak")

    package = types.ModuleType("misaki")
    for name, value in {
        "en": types.SimpleNamespace(G2P=G2P),
        "ja": types.SimpleNamespace(JAG2P=G2P),
        "zh": types.SimpleNamespace(ZHG2P=G2P),
        "espeak": types.SimpleNamespace(EspeakG2P=G2P, EspeakFallback=refuse),
    }.items():
        setattr(package, name, value)
    monkeypatch.setitem(sys.modules, "misaki", package)
    assert gp.tts.KokoroTokenizer(lang="b").encode("aio").phonemes == "AIO"
    assert made == [{"trf": False, "british": True, "fallback": None, "unk": ""}]
    for lang in "jzf":
        assert phonemizer(lang)("x") == "X"
    assert made[-1] == {"language": "fr-fr"}


def test_text_through_espeak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stand-in for the program, which says what espeak-ng would."""
    monkeypatch.setitem(sys.modules, "misaki", None)
    program = tmp_path / "espeak-ng"
    program.write_text(
        f"#!{sys.executable}\nimport sys\ntext = sys.stdin.read()\n"
        "if 'fail' in text: sys.exit('no such voice')\n"
        "assert sys.argv[1:] == ['-q', '--ipa=3', '-v', 'en-us', '--stdin'], sys.argv\n"
        "sys.stdout.buffer.write('h\\u0259l\\u02c8o\\u028a t\\u0361\\u0283\\u02d0\\n'.encode())\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    tokenizer = gp.tts.KokoroTokenizer()
    assert tokenizer.phonemize("hello ch!") == "h\u0259l\u02c8O \u02a7!"
    with pytest.raises(OperationError, match="no such voice"):
        tokenizer.phonemize("fail")


def test_sentences() -> None:
    split = gp.tts.split_sentences
    assert split("One. Two!  Three?\n\nFour \u2026 five") == [
        *("One.", "Two!", "Three?", "Four \u2026", "five"),
    ]
    assert split('He said "stop." Then 3.5 left.') == ['He said "stop."', "Then 3.5 left."]
    assert split(" \n ") == []


def test_phonemes_are_cut_where_it_hurts_least() -> None:
    cut = gp.tts.split_phonemes
    assert cut("abc", 5) == ["abc"]
    assert cut("aa. bb, cc dd", 10) == ["aa.", "bb, cc dd"]
    assert cut("aa bb, cc dd", 10) == ["aa bb,", "cc dd"]
    assert cut("aa bb cc dd", 10) == ["aa bb cc", "dd"]
    assert cut("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]
    assert cut('aaa." bbbbb', 8) == ['aaa."', "bbbbb"]
    text = "lorem, ipsum dolor; sit amet. " * 60
    parts = cut(text, 510)
    assert all(0 < len(part) <= 510 for part in parts)
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    assert pack(["aa", "bb", "cccccc"], 6) == [[0, 1], [2]]


# --- voices ---
def test_voices_of_every_kind(tmp_path: Path) -> None:
    values = gp.tts.load_voice_embedding(TINY / "voices" / "af_test.pt", 8).to_numpy()
    assert values.shape == (60, 16)
    np.save(tmp_path / "a.npy", values[:, None])
    values.astype("<f4").tofile(tmp_path / "b.bin")
    gp.llm.save_safetensors(tmp_path / "c.safetensors", {"voice": values})
    np.save(tmp_path / "one.npy", values[3])
    for name in ("a.npy", "b.bin", "c.safetensors"):
        loaded = gp.tts.load_voice_embedding(tmp_path / name, 8)
        np.testing.assert_array_equal(loaded.to_numpy(), values)
    assert gp.tts.load_voice_embedding(tmp_path / "one.npy", 8).shape == (1, 16)
    assert gp.tts.list_available_voices(TINY) == ["af_test"]
    assert gp.tts.list_available_voices(tmp_path) == ["a", "b", "one"]


def test_voices_that_are_refused(tmp_path: Path) -> None:
    def refused(name: str, message: str, kind: type[Exception] = ValueError) -> None:
        with pytest.raises(kind, match=message):
            gp.tts.load_voice_embedding(tmp_path / name, 8)

    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "a.bin").write_bytes(b"12345")
    (tmp_path / "short.bin").write_bytes(b"12345678")
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY")
    np.save(tmp_path / "object.npy", np.array([{}], object), allow_pickle=True)
    np.save(tmp_path / "int.npy", np.zeros((2, 16), "i4"))
    np.save(tmp_path / "nan.npy", np.full((2, 16), np.nan, "f4"))
    np.save(tmp_path / "wide.npy", np.zeros((2, 32), "f4"))
    gp.llm.save_safetensors(tmp_path / "two.safetensors", {"a": np.zeros(1), "b": np.zeros(1)})
    refused("a.txt", "suffix '.txt'")
    refused("a.bin", "has 5 bytes, expected a multiple of 4")
    refused("short.bin", r"has shape \(2,\)")
    refused("bad.npy", "bad.npy")
    refused("object.npy", "object.npy")
    refused("int.npy", "dtype int32")
    refused("nan.npy", "not finite")
    refused("wide.npy", r"expected \[..., 16\]")
    refused("two.safetensors", "has 2 tensors")
    refused("none.npy", "none.npy", FileNotFoundError)
    with pytest.raises(ValueError, match="is not a folder"):
        gp.tts.list_available_voices(tmp_path / "nothing")


def test_mixing_voices(model: gp.tts.KokoroModel) -> None:
    first = model.mix_voices("af_test")
    model.add_voice("zero", gp.zeros((40, 16)))
    assert model.available_voices == ["af_test", "zero"]
    mixed = model.mix_voices({"af_test": 3, "zero": 1}).to_numpy()
    np.testing.assert_allclose(mixed, first.to_numpy()[:40] * 0.75, rtol=1e-6)
    mean = model.mix_voices("af_test,zero").to_numpy()
    np.testing.assert_allclose(mean, first.to_numpy()[:40] / 2, rtol=1e-6)
    model.set_voice("af_test, zero")
    assert model.voice == "(mixed)"
    model.set_voice("af_test")
    with pytest.raises(ValueError, match=r"'af_none', expected one of these: .*af_test"):
        model.set_voice("af_none")
    with pytest.raises(ValueError, match="expected one of these"):
        model.set_voice("../config")
    with pytest.raises(ValueError, match="all 0"):
        model.mix_voices({"af_test": 0})
    with pytest.raises(TypeError, match="expected a dict"):
        model.mix_voices(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"shape \(3, 2\), expected \(lengths, 16\)"):
        model.add_voice("x", gp.zeros((3, 2)))
    with pytest.raises(ValueError, match="float64"):
        model.add_voice("x", gp.zeros((3, 16), dtype="float64"))
    with pytest.raises(TypeError, match="expected a GPUArray"):
        model.add_voice("x", np.zeros((3, 16)))  # type: ignore[arg-type]


# --- speech ---
def test_synthesize(model: gp.tts.KokoroModel, tmp_path: Path) -> None:
    result = model.synthesize("hello there.", phonemes=True)
    assert (result.text, result.phonemes) == ("hello there.", "hello there.")
    samples = result.to_numpy()
    assert samples.dtype == np.float32
    assert np.abs(samples).max() == pytest.approx(1.0, abs=1e-6)
    assert result.duration_sec == pytest.approx(len(samples) / 24000)
    assert [token.symbol for token in result.tokens] == list("hello there.")
    assert result.tokens[0].start > 0
    assert result.tokens[-1].end <= result.duration_sec
    result.to_wav(tmp_path / "a.wav")
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert file.getparams()[:4] == (1, 2, 24000, len(samples))
    quiet = model.synthesize("hello there.", phonemes=True, normalize=False)
    np.testing.assert_allclose(
        quiet.to_numpy() / np.abs(quiet.to_numpy()).max(), samples, atol=1e-6
    )
    slow = model.synthesize("hello there.", speed=0.4, phonemes=True)
    assert slow.duration_sec > result.duration_sec
    other = model.synthesize("hello there.", phonemes=True, seed=1)
    assert np.abs(other.to_numpy() - samples).max() > 1e-4
    assert "parameters" in repr(model)


def test_long_texts(model: gp.tts.KokoroModel) -> None:
    """More than a pass takes (62 phonemes here): sentences are packed, words are cut."""
    text = "a short one. another short one, here. " + "word " * 30 + "end."
    packed = model.synthesize(text, phonemes=True, normalize=False)
    assert packed.phonemes.replace(" ", "") == text.replace(" ", "")
    passes = model._pieces(text, phonemes=True, by_sentence=False)
    assert len(passes) == 4
    assert all(len(piece.phonemes) <= 62 for piece in passes)
    sentences = list(model.synthesize_stream(text, phonemes=True))
    assert [sentence.phonemes for sentence in sentences[:2]] == [
        *("a short one.", "another short one, here."),
    ]
    ends = [token.end for token in packed.tokens]
    assert ends == sorted(ends)


def test_a_stream_has_the_samples_of_its_sentences(model: gp.tts.KokoroModel) -> None:
    text = "one two. three four. five"
    whole = np.concatenate(
        [part.to_numpy() for part in model.synthesize_stream(text, phonemes=True)]
    )
    chunks = list(model.generate_stream(text, 500, phonemes=True))
    assert {len(chunk) for chunk in chunks[:-1]} == {500}
    assert 0 < len(chunks[-1]) <= 500
    np.testing.assert_array_equal(np.concatenate([chunk.to_numpy() for chunk in chunks]), whole)


BAD_CALLS: list[tuple[dict[str, Any], str, type[Exception]]] = [
    ({"text": ""}, "expected something to speak", ValueError),
    ({"text": "\u4e2d"}, "expected something to speak", ValueError),
    ({"text": 3}, "expected a str", TypeError),
    ({"speed": 0}, "speed is 0", ValueError),
    ({"speed": "fast"}, "speed is", TypeError),
    ({"seed": -1}, "seed is -1", ValueError),
    ({"voice": "af_none"}, "voice is 'af_none'", ValueError),
    ({"voice": 3}, "expected a dict", TypeError),
]


@pytest.mark.parametrize(("changes", "message", "kind"), BAD_CALLS)
def test_bad_calls(
    model: gp.tts.KokoroModel, changes: dict[str, Any], message: str, kind: type[Exception]
) -> None:
    """Also a stream is refused when it is asked for, not when it is first read."""
    arguments = {"text": "a", "phonemes": True, **changes}
    with pytest.raises(kind, match=message):
        model.synthesize(**arguments)
    with pytest.raises(kind, match=message):
        model.synthesize_stream(**arguments)
    with pytest.raises(ValueError, match="chunk_size is 0"):
        model.generate_stream("a", 0)


def test_folders(tmp_path: Path) -> None:
    load = gp.tts.KokoroModel.from_pretrained
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        load(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"expected one \.pth or \.safetensors"):
        load(tmp_path)
    weights = gp.tts.load_kokoro_weights(TINY, "float32")
    assert not any("module" in name for name in weights)
    gp.llm.save_safetensors(tmp_path / "model.safetensors", weights)
    shutil.copy(TINY / "config.json", tmp_path)
    model = load(tmp_path, None, "float32")
    with pytest.raises(ValueError, match="no voice is set"):
        model.synthesize("a", phonemes=True)
    with pytest.raises(ValueError, match="these: none"):
        load(tmp_path, "af_test", "float32")
    shutil.copytree(TINY / "voices", tmp_path / "voices")
    again = load(tmp_path / "model.safetensors", "af_test", "float32", load_all_voices=True)
    expected = load(TINY, "af_test", "float32").synthesize("abc", phonemes=True).to_numpy()
    np.testing.assert_array_equal(again.synthesize("abc", phonemes=True).to_numpy(), expected)
    (tmp_path / "x.gguf").write_text("x")
    with pytest.raises(ValueError, match=r"suffix '\.gguf'"):
        gp.tts.load_kokoro_weights(tmp_path / "x.gguf")


def test_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from pygpukit._cli import main

    common = ["--model", str(TINY), "--voice", "af_test", "--out", str(tmp_path / "a.wav")]
    assert main(["say", "hello. there.", "--phonemes", *common]) == 0
    assert "s of speech, first sentence after" in capsys.readouterr().err
    samples, rate = gp.tts.from_wav(tmp_path / "a.wav")
    assert rate == 24000
    assert np.abs(samples).max() == pytest.approx(0.95, abs=1e-3)
    (tmp_path / "text.txt").write_text("hello.")
    assert main(["say", "--file", str(tmp_path / "text.txt"), "--phonemes", *common]) == 0
    without_phonemizers(monkeypatch)
    assert main(["say", "hello.", *common]) == 1
    assert "pygpukit[tts]" in capsys.readouterr().err
    assert main(["say", "a", "--phonemes", *common, "--voice", "none"]) == 1


# --- samples ---
def test_wav_files(tmp_path: Path) -> None:
    tone = (0.5 * np.sin(np.arange(1000) / 10)).astype("f4")
    gp.tts.to_wav(tone, tmp_path / "a.wav")
    back, rate = gp.tts.from_wav(tmp_path / "a.wav")
    assert rate == 24000
    np.testing.assert_allclose(back, tone * 0.95 / np.abs(tone).max(), atol=1e-4)
    gp.tts.to_wav(gp.asarray(tone), tmp_path / "b.wav", 8000, normalize=False)
    back, rate = gp.tts.from_wav(tmp_path / "b.wav")
    assert rate == 8000
    np.testing.assert_allclose(back, tone, atol=1e-4)
    gp.tts.to_wav(np.zeros(10), tmp_path / "c.wav")
    assert not gp.tts.from_wav(tmp_path / "c.wav")[0].any()
    with wave.open(str(tmp_path / "d.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(np.array([[16384, 0], [-16384, 0]], "<i2").tobytes())
    np.testing.assert_array_equal(gp.tts.from_wav(tmp_path / "d.wav")[0], [0.25, -0.25])
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        gp.tts.to_wav(np.zeros((2, 2)), tmp_path / "e.wav")
    with pytest.raises(TypeError, match="expected numbers"):
        gp.tts.to_wav(["a"], tmp_path / "e.wav")
    (tmp_path / "e.wav").write_bytes(b"RIFFxxxx")
    with pytest.raises(ValueError, match="wav"):
        gp.tts.from_wav(tmp_path / "e.wav")
    with pytest.raises(FileNotFoundError):
        gp.tts.from_wav(tmp_path / "none.wav")


def test_resample_and_concatenate() -> None:
    ramp = np.arange(8, dtype="f4")
    np.testing.assert_allclose(gp.tts.resample_audio(ramp, 8, 16)[:4], [0, 0.5, 1, 1.5])
    np.testing.assert_allclose(gp.tts.resample_audio(ramp, 16, 8), [0, 2, 4, 6])
    assert gp.tts.resample_audio(ramp, 8, 8).tolist() == ramp.tolist()
    assert gp.tts.resample_audio(np.zeros(0), 8, 16).size == 0
    joined = gp.tts.concatenate_audio([ramp[:2], ramp[2:3]], gap_samples=2)
    assert joined.tolist() == [0, 1, 0, 0, 2]
    assert gp.tts.concatenate_audio([]).size == 0
    with pytest.raises(ValueError, match="src is 0"):
        gp.tts.resample_audio(ramp, 0, 8)
    with pytest.raises(ValueError, match="gap_samples is -1"):
        gp.tts.concatenate_audio([ramp], -1)


# --- layers of 0.2 ---
def rand(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("f4")


def test_basic_layers() -> None:
    x, w, b = rand(2, 5, 3), rand(4, 3, seed=1), rand(4, seed=2)
    y = layers.Linear(gp.asarray(w), gp.asarray(b))(gp.asarray(x)).to_numpy()
    np.testing.assert_allclose(y, x @ w.T + b, rtol=1e-5, atol=1e-5)
    g = rand(3, seed=3)
    y = layers.LayerNorm(gp.asarray(g), gp.asarray(g))(gp.asarray(x)).to_numpy()
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(var + 1e-5) * g + g, atol=1e-5)
    np.testing.assert_allclose(
        layers.leaky_relu(gp.asarray(x)).to_numpy(), np.where(x > 0, x, 0.1 * x), rtol=1e-6
    )
    np.testing.assert_allclose(layers.tanh(gp.asarray(x)).to_numpy(), np.tanh(x), rtol=1e-6)


def test_convolution_layers() -> None:
    x, v = rand(2, 3, 20), rand(4, 3, 5, seed=1)
    g = np.abs(rand(4, 1, 1, seed=2))
    conv = layers.WeightNormConv1d(gp.asarray(g), gp.asarray(v), padding=2)
    weight = g * v / np.sqrt((v**2).sum((1, 2), keepdims=True) + 1e-12)
    np.testing.assert_allclose(conv._compute_weight(), weight, rtol=1e-5)
    plain = layers.Conv1d(gp.asarray(weight), padding=2)
    y = conv(gp.asarray(x)).to_numpy()
    assert y.shape == (2, 4, 20)
    np.testing.assert_allclose(y, plain(gp.asarray(x)).to_numpy(), atol=1e-5)
    np.testing.assert_allclose(y[0, 1, 7], (x[0, :, 5:10] * weight[1]).sum(), rtol=1e-4)
    up = layers.ConvTranspose1d(gp.asarray(rand(3, 2, 4, seed=4)), None, 2, 1)
    assert up(gp.asarray(x)).shape == (2, 2, 40)
    block = layers.ResBlock1d([layers.Conv1d(gp.asarray(rand(3, 3, 3)), padding=1)] * 2)
    assert block(gp.asarray(x)).shape == x.shape
    with pytest.raises(ValueError, match="WeightNormConv1d: weight_g has shape"):
        layers.WeightNormConv1d(gp.zeros(3), gp.asarray(v))
    with pytest.raises(TypeError, match="Conv1d: weight"):
        layers.Conv1d(v)  # type: ignore[arg-type]


def test_adaptive_norms() -> None:
    x, style = rand(2, 3, 20), rand(2, 4, seed=1)
    w, b = rand(6, 4, seed=2), rand(6, seed=3)
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    normal = (x - mean) / np.sqrt(var + 1e-5)
    y = layers.InstanceNorm1d(gp.asarray(b[:3]), gp.asarray(b[3:]))(gp.asarray(x)).to_numpy()
    np.testing.assert_allclose(y, normal * b[:3, None] + b[3:, None], atol=1e-5)
    both = style @ w.T + b
    for offset in (0.0, 1.0):
        norm = layers.AdaIN(gp.asarray(w), gp.asarray(b), offset=offset)
        y = norm(gp.asarray(x), gp.asarray(style)).to_numpy()
        expected = normal * (offset + both[:, :3, None]) + both[:, 3:, None]
        np.testing.assert_allclose(y, expected, atol=1e-4)
    conv = layers.Conv1d(gp.asarray(rand(3, 3, 3)), padding=1)
    pool = layers.ConvTranspose1d(gp.asarray(rand(3, 1, 3)), None, 2, 1, 1, 3)
    block = layers.AdaINResBlock(conv, conv, norm, norm, pool=pool)
    assert block(gp.asarray(x), gp.asarray(style)).shape == (2, 3, 40)
    plain = layers.AdaINResBlock(conv, conv, norm, norm, conv)
    decoder = layers.Decoder(plain, [plain])
    assert decoder(gp.asarray(x), gp.asarray(style)).shape == x.shape


def test_recurrent_and_style_layers() -> None:
    x = gp.asarray(rand(2, 7, 3))
    weights = [gp.asarray(rand(16, 3)), gp.asarray(rand(16, 4)), None, None]
    out, (h, c) = layers.LSTM(*weights)(x)
    assert (out.shape, h.shape, c.shape) == ((2, 7, 4), (1, 2, 4), (1, 2, 4))
    both, (h, c) = layers.LSTM(*weights, True, *weights)(x)
    assert (both.shape, h.shape) == ((2, 7, 8), (2, 2, 4))
    np.testing.assert_allclose(both.to_numpy()[..., :4], out.to_numpy(), atol=1e-6)
    with pytest.raises(TypeError, match="W_ih_reverse"):
        layers.LSTM(*weights, True)
    encoder = layers.StyleEncoder(
        [layers.Conv1d(gp.asarray(rand(4, 3, 3)))], layers.Linear(gp.asarray(rand(6, 4)))
    )
    style = encoder(gp.asarray(rand(2, 3, 9)), gp.asarray(rand(2, 6)))
    assert style.shape == (2, 6)


def test_bert_layers() -> None:
    config = gp.tts.KokoroConfig(
        plbert_hidden_size=8, plbert_num_attention_heads=2, plbert_num_hidden_layers=2
    )
    shapes = {"embeddings.word_embeddings": (9, 8), "embeddings.position_embeddings": (5, 8)}
    for i in range(2):
        at = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            shapes[f"{at}attention.self.{part}"] = (8, 8)
        shapes |= {f"{at}attention.output.dense": (8, 8), f"{at}intermediate.dense": (12, 8)}
        shapes |= {f"{at}output.dense": (8, 12), f"{at}attention.output.LayerNorm": (8,)}
        shapes[f"{at}output.LayerNorm"] = (8,)
    weights = {}
    for i, (name, shape) in enumerate(shapes.items()):
        weights[f"bert.{name}.weight"] = gp.asarray(rand(*shape, seed=i))
        weights[f"bert.{name}.bias"] = gp.asarray(rand(shape[0], seed=i + 100))
    bert = layers.build_plbert_from_weights(config, weights)
    ids = gp.asarray(np.array([[1, 2, 3, 4], [5, 6, 0, 0]]))
    whole = bert(ids).to_numpy()
    assert whole.shape == (2, 4, 8)
    mask = gp.asarray(np.array([[True] * 4, [True, True, False, False]]))
    alone = bert(ids[1:, :2]).to_numpy()
    np.testing.assert_allclose(bert(ids, mask).to_numpy()[1:, :2], alone, atol=1e-5)
    del weights["bert.encoder.layer.1.intermediate.dense.bias"]
    with pytest.raises(KeyError, match="intermediate"):
        layers.build_plbert_from_weights(config, weights)


def test_istftnet() -> None:
    """With a constant spectrum: the overlap-add of one frame with itself."""
    config = gp.tts.KokoroConfig()
    ups = [layers.ConvTranspose1d(gp.ones((2, 2, 10)), None, 10)]
    blocks = [[layers.ResBlock1d([layers.Conv1d(gp.zeros((2, 2, 1)))])] * 2]
    bias = rand(22)
    net = layers.ISTFTNet(
        config, ups, blocks, layers.Conv1d(gp.zeros((22, 2, 7)), gp.asarray(bias), padding=3)
    )
    samples = net(gp.zeros((1, 2, 6))).to_numpy()
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(20) / 20)
    frame = np.fft.irfft(np.exp(bias[:11]) * np.exp(1j * np.sin(bias[11:])), 20)
    total, weight = np.zeros(320), np.zeros(320)
    for i in range(61):
        total[5 * i : 5 * i + 20] += frame * window
        weight[5 * i : 5 * i + 20] += window**2
    np.testing.assert_allclose(samples[0], (total / np.maximum(weight, 1e-9))[10:-10], atol=1e-5)


def test_names_of_the_package() -> None:
    for name in gp.tts.__all__:
        assert getattr(gp.tts, name) is not None
    for name in gp.tts.kokoro.__all__:
        assert getattr(gp.tts.kokoro, name) is not None
    for name in layers.__all__:
        assert callable(getattr(layers, name))
    code = "import pygpukit, sys; assert 'pygpukit.tts' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert json.loads((TINY / "config.json").read_text())["vocab"]
