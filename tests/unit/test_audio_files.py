"""Sound files: every WAV encoding, damaged files, other formats."""

from __future__ import annotations

import importlib.util
import struct
import sys
import wave
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.io.wavfile
from cases.audio_signals import noise

import pygpukit as gp
from pygpukit.ops import audio

# How far a sample may be off: half a step.
STEPS = {"pcm_u8": 2**-8, "pcm_16": 2**-16, "pcm_24": 2**-24, "pcm_32": 2**-25, "float": 0.0,
         "double": 0.0}  # fmt: skip


def samples(frames: int = 1001, channels: int = 2) -> Any:
    return np.clip(0.3 * noise(frames * channels), -0.99, 0.99).reshape(channels, frames)


@pytest.mark.parametrize("subtype", list(STEPS))
def test_round_trip(tmp_path: Path, subtype: str) -> None:
    x = samples()
    path = tmp_path / "a.wav"
    audio.save(path, gp.from_numpy(x), 22050, subtype=subtype)
    back = audio.load(path)
    assert (back.sample_rate, back.channels, back.num_frames) == (22050, 2, 1001)
    assert back.data.dtype.name == ("float64" if subtype == "double" else "float32")
    np.testing.assert_allclose(back.planes().to_numpy(), x, rtol=0, atol=STEPS[subtype] * 1.01)


@pytest.mark.parametrize("kind", ["u1", "i2", "i4", "f4", "f8"])
def test_files_of_scipy(tmp_path: Path, kind: str) -> None:
    x = samples(channels=1)[0]
    scale = {"u1": 127, "i2": 2**15 - 1, "i4": 2**31 - 1}.get(kind)
    stored = (
        x.astype(kind) if scale is None else (x * scale + (128 if kind == "u1" else 0)).astype(kind)
    )
    path = tmp_path / "s.wav"
    scipy.io.wavfile.write(path, 16000, stored)
    got = audio.load(path).to_numpy()
    np.testing.assert_allclose(
        got, x, atol=2e-2 if kind == "u1" else 1e-4 if kind == "i2" else 1e-6
    )


def test_python_reads_our_files(tmp_path: Path) -> None:
    path = tmp_path / "p.wav"
    audio.save(path, audio.from_pcm(np.arange(-5, 6, dtype=np.int16), 8000))
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getframerate(), file.getsampwidth()) == (1, 8000, 2)
        assert np.frombuffer(file.readframes(99), "<i2").tolist() == list(range(-5, 6))


def test_clipping_and_nan(tmp_path: Path) -> None:
    path = tmp_path / "c.wav"
    x = np.array([2.0, -2.0, np.nan, np.inf, -np.inf, 1.0], np.float32)
    audio.save(path, gp.from_numpy(x), 8000)
    top = 32767 / 32768
    assert audio.load(path).to_numpy().tolist() == pytest.approx([top, -1, 0, top, -1, top])


def test_mono_and_rate(tmp_path: Path) -> None:
    path = tmp_path / "m.wav"
    audio.save(path, gp.from_numpy(samples(4410)), 44100, subtype="float")
    buffer = audio.load(path, 16000, True)
    assert (buffer.sample_rate, buffer.channels, buffer.num_frames) == (16000, 1, 1600)
    want = audio.resample(gp.from_numpy(samples(4410).mean(0)), 44100, 16000).to_numpy()
    np.testing.assert_allclose(buffer.to_numpy(), want, atol=1e-6)
    assert audio.load(path.read_bytes()).channels == 2


def wav(**changes: Any) -> bytes:
    fields = {"code": 1, "channels": 1, "rate": 8000, "align": 2, "bits": 16, "size": 8}
    fields.update(changes)
    names = ("code", "channels", "rate", "speed", "align", "bits")
    fields["speed"] = fields["rate"] * fields["align"]
    fmt = struct.pack("<HHIIHH", *(fields[name] for name in names))
    body = b"fmt " + struct.pack("<I", 16) + fmt + b"data" + struct.pack("<I", fields["size"])
    return b"RIFF" + struct.pack("<I", 44) + b"WAVE" + body + bytes(range(8))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 9}, "a chunk of 9 bytes begins at 44, the file has 52"),
        ({"size": 0x7FFFFFFF}, "a chunk of 2147483647 bytes"),
        ({"channels": 0}, "the number of channels is 0"),
        ({"rate": 0}, "the sample rate is 0"),
        ({"bits": 7}, "samples have 7 bits"),
        ({"align": 4}, "the block size is 4 bytes, expected 2"),
        ({"code": 85}, "the format is 85"),
    ],
)
def test_lying_headers(changes: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=f"^wav: {words}"):
        audio.load(wav(**changes))


def test_every_truncation_is_refused() -> None:
    whole = wav()
    assert audio.load(whole).num_frames == 4
    for size in range(1, len(whole)):
        with pytest.raises(ValueError, match=r"^wav: "):
            audio.load(whole[:size])


def test_mutated_files() -> None:
    """Typed errors, or as many samples as the header says."""
    rng = np.random.default_rng(0)
    whole = np.frombuffer(wav(), np.uint8)
    loaded = 0
    refused: list[str] = []
    for _ in range(2000):
        data = whole.copy()
        at = rng.integers(12, 44, 3)
        data[at] = rng.integers(0, 256, 3)
        try:
            values, _ = audio.read_wav(data.tobytes())
        except ValueError as error:
            refused.append(str(error))
            continue
        loaded += 1
        assert values.size <= 8
        assert values.dtype.kind == "f"
    assert 0 < loaded < 2000
    assert all(text.startswith("wav: ") for text in refused)


def test_arguments() -> None:
    x = gp.from_numpy(samples())
    with pytest.raises(ValueError, match="save: sample_rate is None"):
        audio.save("a.wav", x)
    with pytest.raises(ValueError, match="save: subtype is 'mp3'"):
        audio.save("a.wav", x, 8000, subtype="mp3")
    with pytest.raises(ValueError, match="save: audio has shape"):
        audio.save("a.wav", gp.zeros((2, 2, 2)), 8000)
    with pytest.raises(TypeError, match="save: audio has dtype int16"):
        audio.save("a.wav", gp.zeros((4,), "int16"), 8000)
    with pytest.raises(TypeError, match="load: path is of type"):
        audio.load(5)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        audio.load("no such file.wav")
    with pytest.raises(ValueError, match="load: the bytes: no data"):
        audio.load(b"")


@pytest.mark.skipif(importlib.util.find_spec("soundfile") is not None, reason="it is installed")
def test_other_formats_name_the_package(tmp_path: Path) -> None:
    with pytest.raises(
        ImportError, match=r"load: the bytes: not a WAV file: .*pip install 'pygpukit\[audio\]'"
    ):
        audio.load(b"fLaC and so on")
    with pytest.raises(ImportError, match="save: "):
        audio.save(tmp_path / "a.flac", gp.from_numpy(samples()), 8000)


def test_a_file_that_soundfile_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    class LibsndfileError(RuntimeError):
        error_string = "Format not recognised."

        def __str__(self) -> str:
            return f"Error opening <_io.BytesIO object at 0x7f01>: {self.error_string}"

    def read(*_: object, **__: object) -> None:
        raise LibsndfileError

    monkeypatch.setitem(sys.modules, "soundfile", SimpleNamespace(read=read))
    with pytest.raises(ValueError, match=r"^load: the bytes: Format not recognised\.$"):
        audio.load(b"fLaC and so on")
