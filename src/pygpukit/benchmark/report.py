"""The report of a run: results, the machine, and serialisation."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

OURS = "pygpukit"


def now() -> str:
    """The time in ISO 8601, UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass
class GPUInfo:
    """The GPU of a report; "CPU Simulation" where there was none."""

    name: str
    sm_major: int
    sm_minor: int
    memory_gb: float
    driver_version: str
    cuda_version: str


@dataclass
class BenchmarkResult:
    """One measurement. Times are microseconds per call; params["impl"] is the implementation."""

    name: str
    category: str
    params: dict[str, Any]
    median_us: float
    min_us: float
    max_us: float
    std_us: float
    tflops: float | None = None
    bandwidth_gbps: float | None = None
    correct: bool | None = None
    rel_error: float | None = None
    iterations: int = 0
    timestamp: str = field(default_factory=now)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """category:name:params; identifies a measurement across reports."""
        params = ",".join(f"{k}={self.params[k]}" for k in sorted(self.params))
        return f"{self.category}:{self.name}:{params}"

    @property
    def impl(self) -> str:
        """The implementation that was timed."""
        return str(self.params.get("impl", OURS))

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON; `extra` is omitted where there is none."""
        data = asdict(self)
        if not self.extra:
            del data["extra"]
        if self.rel_error is not None and not math.isfinite(self.rel_error):
            data["rel_error"] = None  # JSON has no infinity; `correct` is false
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> BenchmarkResult:
        """The inverse of to_dict; fields of other versions are ignored."""
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in data.items() if k in known})


@dataclass
class BenchmarkReport:
    """The results of a run."""

    version: str
    gpu: GPUInfo
    timestamp: str = field(default_factory=now)
    results: list[BenchmarkResult] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False  # a note says where

    def add(self, result: BenchmarkResult) -> None:
        """Appends a result."""
        self.results.append(result)

    def note(self, text: str) -> None:
        """Appends a note, such as what was skipped and why. Duplicates are dropped."""
        if text not in self.notes:
            self.notes.append(text)

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON."""
        return {
            "version": self.version,
            "timestamp": self.timestamp,
            "gpu": asdict(self.gpu),
            "machine": self.machine,
            "notes": self.notes,
            "results": [result.to_dict() for result in self.results],
        }

    def save(self, path: str | Path) -> None:
        """Writes the JSON."""
        text = json.dumps(self.to_dict(), indent=2)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> BenchmarkReport:
        """Reads the JSON. ValueError where the file is not a report."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(
                version=data["version"],
                gpu=GPUInfo(**data["gpu"]),
                timestamp=data["timestamp"],
                results=[BenchmarkResult.from_dict(row) for row in data["results"]],
                machine=data.get("machine", {}),
                notes=data.get("notes", []),
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"benchmark: {path} is not a benchmark report: {error!r}") from error

    def to_text(self) -> str:
        """A table for a terminal."""
        rows = [_HEAD, *(_cells(result) for result in self.results)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
        left = (0, 1, 2)
        lines = []
        for row in rows:
            cells = (
                cell.ljust(width) if i in left else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append("  ".join(cells).rstrip())
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([self._title(), "", *lines, *self._note_lines()])

    def to_markdown(self) -> str:
        """The same table in Markdown."""
        lines = [f"**{self._title()}**", "", "| " + " | ".join(_HEAD) + " |"]
        lines.append("|---|---|---|" + "---:|" * (len(_HEAD) - 3))
        lines += ["| " + " | ".join(_cells(result)) + " |" for result in self.results]
        return "\n".join([*lines, *self._note_lines()])

    def _title(self) -> str:
        facts = [f"PyGPUkit {self.version}", self.gpu.name]
        if self.gpu.cuda_version:
            driver = f" ({self.gpu.driver_version})" if self.gpu.driver_version else ""
            facts.append(f"CUDA driver {self.gpu.cuda_version}{driver}")
        facts.append(f"Python {self.machine.get('python', '?')}")
        facts += [f"{k} {v}" for k, v in self.machine.get("peers", {}).items()]
        if self.machine.get("commit"):
            facts.append(f"commit {self.machine['commit'][:12]}")
        return ", ".join(facts)

    def _note_lines(self) -> list[str]:
        return ["", *(f"note: {note}" for note in self.notes)] if self.notes else []


_HEAD = ("benchmark", "impl", "params", "median us", "min us", "over base", "rate", "rel error")


def _cells(result: BenchmarkResult) -> tuple[str, ...]:
    params = " ".join(f"{k}={v}" for k, v in result.params.items() if k != "impl")
    error = "" if result.rel_error is None else f"{result.rel_error:.1e}"
    if result.correct is False:
        error += " WRONG"
    return (
        f"{result.category}/{result.name}",
        result.impl,
        params,
        _time(result.median_us),
        _time(result.min_us),
        _over(result),
        _rate(result),
        error,
    )


def _over(result: BenchmarkResult) -> str:
    """The difference from a base in us, or the ratio to one."""
    for name, value in result.extra.items():
        if name.startswith("over_"):
            return f"{value:+.2f}" if abs(value) < 1000 else f"{value:+.0f}"
        if name.startswith("of_"):
            return f"{value:.2f}x"
    return ""


def _time(us: float) -> str:
    return f"{us:.2f}" if us < 1000 else f"{us:.0f}"


def _rate(result: BenchmarkResult) -> str:
    gbps = result.bandwidth_gbps
    if gbps is None:
        return "" if result.tflops is None else f"{result.tflops:.4g} TFLOP/s"
    return f"{gbps / 1000:.2f} TB/s" if gbps >= 1000 else f"{gbps:.2f} GB/s"
