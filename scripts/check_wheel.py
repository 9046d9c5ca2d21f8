"""Check a wheel: its size, its contents, and the libraries its extension needs.

usage: check_wheel.py <wheel>...
"""

import io
import re
import sys
import zipfile
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

MAX_BYTES = 10_000_000
NEEDED = re.compile(r"lib(c|m|dl|pthread|stdc\+\+|gcc_s)\.so\.\d+|ld-linux.*\.so\.\d+")
PACKAGES = "(pygpukit|_pygpukit_rust)"
CONTENTS = re.compile(
    rf"{PACKAGES}/.*\.(py|pyi|so|json|md)|{PACKAGES}/py\.typed|[^/]+\.dist-info/.*"
)


def needed_libraries(data: bytes) -> list[str]:
    elf = ELFFile(io.BytesIO(data))
    dynamic = elf.get_section_by_name(".dynamic")
    assert isinstance(dynamic, DynamicSection)
    return [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]


def problems(path: Path) -> list[str]:
    found = []
    size = path.stat().st_size
    print(f"{path}: {size / 1e6:.2f} MB")
    if size > MAX_BYTES:
        found.append(f"larger than {MAX_BYTES / 1e6:.0f} MB")
    with zipfile.ZipFile(path) as wheel:
        names = [n for n in wheel.namelist() if not n.endswith("/")]
        found += [f"does not belong in a wheel: {n}" for n in names if not CONTENTS.fullmatch(n)]
        extensions = [n for n in names if n.endswith(".so")]
        if not any(n.startswith("pygpukit/_native.") for n in extensions):
            found.append("has no pygpukit/_native extension")
        for name in extensions:
            libraries = needed_libraries(wheel.read(name))
            print(f"  {name} needs {' '.join(libraries)}")
            found += [f"{name} needs {lib}" for lib in libraries if not NEEDED.fullmatch(lib)]
    return found


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    failed = False
    for wheel in map(Path, sys.argv[1:]):
        for problem in problems(wheel):
            print(f"{wheel.name}: {problem}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
