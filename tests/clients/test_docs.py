"""The blocks of docs/interop.md about other libraries."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import doc_blocks

LIBRARIES = ("dask", "einops", "sklearn", "xarray")


def test_page(tmp_path: Path) -> None:
    here = [name for name in LIBRARIES if importlib.util.find_spec(name) is not None]
    page = doc_blocks.ROOT / "docs" / "interop.md"
    done = subprocess.run(
        [sys.executable, doc_blocks.__file__, str(page), *here],
        cwd=tmp_path,
        env={**os.environ, "PYGPUKIT_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > len(here)
