"""python -m pygpukit, and the programs in examples/, as a user starts them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pygpukit as gp
from pygpukit._cli import main
from pygpukit._cli.report import CPU_SIMULATION, FULL_JIT, collect, cuda_version, render
from pygpukit._cli.terminal import ProgressLine, Style, human_bytes, use_color

Run = Callable[..., "subprocess.CompletedProcess[str]"]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NO_DRIVER = {"PYGPUKIT_DEVICE": "", "PYGPUKIT_CUDA_DRIVER": "no-such-driver.so"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """run(*arguments, VARIABLE=value): Python with a private cache; "" unsets a variable."""

    def start(
        *arguments: str, stdin: str | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYGPUKIT_")}
        environment |= {"PYGPUKIT_CACHE_DIR": str(tmp_path / "cache"), "PYGPUKIT_DEVICE": "cpu"}
        environment |= variables
        return subprocess.run(
            [sys.executable, *arguments],
            env={k: v for k, v in environment.items() if v},
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return start


# --- the report ---------------------------------------------------------------------------------


def test_report_without_driver(run: Run) -> None:
    done = run("-m", "pygpukit", **NO_DRIVER)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert gp.__version__ in done.stdout
    assert "CPU simulation" in done.stdout
    assert "CUDA driver not detected" in done.stdout
    assert "no-such-driver.so" in done.stdout
    assert "\x1b" not in done.stdout  # no terminal, no colour


def test_json_report(run: Run, tmp_path: Path) -> None:
    hidden = {"PYGPUKIT_CUBLASLT_PATH": "/no/such/cublaslt"}
    done = run("-m", "pygpukit", "--json", **NO_DRIVER, **hidden)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["version"] == gp.__version__
    assert report["mode"] == CPU_SIMULATION
    assert report["device"] == "cpu"
    assert report["devices"] == []
    assert report["driver"]["loaded"] is False
    assert any("no-such-driver.so" in line for line in report["driver"]["tried"])
    assert report["cache"] == {
        "enabled": True,
        "folder": str(tmp_path / "cache"),
        "entries": 0,
        "bytes": 0,
    }
    assert report["variables"]["PYGPUKIT_CUDA_DRIVER"] == "no-such-driver.so"
    assert report["cublaslt"]["available"] is False
    assert report["cublaslt"]["version"] is None
    assert "/no/such/cublaslt" in report["cublaslt"]["tried"][0]
    assert set(report) >= {"nvrtc", "bundle", "python", "platform", "why"}


def test_report_on_cublaslt(run: Run, fake_cublaslt: str) -> None:
    hidden = run("-m", "pygpukit", PYGPUKIT_CUBLASLT_PATH="/no/such/cublaslt").stdout
    assert "cuBLASLt   not found; optional" in hidden
    found = run("-m", "pygpukit", PYGPUKIT_CUBLASLT_PATH=fake_cublaslt).stdout
    assert f"cuBLASLt   12.9, {fake_cublaslt}; used where it is faster" in found


def test_missing_nvrtc_lists_what_was_tried(run: Run) -> None:
    done = run("-m", "pygpukit", PYGPUKIT_NVRTC_PATH="/no/such/nvrtc")
    assert done.returncode == 0
    assert "not found; tried:" in done.stdout
    assert "/no/such/nvrtc" in done.stdout


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"PYGPUKIT_DEVICE": "toaster"}, "PYGPUKIT_DEVICE is 'toaster'"),
        ({**NO_DRIVER, "PYGPUKIT_REQUIRE_GPU": "1"}, "A GPU is required"),
    ],
)
def test_unusable_is_reported_and_fails(run: Run, variables: dict[str, str], text: str) -> None:
    done = run("-m", "pygpukit", **variables)
    assert done.returncode == 1
    assert "unusable" in done.stdout
    assert text in done.stdout
    assert json.loads(run("-m", "pygpukit", "--json", **variables).stdout)["mode"] == "unusable"


def test_modes_with_a_gpu(run: Run, fake_driver: str) -> None:
    driver = {"PYGPUKIT_DEVICE": "", "PYGPUKIT_CUDA_DRIVER": fake_driver}
    hidden = run("-m", "pygpukit", "--json", PYGPUKIT_NVRTC_PATH="/no/such/nvrtc", **driver)
    report = json.loads(hidden.stdout)
    assert report["mode"] == "driver only"
    assert report["devices"][0]["sm"] == 90
    text = run("-m", "pygpukit", **driver).stdout
    assert "cuda:0: Fake GPU, SM 90, 80.0 GiB" in text
    if gp.is_nvrtc_available():
        assert json.loads(run("-m", "pygpukit", "--json", **driver).stdout)["mode"] == FULL_JIT


def test_colour_only_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert use_color(Terminal())
    assert not use_color(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not use_color(Terminal())
    monkeypatch.setenv("NO_COLOR", "")  # no-color.org: the empty string does not count
    assert use_color(Terminal())
    assert "\x1b[" in render(collect(), Style(True))
    assert "\x1b[" not in render(collect(), Style(False))


def test_progress_only_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    seen, unseen = Terminal(), io.StringIO()
    for stream in (seen, unseen):
        line = ProgressLine(stream)
        line.steps(1, 4, "work")
        line.clear()
    assert "1/4 work" in seen.getvalue()
    assert unseen.getvalue() == ""
    quiet = Terminal()
    ProgressLine(quiet, quiet=True).show("work")
    assert quiet.getvalue() == ""


def test_units() -> None:
    assert [human_bytes(n) for n in (0, 1023, 1536, 2**30, 2**40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "1.0 GiB",
        "1.0 TiB",
    ]
    assert cuda_version(13000) == "13.0"
    assert cuda_version(12080) == "12.8"


# --- the cache ----------------------------------------------------------------------------------


def test_cache_dir_and_stat(run: Run, tmp_path: Path) -> None:
    folder = str(tmp_path / "cache")
    assert run("-m", "pygpukit", "cache", "dir").stdout == folder + "\n"
    assert folder in run("-m", "pygpukit", "cache", "stat").stdout
    stat = json.loads(run("-m", "pygpukit", "cache", "stat", "--json").stdout)
    assert stat == {"enabled": True, "folder": folder, "entries": 0, "bytes": 0}


def test_cache_warm_stat_clear(run: Run) -> None:
    if not gp.is_nvrtc_available():
        pytest.skip("needs NVRTC")
    done = run("-m", "pygpukit", "cache", "warm", "--sm", "90", "--op", "add", "--op", "copy")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no terminal, no progress
    stat = json.loads(run("-m", "pygpukit", "cache", "stat", "--json").stdout)
    kernels = {row[2] for row in gp._native.builtin_kernels() if row[0] in ("add", "copy")}
    bundled = kernels & {row[1] for row in gp._native.bundle_kernels()}
    assert stat["entries"] == len(kernels - bundled) > 5
    if bundled:
        assert f"{len(bundled)} more are in the PTX bundle" in done.stdout
    done = run("-m", "pygpukit", "cache", "clear")
    assert done.stdout.startswith(f"removed {stat['entries']} kernels")
    stat = json.loads(run("-m", "pygpukit", "cache", "stat", "--json").stdout)
    assert stat["entries"] == 0


def test_cache_warm_without_nvrtc(run: Run) -> None:
    done = run(
        "-m", "pygpukit", "cache", "warm", "--sm", "90", PYGPUKIT_NVRTC_PATH="/no/such/nvrtc"
    )
    assert done.returncode == 1
    assert "NVRTC JIT compiler not available" in done.stderr
    assert "pip install pygpukit[jit]" in done.stderr
    assert "Traceback" not in done.stderr


def test_disabled_cache(run: Run) -> None:
    off = {"PYGPUKIT_CACHE_DISABLE": "1"}
    assert "disabled" in run("-m", "pygpukit", "cache", "stat", **off).stdout
    for action in (["clear"], ["warm", "--sm", "90"]):
        done = run("-m", "pygpukit", "cache", *action, **off)
        assert done.returncode == 1
        assert "disabled" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-flag"],
        ["no-such-command"],
        ["cache"],
        ["cache", "no-such-action"],
        ["cache", "warm", "--sm", "x"],
        ["cache", "warm", "--sm", "90", "--op", "no_such_op"],
        ["cache", "warm", "--sm", "70"],  # older than what we support
        ["cache", "warm"],  # no GPU whose architecture could be meant
    ],
)
def test_bad_usage_exits_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"pygpukit {gp.__version__}\n"


def test_a_reader_that_goes_away_is_no_error(run: Run) -> None:
    code = (
        "import subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-m', 'pygpukit'], stdout=subprocess.PIPE,"
        " stderr=subprocess.PIPE); p.stdout.close();"
        "sys.exit(b'Traceback' in p.stderr.read())"
    )
    assert run("-c", code).returncode == 0


# --- examples -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["arrays.py", "custom_kernel.py", "llm_generate.py", "quickstart.py"]
)
def test_example(run: Run, name: str) -> None:
    done = run(str(EXAMPLES / name))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def test_chat_example(run: Run) -> None:
    done = run(str(EXAMPLES / "llm_chat.py"), stdin="Who is there?\nAnd who else?\n\nignored\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) >= 2
    again = run(str(EXAMPLES / "llm_chat.py"), stdin="Who is there?\n")
    assert done.stdout.startswith(again.stdout.rstrip())
    assert len(again.stdout) < len(done.stdout)
