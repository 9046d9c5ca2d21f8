"""gp.ops.audio on a GPU: the case tables of tests/unit, graphs, no hidden synchronisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases.audio import CASES, MUST_RAISE, Case
from cases.audio_random import RANDOM
from cases.audio_signals import noise
from cases.must_raise import Refused
from cases.run_audio import run_case, run_must_raise

import pygpukit as gp
from pygpukit.ops import audio


@pytest.mark.parametrize("case", [*CASES, *(c for c in RANDOM if "-101" in c.name)], ids=str)
def test_case(case: Case) -> None:
    run_case(case, "cuda")


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: Refused) -> None:
    run_must_raise(case, "cuda")


def both(function: Any, *arrays: Any) -> tuple[Any, Any]:
    """What a function gives on the GPU and on the CPU."""
    results = [
        function(*(gp.from_numpy(a, device=device) for a in arrays)) for device in ("cuda", "cpu")
    ]
    return results[0].to_numpy(), results[1].to_numpy()


@pytest.mark.parametrize("n_fft", gp._native.audio_fused_lengths())
def test_every_fused_length(n_fft: int) -> None:
    x = noise(5000, lines=3)
    for function in (
        lambda a: audio.stft(a, n_fft, n_fft // 3),
        lambda a: audio.mel_spectrogram(a, n_fft, n_fft // 3, 40),
        lambda a: audio.stft(a[:, : n_fft // 3], n_fft, 64),  # padding from both ends meets
    ):
        got, want = both(function, x)
        np.testing.assert_allclose(got, want, atol=3e-6 * np.abs(want).max())


@pytest.mark.parametrize("samples", [1, 160, 4099, 480000])
def test_whisper_features(samples: int) -> None:
    got, want = both(lambda a: audio.whisper_log_mel(a, 80), noise(samples, lines=2))
    np.testing.assert_allclose(got, want, atol=1e-4)


@pytest.mark.parametrize("n", [1, 255, 2048, 2049, 300001])
def test_filters_of_long_signals(n: int) -> None:
    sos = [[0.2, -0.3, 0.2, 1.0, -1.7, 0.8], [1.0, 0.5, 0.1, 1.0, 0.2, -0.3]]
    got, want = both(lambda a: audio.sosfilt(a, sos), noise(n, lines=2))
    np.testing.assert_allclose(got, want, atol=1e-6 * np.abs(want).max())


def test_many_lines() -> None:
    x = noise(40, lines=70000)
    got, want = both(lambda a: audio.resample(a, 2, 1), x)
    np.testing.assert_allclose(got, want, atol=1e-6)
    got, want = both(lambda a: audio.zero_crossing_rate(a, 20, 10), x)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_features_in_a_graph() -> None:
    x = gp.from_numpy(noise(16000), device="cuda")
    want = audio.whisper_log_mel(x).to_numpy()  # tables are uploaded by the first call
    out = gp.zeros(want.shape, device="cuda")
    graph = gp.CudaGraph()
    with graph:
        out[...] = audio.whisper_log_mel(x)
    graph.replay()
    np.testing.assert_array_equal(out.to_numpy(), want)
