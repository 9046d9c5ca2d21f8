"""The documentation is true: its blocks run, its links and file names lead somewhere."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import doc_blocks
import pytest

import pygpukit as gp

ROOT = doc_blocks.ROOT
RUNNER = doc_blocks.__file__


def run_page(page: Path, folder: Path, *wanted: str) -> subprocess.CompletedProcess[str]:
    """The page as one program in a fresh interpreter; our variables unset but two."""
    kept = ("PYGPUKIT_CACHE_DIR", "PYGPUKIT_DEVICE")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYGPUKIT_") or name in kept
    }
    return subprocess.run(
        [sys.executable, RUNNER, str(page), *wanted],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


PROGRAMS = [page for page in doc_blocks.PAGES if "" in doc_blocks.fences(page)]
OTHERS = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.name)
def test_page_runs(page: Path, tmp_path: Path) -> None:
    if not gp.is_nvrtc_available() and "gp.jit(" in page.read_text(encoding="utf-8"):
        pytest.skip("compiles kernels: needs NVRTC")
    done = run_page(page, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 0


@pytest.mark.parametrize("page", doc_blocks.PAGES, ids=lambda page: page.name)
def test_blocks_for_gpus_and_libraries_are_python(page: Path) -> None:
    for block in doc_blocks.read_blocks(page):
        if block.language == "python" and block.fence not in ("", "excerpt"):
            assert block.fence == "gpu" or block.fence.isidentifier(), block.fence
            ast.parse(block.text, f"{page.name}:{block.line}")


GOOD = """```python
x = 2
print(x + 1, "is", {0: 1})  # -> 3 is ...
```
Words.
```python gpu
raise RuntimeError("not here")
```
```python
x * 2  # -> 4
for i in range(2):
    print("line", i)
```
```text
line 0
line ...
```
"""


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("", "", None),
        ("-> 3 is", "-> 4 is", r"page\.md:3: the page shows"),
        ("-> 4", "-> 5", r"page\.md:10: the page shows"),
        ("line 0\n", "line 7\n", r"page\.md:15: the page shows"),
        ("x = 2", "x = y", r"page\.md\", line 2.*NameError"),
        ("python gpu", "python", "RuntimeError: not here"),
        ("x = 2", "x = 2  # -> 2", r"page\.md:2: a `# ->` is not at the end of an expression"),
        ("...\n```\n", "...\n", "never closed"),
    ],
)
def test_the_runner_finds_what_is_wrong(
    old: str, new: str, error: str | None, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    assert old in GOOD
    page.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    done = run_page(page, tmp_path)
    if error is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0
        assert re.search(error, done.stderr, re.DOTALL), done.stderr


def test_files_named_in_comments(tmp_path: Path) -> None:
    def check(root: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "scripts" / "check_named_files.py"), str(root)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = check(ROOT)
    assert done.returncode == 0, done.stderr

    native = tmp_path / "native" / "core"
    native.mkdir(parents=True)
    (native / "array.h").write_text(
        "// See core/array.h, shape.h, <cuda.h> and x_<name>.h.\nint a;\n"
    )
    (tmp_path / "README.md").write_text("`native/core/array.h` and native/core/stream.cpp\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_array.py").write_text("# As array.h and view.h do.\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    done = check(tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "README.md:1: no such file: native/core/stream.cpp",
        "native/core/array.h:1: no such file: shape.h",
        "tests/test_array.py:1: no such file: view.h",
    ]


def test_workflows_only_call_make() -> None:
    folder = ROOT / ".github" / "workflows"
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    supported = re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text())
    for name, versions in (
        ("test.yml", [supported[0], supported[-1]]),
        ("wheels.yml", supported),
    ):
        text = (folder / name).read_text()
        commands = re.findall(r"run: (.*)", text)
        assert commands
        for command in commands:
            assert re.fullmatch(rf"make ({'|'.join(targets)})( [A-Z]+=\w+)*", command), command
        actions = re.findall(r"uses: (.*)", text)
        assert actions
        for action in actions:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", action), action
        listed = re.search(r"python: \[(.*)\]", text)
        assert listed is not None
        assert re.findall(r"[\d.]+", listed[1]) == versions


def anchor(heading: str) -> str:
    """GitHub's name for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = page.read_text(encoding="utf-8")
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", [*doc_blocks.PAGES, *OTHERS], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"https?:|mailto:", target):
            continue
        name, _, fragment = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name}: {target}"
        if fragment:
            assert fragment in anchors(file), f"{page.name}: {target}"


# Text that is wrong the day after, and words that a CUDA engineer would have to translate.
NOT_OURS = re.compile(
    r"this version|later version|products of matrices|lies along|parts of k\b|ways? out|front door"
    r"|goes other ways|never meet|lets? go of|without a word|the way back|is the way\b|\bturned\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", [*doc_blocks.PAGES, *OTHERS], ids=lambda page: page.name)
def test_words(page: Path) -> None:
    assert NOT_OURS.findall(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("room", ["native", "src"])
def test_words_of_the_source(room: str) -> None:
    """Comments of C++, all of Python (names are words too), the READMEs of folders."""
    found = []
    for path in sorted((ROOT / room).rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cuh", ".def", ".py", ".md"}:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            text = line if path.suffix in {".py", ".md"} else line.partition("//")[2]
            found += [f"{path.relative_to(ROOT)}:{number}: {word}" for word in words_in(text)]
    assert found == []


def test_words_are_found() -> None:
    assert words_in("x = turned(y)  # K lies along rows") == ["turned", "lies along"]
    assert words_in("return the value that was returned") == []


def words_in(text: str) -> list[str]:
    return [match[0] for match in NOT_OURS.finditer(text)]
