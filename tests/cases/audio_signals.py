"""Signals of the audio tests. NumPy only, for scripts/make_audio_goldens.py."""

from __future__ import annotations

from typing import Any

import numpy as np

RATE = 16000


def voice(seconds: float = 1.0, seed: int = 0, rate: int = RATE, pitch: float = 140.0) -> Any:
    """Harmonics of a gliding pitch in syllables, and noise; float32."""
    rng = np.random.default_rng(seed)
    n = int(seconds * rate)
    t = np.arange(n) / rate
    phase = 2 * np.pi * np.cumsum(pitch * (1 + 0.1 * np.sin(2 * np.pi * 0.7 * t))) / rate
    wave = sum(np.sin(k * phase + k) / k for k in range(1, 12))
    envelope = 0.05 + np.clip(np.sin(2 * np.pi * 2.0 * t), 0, None)
    return (0.2 * envelope * wave + 0.002 * rng.normal(size=n)).astype(np.float32)


def clicks(seconds: float = 4.0, bpm: float = 120.0, rate: int = RATE, seed: int = 1) -> Any:
    """Decaying noise on every beat; float32."""
    rng = np.random.default_rng(seed)
    x = 0.001 * rng.normal(size=int(seconds * rate))
    decay = np.exp(-np.arange(rate // 20) / (0.01 * rate))
    step = int(rate * 60 / bpm)
    for start in range(step // 2, len(x) - len(decay), step):
        x[start : start + len(decay)] += 0.5 * decay * rng.normal(size=len(decay))
    return x.astype(np.float32)


def noise(n: int, seed: int = 2, lines: int | None = None) -> Any:
    """float32"""
    rng = np.random.default_rng(seed)
    return rng.normal(size=n if lines is None else (lines, n)).astype(np.float32)
