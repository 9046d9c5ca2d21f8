"""Check that all tracked (or addable) text files are ASCII, with no tabs in code.

Not in tests/data: the vocabularies of tokenizers are there.
"""

import sys

from repository import ROOT, files

CODE = {".py", ".pyi", ".h", ".cpp", ".cuh", ".def", ".cmake", ".toml", ".json"}


def problems() -> list[str]:
    found = []
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        data = path.read_bytes()
        if b"\0" in data or name.startswith("tests/data/"):  # not text, or not ours
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
    found = problems()
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
