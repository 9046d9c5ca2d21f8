"""Tests that need a GPU. Without one they are skipped; PYGPUKIT_REQUIRE_GPU=1 makes that an error."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pygpukit import _native

if TYPE_CHECKING:
    from collections.abc import Callable


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if _native.default_device()[0].startswith("cuda"):
        return
    skip = pytest.mark.skip(reason="no GPU: " + _native.default_device()[1].splitlines()[0])
    for item in items:
        if "gpu" in item.path.parts:
            item.add_marker(skip)


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a process of its own, with extra environment variables."""

    def run(program: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
