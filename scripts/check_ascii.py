"""Check that all text files git knows (or would add) are ASCII, with no tabs in code."""

import subprocess
import sys
from pathlib import Path

CODE = {".py", ".pyi", ".h", ".cpp", ".cuh", ".def", ".cmake", ".toml", ".json"}


def problems(root: Path) -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    ).stdout.decode()
    found = []
    for name in sorted(filter(None, listing.split("\0"))):
        path = root / name
        data = path.read_bytes() if path.is_file() else b""
        if b"\0" in data:  # not text
            continue
        for number, line in enumerate(data.split(b"\n"), 1):
            if not line.isascii():
                found.append(
                    f"{name}:{number}: not ASCII: {line.decode('utf-8', 'replace')[:80]!a}"
                )
            elif b"\t" in line and path.suffix in CODE:
                found.append(f"{name}:{number}: tab character")
    return found


def main() -> int:
    found = problems(Path(__file__).resolve().parent.parent)
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
