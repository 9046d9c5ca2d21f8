"""The package as a type checker sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pygpukit as gp

api = pytest.importorskip("mypy.api")

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"
PROGRAM = ROOT / "tests" / "data" / "typed_program.py"

RIGHT = """
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pygpukit as gp
from pygpukit.core.errors import InvalidArgument

x: gp.GPUArray = gp.zeros((2, np.int64(3)), np.float16, device="cpu")
y = gp.full(3, 2.5, dtype=gp.bfloat16) + 1 + np.float32(2)
z: gp.GPUArray = gp.mul(2, 3 * x, out=gp.empty([2, 3], "float16"))
shape: tuple[int, ...] = x.shape
on_gpu: bool = x.on_gpu
host: NDArray[Any] = gp.from_numpy([[1.0, 2.0]]).clone().to_numpy()
same: bool = x.dtype == gp.float32 and len(x) == x.nbytes // x.dtype.itemsize
int8: gp.DataType = gp.DataType.from_string("int8")
pinned: NDArray[Any] | gp.GPUArray = x if isinstance(x, gp.GPUArray) else gp.pinned_empty(3, int8)
priority: gp.StreamPriority = gp.Stream(priority="high").priority


def launch(stream: gp.Stream | int | None) -> gp.GPUArray:
    kernel = gp.jit("__global__ void f(float* x) {}", "f", ["-lineinfo"], reference=lambda x: None)
    kernel(x, grid=(1, 2), stream=stream)
    bound: gp.BoundKernel = kernel.bind(x=x)
    with gp.CudaGraph() as graph, gp.Stream() as inner:
        bound()
        inner.wait(gp.CudaEvent())
        graph.replay(stream)
        return x  # a with block that could swallow exceptions would need another return


try:
    registers: int = launch(0).size + gp.RawModule("").get_function("f").attributes["registers"]
except (InvalidArgument, gp.OutOfMemory) as error:
    print(error)
"""

# Each line is one error.
WRONG = """
import numpy as np
import pygpukit as gp
gp.zeros(3).shape + 1
gp.zeros(3) + np.ones(3)
gp.zeros(3) + "1"
gp.zeros("3")
gp.zeros(2.5)
gp.add(gp.zeros(3), 1, gp.zeros(3), 1)
gp.zeros(3, device=1.5)
gp.zeros(3).shape = (3,)
gp.float32.name = "float64"
gp.zeros(3).no_attribute
gp.no_attribute
gp.core.no_attribute
gp.jit("__global__ void f() {}", 1)
gp.jit("__global__ void f() {}", "f").bind()(1)
gp.DataType.from_string(1)
gp.DataType()
gp.GPUArray()
gp.CudaGraph().replay("stream")
gp.Stream(priority="medium")
gp.ops.linear(gp.ones(3), gp.ones(3), activation="tanhh")
gp.scheduler.submit(print, qos="best")
gp.scheduler.submit(print, deadlines=3)
gp.quantile(gp.ones(3), 0.5, method="best")
gp.sort(gp.ones(3), kind="bogo")
np.sum(gp.zeros(3))
class Array(gp.GPUArray): ...
"""


def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> tuple[int, list[str]]:
    """mypy's exit code and lines for a program, with the source tree's types."""
    monkeypatch.setenv("MYPYPATH", str(SOURCES))
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    options = ["--strict", "--config-file=", "--no-error-summary", "--no-pretty", "--cache-dir"]
    # What the package imports is not looked at, only what it offers.
    options += [str(tmp_path / "cache"), "--follow-imports=silent", path.name]
    out, problem, code = api.run(options)
    assert not problem
    return code, out.splitlines()


def test_program_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes mypy --strict, and it runs."""
    assert check(tmp_path, monkeypatch, PROGRAM.read_text(encoding="utf-8")) == (0, [])
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_pyright(tmp_path: Path) -> None:
    """The same program, and every public name is exported."""
    pytest.importorskip("basedpyright")  # pyright with its own Node.js
    names = "".join(f"    gp.{name},\n" for name in gp.__all__)
    (tmp_path / "program.py").write_text(PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "names.py").write_text(
        f"import pygpukit as gp\n\nEVERY = (\n{names})\n", encoding="utf-8"
    )
    config = {
        "typeCheckingMode": "standard",
        "extraPaths": [str(SOURCES)],
        "reportPrivateImportUsage": "error",
        "reportMissingModuleSource": "none",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [f"{Path(e['file']).name}: {e['message']}" for e in found if e["severity"] == "error"]
    assert errors == []


def test_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(tmp_path, monkeypatch, RIGHT) == (0, [])
    code, lines = check(tmp_path, monkeypatch, WRONG)  # quick: both share a cache
    assert code == 1
    found = {int(line.split(":")[1]) for line in lines if ": error:" in line}
    assert found == set(range(4, WRONG.count("\n") + 1)), "\n".join(lines)
