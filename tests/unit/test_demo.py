"""examples/demo.py, which `make demo` runs: parts pass, and a failure shows in the exit code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.py"
PARTS = [
    *("arrays", "fused expression", "gemm", "custom kernel", "cuda graph", "memory", "scheduler"),
    *("language model", "speech to text"),
]


def run_demo(folder: Path, sabotage: str = "", *parts: str) -> subprocess.CompletedProcess[str]:
    code = (
        f"import runpy; import pygpukit as gp\n{sabotage}\n"
        f"runpy.run_path({str(DEMO)!r}, run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *parts],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_part_passes(tmp_path: Path) -> None:
    before = os.times()
    done = run_demo(tmp_path)
    spent = os.times()
    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(r"^  ok      (.{17}) (.*)$", done.stdout, re.MULTILINE)
    assert [name.strip() for name, _ in lines] == PARTS
    for name, line in lines:
        assert re.search(r"\d", line), f"{name} shows no figure"
    assert len(done.stdout.splitlines()) == len(PARTS) + 4
    assert f"{len(PARTS)} of {len(PARTS)} parts passed" in done.stdout
    # Processor time: the machine may have other work.
    user = spent.children_user - before.children_user
    assert user + spent.children_system - before.children_system < 10


# What is broken, and the part that must notice.
SABOTAGE = {
    "arrays": "mean = gp.mean; gp.mean = lambda *a, **k: mean(*a, **k) + 1",
    "fused expression": "fuse = gp.fuse; gp.fuse = lambda f: fuse(lambda *a: f(*a) + 1e-3)",
    "gemm": "linear = gp.linear; gp.linear = lambda *a: linear(*a) * 1.01",
    "custom kernel": "jit = gp.jit; gp.jit = lambda *a, **k: jit(*a, reference=lambda *x: 0)",
    "cuda graph": "add = gp.add; gp.add = lambda a, b, out: add(add(a, b), 1.0, out=out)",
    "memory": "gp.memory.set_evictable_default = lambda size: None",
    "scheduler": "gp.scheduler.submit = None",
    "language model": (
        "load = gp.llm.load; gp.llm.load = lambda *a, **k: load(a[0], 'bfloat16', **k)"
    ),
    "speech to text": (
        "import pygpukit.ops.audio as sound; load = sound.load\n"
        "def quiet(*a, **k):\n    found = load(*a, **k); found.data[:] = 0.0; return found\n"
        "sound.load = quiet"
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_failure_shows_in_the_exit_code(part: str, tmp_path: Path) -> None:
    other = "arrays" if part != "arrays" else "gemm"
    done = run_demo(tmp_path, SABOTAGE[part], part, other)
    assert done.returncode == 1, done.stdout + done.stderr
    failed = re.findall(r"^  FAILED  (.{17}) ", done.stdout, re.MULTILINE)
    assert [name.strip() for name in failed] == [part]
    assert "1 of 2 parts passed" in done.stdout
