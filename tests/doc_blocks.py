"""Runs the Python blocks of a documentation page, in order, as one program.

usage: doc_blocks.py PAGE [FENCE...]

A block opened by ```python runs everywhere; one opened by ```python FENCE (gpu, torch, cupy, ...)
runs where that fence is given. ```python excerpt is part of a file and not run. Shown output is
checked:

    print(x.shape)  # -> (2, 3)          the text of a print, else the repr of the expression

and a ```text block that follows a Python block is the complete output of the Python block. "..."
matches any text.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = re.compile(r"#\s*->\s*(.*\S)\s*$")


@dataclass
class Block:
    language: str
    fence: str  # "" for a block that runs everywhere
    line: int  # of its first line of code
    text: str


def read_blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, of any language."""
    blocks: list[Block] = []
    opened: Block | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("```"):
            if opened is not None:
                opened.text += line + "\n"
            continue
        if opened is None:
            language, _, fence = line[3:].strip().partition(" ")
            opened = Block(language, fence.strip(), number + 1, "")
        else:
            blocks.append(opened)
            opened = None
    if opened is not None:
        raise SystemExit(f"{page.name}:{opened.line - 1}: the block is never closed")
    return blocks


def fences(page: Path) -> set[str]:
    return {block.fence for block in read_blocks(page) if block.language == "python"}


def matches(shown: str, found: str) -> bool:
    """Whether `found` is what the page shows; "..." matches any text."""
    pattern = ".*".join(re.escape(part) for part in shown.split("..."))
    return re.fullmatch(pattern, found, re.DOTALL) is not None


def check_shown(where: str, shown: str, found: str) -> None:
    if not matches(shown.strip(), found.strip()):
        raise SystemExit(f"{where}: the page shows\n{shown}\nbut the program gives\n{found}")


class CheckShown(ast.NodeTransformer):
    """Turns statements whose last line ends in `# -> text` into checks."""

    def __init__(self, lines: list[str], where: str, first_line: int) -> None:
        self.lines, self.where, self.first_line = lines, where, first_line
        self.checks = 0

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        last = node.end_lineno or node.lineno
        shown = SHOWN.search(self.lines[last - self.first_line])
        if shown is None:
            return node
        self.checks += 1
        call = node.value
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "print"
        ):
            text = ast.Call(ast.Name("str_of_print", ast.Load()), call.args, call.keywords)
        else:
            text = ast.Call(ast.Name("repr", ast.Load()), [call], [])
        location = ast.Constant(f"{self.where}:{node.lineno}")
        check = ast.Call(
            ast.Name("check_shown", ast.Load()), [location, ast.Constant(shown[1]), text], []
        )
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(check), node))


def str_of_print(*values: object, sep: str = " ") -> str:
    return sep.join(map(str, values))


def run_block(block: Block, page: Path, names: dict[str, Any]) -> str:
    """Runs one block in the namespace of its page; what it printed."""
    # Blank lines before it, so that errors name the line of the page.
    tree = ast.parse("\n" * (block.line - 1) + block.text, str(page))
    checker = CheckShown(block.text.splitlines(), page.name, block.line)
    tree = checker.visit(tree)
    if checker.checks != sum(SHOWN.search(line) is not None for line in block.text.splitlines()):
        raise SystemExit(f"{page.name}:{block.line}: a `# ->` is not at the end of an expression")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, str(page), "exec"), names)
    return printed.getvalue()


def run_page(page: Path, wanted: set[str]) -> int:
    """Runs the blocks without a fence and those of the wanted fences; returns how many."""
    names = {"__name__": "__main__", "check_shown": check_shown, "str_of_print": str_of_print}
    count = 0
    printed: str | None = None  # by the Python block just before, if it ran
    for block in read_blocks(page):
        if block.language == "python":
            run = block.fence in {"", *wanted}
            printed = run_block(block, page, names) if run else None
            count += run
            continue
        if block.language == "text" and printed is not None:
            check_shown(f"{page.name}:{block.line}", block.text, printed)
        printed = None
    return count


def main() -> int:
    page, *wanted = sys.argv[1:]
    sys.argv = [page]
    data = Path("tests/data")  # pages name it as in the repository
    if not data.exists():
        data.parent.mkdir(exist_ok=True)
        data.symlink_to(ROOT / data)
    print(f"{run_page(Path(page), set(wanted))} blocks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
