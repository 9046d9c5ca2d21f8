"""The kernel cache under torture: races, read-only and full disks, damage, versions, failures."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pygpukit import _native

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.skipif(
    not _native.nvrtc_info()["available"], reason="NVRTC is not installed"
)

COMPILE = """
import sys
from pygpukit import _native
ptx, log = _native.compile_to_ptx("__global__ void f%s(int* x) { *x = 42; }")
assert "st.global" in ptx
"""


def run(
    folder: pathlib.Path, program: str = COMPILE % "", prefix: Sequence[str] = (), **env: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", program],
        env={**os.environ, "PYGPUKIT_CACHE_DIR": str(folder), "PYGPUKIT_DEVICE": "cpu", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check_finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out, err


def entries(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_sixteen_processes_on_one_empty_cache(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "cache"
    for process in [run(folder) for _ in range(16)]:
        _, err = check_finished(process)
        assert err == ""
    assert len(entries(folder)) == 1, "one entry and no temporary files"


def test_damaged_entries_are_a_miss_and_are_replaced(tmp_path: pathlib.Path) -> None:
    check_finished(run(tmp_path))
    (entry,) = entries(tmp_path)
    good = entry.read_bytes()
    step = max(1, len(good) // 12)
    damages = [good[:cut] for cut in (0, 1, len(good) // 2, len(good) - 1)]
    damages += [
        good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :] for at in range(0, len(good), step)
    ]
    program = f"""
import pathlib
from pygpukit import _native
entry = pathlib.Path({str(entry)!r})
good = entry.read_bytes()
for damage in {damages!r}:
    entry.write_bytes(damage)
    ptx, _ = _native.compile_to_ptx("__global__ void f(int* x) {{ *x = 42; }}")
    assert "st.global" in ptx
    assert entry.read_bytes()[: len(good)] == good
"""
    check_finished(run(tmp_path, program))


def test_a_file_in_the_way_means_memory_only_and_one_warning(tmp_path: pathlib.Path) -> None:
    """Works for root too, unlike a read-only folder."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    program = (COMPILE % "") + (COMPILE % "2")
    _, err = check_finished(run(blocked / "cache", program))
    assert err.count("warning") == 1
    assert "cache" in err


def test_read_only_folder(tmp_path: pathlib.Path) -> None:
    """Entries made before are served; new ones stay in memory, with one warning."""
    folder = tmp_path / "cache"
    check_finished(run(folder))
    program = (COMPILE % "") + (COMPILE % "2") + (COMPILE % "3")
    if os.geteuid() != 0:
        folder.chmod(0o555)
        _, err = check_finished(run(folder, program))
    else:  # root may write anywhere but on a read-only mount
        mount = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
        shell = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh"]
        if subprocess.run([*shell, "true"], capture_output=True, check=False).returncode != 0:
            pytest.skip("root, and no private mounts here")
        _, err = check_finished(run(folder, program, prefix=shell))
    assert err.count("warning") == 1
    assert len(entries(folder)) == 1


def test_full_disk(tmp_path: pathlib.Path) -> None:
    """A file size limit makes every write fail short, as a full disk does."""
    program = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    program += "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n" + (COMPILE % "")
    _, err = check_finished(run(tmp_path, program))
    assert err.count("warning") == 1
    assert entries(tmp_path) == [], "no half-written entry, no temporary file"
    check_finished(run(tmp_path))
    assert len(entries(tmp_path)) == 1


def test_two_versions_side_by_side(tmp_path: pathlib.Path) -> None:
    """Entries of another NVRTC or package version have other keys; a foreign schema is a miss."""
    check_finished(run(tmp_path))
    (entry,) = entries(tmp_path)
    data = bytearray(entry.read_bytes())
    at = data.find(b"\x01", 4, 16)
    assert at > 0, "the schema number follows the magic"
    data[at] += 1
    entry.write_bytes(bytes(data))
    check_finished(run(tmp_path))
    (again,) = entries(tmp_path)
    assert again == entry
    assert again.read_bytes() != bytes(data)


def test_options_and_sources_have_their_own_entries(tmp_path: pathlib.Path) -> None:
    program = """
from pygpukit import _native
source = "__global__ void f(int* x) { *x = VALUE; }"
for options in (["-DVALUE=1"], ["-DVALUE=2"], ["-DVALUE=1"]):
    ptx, _ = _native.compile_to_ptx(source, "k.cu", options)
    assert f", {options[0][-1]};" in ptx
"""
    check_finished(run(tmp_path, program))
    assert len(entries(tmp_path)) == 2


def test_edited_include_is_a_miss(tmp_path: pathlib.Path) -> None:
    program = f"""
import pathlib
from pygpukit import _native
header = pathlib.Path({str(tmp_path)!r}) / "value.h"
for value in (3, 4):
    header.write_text(f"#define VALUE {{value}}\\n")
    source = '#include "value.h"\\n__global__ void f(int* x) {{ *x = VALUE; }}'
    ptx, _ = _native.compile_to_ptx(source, "k.cu", ["-I", {str(tmp_path)!r}])
    assert f", {{value}};" in ptx
"""
    check_finished(run(tmp_path / "cache", program))


def test_failed_compile_fails_every_time(tmp_path: pathlib.Path) -> None:
    program = """
import pygpukit as gp
from pygpukit import _native
for _ in range(3):
    try:
        _native.compile_to_ptx("__global__ void f() { nonsense }")
        raise SystemExit("compiled?")
    except gp.CompileError as error:
        assert "nonsense" in error.compilation_log
"""
    check_finished(run(tmp_path, program))
    check_finished(run(tmp_path, program))
    assert entries(tmp_path) == []


def test_disabled_cache_writes_nothing(tmp_path: pathlib.Path) -> None:
    check_finished(run(tmp_path / "cache", PYGPUKIT_CACHE_DISABLE="1"))
    assert not (tmp_path / "cache").exists()


def test_stat_and_clear(tmp_path: pathlib.Path) -> None:
    check_finished(run(tmp_path))
    stat = """
from pygpukit import _native
info = _native.cache_info()
assert info["entries"] == 1 and info["bytes"] > 0, info
assert _native.cache_clear() == 1
assert _native.cache_info()["entries"] == 0
"""
    check_finished(run(tmp_path, stat))
