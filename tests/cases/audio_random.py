"""Cases of gp.ops.audio against SciPy over random signals: three seeds each of noise of an odd
length, of noise clipped to 1, and of noise that falls silent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft
import scipy.ndimage
import scipy.signal

import pygpukit as gp
from cases.audio import Case, Put
from cases.audio_signals import RATE, noise
from pygpukit.ops import audio

SEEDS = (101, 202, 303)


def odd(seed: int) -> Any:
    return noise(2 * (seed % 400) + 1001, seed)


def clipped(seed: int) -> Any:
    return np.clip(3 * noise(1600, seed), -1, 1)


def fading(seed: int) -> Any:
    x = noise(1537, seed)
    x[400:900] = 0
    x[1200:] = 0
    return x


SIGNALS = {"odd": odd, "clipped": clipped, "fading": fading}


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed + 1)


def sections(seed: int) -> Any:
    kind = ("lowpass", "highpass", "bandpass")[seed % 3]
    edge = rng(seed).uniform(300, 2000)
    edges = [edge, 2 * edge] if kind == "bandpass" else edge
    return scipy.signal.butter(4, edges, kind, fs=RATE, output="sos")


def taps(seed: int) -> Any:
    return noise(int(rng(seed).integers(2, 90)), seed + 7)


def scipy_stft(x: Any, window: Any, n_fft: int, hop: int) -> Any:
    """Without SciPy's division by the sum of the window."""
    values = scipy.signal.get_window(window, n_fft)
    z = scipy.signal.stft(x, 1.0, values, n_fft, n_fft - hop, boundary=None, padded=False)[2]
    return (z * values.sum()).T


def scipy_istft(z: Any, n_fft: int, hop: int) -> Any:
    values = scipy.signal.get_window("hann", n_fft)
    return scipy.signal.istft(
        z.T / values.sum(), 1.0, values, n_fft, n_fft - hop, boundary=True, scaling="spectrum"
    )[1]


def widths(seed: int) -> int:
    return int(rng(seed).integers(1, 40))


# name: (ours of a signal on the device and a seed, SciPy's, tolerance)
FUNCTIONS: dict[str, tuple[Callable[[Any, int], Any], Callable[[Any, int], Any], float]] = {
    "sosfilt": (
        lambda x, seed: audio.sosfilt(x, sections(seed)),
        lambda x, seed: scipy.signal.sosfilt(sections(seed), x.astype("f8")),
        1e-6,
    ),
    "design_biquad": (
        lambda x, seed: audio.biquad(x, *audio.design_biquad("lowpass", 900.0 + seed, RATE)),
        lambda x, seed: scipy.signal.lfilter(
            *scipy.signal.butter(2, 900.0 + seed, fs=RATE), x.astype("f8")
        ),
        1e-6,
    ),
    "fir_filter": (
        lambda x, seed: audio.fir_filter(x, taps(seed)),
        lambda x, seed: scipy.signal.lfilter(taps(seed), [1.0], x.astype("f8")),
        1e-5,
    ),
    **{
        f"fftconvolve-{mode}": (
            lambda x, seed, mode=mode: audio.fftconvolve(x, taps(seed), mode),
            lambda x, seed, mode=mode: scipy.signal.fftconvolve(x.astype("f8"), taps(seed), mode),
            1e-5,
        )
        for mode in ("full", "same", "valid")
    },
    "median_filter": (
        lambda x, seed: audio.median_filter(x, widths(seed)),
        lambda x, seed: scipy.ndimage.median_filter(x, widths(seed), mode="reflect"),
        0.0,
    ),
    "autocorrelation": (
        lambda x, seed: audio.autocorrelation(x, 100),
        lambda x, seed: scipy.signal.correlate(x.astype("f8"), x.astype("f8"))[len(x) - 1 :][:100],
        1e-5,
    ),
    "stft": (
        lambda x, seed: audio.stft(x, 200, 80, center=False, window="blackman"),
        lambda x, seed: scipy_stft(x.astype("f8"), "blackman", 200, 80),
        1e-6,
    ),
    "stft-kaiser": (
        lambda x, seed: audio.stft(x, 127, 31, center=False, window=("kaiser", 5.0 + seed % 7)),
        lambda x, seed: scipy_stft(x.astype("f8"), ("kaiser", 5.0 + seed % 7), 127, 31),
        1e-6,
    ),
    "istft": (
        lambda x, seed: audio.istft(audio.stft(x, 256, 64), 64),
        lambda x, seed: scipy_istft(
            scipy_stft(np.pad(x.astype("f8"), 128, "reflect"), "hann", 256, 64), 256, 64
        ),
        2e-6,
    ),
    "mfcc": (
        lambda x, seed: audio.mfcc(gp.reshape(x[:1000], (50, 20)), 13),
        lambda x, seed: scipy.fft.dct(x[:1000].reshape(50, 20).astype("f8"), norm="ortho")[:, :13],
        1e-6,
    ),
    "delta": (
        lambda x, seed: audio.delta(gp.reshape(x[:1000], (50, 20)), width=1 + seed % 4),
        lambda x, seed: scipy.signal.savgol_filter(
            x[:1000].reshape(50, 20).astype("f8"),
            2 * (1 + seed % 4) + 1,
            1,
            1,
            axis=0,
            mode="nearest",
        ),
        1e-6,
    ),
    "deemphasis": (
        lambda x, seed: audio.deemphasis(gp.copy(x), 0.9),
        lambda x, seed: scipy.signal.lfilter([1.0], [1.0, -0.9], x.astype("f8")),
        1e-6,
    ),
}


def _cases() -> list[Case]:
    cases = []
    for name, (ours, theirs, tolerance) in FUNCTIONS.items():
        for kind, make in SIGNALS.items():
            for seed in SEEDS:

                def run(put: Put, make: Any = make, ours: Any = ours, seed: int = seed) -> Any:
                    return ours(put(make(seed)), seed)

                def want(make: Any = make, theirs: Any = theirs, seed: int = seed) -> Any:
                    return theirs(make(seed), seed)

                cases.append(Case(f"{name}-{kind}-{seed}", run, want, tolerance))
    return cases


WINDOWS: tuple[Any, ...] = (
    *("boxcar", "hann", "hamming", "blackman", "nuttall", "blackmanharris", "bartlett", "triang"),
    *("cosine", ("kaiser", 8.6), ("gaussian", 7.0)),
)


def _window(window: Any, n: int, periodic: bool) -> Case:
    return Case(
        f"window-{window}-{n}-{periodic}",
        lambda put: put(audio.get_window(window, n, periodic, dtype="float64").to_numpy()),
        lambda: scipy.signal.get_window(window, n, periodic),
        1e-14,
    )


RANDOM = [
    *_cases(),
    *(_window(w, n, p) for w in WINDOWS for n in (1, 2, 31, 64) for p in (True, False)),
]
