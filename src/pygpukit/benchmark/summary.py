"""Notes that sum up a suite: the geometric mean of ratios, and the worst beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pygpukit.benchmark.interleave import geometric_mean
from pygpukit.benchmark.report import OURS, BenchmarkResult
from pygpukit.benchmark.session import Session


def shape_label(result: BenchmarkResult) -> str:
    """Its name and shape, the same for all implementations."""
    hidden = ("impl", "mode", "backend")
    return " ".join([result.name, *(f"{v}" for k, v in result.params.items() if k not in hidden)])


def note_ratios(session: Session, title: str, meaning: str, ratios: Mapping[str, float]) -> None:
    """Notes the geometric mean and the worst of ratios by shape; nothing without any."""
    if not ratios:
        return
    worst = min(ratios, key=lambda shape: ratios[shape])
    session.note(
        f"{title}: {len(ratios)} shapes, {meaning}: geometric mean "
        f"{geometric_mean(list(ratios.values())):.3f}, worst {ratios[worst]:.3f} ({worst})"
    )


def _speedups(session: Session, results: Iterable[BenchmarkResult]) -> dict[str, dict[str, float]]:
    """Each peer's time over ours, by shape.

    Where a shape was timed in a graph that time counts: its eager time is launch overhead.
    """
    times: dict[str, dict[str, float]] = {}
    for result in results:  # graph results precede eager ones
        times.setdefault(shape_label(result), {}).setdefault(result.impl, result.median_us)
    names = [peer.name for peer in session.peers] + [peer.name for peer in session.model_peers]
    return {
        name: {
            shape: by[name] / by[OURS] for shape, by in times.items() if name in by and OURS in by
        }
        for name in names
    }


def note_speedups(session: Session, title: str, results: Iterable[BenchmarkResult]) -> None:
    """Notes the geometric mean and the worst of each peer's time over ours."""
    for name, ratios in _speedups(session, results).items():
        note_ratios(session, title, f"speedup over {name}", ratios)


def note_slow(
    session: Session, title: str, results: Iterable[BenchmarkResult], floor: float
) -> None:
    """Notes the shapes where a peer's time over ours is below `floor`, slowest first."""
    for name, ratios in _speedups(session, results).items():
        slow = sorted((ratio, shape) for shape, ratio in ratios.items() if ratio < floor)
        shapes = "".join(f"\n  {ratio:.3f} {shape}" for ratio, shape in slow)
        session.note(
            f"{title}: {len(slow)} of {len(ratios)} below {floor} of {name}{':' if slow else ''}"
            + shapes
        )
