"""The blocks of the documentation on a GPU, those that need a GPU or another library included."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import doc_blocks
import pytest

# "gpu" for every page with Python, and each library that a page shows.
RUNS = [
    (page, fence)
    for page in doc_blocks.PAGES
    if doc_blocks.fences(page)
    for fence in sorted({"gpu", *doc_blocks.fences(page)} - {"", "excerpt"})
]
SIMULATED = ("simulator.md",)  # arrays on the CPU: a fault loses a device


@pytest.mark.parametrize(("page", "fence"), RUNS, ids=lambda value: getattr(value, "name", value))
def test_page_runs(page: Path, fence: str, tmp_path: Path) -> None:
    wanted = ["gpu"]
    if fence != "gpu":
        pytest.importorskip(fence)
        wanted.append(fence)
    done = subprocess.run(
        [sys.executable, doc_blocks.__file__, str(page), *wanted],
        cwd=tmp_path,
        env=dict(os.environ, PYGPUKIT_DEVICE="cpu") if page.name in SIMULATED else None,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 0
