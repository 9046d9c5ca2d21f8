"""Check that files named in comments and in Markdown exist.

usage: check_named_files.py [repository root]

A name with a folder is resolved against the root, native/, native/kernels/, src/, src/pygpukit/,
tests/native/ and the folder of the file that names it; a plain name anywhere in the repository.
Tests write files of their own: WRITTEN lists them.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from repository import ROOT, files

NAME = re.compile(
    r"(?<![\w/.*<>{}$~%-])((?:[\w.-]+/)*[\w-]+\.(?:h|cpp|cuh|def|py|pyi|md|sh|cmake|json(?:\.gz)?|svg))\b"
    r"(?![\w({<*])"
)
COMMENT = {".h": "//", ".cpp": "//", ".cuh": "//", ".def": "//", ".py": "#", ".cmake": "#"}
BASES = ("", "native", "native/kernels", "src", "src/pygpukit", "tests/native")
# Headers of CUDA and Python, files written by the build or a command, files of model folders, and
# pybind11's m.def.
ELSEWHERE = re.compile(
    r"(cuda\w*|cublas\w*|Python|x)\.h|kernel_sources\.cpp|(base|trace|gemm|FILE)\.(json|svg)"
    r"|special_tokens_map\.json"
    r"|m\.def"
)
# Files that tests write and name in C++ source or comments.
WRITTEN = {
    "tests/unit/test_cache.py": {"value.h"},
    "tests/unit/test_jit_cpu.py": {"nowhere.h"},
    "tests/unit/test_jit_includes.py": {
        "broken.h", "deep.h", "link.h", "open.h", "outer.h", "sub/deep.h", "value.h",
    },
    "tests/unit/test_kernel_args.py": {"args/toy.h"},
}  # fmt: skip


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a Markdown file, or the comments of a source file."""
    mark = COMMENT.get(path.suffix)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if mark is None:
            yield number, line
        elif mark in line:
            yield number, line.partition(mark)[2]


def problems(root: Path) -> Iterator[str]:
    known = files(root)
    basenames = {path.name for path in known}
    for path in known:
        checked = path.suffix in COMMENT or path.suffix == ".md"
        if not checked:
            continue
        where = path.relative_to(root).as_posix()
        written = WRITTEN.get(where, set())
        folders = [*(root / base for base in BASES), path.parent]
        for number, text in prose(path):
            for name in NAME.findall(text):
                exists = name in basenames or any((folder / name).exists() for folder in folders)
                if not exists and name not in written and not ELSEWHERE.fullmatch(name):
                    yield f"{where}:{number}: no such file: {name}"


def main() -> int:
    found = list(problems(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
