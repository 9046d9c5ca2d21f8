"""The lines of native/ops/op_list.def: the functions, and their Python modules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "native" / "ops" / "op_list.def"

# Modules of lines whose macro implies it.
MODULES = {
    "ELEMENTWISE": "elementwise",
    "SELECT": "elementwise",
    "REDUCTION": "reduction",
    "SCAN": "scan",
}
# Not modules of pygpukit.ops: internal functions, and operators of the type.
ELSEWHERE = ("_native", "GPUArray")

LINE = re.compile(
    r"^GPK_(OP|FUNCTION|ELEMENTWISE|SELECT|REDUCTION|SCAN)\((\w+),\s*([^,]+),\s*([^,]+),",
    re.MULTILINE,
)


class Declaration(NamedTuple):
    name: str
    module: str
    file: Path


def read() -> list[Declaration]:
    """Every line, in order."""
    found = []
    for include in re.findall(r'^#include "(.+)"', LIST.read_text(encoding="ascii"), re.MULTILINE):
        path = ROOT / "native" / include
        for kind, name, second, third in LINE.findall(path.read_text(encoding="ascii")):
            module = {"OP": third, "FUNCTION": second}.get(kind) or MODULES[kind]
            found.append(Declaration(name, module, path.relative_to(ROOT)))
    return found


def by_module() -> dict[str, list[str]]:
    """The names of each module of pygpukit.ops, sorted."""
    table: dict[str, list[str]] = {}
    for declaration in read():
        if declaration.module not in ELSEWHERE:
            table.setdefault(declaration.module, []).append(declaration.name)
    return {module: sorted(table[module]) for module in sorted(table)}
