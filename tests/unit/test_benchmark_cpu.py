"""python -m pygpukit.benchmark --cpu: every case beside NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pygpukit.benchmark import BenchmarkReport, cpu
from pygpukit.benchmark.__main__ import main


def test_suite(tmp_path: Path) -> None:
    file = tmp_path / "cpu.json"
    command = ["--cpu", "--quick", "--quiet", "--iterations", "1", "--save", str(file)]
    assert main(command) == 0
    report = BenchmarkReport.load(file)
    for impl in ("pygpukit", "numpy"):
        found = [r.name for r in report.results if r.impl == impl]
        assert found == [*cpu.CASES, *cpu.CASES]
    assert all(r.min_us > 0 for r in report.results)
    assert sum("NumPy" in note for note in report.notes) == 2


def test_cases_give_numpys_results() -> None:
    ours, theirs = cpu._sides(9)
    for name, code in cpu.CASES.items():
        if name in ("random", "normal"):
            continue
        mine, numpys = (step() for step in cpu._steps(code, (ours, theirs)))
        np.testing.assert_allclose(mine.to_numpy(), numpys, rtol=1e-5, atol=1e-6, err_msg=name)
