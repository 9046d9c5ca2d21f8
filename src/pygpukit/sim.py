"""The GPU simulator: checks and profiles of kernels, with no GPU.

    report = gp.sim.check(kernel, x, y, n)      # faults, races, misused barriers, by source line
    profile = gp.sim.profile(kernel, x, y, n)   # operations, memory traffic, bank conflicts by line
    for step in gp.sim.step(kernel, x, y, n):   # what a warp does, instruction by instruction
        print(step)

Kernels run in the simulator where the arrays are on the CPU and NVRTC is installed, and everywhere
with PYGPUKIT_DEVICE=sim. ``python -m pygpukit check script.py`` checks a whole program.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pygpukit import _native
from pygpukit._sim_recording import Living, Recording, made, recorded
from pygpukit.core.arguments import items, require_callable, whole
from pygpukit.core.errors import GpuUnavailable, InvalidValueError

__all__ = [
    "Finding",
    "Launch",
    "Leak",
    "LineProfile",
    "Profile",
    "Report",
    "Step",
    "Walk",
    "check",
    "profile",
    "recording",
    "step",
]

Dim3 = tuple[int, int, int]
Sources = dict[tuple[str, int], list[str]]  # lines of a file, by its name and the module


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
    trace: dict[str, Any] | None = None  # of step()
    module: int = 0  # its PTX, by which sources of one name are told apart


@dataclass(frozen=True)
class Leak:
    """What was made during a check and was not released by its end."""

    kind: str  # "array", "pinned memory", "stream", "event", "graph", "module"
    count: int
    bytes: int

    def __str__(self) -> str:
        size = f", {self.bytes} bytes" if self.bytes else ""
        return f"not released: {self.kind}, {self.count} of them{size}"


@dataclass
class Report:
    """The launches of a check and what was found; true where nothing was."""

    launches: list[Launch] = field(default_factory=list)
    result: Any = None  # of the function
    leaks: list[Leak] = field(default_factory=list)  # no findings: somebody may mean to keep them

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
        leaks = [str(leak) for leak in self.leaks]
        return "\n".join([*self._shown(), *leaks, f"{len(self.launches)} launches, {found}"])

    def _shown(self) -> Iterator[str]:
        """The first finding of each kind on each line, and how many more there are."""
        groups: dict[tuple[str, ...], list[Finding]] = {}
        for finding in self.findings:
            key = (finding.kernel, finding.place, finding.kind, finding.source)
            groups.setdefault(key, []).append(finding)
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
        sums: dict[tuple[str, int, int], list[LineProfile]] = {}
        for launch in self.launches:
            for line in launch.lines:
                sums.setdefault((line.file, launch.module, line.line), []).append(line)
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
    A seed other than 0 shuffles the order of warps and blocks, which provokes other races. What fn
    made and nobody has released, but for its result, is in ``leaks``.
    """
    require_callable("check", "fn", fn)
    seed = whole("check", "seed", seed)
    report = Report()
    with watching_leaks() as leaks:
        with recording(report.launches, check=True, races=bool(races), seed=seed):
            report.result = fn(*args, **kwargs)
        report.leaks = leaks(report.result)
    return report


def profile(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Profile:
    """Calls ``fn(*args, **kwargs)`` and counts what each source line of its kernels did."""
    require_callable("profile", "fn", fn)
    found = Profile()
    with recording(found.launches, counts=True):
        found.result = fn(*args, **kwargs)
    return found


@dataclass(frozen=True)
class Step:
    """One instruction, executed by the lanes of a warp that are active."""

    file: str
    line: int
    source: str  # text of that line
    ptx: str
    ptx_line: int
    active: Any  # bool [32]
    registers: dict[str, Any]  # written: name to values [32]; those of other lanes are older

    def __str__(self) -> str:
        lines = [f"{self.file}:{self.line} | {self.source.strip()}", f"    {self.ptx}"]
        lanes = np.flatnonzero(self.active)
        for name, values in self.registers.items():
            shown = ", ".join(f"{value}" for value in values[lanes][:8])
            lines.append(f"    {name} = {shown}{', ...' if len(lanes) > 8 else ''}")
        return "\n".join(lines)


class Walk:
    """The steps of a warp, in order: an iterator, with the registers as of the last step."""

    def __init__(self, steps: list[Step], findings: list[Finding]) -> None:
        self.steps = steps
        self.findings = findings  # of the whole launch
        self.registers: dict[str, Any] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Walk:
        return self

    def __next__(self) -> Step:
        if self._next >= len(self.steps):
            raise StopIteration
        taken = self.steps[self._next]
        self._next += 1
        self.registers.update(taken.registers)
        return taken

    def until(self, line: int) -> Step | None:
        """Goes on to the next step that is on a source line, and returns it; None: no more."""
        return next((taken for taken in self if taken.line == line), None)


def step(
    kernel: Callable[..., Any],
    *args: Any,
    block_index: Dim3 = (0, 0, 0),
    warp: int = 0,
    until: int | None = None,
    max_steps: int = 10_000,
    **kwargs: Any,
) -> Walk:
    """Runs ``kernel(*args, **kwargs)`` and returns a walk over what one of its warps did.

    The whole grid runs first, and its effects stay. ``until`` moves the walk to the first step on
    that source line; ``Walk.until`` to the next ones. A function with several launches gives the
    first one's.
    """
    require_callable("step", "kernel", kernel)
    index = [
        whole("step", "block_index", i, 0, 2**31 - 1)
        for i in items("step", "block_index", block_index, "three indices")
    ]
    if len(index) != 3:
        raise InvalidValueError(f"step: block_index is {block_index}, expected three indices")
    warp = whole("step", "warp", warp)
    max_steps = whole("step", "max_steps", max_steps, 1)
    launches: list[Launch] = []
    trace = {"trace_steps": max_steps, "trace_block": index, "trace_warp": warp}
    with recording(launches, check=True, trace=trace):
        kernel(*args, **kwargs)
    if not launches:
        raise InvalidValueError("step: the function launched no kernel")
    first = launches[0]
    if any(i >= n for i, n in zip(index, first.grid, strict=True)):
        raise InvalidValueError(
            f"step: block_index is {block_index}, the grid has {first.grid} blocks"
        )
    warps = -(-first.block[0] * first.block[1] * first.block[2] // 32)
    if warp >= warps:
        raise InvalidValueError(f"step: warp is {warp}, a block of {first.block} has {warps}")
    assert first.trace is not None
    if not first.trace["complete"]:
        raise InvalidValueError(f"step: the warp did more than max_steps={max_steps} instructions")
    walk = Walk(_steps(first.trace, first.module), first.findings)
    if until is not None:
        position = next((i for i, s in enumerate(walk.steps) if s.line == until), len(walk))
        for _ in range(position):
            next(walk)
    return walk


_REGISTER_TYPES = {
    **{
        f"{kind}{bits}": f"{name}{bits}"
        for kind, name in (("b", "int"), ("s", "int"), ("u", "uint"))
        for bits in (16, 32, 64)
    },
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}


def _steps(trace: dict[str, Any], module: int) -> list[Step]:
    sources: Sources = {}
    found = []
    for number, mask, text in trace["steps"]:
        at = trace["instructions"][number]
        values = bytes.fromhex(text)
        found.append(
            Step(
                *(at["file"], at["line"], _source_line(at["file"], module, at["line"], sources)),
                *(at["text"], at["ptx_line"], _bits(mask)),
                _registers(at["registers"], values),
            )
        )
    return found


def _bits(mask: int) -> Any:
    return np.array([mask >> lane & 1 for lane in range(32)], bool)


def _registers(written: list[list[str]], values: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, kind in written if values else []:
        if kind == "pred":
            found[name] = _bits(int.from_bytes(values[:4], "little"))
            values = values[4:]
            continue
        bits = (
            128 if kind == "b128" else 64 if kind.endswith("64") else 16 if kind in _NARROW else 32
        )
        dtype = np.dtype(_REGISTER_TYPES.get(kind, f"uint{bits}" if bits < 128 else "V16"))
        size = 32 * dtype.itemsize
        found[name] = np.frombuffer(values[:size], dtype)
        values = values[size:]
    return found


_NARROW = {"b8", "u8", "s8", "b16", "u16", "s16", "f16", "bf16", "e4m3", "e5m2", "e4m3x2", "e5m2x2"}


@contextmanager
def recording(
    launches: list[Launch],
    *,
    check: bool = False,
    races: bool = False,
    counts: bool = False,
    seed: int = 0,
    trace: dict[str, Any] | None = None,
) -> Iterator[None]:
    """Adds the launches of the block to a list; their faults are not raised meanwhile.

    All threads' launches count, and those that another recording has as well.
    """
    from pygpukit.ops.fusion import simulated

    _require_simulator()
    rows: list[dict[str, Any]] = []
    try:
        with recorded(Recording(rows, check, races, counts, seed, trace or {})), simulated():
            yield  # simulated: fused functions, which are NumPy's work on the CPU otherwise
    finally:
        sources: Sources = {}
        launches.extend(_launch(row, sources) for row in rows)


@contextmanager
def watching_leaks() -> Iterator[Callable[[Any], list[Leak]]]:
    """Gives a function: what was made in the block and lives, except the arrays in a result.

    The library's own streams, events, modules and pools are not counted.
    """
    with made() as living:
        yield lambda result: _leaks(result, living)


def _leaks(result: Any, living: Living) -> list[Leak]:
    kept = list(_arrays_in(result))
    rows = living(kept)
    if rows:  # garbage in reference cycles is not a leak
        gc.collect()
        rows = living(kept)
    sizes_of: dict[str, list[int]] = {}
    for kind, size in rows:
        sizes_of.setdefault(kind, []).append(size)
    return [Leak(kind, len(sizes), sum(sizes)) for kind, sizes in sorted(sizes_of.items())]


def _arrays_in(result: Any) -> Iterator[_native.GPUArray]:
    if isinstance(result, _native.GPUArray):
        yield result
    elif isinstance(result, dict):
        yield from _arrays_in(list(result.values()))
    elif isinstance(result, (list, tuple)):
        for item in result:
            yield from _arrays_in(item)


def _require_simulator() -> None:
    info = _native.sim_info()
    if info["problem"]:
        raise GpuUnavailable(f"sim: {info['problem']}")
    if _native.default_device()[0] != "cpu" and not info["is_driver"]:
        raise GpuUnavailable(
            "sim: this process runs on a GPU. Set PYGPUKIT_DEVICE=sim (or cpu) before it starts, "
            "or use: python -m pygpukit check script.py"
        )


def _launch(row: dict[str, Any], sources: Sources) -> Launch:
    def source(file: str, line: int) -> str:
        return _source_line(file, row["module"], line, sources)

    return Launch(
        row["kernel"],
        _dim3(row["grid"]),
        _dim3(row["block"]),
        row["ok"],
        row["lane_ops"],
        [_finding(item, source) for item in row["findings"]],
        _lines(row["counts"], source),
        row.get("trace"),
        row["module"],
    )


def _finding(item: dict[str, Any], source: Callable[[str, int], str]) -> Finding:
    return Finding(
        item["kind"],
        item["kernel"],
        _dim3(item["block"]),
        _dim3(item["thread"]),
        item["file"],
        item["line"],
        source(item["file"], item["line"]),
        item["text"],
        item["ptx_line"],
    )


def _lines(counts: list[dict[str, Any]], source: Callable[[str, int], str]) -> list[LineProfile]:
    """Counts come by PTX line; a source line has several."""
    by_line: dict[tuple[str, int], list[LineProfile]] = {}
    for c in counts:
        line = LineProfile(
            *(
                c["file"],
                c["line"],
                source(c["file"], c["line"]),
                c["warp_ops"],
                c["lane_ops"],
                c["sectors"],
            ),
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


def _source_line(file: str, module: int, line: int, sources: Sources) -> str:
    if line <= 0:
        return ""
    if (file, module) not in sources:
        sources[file, module] = (_native.sim_source(file, module) or "").splitlines()
    lines = sources[file, module]
    return lines[line - 1] if line <= len(lines) else ""


def _dim3(values: list[int]) -> Dim3:
    return (values[0], values[1], values[2])
