"""scripts/check_kernel_args.py: what crosses a launch is defined once, in native/kernels/args."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ARGS = "namespace gpk::kernels {\nstruct MapArgs { int n; };\nenum class Mode : int { kA };\n}\n"
KERNEL = """#include "args/toy.h"
namespace gpk {
template <class T, int kN>
__global__ void __launch_bounds__(kN, (kN > 8 ? 1 : 2))
    toy_kernel(const __grid_constant__ MapArgs args, Mode mode, T value, const T* in, long long n) {
}
}
"""


def check(root: Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts" / "check_kernel_args.py"
    return subprocess.run([sys.executable, script, root], capture_output=True, text=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "kernels/args/toy.h": ARGS,
        "kernels/toy/toy.cuh": KERNEL,
        "kernels/common/vec.cuh": "struct Vec { int v; };\n",
        "core/dtype.h": "struct DTypeInfo { int bits; };\n",
        "ops/toy/toy.cpp": "struct Plan { int n; };\n// struct MapArgs {\n",
    }.items():
        path = tmp_path / "native" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def append(tree: Path, name: str, text: str) -> str:
    with (tree / "native" / name).open("a") as file:
        file.write(text)
    done = check(tree)
    assert done.returncode == 1
    return done.stderr


def test_this_repository() -> None:
    done = check(ROOT)
    assert done.returncode == 0, done.stderr


def test_a_tree_that_keeps_the_rule(tree: Path) -> None:
    assert check(tree).returncode == 0


@pytest.mark.parametrize("name", ["ops/toy/toy.cpp", "core/dtype.h"])
@pytest.mark.parametrize(
    "text", ["struct MapArgs { int n; };\n", "enum class Mode : int { kA };\n", "class Vec {};\n"]
)
def test_a_second_definition_on_the_host(tree: Path, name: str, text: str) -> None:
    assert "is defined in" in append(tree, name, text)


def test_a_second_definition_in_args(tree: Path) -> None:
    other = tree / "native" / "kernels" / "args" / "other.h"
    other.write_text("namespace gpk::kernels {\nstruct Own { int n; };\n}\n")
    assert check(tree).returncode == 0
    message = append(tree, "kernels/args/other.h", "struct MapArgs { int n, more; };\n")
    assert "MapArgs is defined in" in message


def test_a_second_definition_beside_the_kernel(tree: Path) -> None:
    assert "Plan is defined in" in append(tree, "kernels/toy/toy.cuh", "struct Plan { int n; };\n")


def test_a_parameter_that_is_not_shared(tree: Path) -> None:
    text = "struct Own { int n; };\n__global__ void own_kernel(Own own, const Own* more) {\n}\n"
    assert "own_kernel takes Own" in append(tree, "kernels/toy/toy.cuh", text)


def test_an_include_in_args(tree: Path) -> None:
    assert "includes something" in append(tree, "kernels/args/toy.h", "#include <cstdint>\n")
