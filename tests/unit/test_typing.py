"""The package as a type checker sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")

SOURCES = Path(__file__).resolve().parents[2] / "src"

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
gp.add(gp.zeros(3), 1, gp.zeros(3))
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


def test_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(tmp_path, monkeypatch, RIGHT) == (0, [])
    code, lines = check(tmp_path, monkeypatch, WRONG)  # quick: both share a cache
    assert code == 1
    found = {int(line.split(":")[1]) for line in lines if ": error:" in line}
    assert found == set(range(4, WRONG.count("\n") + 1)), "\n".join(lines)
