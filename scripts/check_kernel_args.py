"""Check that what crosses a launch is defined once, in native/kernels/args.

- No name has two definitions in kernels/args.
- No struct, class or enum in native/ops/<family> (or native/core) has a second
  definition in native/kernels/<family>, kernels/common or kernels/args.
- Every __global__ function uses only structs and enums of kernels/args.
- Headers in kernels/args include nothing.

usage: check_kernel_args.py [repository root]
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
DEFINITION = re.compile(
    r"\b(?:struct|class|union|enum(?:\s+class)?)\s+(?:alignas\s*\([^)]*\)\s*)*(\w+)"
    r"\s*(?:final\s*)?(?::[^;{()]*)?\{"
)
ATTRIBUTE = r"__\w+__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*"
KERNEL = re.compile(
    r"(?:template\s*<(?P<template>[^{};]*?)>\s*)?__global__\s+void\s+"
    rf"(?:{ATTRIBUTE})*(?P<name>\w+)\s*\((?P<parameters>[^{{}};]*)\)\s*\{{"
)
QUALIFIER = re.compile(r"\b(?:const|__grid_constant__|__restrict__|volatile)\b")
BUILTIN = {"bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed"}


def source(path: Path) -> str:
    return COMMENT.sub("", path.read_text(encoding="ascii"))


def all_definitions(paths: list[Path]) -> list[tuple[str, Path]]:
    return [(name, path) for path in paths for name in DEFINITION.findall(source(path))]


def definitions(paths: list[Path]) -> dict[str, Path]:
    return dict(all_definitions(paths))


def files(folder: Path, *patterns: str) -> list[Path]:
    return sorted(path for pattern in patterns for path in folder.glob(pattern))


def split_parameters(text: str) -> list[str]:
    """Split at commas outside <> and ()."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def by_value_types(match: re.Match[str]) -> Iterator[str]:
    """Types of a kernel's parameters except builtins, pointers and template parameters."""
    of_template = set(re.findall(r"\w+", match["template"] or ""))
    for parameter in split_parameters(match["parameters"]):
        text = QUALIFIER.sub("", parameter).strip()
        name = re.match(r"\w+", text)
        if "*" in text or name is None or name[0] in BUILTIN | of_template:
            continue
        yield name[0]


def problems(native: Path) -> Iterator[str]:
    kernels = native / "kernels"
    args = files(kernels / "args", "*.h")
    for path in args:
        if re.search(r"^\s*#\s*include", source(path), re.M):
            yield f"{path}: includes something; host compilers and NVRTC share no headers"
    shared: dict[str, Path] = {}
    for name, path in all_definitions(args):
        if name in shared:
            yield f"{path}: {name} is defined in {shared[name]} too"
        shared[name] = path
    common = definitions(files(kernels / "common", "*.cuh"))
    for folder in [native / "core", native / "ops", *sorted((native / "ops").iterdir())]:
        if not folder.is_dir():
            continue
        device = common | definitions(files(kernels / folder.name, "*.cuh")) | shared
        for name, path in sorted(definitions(files(folder, "*.h", "*.cpp")).items()):
            if name in device:
                yield f"{path}: {name} is defined in {device[name]} too"
    for path in files(kernels, "*/*.cuh"):
        for match in KERNEL.finditer(source(path)):
            for name in by_value_types(match):
                if name not in shared:
                    yield f"{path}: {match['name']} takes {name}, which is not in kernels/args"


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(problems(root / "native"))
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
