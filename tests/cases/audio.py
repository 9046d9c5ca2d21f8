"""Cases of gp.ops.audio: goldens of librosa, torchaudio and Transformers, SciPy, and calls that are
refused. tests/unit and tests/gpu run the same table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.ndimage
import scipy.signal

import pygpukit as gp
from cases.audio_signals import RATE, clicks, noise, voice
from cases.must_raise import Refused
from pygpukit.ops import audio

Put = Callable[[Any], Any]  # from a NumPy array to one on the device of the test

# Ops of the C++ core that the cases below run.
OPS = {
    "audio_biquad",
    "audio_frame_stats",
    "audio_median",
    "audio_overlap_add",
    "audio_resample",
    "audio_spectrogram",
}


@cache
def goldens() -> dict[str, Any]:
    path = Path(__file__).resolve().parent.parent / "data" / "audio" / "goldens.npz"
    with np.load(path) as file:
        return dict(file)


@dataclass(frozen=True)
class Case:
    """`run` gives what `want` gives, up to tolerance times the largest magnitude of that."""

    name: str
    run: Callable[[Put], Any]
    want: Callable[[], Any]
    tolerance: float = 1e-5

    def __str__(self) -> str:
        return self.name


def of_golden(name: str, run: Callable[[Put], Any], tolerance: float = 1e-5) -> Case:
    return Case(f"golden-{name}", run, lambda: goldens()[name], tolerance)


def magnitude(put: Put) -> Any:
    return audio.magnitude_spectrum(audio.stft(put(voice(0.5))))


def resampled(orig: int, new: int, **options: Any) -> Callable[[Put], Any]:
    return lambda put: audio.resample(put(voice(0.1, rate=orig)), orig, new, **options)


def stretched(put: Put) -> Any:
    z = audio.stft(put(voice(0.3).astype(np.float64)))
    return audio.phase_vocoder(z, 1.3, 160)[:, :80]


def from_magnitudes(put: Put) -> Any:
    s = audio.magnitude_spectrum(audio.stft(put(voice(0.3).astype(np.float64))))
    return audio.griffin_lim(s, 4, 160, init=None)


def chroma(put: Put) -> Any:
    return audio.chroma_stft(audio.power_spectrum(audio.stft(put(voice(0.5)))), RATE)


def bandwidth(put: Put) -> Any:
    s = magnitude(put)
    return audio.spectral_bandwidth(s, audio.spectral_centroid(s, RATE), RATE)


def parts(put: Put) -> Any:
    return gp.stack(list(audio.hpss(magnitude(put)[:, :60], (9, 13), margin=(1.0, 2.0))))


def tempos(put: Put) -> Any:
    return gp.stack([audio.tempo(put(clicks(8.0, bpm)), RATE) for bpm in (90.0, 120.0, 150.0)])


KAISER = {"lowpass_filter_width": 64, "rolloff": 0.9475937167399596, "window": "kaiser"}

GOLDEN = [
    of_golden("stft", lambda put: audio.stft(put(voice(0.1)), 400, 160)),
    of_golden(
        "stft_windowed",
        lambda put: audio.stft(
            put(voice(0.1)), 512, 100, 300, window="hamming", pad_mode="constant"
        ),
    ),
    of_golden("stft_odd", lambda put: audio.stft(put(voice(0.1)), 333, 111, center=False)),
    of_golden("istft", lambda put: audio.istft(audio.stft(put(voice(0.3))), 160, length=4800)),
    of_golden("mel_slaney", lambda put: put(audio.mel_filterbank(20, 400, RATE).to_numpy())),
    of_golden(
        "mel_htk",
        lambda put: put(
            audio.create_mel_filterbank(20, 400, RATE, 50, 7000, scale="htk", norm=None).to_numpy()
        ),
    ),
    of_golden("mel_spectrogram", lambda put: audio.mel_spectrogram(put(voice(0.5)), n_mels=40)),
    of_golden(
        "power_to_db",
        lambda put: audio.power_to_db(
            audio.mel_spectrogram(put(voice(0.5)), n_mels=40, pad_mode="constant")
        ),
    ),
    of_golden(
        "whisper",
        lambda put: audio.whisper_log_mel(put(voice(1.0)), 80, length=480000)[:, :120],
        2e-5,
    ),
    of_golden(
        "whisper_128",
        lambda put: audio.whisper_log_mel(put(voice(1.0, 3)), 128, length=480000)[:, 20:60],
        2e-5,
    ),
    of_golden("mfcc", lambda put: audio.mfcc(audio.log_mel(magnitude(put)[:, :40], 1e-3))),
    of_golden("delta", lambda put: audio.delta(magnitude(put)[:, :13])),
    of_golden("delta_twice", lambda put: audio.delta(magnitude(put)[:, :13], 2, 3)),
    # torchaudio evaluates its filters in float32.
    of_golden("resample_44100_16000", resampled(44100, 16000), 3e-5),
    of_golden("resample_16000_22050", resampled(16000, 22050), 3e-5),
    of_golden("resample_48000_16000", resampled(48000, 16000), 3e-5),
    of_golden("resample_kaiser", resampled(16000, 11025, **KAISER), 3e-5),
    of_golden("centroid", lambda put: audio.spectral_centroid(magnitude(put), RATE)),
    of_golden("bandwidth", bandwidth),
    of_golden("rolloff", lambda put: audio.spectral_rolloff(magnitude(put), RATE)),
    of_golden("flatness", lambda put: audio.spectral_flatness(magnitude(put)), 5e-5),
    of_golden(
        "contrast",
        lambda put: audio.spectral_contrast(
            magnitude(put), 5, 0.02, bands="octave", sample_rate=RATE
        ),
        5e-5,
    ),
    of_golden("zero_crossings", lambda put: audio.zero_crossing_rate(put(noise(4000)))),
    of_golden("rms", lambda put: audio.rms(put(voice(0.5)), 512, 256)),
    of_golden("yin", lambda put: audio.yin(put(voice(0.5)), RATE, 1024, 256, 60, 400)[0], 1e-4),
    of_golden("chroma_stft", chroma),
    of_golden("chroma_cqt", lambda put: audio.chroma_cqt(put(np.abs(noise(756).reshape(84, 9)).T))),
    of_golden("cqt_direct", lambda put: audio.cqt(put(voice(0.5)), RATE, 320, 110.0, 24), 2e-5),
    # Resampling between octaves costs librosa that much.
    of_golden(
        "cqt_librosa", lambda put: audio.cqt_magnitude(put(voice(0.5)), RATE, 320, 110.0, 24), 0.02
    ),
    of_golden("hpss", parts, 5e-5),
    of_golden("phase_vocoder", stretched, 1e-6),
    of_golden("griffin_lim", from_magnitudes, 2e-4),
    of_golden("onset_strength", lambda put: audio.onset_strength(put(clicks()), RATE), 1e-4),
    of_golden("onset_frames", lambda put: audio.onset_detect(put(clicks()), RATE), 0.0),
    of_golden(
        "tempogram",
        lambda put: audio.tempogram(audio.onset_strength(put(clicks()), RATE), 64)[::8],
        2e-4,
    ),
    of_golden("tempo", tempos),
]


# --- SciPy and NumPy ------------------------------------------------------------------------------

BUTTER = scipy.signal.butter(6, 300.0, "highpass", fs=RATE, output="sos")


def plain_highpass(x: Any, cutoff: float) -> Any:
    c = 1 / (1 + 2 * math.pi * cutoff / RATE)
    return scipy.signal.lfilter([c, -c], [1, -c], x.astype(np.float64))


def sos_in_pieces(put: Put) -> Any:
    x = put(noise(6000))
    state, results = None, []
    for first, past in ((0, 1), (1, 2049), (2049, 2049), (2049, 6000)):
        y, state = audio.sosfilt(x[first:past], BUTTER, state=state, return_state=True)
        results.append(y)
    return gp.concat(results)


def sliding(x: Any, frame: int, hop: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, frame)[::hop]


def sum_of_frames(frames: Any, hop: int) -> Any:
    total = np.zeros((len(frames) - 1) * hop + frames.shape[1])
    for f, row in enumerate(frames.astype(np.float64)):
        total[f * hop : f * hop + len(row)] += row
    return total


def _resampled_by_definition(x: Any, up: int, down: int) -> Any:
    """Each output, from the windowed sinc itself."""
    cutoff = min(up, down) * 0.99
    count = -(-len(x) * up // down)
    t = (np.arange(len(x)) / down - np.arange(count)[:, None] / up) * cutoff
    window = np.where(np.abs(t) < 6, np.cos(np.clip(t, -6, 6) * np.pi / 12) ** 2, 0)
    return (np.sinc(t) * window * cutoff / down) @ x.astype(np.float64)


SCIPY = [
    Case("sosfilt", lambda put: audio.sosfilt(put(noise(5000, lines=3)), BUTTER),
         lambda: scipy.signal.sosfilt(BUTTER, noise(5000, lines=3)), 1e-6),
    Case("sosfilt-float64", lambda put: audio.sosfilt(put(noise(4099).astype("f8")), BUTTER),
         lambda: scipy.signal.sosfilt(BUTTER, noise(4099).astype("f8")), 1e-12),
    Case("sosfilt-pieces", sos_in_pieces, lambda: scipy.signal.sosfilt(BUTTER, noise(6000)), 1e-6),
    Case("biquad", lambda put: audio.biquad(put(noise(2049)), 1, 2, 3, 2, 0.5, 0.25),
         lambda: scipy.signal.lfilter([1, 2, 3], [2, 0.5, 0.25], noise(2049)), 1e-6),
    Case("preemphasis", lambda put: audio.preemphasis(put(noise(999))),
         lambda: scipy.signal.lfilter([1, -0.97], [1], noise(999)), 1e-6),
    Case("deemphasis", lambda put: audio.deemphasis(put(noise(9999, lines=2))),
         lambda: scipy.signal.lfilter([1], [1, -0.97], noise(9999, lines=2)), 1e-6),
    Case("highpass", lambda put: audio.highpass_filter(put(noise(9999)), 50.0, RATE),
         lambda: plain_highpass(noise(9999), 50.0), 1e-6),
    Case("fir", lambda put: audio.fir_filter(put(noise(3000)), noise(101, 7)),
         lambda: scipy.signal.lfilter(noise(101, 7), [1], noise(3000)), 1e-5),
    Case("fftconvolve", lambda put: audio.fftconvolve(put(noise(1000)), put(noise(64, 8)), "same"),
         lambda: scipy.signal.fftconvolve(noise(1000), noise(64, 8), "same"), 1e-5),
    Case("median-time", lambda put: audio.median_filter(put(noise(600).reshape(30, 20)), 7, 0),
         lambda: scipy.ndimage.median_filter(noise(600).reshape(30, 20), (7, 1), mode="reflect"),
         0.0),
    Case("median-even", lambda put: audio.median_filter(put(noise(50)), 8),
         lambda: scipy.ndimage.median_filter(noise(50), 8, mode="reflect"), 0.0),
    Case("median-wide", lambda put: audio.median_filter(put(noise(9).astype("f8")), 31),
         lambda: scipy.ndimage.median_filter(noise(9).astype("f8"), 31, mode="reflect"), 0.0),
    Case("autocorrelation", lambda put: audio.autocorrelation(put(noise(700)), 40),
         lambda: np.correlate(noise(700).astype("f8"), noise(700).astype("f8"), "full")[699:739],
         1e-5),
    Case("energy", lambda put: audio.compute_short_term_energy(put(noise(1000)), 100),
         lambda: np.square(noise(1000).reshape(10, 100)).mean(1), 1e-6),
    Case("crossings", lambda put: audio.zero_crossing_rate(put(noise(1000)), 33, 7),
         lambda: (np.diff(np.signbit(sliding(noise(1000), 33, 7)), axis=1)).sum(1) / 32, 1e-6),
    Case("resample-3-7", lambda put: audio.resample(put(noise(500)), 3, 7),
         lambda: _resampled_by_definition(noise(500), 7, 3), 1e-5),
    Case("resample-7-3", lambda put: audio.resample(put(noise(500).astype("f8")), 7, 3),
         lambda: _resampled_by_definition(noise(500), 3, 7), 1e-12),
    Case("resample-linear", lambda put: audio.resample(put(noise(300)), 5, 8, method="linear"),
         lambda: np.interp(np.arange(480) * 5 / 8, np.arange(300), noise(300)), 1e-6),
    Case("remove_dc", lambda put: audio.remove_dc(put(noise(100, lines=2) + 3)),
         lambda: (noise(100, lines=2) + 3) - (noise(100, lines=2) + 3).mean(1, keepdims=True),
         2e-6),
    Case("stft-scipy", lambda put: audio.stft(put(noise(3000)), 256, 64, center=False),
         lambda: np.fft.rfft(sliding(noise(3000), 256, 64) * scipy.signal.get_window("hann", 256)),
         1e-6),
    Case("stft-batch", lambda put: audio.stft(put(noise(900, lines=3)), 200, 80, pad_mode="edge"),
         lambda: np.stack([
             np.fft.rfft(sliding(np.pad(row, 100, "edge"), 200, 80)
                         * scipy.signal.get_window("hann", 200))
             for row in noise(900, lines=3)]), 1e-6),
    Case("stft-prime", lambda put: audio.stft(put(noise(900)), 251, 80, center=False),
         lambda: np.fft.rfft(sliding(noise(900), 251, 80) * scipy.signal.get_window("hann", 251)),
         1e-6),
    Case("log_mel", lambda put: audio.log_mel_spectrogram(put(voice(0.2)), 400, 160, 23),
         lambda: np.log(np.square(np.abs(np.fft.rfft(
             sliding(np.pad(voice(0.2), 200, "reflect"), 400, 160)
             * scipy.signal.get_window("hann", 400))))
             @ audio.mel_filterbank(23, 400, RATE).to_numpy().T + 1e-10), 1e-5),
    Case("overlap-add",
         lambda put: gp._native.audio_overlap_add(
             "overlap_add", put(noise(600).reshape(10, 60)), None, 25, 0, 285),
         lambda: sum_of_frames(noise(600).reshape(10, 60), 25), 1e-6),
]  # fmt: skip

CASES = [*GOLDEN, *SCIPY]


# --- must raise -----------------------------------------------------------------------------------


X = noise(1000)
S = np.abs(noise(60)).reshape(6, 10)
# Calls get a Put.
MUST_RAISE = [
    Refused("no array", lambda put: audio.stft(X), TypeError, ("stft: audio", "from_numpy")),
    Refused("integers", lambda put: audio.stft(put(np.ones(9, "i2"))), TypeError,
            ("stft: audio has dtype int16", "from_pcm")),
    Refused("n_fft", lambda put: audio.stft(put(X), 0), ValueError, ("stft: n_fft is 0",)),
    Refused("hop", lambda put: audio.stft(put(X), 64, 0), ValueError, ("hop_length is 0",)),
    Refused("win_length", lambda put: audio.stft(put(X), 64, 16, 65), ValueError,
            ("stft: win_length is 65", "1 to 64")),
    Refused("window", lambda put: audio.stft(put(X), window="han"), ValueError,
            ("stft: window is 'han'", "hann")),
    Refused("kaiser", lambda put: audio.get_window("kaiser", 8), ValueError, ("parameter",)),
    Refused("window array", lambda put: audio.stft(put(X), 64, window=put(X)), ValueError,
            ("window has shape (1000,)", "(64,)")),
    Refused("pad_mode", lambda put: audio.stft(put(X), pad_mode="mirror"), ValueError,
            ("pad_mode is 'mirror'", "'reflect'")),
    Refused("short", lambda put: audio.stft(put(X[:100]), 512, center=False), ValueError,
            ("audio has 100 samples", "512")),
    Refused("empty", lambda put: audio.stft(put(X[:0])), ValueError, ("audio has 0 samples",)),
    Refused("0-d", lambda put: audio.stft(put(np.float32(1))), ValueError, ("no axes",)),
    Refused("istft real", lambda put: audio.istft(put(S)), TypeError,
            ("istft: s has dtype float32 and shape (6, 10)", "complex")),
    Refused("istft bins", lambda put: audio.istft(audio.stft(put(X)), n_fft=400), ValueError,
            ("istft: s has 257 bins", "201")),
    Refused("f_max", lambda put: audio.mel_filterbank(8, 64, RATE, 4000.0, 100.0), ValueError,
            ("f_max is 100.0", "4000.0")),
    Refused("scale", lambda put: audio.mel_filterbank(scale="bark"), ValueError, ("'bark'",)),
    Refused("fb", lambda put: audio.apply_mel_filterbank(put(S), put(S[:, :9])), ValueError,
            ("fb has shape (6, 9)", "(n_mels, 10)")),
    Refused("n_mfcc", lambda put: audio.mfcc(put(S), 11), ValueError, ("n_mfcc is 11", "10")),
    Refused("rate", lambda put: audio.resample(put(X), 0, 1), ValueError, ("orig_freq is 0",)),
    Refused("method", lambda put: audio.resample(put(X), 2, 1, method="cubic"), ValueError,
            ("'cubic'", "'sinc'")),
    Refused("whisper rate",
            lambda put: audio.whisper_log_mel(audio.AudioBuffer(put(X), 8000, 1)), ValueError,
            ("8000 Hz", "16000")),
    Refused("channels", lambda put: audio.stft(audio.AudioBuffer(put(X), 8000, 2)), ValueError,
            ("2 interleaved channels", "to_mono()")),
    Refused("sos", lambda put: audio.sosfilt(put(X), [[1, 2, 3]]), ValueError, ("(1, 3)",)),
    Refused("a0", lambda put: audio.biquad(put(X), 1, 0, 0, 0, 0, 0), ValueError, ("a0 is 0",)),
    Refused("state", lambda put: audio.biquad(put(X), 1, 0, 0, 1, 0, 0, state=put(X)),
            ValueError, ("biquad: state has shape (1000,)", "(2,)")),
    Refused("state dtype", lambda put: audio.biquad(put(X), 1, 0, 0, 1, 0, 0, state=put(X[:2])),
            TypeError, ("state has dtype float32", "float64")),
    Refused("taps", lambda put: audio.fir_filter(put(X), []), ValueError, ("taps has shape",)),
    Refused("frequencies", lambda put: audio.yin(put(X), RATE, 512, 64, 400, 60), ValueError,
            ("f_min is 400", "f_max 60")),
    Refused("margin", lambda put: audio.hpss(put(S), margin=0.5), ValueError, ("margin is 0.5",)),
    Refused("stretch", lambda put: audio.time_stretch(put(X), 0.0), ValueError, ("rate is 0.0",)),
    Refused("cqt", lambda put: audio.cqt(put(X), RATE, 160, 5000.0), ValueError, ("8000.0 Hz",)),
    Refused("median", lambda put: audio.median_filter(put(X), 0), ValueError, ("size is 0",)),
    Refused("axis", lambda put: audio.median_filter(put(X), 3, 2), IndexError, ("axis 2",)),
    Refused("fused", lambda put: gp._native.audio_spectrogram(
        "spectrogram", put(X), put(X[:33]), 8, 0, "constant", 1, "power", None, None, "", 0, False),
        ValueError, ("window has shape (33,)", "audio_fused_lengths()")),
    Refused("frames", lambda put: gp._native.audio_spectrogram(
        "spectrogram", put(X), put(X[:400]), 8, 0, "constant", 99, "power", None, None, "", 0,
        False), ValueError, ("frames is 99", "1000 samples")),
]  # fmt: skip
