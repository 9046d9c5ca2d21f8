"""gp.ops.audio on CPU simulation: case tables, edge cases, buffers, streams, voice activity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases.audio import CASES, MUST_RAISE, Case
from cases.audio_random import RANDOM
from cases.audio_signals import RATE, noise, voice
from cases.must_raise import Refused
from cases.run_audio import run_case, run_must_raise

import pygpukit as gp
from pygpukit.ops import audio


@pytest.mark.parametrize("case", [*CASES, *RANDOM], ids=str)
def test_case(case: Case) -> None:
    run_case(case)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: Refused) -> None:
    run_must_raise(case)


def array(x: Any) -> gp.GPUArray:
    return gp.from_numpy(np.asarray(x, np.float32))


# --- edge cases -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 79, 399, 400, 401, 1601])
def test_short_and_odd_signals_survive_a_round_trip(n: int) -> None:
    x = noise(n)
    for n_fft in (400, 333, 64):
        y = audio.istft(audio.stft(array(x), n_fft, 16), 16, n_fft=n_fft, length=n)
        np.testing.assert_allclose(y.to_numpy(), x, atol=2e-6)


def test_leading_axes_are_batches() -> None:
    x = noise(2 * 3 * 900).reshape(2, 3, 900)
    for function in (
        lambda a: audio.stft(a, 256, 64),
        lambda a: audio.mel_spectrogram(a, 400, 160, 20),
        lambda a: audio.whisper_log_mel(a),
        lambda a: audio.resample(a, 3, 2),
        lambda a: audio.sosfilt(a, [[1, 0, 0, 1, -0.5, 0.2]]),
        lambda a: audio.detect_pitch_yin_frames(a, RATE, 600, 100, 100, 400),
        lambda a: audio.time_stretch(a, 1.5, 256, 64),
        lambda a: audio.cqt(a, RATE, 200, 440.0, 6),
    ):
        whole = function(array(x)).to_numpy()
        assert whole.shape[:2] == (2, 3)
        one = function(array(x[1, 2])).to_numpy()
        np.testing.assert_allclose(whole[1, 2], one, atol=1e-5 * np.abs(one).max())


def test_views_are_read_as_they_are() -> None:
    x = noise(1800).reshape(900, 2)
    strided = array(x)[:, 1]
    want = audio.stft(array(x[:, 1].copy()), 256, 64).to_numpy()
    np.testing.assert_array_equal(audio.stft(strided, 256, 64).to_numpy(), want)
    np.testing.assert_array_equal(
        audio.resample(strided, 3, 2).to_numpy(),
        audio.resample(array(x[:, 1].copy()), 3, 2).to_numpy(),
    )


def test_nothing_gives_nothing() -> None:
    empty = array([])
    assert audio.resample(empty, 3, 2).shape == (0,)
    assert audio.whisper_log_mel(empty).shape == (80, 0)
    assert audio.preemphasis(empty) is empty
    assert audio.deemphasis(empty) is empty
    assert audio.zero_crossing_rate(empty).shape == (0,)
    assert audio.time_stretch(empty, 2.0).shape == (0,)
    assert audio.VAD().detect(empty) == []
    assert audio.frame(array([1, 2, 3]), 4, 1).shape == (0, 4)
    assert audio.istft(gp.zeros((0, 129), "complex64")).shape == (0,)


def test_silence() -> None:
    quiet = array(np.zeros(4000))
    s = audio.magnitude_spectrum(audio.stft(quiet))
    assert not audio.spectral_centroid(s).to_numpy().any()
    assert not audio.spectral_rolloff(s).to_numpy().any()
    np.testing.assert_allclose(audio.spectral_flatness(s).to_numpy(), 1.0, rtol=1e-5)
    assert not audio.chroma_stft(s).to_numpy().any()
    assert not audio.detect_pitch_yin_frames(quiet).to_numpy().any()
    assert audio.detect_pitch_yin(quiet) == 0.0
    assert audio.onset_detect(quiet).shape == (0,)
    assert audio.VAD().detect(quiet) == []
    # log10 of the floor is -10, and no value is below its maximum - 8.
    np.testing.assert_array_equal(audio.whisper_log_mel(quiet).to_numpy(), np.float32(-1.5))
    assert not audio.griffin_lim(s, 2).to_numpy().any()
    harmonic, percussive = audio.hpss(s)
    assert not harmonic.to_numpy().any()
    assert not percussive.to_numpy().any()


def test_nan_stays_where_it_is() -> None:
    x = noise(4000)
    x[2000] = np.nan
    spectra = np.isnan(audio.stft(array(x), 400, 160).to_numpy()).any(1)
    assert spectra.nonzero()[0].tolist() == [12, 13]  # the frames that hold sample 2000
    resampled = np.isnan(audio.resample(array(x), 2, 1).to_numpy())
    assert 0 < resampled.sum() < 30
    emphasised = np.isnan(audio.preemphasis(array(x)).to_numpy())
    assert emphasised.nonzero()[0].tolist() == [2000, 2001]
    assert np.isnan(audio.deemphasis(array(x)).to_numpy())[2000:].all()
    assert np.isnan(audio.whisper_log_mel(array(x)).to_numpy()).any()


def test_float64_is_kept() -> None:
    x = gp.from_numpy(noise(2000).astype(np.float64))
    assert audio.stft(x).dtype.name == "complex128"
    assert audio.mel_spectrogram(x).dtype.name == "float64"
    assert audio.resample(x, 3, 2).dtype.name == "float64"
    np.testing.assert_allclose(audio.istft(audio.stft(x), length=2000).to_numpy(), x.to_numpy())


def test_out_of_the_core_ops() -> None:
    x = array(noise(500))
    taps = array(np.ones((2, 3)))
    out = gp.empty((100,))
    assert gp._native.audio_resample("resample", x, taps, 3, 5, 0, 100, False, out=out) is out
    want = gp._native.audio_resample("resample", x, taps, 3, 5, 0, 100, False)
    np.testing.assert_array_equal(out.to_numpy(), want.to_numpy())
    with pytest.raises(ValueError, match="resample: out"):
        gp._native.audio_resample("resample", x, taps, 3, 5, 0, 99, False, out=out)


# --- pitch and time -------------------------------------------------------------------------------


def tone(frequency: float, seconds: float = 1.0) -> Any:
    return np.sin(2 * np.pi * frequency * np.arange(int(RATE * seconds)) / RATE)


def frequency_of(x: Any) -> float:
    return audio.detect_pitch_yin(array(x[len(x) // 4 : len(x) // 4 + 4096]), RATE, 80, 900)


@pytest.mark.parametrize("steps", [-12.0, -5.0, 0.5, 7.0])
def test_pitch_shift_shifts_the_pitch_and_nothing_else(steps: float) -> None:
    y = audio.pitch_shift(array(tone(300.0)), RATE, steps).to_numpy()
    assert y.shape == (RATE,)
    assert frequency_of(y) == pytest.approx(300.0 * 2 ** (steps / 12), rel=2e-3)
    assert np.sqrt(np.square(y[4000:-4000]).mean()) == pytest.approx(np.sqrt(0.5), rel=0.1)


@pytest.mark.parametrize("rate", [0.5, 1.0, 1.7])
def test_time_stretch_keeps_the_pitch(rate: float) -> None:
    y = audio.time_stretch(array(tone(300.0)), rate).to_numpy()
    assert y.shape == (round(RATE / rate),)
    assert frequency_of(y) == pytest.approx(300.0, rel=2e-3)


def test_resampling_does_not_alias() -> None:
    y = audio.resample(array(tone(7000.0)), 16000, 8000).to_numpy()
    assert np.abs(y[200:-200]).max() < 1e-3
    y = audio.resample(array(tone(1000.0)), 16000, 44100).to_numpy()
    want = np.sin(2 * np.pi * 1000.0 * np.arange(len(y)) / 44100)
    np.testing.assert_allclose(y[300:-300], want[300:-300], atol=2e-3)


def test_rates_without_a_common_divisor() -> None:
    y = audio.resample(array(tone(500.0, 0.1)), 16000, 16001).to_numpy()
    want = np.sin(2 * np.pi * 500.0 * np.arange(len(y)) / 16001)
    np.testing.assert_allclose(y[50:-50], want[50:-50], atol=2e-3)


def test_biquad_designs() -> None:
    import scipy.signal

    def gain(section: Any, frequency: float) -> float:
        response = scipy.signal.freqz(section[:3], section[3:], [frequency], fs=RATE)[1]
        return float(np.abs(response[0]))

    for kind, frequency, want in (
        ("lowpass", 1000.0, 0.5**0.5),
        ("highpass", 1000.0, 0.5**0.5),
        ("bandpass", 1000.0, 1.0),
        ("notch", 1000.0, 0.0),
        ("allpass", 3000.0, 1.0),
        ("peaking", 1000.0, 10 ** (6 / 20)),
        ("lowshelf", 1.0, 10 ** (6 / 20)),
        ("highshelf", 7999.0, 10 ** (6 / 20)),
    ):
        section = audio.design_biquad(kind, 1000.0, RATE, gain_db=6.0)
        assert gain(section, frequency) == pytest.approx(want, abs=1e-3), kind


# --- buffers, streams, voice activity -------------------------------------------------------------


def test_buffer() -> None:
    pcm = np.array([16384, -32768, 0, 8192], np.int16)
    stereo = audio.from_pcm(pcm, 8000, 2)
    assert stereo.to_numpy().tolist() == [0.5, -1.0, 0.0, 0.25]
    assert "samples=4" in repr(stereo)
    assert "channels=2" in repr(stereo)
    assert stereo.planes().to_numpy().tolist() == [[0.5, 0.0], [-1.0, 0.25]]
    mono = stereo.to_mono()
    assert mono.to_numpy().tolist() == [-0.25, 0.125]
    assert mono.to_mono() is mono
    assert mono.resample(8000) is mono
    assert stereo.resample(16000).to_numpy().shape == (8,)
    assert stereo.resample(11025).num_frames == 2 * 11025 // 8000
    assert stereo.normalize() is stereo
    assert float(np.abs(stereo.to_numpy()).max()) == 1.0
    stereo.normalize("rms", -20.0)
    assert np.sqrt(np.square(stereo.to_numpy()).mean()) == pytest.approx(0.1, rel=1e-5)
    silent = audio.from_pcm(np.full(4, 1e-9, np.float32), 8000).normalize()
    assert silent.to_numpy().tolist() == [np.float32(1e-9)] * 4
    with pytest.raises(ValueError, match="mode is 'loud'"):
        stereo.normalize("loud")
    with pytest.raises(ValueError, match="int32"):
        audio.from_pcm(np.zeros(3, np.int32), 8000)
    with pytest.raises(ValueError, match="multiple of 2 channels"):
        audio.from_pcm(np.zeros(3, np.int16), 8000, 2)


def test_in_place_functions_return_what_they_were_given() -> None:
    buffer = audio.from_pcm(noise(100), RATE)
    for function, options in (
        (audio.preemphasis, {}),
        (audio.deemphasis, {}),
        (audio.remove_dc, {}),
        (audio.highpass_filter, {}),
        (audio.noise_gate, {"threshold": 0.5}),
        (audio.spectral_gate, {"threshold": 50.0}),
    ):
        before = buffer.to_numpy()
        assert function(buffer, **options) is buffer
        assert not np.array_equal(before, buffer.to_numpy())
    with pytest.raises(TypeError, match="preemphasis: a has dtype float16"):
        audio.preemphasis(gp.zeros((3,), "float16"))


def test_gates() -> None:
    x = array([0.001, -0.5, 0.009, 0.02])
    assert audio.noise_gate(x).to_numpy().tolist() == [0, -0.5, 0, np.float32(0.02)]
    y = array([0.1, 0.1, 1.0, 1.0, 0.1])
    got = audio.spectral_gate(y, 0.02, 2).to_numpy()
    np.testing.assert_allclose(got, [0.025, 0.025, 1, 1, 0.025], rtol=1e-5)


def test_ring_buffer() -> None:
    ring = audio.AudioRingBuffer(5, 10)
    assert ring.write(array([1, 2, 3])) == 3
    assert (ring.samples_available, ring.duration_available) == (3, 0.3)
    ring.write(np.array([4, 5, 6, 7], np.float32))
    assert ring.read(5).to_numpy().tolist() == [3, 4, 5, 6, 7]
    assert ring.read(2, 3).to_numpy().tolist() == [6, 7]
    assert ring.write(array(np.arange(12))) == 12
    assert ring.read(5).to_numpy().tolist() == [7, 8, 9, 10, 11]
    with pytest.raises(ValueError, match="samples 1 to 6"):
        ring.read(5, 1)
    ring.clear()
    assert ring.samples_available == 0
    assert ring.read(0).shape == (0,)


def test_stream_of_an_array_that_is_written_again() -> None:
    stream = audio.AudioStream(4, 4)
    block = gp.ones(4)
    stream.push(block)
    block[...] = 2.0
    stream.push(block)
    block[...] = 3.0
    chunks = [stream.pop_chunk(apply_window=False).to_numpy().tolist() for _ in range(2)]
    assert chunks == [[1.0] * 4, [2.0] * 4]


def test_stream() -> None:
    stream = audio.AudioStream(4, sample_rate=10, buffer_duration=1.0)
    assert stream.hop_size == 2
    assert not stream.has_chunk()
    with pytest.raises(RuntimeError, match="0 samples wait"):
        stream.pop_chunk()
    stream.push(array(np.arange(5)))
    assert stream.chunks_available == 1
    stream.push(array([5]))
    assert stream.chunks_available == 2
    assert stream.pop_chunk(False).to_numpy().tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(
        stream.pop_chunk().to_numpy(), np.arange(2, 6) * np.hanning(4), atol=1e-6
    )
    assert not stream.has_chunk()
    with pytest.raises(ValueError, match="expected up to 10"):
        stream.push(array(np.zeros(20)))
    stream.reset()
    assert stream.chunks_available == 0


def test_voice_activity() -> None:
    x = np.zeros(3 * RATE, np.float32)
    x[RATE : 2 * RATE] = 0.3 * tone(800.0)
    vad = audio.VAD()
    assert (vad.frame_size, vad.hop_size) == (320, 160)
    rms, rate = vad.get_frame_features(array(x))
    assert rms.shape == rate.shape == ((len(x) - 320) // 160 + 1,)
    (segment,) = vad.detect(array(x))
    assert segment.start_sample == RATE - 160
    # The last frame with sound, the hangover of ten frames, and the frame itself.
    assert segment.end_sample == 2 * RATE - 160 + 10 * 160 + 320
    assert segment.start_time == segment.start_sample / RATE
    low = 0.3 * np.sin(2 * np.pi * 40.0 * np.arange(len(x)) / RATE)
    assert vad.detect(array(low)) == []  # its zero crossing rate is below zcr_low
    assert audio.VAD(energy_threshold=0.5).detect(array(x)) == []


def test_griffin_lim_finds_a_signal_with_the_magnitudes() -> None:
    s = audio.magnitude_spectrum(audio.stft(array(voice(0.5)), 512, 128))
    y = audio.griffin_lim(s, 32, 128, seed=1)
    again = audio.magnitude_spectrum(audio.stft(y, 512, 128)).to_numpy()
    error = np.linalg.norm(again - s.to_numpy()) / np.linalg.norm(s.to_numpy())
    assert error < 0.15


def test_spectra_of_0_2() -> None:
    """Real pairs go where complex spectra go."""
    x = array(voice(0.2))
    pairs = audio.stft(x, return_complex=False)
    z = audio.stft(x)
    assert pairs.shape == (*z.shape, 2)
    np.testing.assert_allclose(
        audio.power_spectrum(pairs).to_numpy(), audio.power_spectrum(z).to_numpy(), rtol=1e-6
    )
    np.testing.assert_allclose(audio.istft(pairs).to_numpy(), audio.istft(z).to_numpy(), atol=1e-6)
    power = audio.power_spectrum(z)
    mel = audio.apply_mel_filterbank(power, audio.create_mel_filterbank())
    np.testing.assert_allclose(
        mel.to_numpy(), audio.mel_spectrogram(x).to_numpy(), rtol=1e-3, atol=1e-5
    )
    assert audio.mfcc(audio.log_mel(mel)).shape == (mel.shape[0], 13)
