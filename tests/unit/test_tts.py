"""gp.tts on CPU simulation: voices, files, streams, the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.tts.kokoro import layers

TINY = Path(__file__).resolve().parents[1] / "data" / "tiny-kokoro"


@pytest.fixture(scope="module")
def model() -> gp.tts.KokoroModel:
    return gp.tts.KokoroModel.from_pretrained(TINY, "af_test", "float32")


def without_phonemizers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "misaki", None)
    monkeypatch.setenv("PATH", "")


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


def test_npy_voices_that_lie(tmp_path: Path) -> None:
    np.savez(tmp_path / "archive", np.zeros((2, 16), "f4"))
    (tmp_path / "archive.npz").rename(tmp_path / "archive.npy")
    (tmp_path / "zip.npy").write_bytes(b"PK\x03\x04garbage")
    np.save(tmp_path / "good.npy", np.zeros((2, 16), "f4"))
    good = (tmp_path / "good.npy").read_bytes()
    changes = {
        "huge": good.replace(b"(2, 16), }    ", b"(99999999, 16)}"),
        "token": good.replace(b"(2, 16)", b"(2, 16{"),
        "name": good.replace(b"'descr'", b"'desc\n'"),
        "code": good.replace(b"(2, 16)", b"f(1, 2)"),
        "short": good[:-1],
        "long": good + b"x",
    }
    for name, data in changes.items():
        assert data != good
        (tmp_path / f"{name}.npy").write_bytes(data)
    for name in ("archive", "zip", *changes):
        with pytest.raises(gp.InvalidArgument, match=f"load_voice_embedding: .*{name}.npy"):
            gp.tts.load_voice_embedding(tmp_path / f"{name}.npy", 8)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(np.arange(32.0).reshape(2, 16)))
    loaded = gp.tts.load_voice_embedding(tmp_path / "fortran.npy", 8)
    assert loaded.to_numpy().tolist() == np.arange(32.0).reshape(2, 16).tolist()


@pytest.mark.filterwarnings("ignore")
def test_mutated_npy_voices(tmp_path: Path) -> None:
    """Typed errors, or a voice of the size that the file has."""
    np.save(tmp_path / "voice.npy", np.linspace(-1, 1, 32, dtype="f4").reshape(2, 16))
    whole = np.fromfile(tmp_path / "voice.npy", "u1")
    rng = np.random.default_rng(0)
    loaded = refused = 0
    for _ in range(3000):
        data = whole.copy()
        at = rng.integers(0, data.size, rng.integers(1, 4))
        data[at] = rng.integers(0, 256, at.size)
        data.tofile(tmp_path / "voice.npy")
        try:
            voice = gp.tts.load_voice_embedding(tmp_path / "voice.npy", 8)
        except gp.InvalidArgument:
            refused += 1
            continue
        loaded += 1
        assert voice.size in (16, 32, 64)
    assert loaded > 500
    assert refused > 500


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
    capsys.readouterr()
    for name, words in (("a.mp3", "ends in .wav"), (".", "a folder"), ("no/a.wav", "not exist")):
        assert main(["say", "a", "--phonemes", *common, "--out", str(tmp_path / name)]) == 1
        assert words in capsys.readouterr().err
    assert not (tmp_path / "a.mp3").exists()


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
