"""The GPU simulator: checks and profiles of kernels, with no GPU.

    report = gp.sim.check(kernel, x, y, n)      # faults, races, misused barriers, by source line
    profile = gp.sim.profile(kernel, x, y, n)   # operations, memory traffic, bank conflicts by line

Kernels run in the simulator where the arrays are on the CPU and NVRTC is installed, and everywhere
with PYGPUKIT_DEVICE=sim. ``python -m pygpukit check script.py`` checks a whole program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pygpukit import _native
from pygpukit.core.errors import GpuUnavailable

__all__ = ["Finding", "Launch", "LineProfile", "Profile", "Report", "check", "profile", "recording"]

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Finding:
    """One fault: what happened, where in the grid, and on which line."""

    kind: str  # "out of bounds", "misaligned", "race", "uninitialised", "divergent barrier", ...
    kernel: str
    block: Dim3
    thread: Dim3
    file: str  # "" where the kernel was compiled without line information
    line: int
    source: str  # text of that line
    text: str
    ptx_line: int

    @property
    def place(self) -> str:
        """``saxpy.cu:4``; the line of the PTX where there is no other."""
        return f"{self.file}:{self.line}" if self.line > 0 else f"PTX line {self.ptx_line}"

    def __str__(self) -> str:
        where = f"kernel {self.kernel}, block {self.block}, thread {self.thread}"
        lines = [f"{self.place}: {self.kind}: {self.text}", f"    in {where}"]
        if self.source:
            lines.insert(1, f"    {self.line:>4} | {self.source.strip()}")
        return "\n".join(lines)


@dataclass(frozen=True)
class LineProfile:
    """What one source line did, summed over a launch's threads."""

    file: str
    line: int
    source: str
    warp_ops: int
    lane_ops: int
    sectors: int
    ideal_sectors: int
    bank_conflicts: int


@dataclass(frozen=True)
class Launch:
    """One kernel launch."""

    kernel: str
    grid: Dim3
    block: Dim3
    ok: bool
    lane_ops: int
    findings: list[Finding]
    lines: list[LineProfile]


@dataclass
class Report:
    """The launches of a check and what was found; true where nothing was."""

    launches: list[Launch] = field(default_factory=list)
    result: Any = None  # of the function

    @property
    def findings(self) -> list[Finding]:
        return [finding for launch in self.launches for finding in launch.findings]

    @property
    def ok(self) -> bool:
        return not self.findings

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        count = len(self.findings)
        found = "no findings" if count == 0 else f"{count} finding{'s' if count > 1 else ''}"
        return "\n".join([*self._shown(), f"{len(self.launches)} launches, {found}"])

    def _shown(self) -> Iterator[str]:
        """The first finding of each kind on each line, and how many more there are."""
        groups: dict[tuple[str, str, str], list[Finding]] = {}
        for finding in self.findings:
            groups.setdefault((finding.kernel, finding.place, finding.kind), []).append(finding)
        for group in groups.values():
            yield str(group[0])
            if len(group) > 1:
                yield f"    and {len(group) - 1} more on this line"


@dataclass
class Profile:
    """Counts per source line, the busiest first."""

    launches: list[Launch] = field(default_factory=list)
    result: Any = None

    @property
    def lines(self) -> list[LineProfile]:
        sums: dict[tuple[str, int], list[LineProfile]] = {}
        for launch in self.launches:
            for line in launch.lines:
                sums.setdefault((line.file, line.line), []).append(line)
        return sorted((_sum(lines) for lines in sums.values()), key=lambda line: -line.warp_ops)

    def __str__(self) -> str:
        rows = [("line", "warp ops", "lanes", "sectors", "ideal", "conflicts", "source")]
        for line in self.lines:
            lanes = f"{line.lane_ops / max(line.warp_ops, 1):.1f}"
            rows.append(
                (
                    f"{line.file}:{line.line}",
                    *(str(line.warp_ops), lanes, str(line.sectors), str(line.ideal_sectors)),
                    *(str(line.bank_conflicts), line.source.strip()),
                )
            )
        widths = [max(len(row[i]) for row in rows) for i in range(6)]
        return "\n".join(
            f"{row[0]:<{widths[0]}}  "
            + "  ".join(f"{row[i]:>{widths[i]}}" for i in range(1, 6))
            + f"  {row[6]}"
            for row in rows
        )


def check(
    fn: Callable[..., Any],
    *args: Any,
    races: bool = True,
    seed: int = 0,
    **kwargs: Any,
) -> Report:
    """Calls ``fn(*args, **kwargs)`` with all checks on and reports what its kernels did wrong.

    fn is a kernel or any function that launches some. A fault ends its launch, not the program.
    A seed other than 0 shuffles the order of warps and blocks, which provokes other races.
    """
    report = Report()
    with recording(report.launches, check=True, races=races, seed=seed):
        report.result = fn(*args, **kwargs)
    return report


def profile(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Profile:
    """Calls ``fn(*args, **kwargs)`` and counts what each source line of its kernels did."""
    found = Profile()
    with recording(found.launches, counts=True):
        found.result = fn(*args, **kwargs)
    return found


@contextmanager
def recording(
    launches: list[Launch],
    *,
    check: bool = False,
    races: bool = False,
    counts: bool = False,
    seed: int = 0,
) -> Iterator[None]:
    """Adds the launches of the block to a list; their faults are not raised meanwhile."""
    _require_simulator()
    before = _native.sim_options()
    _native.synchronize()
    _native.sim_take_report()
    wanted = {"check": check, "races": races, "counts": counts, "seed": seed}
    _native.sim_set_options(**{**before, **wanted, "record": True, "log": False})
    try:
        yield
        _native.synchronize()
    finally:
        _native.sim_set_options(**before)
        sources: dict[str, list[str]] = {}
        launches.extend(_launch(row, sources) for row in json.loads(_native.sim_take_report()))


def _require_simulator() -> None:
    info = _native.sim_info()
    if info["problem"]:
        raise GpuUnavailable(f"sim: {info['problem']}")
    if _native.default_device()[0] != "cpu" and not info["is_driver"]:
        raise GpuUnavailable(
            "sim: this process runs on a GPU. Set PYGPUKIT_DEVICE=sim (or cpu) before it starts, "
            "or use: python -m pygpukit check script.py"
        )


def _launch(row: dict[str, Any], sources: dict[str, list[str]]) -> Launch:
    return Launch(
        row["kernel"],
        _dim3(row["grid"]),
        _dim3(row["block"]),
        row["ok"],
        row["lane_ops"],
        [_finding(item, sources) for item in row["findings"]],
        _lines(row["counts"], sources),
    )


def _finding(item: dict[str, Any], sources: dict[str, list[str]]) -> Finding:
    return Finding(
        item["kind"],
        item["kernel"],
        _dim3(item["block"]),
        _dim3(item["thread"]),
        item["file"],
        item["line"],
        _source_line(item["file"], item["line"], sources),
        item["text"],
        item["ptx_line"],
    )


def _lines(counts: list[dict[str, Any]], sources: dict[str, list[str]]) -> list[LineProfile]:
    """Counts come by PTX line; a source line has several."""
    by_line: dict[tuple[str, int], list[LineProfile]] = {}
    for c in counts:
        source = _source_line(c["file"], c["line"], sources)
        line = LineProfile(
            *(c["file"], c["line"], source, c["warp_ops"], c["lane_ops"], c["sectors"]),
            *(c["ideal_sectors"], c["bank_conflicts"]),
        )
        by_line.setdefault((line.file, line.line), []).append(line)
    return [_sum(lines) for lines in by_line.values()]


def _sum(lines: list[LineProfile]) -> LineProfile:
    first = lines[0]
    return LineProfile(
        *(first.file, first.line, first.source),
        sum(line.warp_ops for line in lines),
        sum(line.lane_ops for line in lines),
        sum(line.sectors for line in lines),
        sum(line.ideal_sectors for line in lines),
        sum(line.bank_conflicts for line in lines),
    )


def _source_line(file: str, line: int, sources: dict[str, list[str]]) -> str:
    if line <= 0:
        return ""
    if file not in sources:
        sources[file] = (_native.sim_source(file) or "").splitlines()
    lines = sources[file]
    return lines[line - 1] if line <= len(lines) else ""


def _dim3(values: list[int]) -> Dim3:
    return (values[0], values[1], values[2])
