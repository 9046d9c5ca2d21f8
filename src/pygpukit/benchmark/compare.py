"""Two reports side by side."""

from __future__ import annotations

from dataclasses import dataclass, field

from pygpukit.benchmark.report import OURS, BenchmarkReport, BenchmarkResult


@dataclass
class ComparisonEntry:
    """One measurement in both reports. delta_percent is negative when it is slower now."""

    key: str
    baseline_us: float
    current_us: float
    delta_percent: float
    became_wrong: bool = False

    def __str__(self) -> str:
        wrong = ", result became wrong" if self.became_wrong else ""
        return (
            f"{self.key}: {self.baseline_us:.2f} -> {self.current_us:.2f} us "
            f"({self.delta_percent:+.1f} %{wrong})"
        )


@dataclass
class Comparison:
    """What changed by more than the threshold, and what only one report has."""

    threshold: float
    regressions: list[ComparisonEntry] = field(default_factory=list)
    improvements: list[ComparisonEntry] = field(default_factory=list)
    unchanged: list[ComparisonEntry] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def has_regressions(self) -> bool:
        """True when anything is slower by more than the threshold, or wrong."""
        return bool(self.regressions)

    def to_text(self) -> str:
        """The comparison as readable text."""
        lines = [f"warning: {warning}" for warning in self.warnings]
        lines.append(
            f"compared with the baseline (threshold {self.threshold * 100:g} %): "
            f"{len(self.regressions)} slower, {len(self.improvements)} faster, "
            f"{len(self.unchanged)} unchanged, {len(self.missing)} missing, {len(self.new)} new"
        )
        lines += [f"  slower   {entry}" for entry in self.regressions]
        lines += [f"  faster   {entry}" for entry in self.improvements]
        lines += [f"  missing  {key}" for key in self.missing]
        lines += [f"  new      {key}" for key in self.new]
        return "\n".join(lines)


def _own_results(report: BenchmarkReport) -> dict[str, BenchmarkResult]:
    """By key, without the peers, whose regressions are not ours."""
    return {result.key: result for result in report.results if result.impl == OURS}


def compare_reports(
    base: BenchmarkReport, cur: BenchmarkReport, threshold: float = 0.05
) -> Comparison:
    """Compares the median times of `cur` with `base`; 0.05 means five per cent."""
    if threshold < 0:
        raise ValueError(f"compare_reports: threshold is {threshold}, expected 0 or more")
    comparison = Comparison(threshold)
    if base.gpu.name != cur.gpu.name:
        comparison.warnings.append(
            f"the baseline is from another device ({base.gpu.name}, now {cur.gpu.name})"
        )
    before, after = _own_results(base), _own_results(cur)
    for key, old in before.items():
        new = after.get(key)
        if new is None:
            comparison.missing.append(key)
            continue
        delta = 100.0 * (old.median_us - new.median_us) / old.median_us if old.median_us else 0.0
        wrong = new.correct is False and old.correct is not False
        entry = ComparisonEntry(key, old.median_us, new.median_us, delta, wrong)
        if wrong or new.median_us > old.median_us * (1 + threshold):
            comparison.regressions.append(entry)
        elif new.median_us < old.median_us * (1 - threshold):
            comparison.improvements.append(entry)
        else:
            comparison.unchanged.append(entry)
    comparison.new = [key for key in after if key not in before]
    return comparison
