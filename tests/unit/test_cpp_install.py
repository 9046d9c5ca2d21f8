"""find_package(pygpukit) works after cmake --install, and examples/cpp builds and runs on it."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest
from cases.llm import TINY, golden
from doc_blocks import read_blocks

from pygpukit import _native

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("GPK_TEST_BUILD_DIR", "")


def check_generate(program: str) -> bool:
    """The tokens of Transformers, in the simulator; without it, a reason and no success.

    Whether there was NVRTC, which the tokens need.
    """

    def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [program, str(TINY), *arguments]
        env = {**os.environ, **environment}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=250, check=False, env=env
        )

    text = golden()["greedy"][0]
    prompt = [str(token) for token in text["prompt_ids"]]
    nvrtc = _native.nvrtc_info()
    if nvrtc["available"]:
        done = start(
            *("4", *prompt), PYGPUKIT_DEVICE="sim:sm_90a", PYGPUKIT_NVRTC_PATH=nvrtc["path"]
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [str(token) for token in text["bfloat16"][:4]]
    refused = start("4", *prompt, PYGPUKIT_DEVICE="cpu")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "PYGPUKIT_DEVICE=sim" in refused.stderr
    assert start().returncode == 2
    return bool(nvrtc["available"])


@pytest.mark.skipif(not BUILD or not shutil.which("cmake"), reason="needs make unit's C++ build")
@pytest.mark.timeout(300)
def test_example_on_the_installed_library(tmp_path: pathlib.Path) -> None:
    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    prefix = tmp_path / "prefix"
    run("cmake", "--install", BUILD, "--component", "cpp", "--prefix", str(prefix))
    run(
        "cmake",
        "-S",
        str(ROOT / "examples" / "cpp"),
        "-B",
        str(tmp_path / "build"),
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_BUILD_TYPE=Debug",
    )
    run("cmake", "--build", str(tmp_path / "build"))
    assert "device" in run(str(tmp_path / "build" / "gpk_example")).lower()
    compared = check_generate(str(tmp_path / "build" / "gpk_generate"))

    # The programs of docs/cpp.md, as far as the compiler reads them.
    programs = [b for b in read_blocks(ROOT / "docs" / "cpp.md") if b.language == "cpp"]
    assert programs
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    assert compiler is not None
    for number, block in enumerate(programs):
        source = tmp_path / f"block{number}.cpp"
        source.write_text(block.text)
        include = f"-I{prefix / 'include' / 'gpk'}"
        run(compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", include, str(source))
    if not compared:
        pytest.skip("all but the tokens, which need NVRTC, was tested")
