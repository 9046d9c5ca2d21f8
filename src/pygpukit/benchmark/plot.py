"""TFLOP/s of square GEMMs against n, a line per implementation, as PNG or SVG."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

from pygpukit.benchmark.report import OURS, BenchmarkReport

Lines = dict[str, list[tuple[float, float]]]

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 55
COLORS = ("#0b6e4f", "#c1121f", "#1d4ed8", "#b45309", "#6d28d9", "#475569")


def check_plot_path(path: Path) -> str | None:
    """Why no plot can be written there; None if one can."""
    if path.suffix.lower() not in (".png", ".svg"):
        return f"{path} is neither .png nor .svg"
    if not path.resolve().parent.is_dir():
        return f"the folder of {path} does not exist"
    if path.suffix.lower() == ".png" and importlib.util.find_spec("matplotlib") is None:
        return f"{path}: matplotlib is not installed; .svg needs nothing"
    return None


def square_lines(report: BenchmarkReport) -> Lines:
    """Points (n, TFLOP/s) of square GEMMs by "impl dtype layout", ours first."""
    lines: Lines = {}
    for result in report.results:
        p = result.params
        if result.category != "gemm" or result.tflops is None or not p["m"] == p["n"] == p["k"]:
            continue
        name = f"{result.impl} {p['dtype']} {str(p['layout']).upper()}"
        lines.setdefault(name, []).append((float(p["n"]), result.tflops))
    full = {name: sorted(points) for name, points in lines.items() if len(points) > 1}
    return dict(sorted(full.items(), key=lambda item: (not item[0].startswith(OURS), item[0])))


def write_plot(report: BenchmarkReport, path: Path) -> None:
    """Uses Matplotlib where installed, else writes an SVG. ValueError without two squares."""
    lines = square_lines(report)
    if not lines:
        raise ValueError("benchmark: a plot needs the gemm suite with at least two square sizes")
    title = f"GEMM, {report.gpu.name}"
    if importlib.util.find_spec("matplotlib") is not None:
        _with_matplotlib(lines, title, path)
    else:
        path.write_text(to_svg(lines, title), encoding="utf-8")


def _with_matplotlib(lines: Lines, title: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(WIDTH / 100, HEIGHT / 100))
    for name, points in lines.items():
        ours = name.startswith(OURS)
        axes.plot(*zip(*points, strict=True), "o-" if ours else "s--", label=name)
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("n (m = n = k)")
    axes.set_ylabel("TFLOP/s")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def to_svg(lines: Lines, title: str) -> str:
    """The same plot without Matplotlib: n in powers of two, TFLOP/s from zero."""
    sizes = sorted({n for points in lines.values() for n, _ in points})
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])
    step = _nice(max(rate for points in lines.values() for _, rate in points) / 5)
    top = step * math.ceil(max(r for points in lines.values() for _, r in points) / step)

    def x(n: float) -> float:
        return LEFT + (math.log2(n) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(rate: float) -> float:
        return HEIGHT - BOTTOM - rate / top * (HEIGHT - TOP - BOTTOM)

    font = 'font-family="sans-serif" font-size="12"'
    rotate = f'transform="rotate(-90 16 {HEIGHT / 2})"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {font}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-size="15">{_escape(title)}</text>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">n (m = n = k)</text>',
        f'<text x="16" y="{HEIGHT / 2}" text-anchor="middle" {rotate}>TFLOP/s</text>',
    ]
    for i in range(round(top / step) + 1):
        at = y(i * step)
        parts.append(
            f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{i * step:g}</text>'
        )
    parts += [
        f'<text x="{x(n):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{n:g}</text>'
        for n in sizes
    ]
    for i, (name, points) in enumerate(lines.items()):
        parts += _svg_line(name, [(x(n), y(rate)) for n, rate in points], i)
    return "\n".join([*parts, "</svg>", ""])


def _svg_line(name: str, points: list[tuple[float, float]], index: int) -> list[str]:
    color = COLORS[index % len(COLORS)]
    dashes = "" if name.startswith(OURS) else ' stroke-dasharray="6 4"'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    row = TOP + 14 + 17 * index
    return [
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points),
        f'<path d="M{LEFT + 10} {row - 4}h26" stroke="{color}" stroke-width="2"{dashes}/>',
        f'<text x="{LEFT + 42}" y="{row}">{_escape(name)}</text>',
    ]


def _nice(step: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    return next(f * power for f in (1, 2, 5, 10) if f * power >= step * (1 - 1e-9))


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
