"""What a checked function made and did not release."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pygpukit as gp

KEPT: list[Any] = []


@pytest.fixture(autouse=True)
def _clear() -> Any:
    yield
    KEPT.clear()


def leaks(fn: Any) -> dict[str, tuple[int, int]]:
    return {leak.kind: (leak.count, leak.bytes) for leak in gp.sim.check(fn).leaks}


def test_what_is_released_or_returned_is_no_leak() -> None:
    def clean() -> Any:
        stream = gp.Stream()
        with stream:
            x = gp.ones(64) * 2
        gp.CudaEvent().record()
        return {"x": [x, x + 1]}

    assert leaks(clean) == {}


@pytest.mark.parametrize(
    ("kind", "make", "size"),
    [
        ("array", lambda: gp.ones(64), 256),
        ("stream", gp.Stream, 0),
        ("event", gp.CudaEvent, 0),
        ("graph", gp.CudaGraph, 0),
        ("pinned memory", lambda: gp.pinned_empty(16, "float32"), 64),
    ],
)
def test_each_kind_is_counted(kind: str, make: Any, size: int) -> None:
    def leaky() -> None:
        KEPT.extend([make(), make()])
        make()

    found = leaks(leaky)
    assert found == {kind: (2, 2 * size)}
    report = gp.sim.check(leaky)
    assert report.ok
    assert f"not released: {kind}, 2 of them" in str(report)


def test_views_count_once_and_older_arrays_not_at_all() -> None:
    old = gp.ones(64)

    def leaky() -> None:
        x = gp.ones(128)
        KEPT.extend([x, x[3:], x.reshape(2, 64), old])

    assert leaks(leaky) == {"array": (1, 512)}


SCRIPT = """
import sys
import pygpukit as gp
x = gp.ones(64)
if "leak" in sys.argv:
    gp.kept = [gp.ones(32), x]
"""


@pytest.mark.parametrize("ops", [[], ["--ops"]], ids=["cpu", "device"])
def test_the_command_line_reports_what_outlives_the_script(tmp_path: Path, ops: list[str]) -> None:
    if not gp.is_nvrtc_available():
        pytest.skip("needs NVRTC")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "pygpukit", "check", *ops, str(script)]
    for argument, words in (("leak", "not released: array, 2 of them, 384 bytes"), ("no", "")):
        done = subprocess.run(
            [*command, argument], env=dict(os.environ), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert ("not released" in done.stderr) == bool(words), done.stderr
        assert words in done.stderr
