"""Follow docs/adding-an-op.md in a copy of the tree: apply its diff blocks, generate, build, test.

usage: check_adding_an_op.py [--diffs]   (--diffs: only whether the diff blocks fit the tree)

The copy and its build stay in build/tutorial, so that a second run compiles only what changed. The
copy builds in its own build/py, as `make` does here: ccache finds what the new ops do not touch.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "adding-an-op.md"
COPY = ROOT / "build" / "tutorial"
BUILD = COPY / "build" / "py"
SITE = COPY / "build" / "site"

# What each section of the page promises: the op, and how many files are edited by hand.
SECTIONS = {
    "An elementwise op: four files": ("softsign", 4, "tests/unit/test_elementwise.py"),
    "A reduction: five files": ("sumsq", 5, "tests/unit/test_reduction.py"),
}


class Hunk(NamedTuple):
    path: str
    lines: list[str]

    def side(self, other: str) -> str:
        """The text without the lines that start with `other`."""
        return "".join(line[1:] + "\n" for line in self.lines if not line.startswith(other))


def hunks_of(section: str) -> list[Hunk]:
    """The diff blocks, each with the file of the numbered step it is in."""
    found = []
    path = ""
    step_or_block = r"^\*\*\d\. .*?\*\*, `([\w./]+)`|^```diff\n(.*?)^```$"
    for match in re.finditer(step_or_block, section, re.MULTILINE | re.DOTALL):
        if match[1]:
            path = match[1]
        else:
            found.append(Hunk(path, match[2].splitlines()))
    return found


def sections() -> dict[str, list[Hunk]]:
    parts = re.split(r"^## (.+)\n", PAGE.read_text(encoding="ascii"), flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {title: hunks_of(texts[title]) for title in SECTIONS}


def copy_tree() -> None:
    """Tracked and addable files; unchanged ones keep their modification time."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    wanted = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for name in sorted(wanted):
        source, target = ROOT / name, COPY / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for path in COPY.rglob("*"):
        inside = path.relative_to(COPY)
        if path.is_file() and inside.parts[0] != "build" and str(inside) not in wanted:
            path.unlink()


def applied(hunk: Hunk, root: Path) -> str:
    """The file of `root` with the change."""
    text = (root / hunk.path).read_text(encoding="utf-8")
    old = hunk.side("+")
    if text.count(old) != 1:
        sys.exit(f"{PAGE.name}: {hunk.path} contains this {text.count(old)} times:\n{old}")
    return text.replace(old, hunk.side("-"))


def run(*command: str) -> None:
    print("+", " ".join(command), flush=True)
    environment = {**os.environ, "PYTHONPATH": str(SITE)}
    if subprocess.run([sys.executable, *command], cwd=COPY, env=environment).returncode != 0:
        sys.exit(f"{PAGE.name}: this step failed")


def main() -> int:
    changes = sections()
    for title, hunks in changes.items():
        op, count, _ = SECTIONS[title]
        files = {hunk.path for hunk in hunks}
        if len(files) != count:
            sys.exit(f"{PAGE.name}: {op} changes {len(files)} files, the page says {count}")
        for hunk in hunks:
            applied(hunk, ROOT)
    if sys.argv[1:] == ["--diffs"]:
        return 0
    copy_tree()
    for hunk in (hunk for hunks in changes.values() for hunk in hunks):
        (COPY / hunk.path).write_text(applied(hunk, COPY), encoding="utf-8", newline="\n")
    run("scripts/generate.py", "--sources")
    shutil.rmtree(SITE, ignore_errors=True)
    run(
        *("-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--target", str(SITE)),
        *(f"--config-settings=build-dir={BUILD}", "--config-settings=cmake.define.GPK_BUNDLE=OFF"),
        *("--config-settings=cmake.define.GPK_FAST_BUILD=ON", "."),
    )
    run("scripts/generate.py")
    for op, _, test in SECTIONS.values():
        run("-m", "pytest", "-q", "-p", "no:cacheprovider", test, "-k", f"{op} or every_op")
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/test_declarations.py")
    run(
        "-c",
        "import pygpukit as gp; x = gp.from_numpy([[1.0, 2.0], [3.0, 4.0]]);"
        "assert x.sumsq(axis=0).to_numpy().tolist() == [10.0, 20.0];"
        "assert float(gp.sumsq(x)) == 30.0;"
        "assert gp.softsign(x).to_numpy()[0, 0] == 0.5",
    )
    print("docs/adding-an-op.md is true")
    return 0


if __name__ == "__main__":
    sys.exit(main())
