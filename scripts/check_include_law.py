"""Check every #include below native/ against GPK_INCLUDE_LAW in native/CMakeLists.txt.

usage: check_include_law.py [repository root]
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

SUFFIXES = {".h", ".cpp", ".cuh", ".def"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
FOREIGN = re.compile(r"^(cuda|cublas|nv|cu_|Python\.h|pybind11/|gtest/)")


def read_law(cmake: Path) -> dict[str, list[str]]:
    """{"jit": ["std", "os", "core", "jit"], ...}"""
    block = re.search(r"set\(GPK_INCLUDE_LAW\s+(.*?)\)", cmake.read_text(encoding="ascii"), re.S)
    if block is None:
        raise SystemExit(f"{cmake}: no set(GPK_INCLUDE_LAW ...)")
    law = {}
    for rule in re.findall(r'"([^"]+)"', block.group(1)):
        folder, allowed = rule.split(":")
        law[folder.strip()] = allowed.split()
    return law


def kind_of_system_header(name: str) -> str:
    if name.startswith("pybind11/") or name == "Python.h":
        return "pybind11"
    if re.fullmatch(r"[a-z0-9_]+|[a-z]mmintrin\.h", name):  # the compiler's own
        return "std"
    return "foreign" if FOREIGN.match(name) else "os"


def allowed_include(name: str, system: bool, parts: tuple[str, ...], allowed: list[str]) -> bool:
    if system:
        return kind_of_system_header(name) in allowed
    if "/" not in name:
        return name == "gpk.h" and "*" in allowed
    folder = name.rsplit("/", 1)[0]
    if parts[0] == "kernels":
        own = "/".join(parts[1:-1])
        return ("own" in allowed and folder == own) or f"kernels/{folder}" in allowed
    if folder == "/".join(parts[:-1]) and "own" in allowed:
        return True
    return bool({"*", name.split("/")[0], folder, f"{folder}/."} & set(allowed))


def problems(root: Path) -> Iterator[str]:
    native = root / "native"
    law = read_law(native / "CMakeLists.txt")
    for path in sorted(p for p in native.rglob("*") if p.suffix in SUFFIXES):
        parts = path.relative_to(native).parts
        where = path.relative_to(root).as_posix()
        folder = "/".join(parts[:2]) if "/".join(parts[:2]) in law else parts[0]
        allowed = law.get(folder)
        if allowed is None:
            yield f"{where}:1: {folder} is not in GPK_INCLUDE_LAW"
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if match is None:
                continue
            system = match.group(1) == "<"
            if not allowed_include(match.group(2), system, parts, allowed):
                yield (
                    f"{where}:{number}: {line.strip()} breaks the include law: "
                    f"{folder} may include only {' '.join(allowed)}"
                )


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(problems(root))
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
