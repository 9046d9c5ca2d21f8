"""Arguments of gp.ops.audio: rates of buffers, dtypes, values that are not finite, wrong kinds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases.audio_signals import RATE, clicks, noise, voice

import pygpukit as gp
from pygpukit.ops import audio


def tone(rate: int, frequency: float = 220.0, count: int = 4096) -> audio.AudioBuffer:
    wave = 0.3 * np.sin(2 * np.pi * frequency * np.arange(count) / rate)
    return audio.from_pcm(wave.astype(np.float32), rate)


# --- rates ----------------------------------------------------------------------------------------


def test_the_rate_of_a_buffer_counts() -> None:
    buffer = tone(48000)
    assert audio.detect_pitch_yin(buffer) == pytest.approx(220.0, rel=5e-3)
    pitches = audio.detect_pitch_yin_frames(buffer, None, 2048).to_numpy()
    np.testing.assert_allclose(pitches, 220.0, rtol=5e-3)
    np.testing.assert_allclose(audio.yin(buffer)[0].to_numpy(), 220.0, rtol=5e-3)
    assert audio.detect_pitch_yin(buffer, 48000) == audio.detect_pitch_yin(buffer)
    assert audio.detect_pitch_yin(buffer.data, 48000) == audio.detect_pitch_yin(buffer)
    vad = audio.VAD(48000, energy_threshold=0.01, zcr_low=0.0)
    assert vad.detect(buffer)[0].end_time <= buffer.duration
    assert audio.AudioRingBuffer(100, 48000).write(buffer) == 4096
    assert audio.AudioStream(sample_rate=48000).push(buffer) == 4096


OTHER_RATE: dict[str, Callable[[Any], Any]] = {
    "detect_pitch_yin": lambda b: audio.detect_pitch_yin(b, RATE),
    "detect_pitch_yin_frames": lambda b: audio.detect_pitch_yin_frames(b, RATE),
    "yin": lambda b: audio.yin(b, RATE),
    "detect": lambda b: audio.VAD().detect(b),
    "get_frame_features": lambda b: audio.VAD().get_frame_features(b),
    "write": lambda b: audio.AudioRingBuffer(9).write(b),
    "push": lambda b: audio.AudioStream().push(b),
    "mel_spectrogram": lambda b: audio.mel_spectrogram(b, sample_rate=RATE),
    "log_mel_spectrogram": lambda b: audio.log_mel_spectrogram(b, sample_rate=RATE),
    "cqt": lambda b: audio.cqt(b, RATE, f_min=440.0, n_bins=6),
    "tempo": lambda b: audio.tempo(b, RATE),
    "onset_detect": lambda b: audio.onset_detect(b, RATE),
    "highpass_filter": lambda b: audio.highpass_filter(b, 20.0, RATE),
    "pitch_shift": lambda b: audio.pitch_shift(b, RATE, 1.0),
    "resample": lambda b: audio.resample(b, RATE, 8000),
    "save": lambda b: audio.save("a.wav", b, RATE),
}


@pytest.mark.parametrize("op", OTHER_RATE)
def test_another_rate_than_the_buffers_is_refused(op: str) -> None:
    words = rf"^{op}: \w+ has a rate of 48000 Hz, expected 16000$"
    with pytest.raises(gp.InvalidArgument, match=words):
        OTHER_RATE[op](tone(48000))


# --- dtypes and values ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int16", "int32", "uint8", "bool", "complex64"])
def test_buffers_have_floats(dtype: str) -> None:
    with pytest.raises(TypeError, match=f"AudioBuffer: data has dtype {dtype}, .*from_pcm"):
        audio.AudioBuffer(gp.zeros((8,), dtype), RATE)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_float_is_normalised_in_place(dtype: str) -> None:
    data = gp.asarray([0.25, -0.5, 0.0], dtype=dtype)
    assert audio.AudioBuffer(data, RATE).normalize().data is data
    assert data.astype("float32").to_numpy().tolist() == [0.5, -1.0, 0.0]


def test_nan() -> None:
    """It stays in arrays; where the result is a list of places, it is refused."""
    x = clicks(4.0)
    x[30000] = np.nan
    bad = gp.from_numpy(x)
    assert np.isnan(audio.tempo(bad).to_numpy())
    with pytest.raises(ValueError, match="onset_detect: a has samples that are not finite"):
        audio.onset_detect(bad)
    with pytest.raises(ValueError, match=r"detect: audio .* not finite, in 2 of 399 frames"):
        audio.VAD().detect(bad)
    assert np.isnan(audio.detect_pitch_yin(bad[29000:31000]))
    pitches = audio.detect_pitch_yin_frames(bad[29000:35000]).to_numpy()
    assert np.isnan(pitches).sum() == 4
    assert np.isnan(audio.yin(bad[29000:35000])[0].to_numpy()).any()


# --- wrong kinds ----------------------------------------------------------------------------------

ARRAY = np.ones(3)
WRONG: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: audio.stft(x, return_complex=ARRAY), TypeError, "stft: return_complex is array"),
    (lambda x: audio.stft(x, center=ARRAY), TypeError, "stft: center is array"),
    (
        lambda x: audio.cqt(x, RATE, f_min=440.0, n_bins=2, return_complex=ARRAY),
        TypeError,
        "cqt: return_complex is array",
    ),
    (lambda x: audio.istft(audio.stft(x), length=ARRAY), TypeError, "istft: length is"),
    (lambda x: audio.sosfilt(x, [[1, 0, 0, 1, 0, 0]], state=[1, 2]), TypeError, "state is of type"),
    (lambda x: audio.biquad(x, 1, 0, 0, 1, 0, 0, state=[1, 2]), TypeError, "state is of type"),
    (
        lambda x: audio.biquad(x, 1, 0, 0, 1, 0, 0, return_state=ARRAY),
        TypeError,
        "biquad: return_state is array",
    ),
    (lambda x: audio.chroma_stft(gp.ones((3, 9)), tuning=1e300), ValueError, "tuning is 1e+300"),
    (lambda x: audio.get_window(("gaussian", 0.0), 8), ValueError, "expected a width above 0"),
    (lambda x: audio.get_window(("kaiser", 1e5), 8), ValueError, "100000.0, expected a finite"),
    (lambda x: audio.get_window("hann", 8, ARRAY), TypeError, "periodic is array"),
    (
        lambda x: audio.resample(x, 3, 2, window="kaiser", beta="x"),
        TypeError,
        "resample: beta is str 'x'",
    ),
    (
        lambda x: audio.AudioBuffer(x, RATE).normalize("rms", "a"),
        TypeError,
        "normalize: target_db is str 'a'",
    ),
    (
        lambda x: audio.AudioBuffer(x, RATE).normalize("rms", 1e300),
        ValueError,
        "normalize: target_db is 1e+300",
    ),
]


@pytest.mark.parametrize(("call", "kind", "words"), WRONG)
def test_wrong_kinds(call: Callable[[Any], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=re.escape(words)) as error:
        call(gp.from_numpy(voice(0.1)))
    assert isinstance(error.value, gp.InvalidArgument)


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 3, 5, 40])
@pytest.mark.parametrize(("chunk", "hop"), [(4, 2), (4, 4), (4, 6), (3, 11)])
def test_chunks_begin_a_hop_apart(chunk: int, hop: int, step: int) -> None:
    x = noise(40)
    stream = audio.AudioStream(chunk, hop, sample_rate=10, buffer_duration=4.0)
    found = []
    for first in range(0, 40, step):
        assert stream.push(x[first : first + step]) == len(x[first : first + step])
        while stream.has_chunk():
            found.append(stream.pop_chunk(False).to_numpy())
    want = [x[at : at + chunk] for at in range(0, 40 - chunk + 1, hop)]
    np.testing.assert_array_equal(found, want)
    stream.reset()
    stream.push(x[:chunk])
    np.testing.assert_array_equal(stream.pop_chunk(False).to_numpy(), x[:chunk])
