"""Write the pictures of docs/audio.md, asr.md and tts.md: spectra by gp.ops.audio, as PNG files in
docs/images."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit.ops import audio

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from cases.audio_signals import RATE, clicks, voice  # noqa: E402

# From quiet to loud: black, violet, red, orange, light yellow.
STOPS = np.array([[0, 0, 8], [70, 16, 110], [170, 45, 90], [245, 125, 40], [252, 250, 190]], float)
SCALE = 2  # pixels of a value


def png(pixels: Any) -> bytes:
    """RGB [height, width, 3] as a PNG file."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind: bytes, body: bytes) -> bytes:
        data = kind + body
        return struct.pack(">I", len(body)) + data + struct.pack(">I", zlib.crc32(data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def picture(db: Any, span: float = 60.0) -> Any:
    """Values [frames, bins] in dB as colours, low frequencies at the bottom."""
    values = np.clip((db - db.max()) / span + 1, 0, 1).T[::-1]
    levels = np.round(values * 31) / 31 * (len(STOPS) - 1)  # few colours compress well
    low = np.minimum(levels.astype(int), len(STOPS) - 2)
    part = (levels - low)[..., None]
    colours = STOPS[low] * (1 - part) + STOPS[low + 1] * part
    return np.kron(colours, np.ones((SCALE, SCALE, 1))).astype(np.uint8)


def words_of_a_clip() -> Any:
    """The features that Whisper hears, a white line where it finds a word."""
    folder = ROOT / "tests" / "data" / "tiny-whisper-words"
    model = gp.asr.WhisperModel.from_pretrained(folder, "float32", max_batch=1, max_beams=1)
    result = model.transcribe(folder / "clip3.wav", language="en", word_timestamps=True)
    sound = audio.load(folder / "clip3.wav")
    frames = int(sound.data.shape[-1] / 160)
    features = audio.power_to_db(audio.mel_spectrogram(sound.data, 400, 160, 80))
    pixels = picture(features.to_numpy()[:frames])
    for segment in result.segments:
        for word in segment.words:
            pixels[:, min(round(word.start * 100), frames - 1) * SCALE] = 255
    return pixels


def spoken() -> Any:
    """What the small random model of the tests says."""
    folder = ROOT / "tests" / "data" / "tiny-kokoro"
    model = gp.tts.KokoroModel.from_pretrained(folder, voice="af_test", dtype="float32")
    sound = model.synthesize("hello there.", phonemes=True).audio
    s = audio.magnitude_spectrum(audio.stft(gp.asarray(sound.data), 512, 64))
    return picture(audio.amplitude_to_db(s[:, :128]).to_numpy())


def main() -> None:
    speech = gp.from_numpy(voice(3.0))
    mixture = gp.from_numpy(voice(3.0) + 0.6 * clicks(3.0))
    s = audio.magnitude_spectrum(audio.stft(mixture, 512, 128))
    harmonic, percussive = audio.hpss(s)
    db = {
        "audio-mel": audio.power_to_db(audio.mel_spectrogram(speech, 400, 160, 80)),
        "audio-cqt": audio.amplitude_to_db(
            audio.cqt_magnitude(speech, RATE, 160, 65.4, 84), top_db=None
        ),
        "audio-harmonic": audio.amplitude_to_db(harmonic[:, :128]),
        "audio-percussive": audio.amplitude_to_db(percussive[:, :128]),
    }
    pictures = {name: picture(values.to_numpy()) for name, values in db.items()}
    pictures |= {"asr-words": words_of_a_clip(), "tts-spoken": spoken()}
    for name, pixels in pictures.items():
        path = ROOT / "docs" / "images" / f"{name}.png"
        path.write_bytes(png(pixels))
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
