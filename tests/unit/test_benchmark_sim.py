"""python -m pygpukit.benchmark --sim: lane operations a second, start-up."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases.sim.driver import simulator

from pygpukit import _native
from pygpukit.benchmark import BenchmarkReport, sim
from pygpukit.benchmark.__main__ import main

pytestmark = pytest.mark.skipif(
    not (simulator().exists() and _native.nvrtc_info()["available"]), reason="no simulator or NVRTC"
)


def test_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim, "REPEATS", 1)
    file = tmp_path / "sim.json"
    assert main(["--sim", "--quick", "--quiet", "--save", str(file)]) == 0
    report = BenchmarkReport.load(file)
    assert [result.name for result in report.results] == [*sim.NAMES, "startup"]
    for result in report.results[:-1]:
        assert result.correct
        assert result.extra["million_lane_ops_per_s"] > 1
    assert sum("lane operations" in note for note in report.notes) == len(sim.NAMES)
