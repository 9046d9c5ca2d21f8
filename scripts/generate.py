"""Write every generated file of the source tree; --check only compares.

--sources skips what needs the installed package (the stubs and docs/ops.md), which is built
from the other files.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

import make_names

ROOT = Path(__file__).resolve().parent.parent


def generate(sources_only: bool) -> dict[Path, str]:
    files = make_names.generate()
    if not sources_only:
        import make_ops_page
        import make_stubs

        files |= make_stubs.generate()
        files |= make_ops_page.generate()
    return files


def stale(files: dict[Path, str]) -> set[Path]:
    """Modules of names that are no longer declared."""
    return set((make_names.OPS / "_declared").glob("*.py")) - set(files)


def differences(path: Path, new: str) -> str:
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "in the tree", "generated", "")
    return "\n".join(list(lines)[:40])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 when a file is out of date")
    parser.add_argument("--sources", action="store_true", help="only files that need no build")
    options = parser.parse_args()
    files = generate(options.sources)
    if not options.check:
        for path in stale(files):
            path.unlink()
        for path, text in files.items():
            path.parent.mkdir(exist_ok=True)
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8", newline="\n")
        return 0
    wrong = {path: text for path, text in files.items() if differences(path, text)}
    for path, text in wrong.items():
        print(differences(path, text), file=sys.stderr)
    for path in [*wrong, *stale(files)]:
        print(f"{path.relative_to(ROOT)} is out of date: run `make generate`", file=sys.stderr)
    return 1 if wrong or stale(files) else 0


if __name__ == "__main__":
    sys.exit(main())
