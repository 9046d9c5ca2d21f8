"""Environment variables: what they do, that mistakes are reported, that the docs list them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pygpukit import _native

DOCS = Path(__file__).resolve().parents[2] / "docs" / "environment.md"

FIRST_USE = """
import pygpukit as gp
try:
    print(gp.zeros(2).device)
except Exception as error:
    print(type(error).__name__, isinstance(error, gp.PyGPUkitError))
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("PYGPUKIT_DEVICE", "nonsense", "auto, cuda, cpu or sim"),
        ("PYGPUKIT_REQUIRE_GPU", "maybe", "1 or 0"),
        ("PYGPUKIT_CACHE_DISABLE", "2", "1 or 0"),
        ("PYGPUKIT_ALLOW_TF32", "x", "1 or 0"),
        ("PYGPUKIT_NO_TF32", "x", "1 or 0"),
        ("PYGPUKIT_LAUNCH_BLOCKING", "-", "1 or 0"),
        ("PYGPUKIT_SEED", "-1", "a whole number"),
        ("PYGPUKIT_SEED", "1.5", "a whole number"),
        ("PYGPUKIT_MEMORY_LIMIT", "lots", "90%"),
        ("PYGPUKIT_MEMORY_LIMIT", "101%", "90%"),
        ("PYGPUKIT_MEMORY_LIMIT", "0", "90%"),
        ("PYGPUKIT_MEMORY_LIMIT", "nan", "90%"),
        ("PYGPUKIT_LOG", "loud", "off, error, warning, info or debug"),
    ],
)
def test_mistakes_name_the_variable(run_python, name: str, value: str, allowed: str) -> None:
    done = run_python(FIRST_USE, **{name: value})
    assert done.stdout.startswith("InvalidValueError True\n"), done.stdout + done.stderr
    assert f"environment: {name} is '{value}', expected " in done.stdout
    assert allowed in done.stdout


def test_contradiction(run_python) -> None:
    done = run_python(FIRST_USE, PYGPUKIT_DEVICE="cpu", PYGPUKIT_REQUIRE_GPU="1")
    assert "PYGPUKIT_DEVICE=cpu and PYGPUKIT_REQUIRE_GPU=1 are mutually exclusive" in done.stdout


DEVICE = """
import pygpukit as gp
from pygpukit import _native
print(gp.zeros(1).device, *_native.default_device())
"""


@pytest.mark.parametrize("value", ["cpu", "CPU", " cpu "])
def test_device_cpu(run_python, value: str) -> None:
    done = run_python(DEVICE, PYGPUKIT_DEVICE=value)
    assert done.stdout.strip() == "cpu cpu PYGPUKIT_DEVICE=cpu"


@pytest.mark.skipif(_native.cuda_device_count() > 0, reason="there is a GPU")
class TestWithoutGpu:
    @pytest.mark.parametrize("name_value", ["PYGPUKIT_DEVICE=cuda", "PYGPUKIT_REQUIRE_GPU=1"])
    def test_gpu_required(self, run_python, name_value: str) -> None:
        name, value = name_value.split("=")
        done = run_python(FIRST_USE, **{"PYGPUKIT_DEVICE": "", name: value})
        assert done.stdout.startswith("GpuUnavailable True\n"), done.stdout + done.stderr
        assert "CUDA driver not detected" in done.stdout
        assert f"A GPU is required by {name_value}" in done.stdout

    @pytest.mark.parametrize("value", ["", "auto"])
    def test_falls_back(self, run_python, value: str) -> None:
        done = run_python(DEVICE, PYGPUKIT_DEVICE=value)
        assert done.stdout.startswith("cpu cpu CUDA driver not detected")
        assert "Falling back to CPU simulation backend" in done.stdout
        assert done.stderr == ""
        loud = run_python(DEVICE, PYGPUKIT_DEVICE=value, PYGPUKIT_LOG="info")
        assert "Falling back to CPU simulation backend" in loud.stderr

    def test_driver_path(self, run_python) -> None:
        code = "from pygpukit import _native; print(_native.driver_info()['problem'])"
        done = run_python(code, PYGPUKIT_DEVICE="", PYGPUKIT_CUDA_DRIVER="/nonexistent/libcuda.so")
        assert "/nonexistent/libcuda.so" in done.stdout
        assert "libcuda.so.1" not in done.stdout  # only what was requested


def test_variables_are_read_at_first_use_not_at_import(run_python) -> None:
    code = "import os, pygpukit as gp; os.environ['PYGPUKIT_DEVICE'] = 'nonsense'\n" + FIRST_USE
    assert "PYGPUKIT_DEVICE is 'nonsense'" in run_python(code, PYGPUKIT_DEVICE="cpu").stdout


CACHE = "from pygpukit import _native; print(_native.cache_info().get('folder'))"


def test_cache_folder(run_python, tmp_path: Path) -> None:
    a, b, home = (str(tmp_path / name) for name in "abc")
    ours = run_python(CACHE, PYGPUKIT_CACHE_DIR=a, XDG_CACHE_HOME=b, HOME=home)
    assert ours.stdout.strip().startswith(a)
    xdg = run_python(CACHE, PYGPUKIT_CACHE_DIR="", XDG_CACHE_HOME=b, HOME=home)
    assert xdg.stdout.strip().startswith(f"{b}/pygpukit")
    plain = run_python(CACHE, PYGPUKIT_CACHE_DIR="", XDG_CACHE_HOME="", HOME=home)
    assert plain.stdout.strip().startswith(f"{home}/.cache/pygpukit")


def test_cache_can_be_disabled(run_python) -> None:
    code = "from pygpukit import _native; print(_native.cache_info())"
    assert run_python(code, PYGPUKIT_CACHE_DISABLE="1").stdout.strip() == "{'enabled': False}"


def test_config_values(run_python) -> None:
    code = (
        "from pygpukit import _native; c = _native.config(); "
        "print(c['seed'], c['allow_tf32'], c['launch_blocking'], c['no_color'])"
    )
    done = run_python(
        code, PYGPUKIT_SEED="7", PYGPUKIT_ALLOW_TF32="yes", PYGPUKIT_LAUNCH_BLOCKING="on"
    )
    assert done.stdout.split() == ["7", "True", "True", "False"]
    done = run_python(code, PYGPUKIT_ALLOW_TF32="1", PYGPUKIT_NO_TF32="1", NO_COLOR="1")
    assert done.stdout.split() == ["None", "False", "False", "True"]


def test_docs_list_exactly_the_variables() -> None:
    rows = re.findall(r"^\| `([A-Z_0-9]+)` \| (.+?) \|$", DOCS.read_text("utf-8"), re.MULTILINE)
    assert [row[0] for row in rows] == [name for name, _, _ in _native.config_variables()]
    for name, meaning, _ in _native.config_variables():
        assert dict(rows)[name].startswith(meaning), f"{name}: the docs differ from the program"


def test_report_of_variables(run_python) -> None:
    code = "from pygpukit import _native; print({n: v for n, _, v in _native.config_variables()})"
    values = eval(run_python(code, PYGPUKIT_LOG="off").stdout)
    assert values["PYGPUKIT_LOG"] == "off"
    assert values["PYGPUKIT_SEED"] is None
