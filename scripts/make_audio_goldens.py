"""Write tests/data/audio/goldens.npz: what librosa, torchaudio and Transformers give.

Needs librosa, torch, torchaudio and transformers; none of them is needed by the tests.
usage: make_audio_goldens.py [output]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import librosa
import numpy as np
import torch

torch.version.cuda = "13.0"  # torchaudio compares it with its own, though only CPU code runs here
import torchaudio.functional as taf  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from cases.audio_signals import RATE, clicks, noise, voice  # noqa: E402

GOLDENS: dict[str, Callable[[], Any]] = {}


def golden(function: Callable[[], Any]) -> Callable[[], Any]:
    GOLDENS[function.__name__] = function
    return function


def spectrum(x: Any, n_fft: int = 512, hop: int = 160, **options: Any) -> Any:
    return librosa.stft(x, n_fft=n_fft, hop_length=hop, pad_mode="reflect", **options)


def magnitude() -> Any:
    return np.abs(spectrum(voice(0.5)))


@golden
def stft() -> Any:
    return spectrum(voice(0.1), 400, 160).T


@golden
def stft_windowed() -> Any:
    x = voice(0.1)
    return librosa.stft(x, n_fft=512, hop_length=100, win_length=300, window="hamming").T


@golden
def stft_odd() -> Any:
    return spectrum(voice(0.1), 333, 111, center=False).T


@golden
def istft() -> Any:
    return librosa.istft(spectrum(voice(0.3)), hop_length=160, length=4800)


@golden
def mel_slaney() -> Any:
    return librosa.filters.mel(sr=RATE, n_fft=400, n_mels=20)


@golden
def mel_htk() -> Any:
    return librosa.filters.mel(
        sr=RATE, n_fft=400, n_mels=20, htk=True, norm=None, fmin=50, fmax=7e3
    )


@golden
def mel_spectrogram() -> Any:
    return librosa.feature.melspectrogram(
        y=voice(0.5), sr=RATE, n_fft=512, hop_length=160, n_mels=40, pad_mode="reflect"
    ).T


@golden
def power_to_db() -> Any:
    mel = librosa.feature.melspectrogram(
        y=voice(0.5), sr=RATE, n_fft=512, hop_length=160, n_mels=40
    )
    return librosa.power_to_db(mel.T)


@golden
def whisper() -> Any:
    from transformers import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor(feature_size=80)
    return extractor(voice(1.0), sampling_rate=RATE)["input_features"][0][:, :120]


@golden
def whisper_128() -> Any:
    from transformers import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor(feature_size=128)
    return extractor(voice(1.0, 3), sampling_rate=RATE)["input_features"][0][:, 20:60]


@golden
def mfcc() -> Any:
    return librosa.feature.mfcc(S=np.log(magnitude()[:40] + 1e-3), n_mfcc=13).T


@golden
def delta() -> Any:
    features = torch.from_numpy(magnitude()[:13])
    return taf.compute_deltas(features, win_length=5).numpy().T


@golden
def delta_twice() -> Any:
    features = torch.from_numpy(magnitude()[:13])
    return taf.compute_deltas(taf.compute_deltas(features, 7), 7).numpy().T


def resampled(orig: int, new: int, **options: Any) -> Any:
    x = torch.from_numpy(voice(0.1, rate=orig))
    return taf.resample(x, orig, new, **options).numpy()


@golden
def resample_44100_16000() -> Any:
    return resampled(44100, 16000)


@golden
def resample_16000_22050() -> Any:
    return resampled(16000, 22050)


@golden
def resample_48000_16000() -> Any:
    return resampled(48000, 16000)


@golden
def resample_kaiser() -> Any:
    return resampled(
        16000,
        11025,
        lowpass_filter_width=64,
        rolloff=0.9475937167399596,
        resampling_method="sinc_interp_kaiser",
        beta=14.769656459379492,
    )


@golden
def centroid() -> Any:
    return librosa.feature.spectral_centroid(S=magnitude(), sr=RATE)[0]


@golden
def bandwidth() -> Any:
    return librosa.feature.spectral_bandwidth(S=magnitude(), sr=RATE)[0]


@golden
def rolloff() -> Any:
    return librosa.feature.spectral_rolloff(S=magnitude(), sr=RATE)[0]


@golden
def flatness() -> Any:
    return librosa.feature.spectral_flatness(S=magnitude())[0]


@golden
def contrast() -> Any:
    return librosa.feature.spectral_contrast(S=magnitude(), sr=RATE, n_bands=5).T


@golden
def zero_crossings() -> Any:
    rate = librosa.feature.zero_crossing_rate(
        noise(4000), frame_length=512, hop_length=256, center=False
    )[0]
    return rate * 512 / 511


@golden
def rms() -> Any:
    return librosa.feature.rms(y=voice(0.5), frame_length=512, hop_length=256, center=False)[0]


@golden
def yin() -> Any:
    return librosa.yin(
        voice(0.5), fmin=60, fmax=400, sr=RATE, frame_length=1024, hop_length=256, center=False
    )


@golden
def chroma_stft() -> Any:
    return librosa.feature.chroma_stft(S=magnitude() ** 2, sr=RATE, tuning=0.0).T


@golden
def chroma_cqt() -> Any:
    c = np.abs(noise(84 * 9).reshape(84, 9))
    return librosa.feature.chroma_cqt(C=c, threshold=0.0, bins_per_octave=12).T


@golden
def cqt_direct() -> Any:
    """The definition: products with librosa's own filters, sample by sample."""
    x = voice(0.5)
    frequencies = librosa.cqt_frequencies(n_bins=24, fmin=110.0, bins_per_octave=12)
    filters, lengths = librosa.filters.wavelet(freqs=frequencies, sr=RATE, norm=1, pad_fft=True)
    size = filters.shape[1]
    padded = np.pad(x.astype(np.float64), size // 2)
    frames = librosa.util.frame(padded, frame_length=size, hop_length=320)
    return (filters.conj() @ frames * np.sqrt(lengths)[:, None]).T


@golden
def cqt_librosa() -> Any:
    return np.abs(
        librosa.cqt(voice(0.5), sr=RATE, hop_length=320, fmin=110.0, n_bins=24, tuning=0.0)
    ).T


@golden
def hpss() -> Any:
    parts = librosa.decompose.hpss(magnitude()[:60], kernel_size=(9, 13), margin=(1.0, 2.0))
    return np.stack([part.T for part in parts])


@golden
def phase_vocoder() -> Any:
    z = spectrum(voice(0.3)).astype(np.complex128)
    return librosa.phase_vocoder(z, rate=1.3, hop_length=160)[:80].T


@golden
def griffin_lim() -> Any:
    s = np.abs(spectrum(voice(0.3))).astype(np.float64)
    return librosa.griffinlim(
        s, n_iter=4, hop_length=160, init=None, pad_mode="reflect", dtype=np.float64
    )


@golden
def onset_strength() -> Any:
    return librosa.onset.onset_strength(y=clicks(), sr=RATE, hop_length=512)


@golden
def onset_frames() -> Any:
    return librosa.onset.onset_detect(y=clicks(), sr=RATE, hop_length=512)


@golden
def tempogram() -> Any:
    envelope = librosa.onset.onset_strength(y=clicks(), sr=RATE, hop_length=512)
    return librosa.feature.tempogram(onset_envelope=envelope, win_length=64)[:, ::8].T


@golden
def tempo() -> Any:
    return np.concatenate(
        [
            librosa.feature.tempo(y=clicks(8.0, bpm), sr=RATE, hop_length=512)
            for bpm in (90.0, 120.0, 150.0)
        ]
    )


def compact(value: Any) -> Any:
    array = np.asarray(value)
    return array.astype({"f": np.float32, "c": np.complex64}.get(array.dtype.kind, array.dtype))


def main() -> None:
    default = ROOT / "tests" / "data" / "audio" / "goldens.npz"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {name: compact(make()) for name, make in GOLDENS.items()}
    np.savez_compressed(path, **values)
    for name, value in values.items():
        print(name, value.shape, value.dtype)
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
