"""docs/architecture.md is true: rooms are folders, hops are functions in the files named."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CALLS = ["`a + b`", "`a.sum(axis=0)`", "`a @ b`", "`jit(...)(...)`"]
MAX_HOPS = 10


def section(heading: str) -> str:
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, f"docs/architecture.md has no section {heading}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def code_of(path: Path) -> str:
    """A file without its comments."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r"#.*" if path.suffix == ".py" else r"//.*", "", text)


@pytest.mark.parametrize("call", CALLS)
def test_the_path_of_a_call(call: str) -> None:
    hops = rows(section(call))
    assert 3 <= len(hops) <= MAX_HOPS
    for hop, file, _ in hops:
        symbol = hop.strip("()").strip("`")
        path = ROOT / file.strip("`")
        assert path.is_file(), f"{call}: {file} does not exist"
        assert re.search(rf"(?<!\w){re.escape(symbol)}\b", code_of(path)), (
            f"{call}: {hop} in {file}"
        )


def test_every_file_named_exists() -> None:
    names = re.findall(r"`((?:native|src|scripts|tests|docs)/[\w/.]+)`", PAGE)
    assert len(names) > 40
    # Rooms are compared with the tree below.
    for name in (name for name in names if "." in name.rpartition("/")[2]):
        assert (ROOT / name).exists(), name


def rooms() -> dict[str, set[str]]:
    """Room of native/ -> rooms it may include, as the page says; "*" for everything."""
    found = {}
    for room, _, allowed in rows(section("Folders")):
        name = room.strip("`")
        if name.startswith("native/"):
            listed = {"*"} if allowed == "everything" else set(re.findall(r"[\w/]+", allowed))
            found[name.removeprefix("native/")] = listed
    return found


def test_rooms_and_the_include_law() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from check_include_law import read_law
    finally:
        sys.path.pop(0)
    law = read_law(ROOT / "native" / "CMakeLists.txt")
    folders = {path.name for path in (ROOT / "native").iterdir() if path.is_dir()}
    assert {room.split("/")[0] for room in rooms()} == folders
    for room, allowed in rooms().items():
        lawful = {word for word in law[room] if word == "*" or word.split("/")[0] in folders}
        top = room.split("/")[0]
        inside = {word for word in lawful if word.split("/")[0] == top != "kernels"}
        assert lawful - inside == allowed, room
