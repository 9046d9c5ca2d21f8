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
# Arrays on the CPU: a fault loses a device.
SIMULATED = ("simulator.md",)
ON_CPU = {k: v for k, v in os.environ.items() if k != "PYGPUKIT_REQUIRE_GPU"} | {
    "PYGPUKIT_DEVICE": "cpu"
}


@pytest.mark.parametrize(("page", "fence"), RUNS, ids=lambda value: getattr(value, "name", value))
def test_page_runs(page: Path, fence: str, tmp_path: Path) -> None:
    wanted = ["gpu"]
    if fence != "gpu":
        pytest.importorskip(fence)
        wanted.append(fence)
    done = subprocess.run(
        [sys.executable, doc_blocks.__file__, str(page), *wanted],
        cwd=tmp_path,
        env=ON_CPU if page.name in SIMULATED else None,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 0
