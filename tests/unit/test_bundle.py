"""Every bundled kernel assembles as it declares itself: PTX version, target, oldest driver.

A driver's compiler is the ptxas of its CUDA release. The oldest supported one (R520, CUDA 11.8)
must take what is bundled for any GPU, and a newer one refuses what the declared version does not
know; so both see all PTX of a file and header, as one module.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cases.compile import WHOLE

from pygpukit import _native

KERNELS = _native.bundle_kernels()

# The PTX versions of each target, and with it the oldest driver: up to 7.8 they are read by the one
# of CUDA 11.8, 8.0 by 12.0, 8.6 and 8.7 by 12.8.
VERSIONS = {"sm_80": ("7.0", "7.4"), "sm_90": ("7.8", "8.0"), "sm_90a": ("8.0",)}
VERSIONS |= {"sm_100a": ("8.6",), "sm_120": ("8.7",), "sm_120a": ("8.7",)}
OLDEST, NEWER = "11.8", "12.9"

HEADER = re.compile(r"\.version (\S+)\n\.target (\S+)\n\.address_size 64\n")
FUNCTION = re.compile(r"^[^\n]*\.(?:entry|func) [^;{]*[;{]", re.MULTILINE)  # up to its body
HELPER = re.compile(r"^\.func\s+(?:\([^)]*\)\s*)?(\w+)[^;{]*\{")

pytestmark = pytest.mark.skipif(not KERNELS, reason="this build has no PTX bundle")


def ptxas(release: str) -> str:
    """`make` installs them beside the environment's packages; elsewhere the toolkit's will do."""
    installed = Path(sys.prefix) / "ptxas" / release / "nvidia/cuda_nvcc/bin/ptxas"
    if installed.exists():
        return str(installed)
    found = shutil.which("ptxas")
    if found is None:
        pytest.skip("there is no ptxas: make installs it")
    return found


def declared(ptx: str) -> tuple[str, str]:
    header = HEADER.search(ptx)
    assert header is not None
    return header[1], header[2]


def end_of_body(text: str, at: int) -> int:
    """One past the brace that closes the one before `at`; inline assembly has scopes too."""
    depth = 1
    while depth > 0:
        brace = re.compile(r"[{}]").search(text, at)
        assert brace is not None
        depth += 1 if brace[0] == "{" else -1
        at = brace.end()
    return at


def split(body: str) -> tuple[list[str], list[str]]:
    """Declarations, and functions as they are declared or defined."""
    rest, functions, at = "", [], 0
    while (head := FUNCTION.search(body, at)) is not None:
        end = head.end() if head[0].endswith(";") else end_of_body(body, head.end())
        rest += body[at : head.start()]
        functions.append(body[head.start() : end])
        at = end
    return [line for line in (rest + body[at:]).splitlines() if line.strip()], functions


class Module:
    """Functions of texts with the same header; what they share stands once."""

    def __init__(self, header: str) -> None:
        self.header = header
        self.declarations: dict[str, None] = {}
        self.functions: dict[str, None] = {}
        self.helpers: dict[str, str] = {}

    def take(self, text: str) -> bool:
        """False: a helper of the compiler has the name of another one that is here."""
        declarations, functions = split(text[len(self.header) + text.index(self.header) :])
        helpers = {head[1]: body for body in functions if (head := HELPER.search(body))}
        if any(self.helpers.get(name, body) != body for name, body in helpers.items()):
            return False
        self.helpers.update(helpers)
        self.declarations.update(dict.fromkeys(declarations))
        self.functions.update(dict.fromkeys(functions))
        return True

    def text(self) -> str:
        return "\n".join([self.header, *self.declarations, *self.functions, ""])


def merged(texts: list[str]) -> list[str]:
    """As few modules as helper functions allow."""
    header = HEADER.search(texts[0])
    assert header is not None
    found: list[Module] = []
    for text in texts:
        if not any(module.take(text) for module in found):
            found.append(Module(header[0]))
            assert found[-1].take(text)
    return [module.text() for module in found]


def assemble(ptx: str, path: Path, release: str) -> str:
    """What ptxas has against it; empty: nothing."""
    path.write_text(ptx)
    # Levels of optimisation differ in time only: the text is parsed and checked by all of them.
    command = [ptxas(release), "-O0", f"-arch={declared(ptx)[1]}", str(path), "-o", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{done.stdout}{done.stderr}"[:1000]


def releases(version: str) -> list[str]:
    return [OLDEST, NEWER] if version.startswith("7.") else [NEWER]


@pytest.mark.timeout(0 if WHOLE else 900)
def test_everything_assembles_as_declared(tmp_path: Path) -> None:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for file, expression, sm, _ in KERNELS:
        ptx = _native.bundle_ptx(file, expression, sm)
        groups.setdefault((file, *declared(ptx)), []).append(ptx)

    def check(group: tuple[str, str, str]) -> list[str]:
        modules = merged(groups[group])
        assert sum(len(re.findall(r"\.entry ", text)) for text in modules) >= len(groups[group])
        path = tmp_path / f"{'-'.join(group).replace('/', '-')}.ptx"
        found = [assemble(text, path, one) for text in modules for one in releases(group[1])]
        return [f"{group}: {problem}" for problem in found if problem]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [problem for group in pool.map(check, groups) for problem in group]
    assert problems == []


def test_a_newer_feature_is_found(tmp_path: Path) -> None:
    """The check itself: what NVRTC 13 writes, under the version that old drivers read."""
    hint = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n"
    hint += '.pragma "used_bytes_mask 0xf";\nret;\n}\n'
    assert "requires PTX ISA" in assemble(hint, tmp_path / "hint.ptx", NEWER)
    assert assemble(hint.replace(".pragma", "//"), tmp_path / "plain.ptx", NEWER) == ""


def test_each_declares_the_oldest_version_of_its_target() -> None:
    for file, expression, sm, exact in KERNELS:
        version, target = declared(_native.bundle_ptx(file, expression, sm))
        assert target == f"sm_{sm}{'a' if exact and sm >= 90 else ''}"
        assert version in VERSIONS[target]


def test_the_bundle_is_the_bundled_kernels() -> None:
    """`make test` bundles a sample of each file (GPK_BUNDLE_EVERY), `make kernels` everything."""
    bundled = {(row[1], row[2]) for row in _native.builtin_kernels() if row[4]}
    held = {(row[0], row[1]) for row in KERNELS}
    assert {file for file, _ in bundled} <= {file for file, _ in held}
    if WHOLE:
        assert bundled <= held
    assert len(KERNELS) == _native.bundle_info()["kernels"]
