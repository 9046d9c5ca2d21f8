"""python -m pygpukit.benchmark --linalg: every op beside NumPy, wrong results are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pygpukit.benchmark import BenchmarkReport, linalg
from pygpukit.benchmark.__main__ import main

OPS = {"cholesky", "solve", "inv", "qr", "eigh", "svd"}


def test_the_suite(tmp_path: Path) -> None:
    file = tmp_path / "linalg.json"
    command = ["--linalg", "--quick", "--peers", "numpy", "--iterations", "2", "--save", str(file)]
    assert main([*command, "--quiet"]) == 0
    rows = BenchmarkReport.load(file).results
    assert {row.name for row in rows} == OPS
    assert {row.impl for row in rows} == {"pygpukit", "numpy"}
    assert all(row.correct for row in rows if row.impl == "pygpukit")
    assert all(row.tflops for row in rows)


def test_wrong_results_are_found() -> None:
    for case in linalg._cases(3, 6, "float64", tuple(sorted(OPS))):
        x = linalg._values(case)
        code = eval(f"lambda x: {case.code['numpy']}", {"xp": np})
        right = code(x)
        assert linalg._is_right(case, right, x), case.name
        wrong = right.copy()
        wrong[1, 0, 0] += 1e-3
        assert not linalg._is_right(case, wrong, x), case.name
