"""A gallery of faulty CUDA C kernels with their repaired twins: faulty_kernels/*.cu.

The first line of a file says what is wrong: ``// kind | grid=1 block=64 n=64 | in words``. Lines
that end with ``// BUG`` are where it may be reported; of a race there are two ends. Kinds after the
first are what may follow from the fault, anywhere. With REPAIRED defined the kernel is right. Each
is ``f(float* x, int n)`` with n zeros at x, or with memory that nobody wrote where the launch says
``empty=1``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "faulty_kernels"


@dataclass(frozen=True)
class FaultyKernel:
    name: str
    kinds: tuple[str, ...]
    text: str
    source: str
    grid: int
    block: int
    n: int
    empty: int = 0

    @property
    def kind(self) -> str:
        return self.kinds[0]

    @property
    def lines(self) -> list[int]:
        """Where the fault may be reported."""
        lines = enumerate(self.source.splitlines(), 1)
        return [number for number, text in lines if text.endswith("// BUG")]

    @property
    def repaired(self) -> str:
        """The twin; line numbers stay."""
        return "#define REPAIRED\n" + self.source.split("\n", 1)[1]

    def __str__(self) -> str:
        return self.name


def load(path: Path) -> FaultyKernel:
    source = path.read_text()
    kinds, launch, text = (
        part.strip() for part in source.split("\n", 1)[0].removeprefix("//").split("|")
    )
    sizes = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", launch)}
    return FaultyKernel(path.stem, tuple(kinds.split(", ")), text, source, **sizes)


KERNELS = [load(path) for path in sorted(FOLDER.glob("*.cu"))]
