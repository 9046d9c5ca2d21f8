"""python -m pygpukit top, and what a process publishes for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases.tasks import until

from pygpukit._cli import main
from pygpukit.core.errors import OperationError
from pygpukit.scheduler import add_section, inspection, publishing

WATCHED = """
import threading, pygpukit as gp
gate = threading.Event()
task = gp.scheduler.submit(gate.wait, name="train", memory=gp.scheduler.MB)
print("ready", flush=True)
input()
gate.set()
task.result()
"""


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def start(variables: dict[str, str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHED],
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_nothing_is_published_unless_asked_for(
    private: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start({"PYGPUKIT_TOP": ""})
    try:
        assert main(["top", "--once"]) == 1
        assert "PYGPUKIT_TOP=1" in capsys.readouterr().out
        assert not (private / "pygpukit").exists()
    finally:
        process.communicate("\n", timeout=20)


def test_a_process_is_shown_and_its_file_goes_with_it(
    private: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start({"PYGPUKIT_TOP": "1"})
    try:
        file = private / "pygpukit" / f"top-{process.pid}.json"
        until(lambda: file.exists() and "train" in file.read_text())
        assert file.stat().st_mode & 0o077 == 0
        assert file.parent.stat().st_mode & 0o077 == 0
        assert main(["top", "--once"]) == 0
        text = capsys.readouterr().out
        assert f"process {process.pid}" in text
        assert "train" in text
        assert "running" in text
        assert "\x1b" not in text  # plain where there is no terminal
        assert main(["top", "--once", "--json", "--pid", str(process.pid)]) == 0
        (data,) = json.loads(capsys.readouterr().out)["processes"]
        assert data["snapshot"]["tasks"][0]["name"] == "train"
        assert main(["top", "--once", "--pid", "1"]) == 1
    finally:
        process.communicate("\n", timeout=20)
    assert process.returncode == 0
    assert not file.exists()


def test_files_of_dead_processes_and_other_versions(private: Path) -> None:
    folder = publishing.private_folder()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    (folder / f"top-{child.pid}.json").write_text(json.dumps({"pid": child.pid, "snapshot": {}}))
    (folder / "top-1.json").write_text("{broken")
    assert publishing.published() == []
    assert not (folder / f"top-{child.pid}.json").exists()
    other = {"pid": os.getpid(), "command": "x", "snapshot": {"unknown": 1}}
    (folder / f"top-{os.getpid()}.json").write_text(json.dumps(other))
    assert main(["top", "--once"]) == 0


def test_a_folder_that_others_can_write_is_refused(private: Path) -> None:
    folder = private / "pygpukit"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(OperationError, match="others could write"):
        publishing.publish()


def test_publish_and_unpublish(private: Path) -> None:
    from pygpukit import scheduler

    try:
        scheduler.publish()
        scheduler.publish()
        until(lambda: bool(publishing.published()))
        scheduler.unpublish()
        assert publishing.published() == []
    finally:
        scheduler.unpublish()
        scheduler.shutdown()


def test_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["top", "--interval", "0"])
    assert stopped.value.code == 2
    assert "--interval 0" in capsys.readouterr().err


def test_sections_may_hold_numpy_numbers(private: Path) -> None:
    add_section("loss", lambda: {"mean": np.float32(0.5)})
    try:
        publishing.publish()
        until(lambda: bool(publishing.published()))
        assert publishing.published()[0]["snapshot"]["sections"] == {"loss": {"mean": "0.5"}}
    finally:
        publishing.unpublish()
        inspection._sources.clear()
