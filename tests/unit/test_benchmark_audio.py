"""python -m pygpukit.benchmark --audio: cases, correctness."""

from __future__ import annotations

from typing import Any

import pytest

import pygpukit as gp
from pygpukit.benchmark import BenchmarkSuite
from pygpukit.benchmark.audio import TASKS, Task, audio_case


def test_the_suite_on_cpu_simulation() -> None:
    done = BenchmarkSuite(1, 2, quick=True).add_audio().run(verbose=False)
    assert {row.name for row in done.results} == {"stft", "mel_spectrogram"}
    assert all(row.correct for row in done.results)
    assert all((row.bandwidth_gbps or 0) > 0 for row in done.results)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_wrong_results_are_found(task: Task) -> None:
    case = audio_case(task, 2, 3000)
    entry = case.entries[0]
    arrays = case.arrays()
    out: Any = entry.build(*arrays)()
    assert entry.error is not None
    assert entry.error(arrays, out) <= entry.tolerance
    assert entry.error(arrays, gp.multiply(out, 1.001)) > entry.tolerance
