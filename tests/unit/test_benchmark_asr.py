"""The suite of speech recognition, on a small model."""

from __future__ import annotations

import numpy as np
import pytest

from pygpukit.asr.batched import cut_at_pauses, find_speech
from pygpukit.benchmark import BenchmarkSuite
from pygpukit.benchmark.asr_long import SECONDS_ON_CPU, bursts


def test_suite_on_cpu_simulation() -> None:
    report = BenchmarkSuite(0, 1).add_asr().run(verbose=False)
    found = [(row.name, row.params["batch"]) for row in report.results]
    pairs = [("encoder", 1), ("decode", 1), ("encoder", 16), ("decode", 16), ("long", 16)]
    assert found == pairs
    for row in report.results[1:4:2]:
        per_step = row.params["batch"] / row.median_us * 1e6
        assert row.extra["tokens_per_s"] == pytest.approx(per_step)
    long = report.results[-1]
    assert long.params["seconds"] == SECONDS_ON_CPU
    assert long.extra["pieces"] > 3
    assert long.extra["times_real_time"] == pytest.approx(SECONDS_ON_CPU * 1e6 / long.median_us)


def test_the_recording_is_cut_as_speech_is() -> None:
    sound = bursts(120)
    samples = sound.to_numpy()
    assert samples.shape == (120 * 16000,)
    speech = find_speech(sound)
    pieces = cut_at_pauses(speech, samples.size, 30 * 16000)
    assert 5 <= len(pieces) <= 16
    held = np.zeros(samples.size, bool)
    for begin, end in pieces:
        assert 0 < end - begin <= 30 * 16000
        held[begin:end] = True
    assert not samples[~held].any()
