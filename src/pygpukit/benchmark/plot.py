"""Charts of a report as PNG or SVG: TFLOP/s of square GEMMs and of prefill, what row-wise ops
reach of the copy rate, and decode steps of models of the memory limit.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pygpukit.benchmark.report import OURS, BenchmarkReport, BenchmarkResult

Lines = dict[str, list[tuple[float, float]]]
Bars = dict[str, dict[str, float]]  # by series and category

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 55
COLORS = ("#0b6e4f", "#c1121f", "#1d4ed8", "#b45309", "#6d28d9", "#475569", "#0891b2", "#be185d")
MAX_SERIES = 8  # of bars


@dataclass(frozen=True)
class Chart:
    """Lines over sizes in powers of two, or bars by category; y from zero."""

    title: str
    x_label: str
    y_label: str
    lines: Lines = field(default_factory=dict)
    bars: Bars = field(default_factory=dict)

    @property
    def largest(self) -> float:
        """The largest value."""
        of_lines = [y for points in self.lines.values() for _, y in points]
        return max(of_lines + [y for values in self.bars.values() for y in values.values()])


def check_plot_path(path: Path) -> str | None:
    """Why no plot can be written there; None if one can."""
    if path.suffix.lower() not in (".png", ".svg"):
        return f"{path} is neither .png nor .svg"
    if not path.resolve().parent.is_dir():
        return f"the folder of {path} does not exist"
    if path.suffix.lower() == ".png" and importlib.util.find_spec("matplotlib") is None:
        return f"{path}: matplotlib is not installed; .svg needs nothing"
    return None


def _sorted_lines(lines: Lines) -> Lines:
    """Ours first, without single points."""
    full = {name: sorted(points) for name, points in lines.items() if len(points) > 1}
    return dict(sorted(full.items(), key=lambda item: (not item[0].startswith(OURS), item[0])))


def square_lines(report: BenchmarkReport) -> Lines:
    """Points (n, TFLOP/s) of square GEMMs by "impl dtype layout", ours first."""
    lines: Lines = {}
    for result in report.results:
        p = result.params
        if result.category != "gemm" or result.tflops is None or not p["m"] == p["n"] == p["k"]:
            continue
        name = f"{result.impl} {p['dtype']} {str(p['layout']).upper()}"
        lines.setdefault(name, []).append((float(p["n"]), result.tflops))
    return _sorted_lines(lines)


def prefill_lines(report: BenchmarkReport) -> Lines:
    """Points (s, TFLOP/s) of prefill by "impl dim causal", for the first number of heads."""
    rows = [r for r in report.results if (r.category, r.name) == ("attention", "prefill")]
    lines: Lines = {}
    for result in rows:
        p = result.params
        if p["heads"] == rows[0].params["heads"] and result.tflops is not None:
            name = f"{result.impl} dim {p['dim']} {'causal' if p['causal'] else 'full'}"
            lines.setdefault(name, []).append((float(p["s"]), result.tflops))
    return _sorted_lines(lines)


def row_bars(report: BenchmarkReport) -> Bars:
    """What our row-wise ops reach of the copy rate, by shape and op."""
    bars: Bars = {}
    for result in report.results:
        if result.impl == OURS and "of_copy" in result.extra:
            shape = f"{result.params['rows']}x{result.params['width']}"
            bars.setdefault(shape, {})[result.name] = float(result.extra["of_copy"])
    return dict(list(bars.items())[:MAX_SERIES])


def decode_lines(report: BenchmarkReport) -> Lines:
    """Points (context, share of the limit) of our decode steps by model and batch."""
    lines: Lines = {}
    for result in _decode_rows(report):
        p = result.params
        if result.impl == OURS:
            point = (float(p["context"]), float(result.extra["of_limit"]))
            lines.setdefault(f"{OURS} {p['model']} batch {p['batch']}", []).append(point)
    return _sorted_lines(lines)


def decode_bars(report: BenchmarkReport) -> Bars:
    """What decode steps of one sequence reach of the limit, by context and model."""
    bars: Bars = {}
    for result in _decode_rows(report):
        p = result.params
        if p["batch"] == 1:
            impl = "" if result.impl == OURS else f"{result.impl} "
            values = bars.setdefault(f"{impl}{p['context']}", {})
            values[str(p["model"])] = float(result.extra["of_limit"])
    return dict(list(bars.items())[:MAX_SERIES])


def _decode_rows(report: BenchmarkReport) -> list[BenchmarkResult]:
    return [r for r in report.results if (r.category, r.name) == ("llm", "decode")]


def charts(report: BenchmarkReport) -> list[Chart]:
    """All charts that the report has results for."""
    gpu = report.gpu.name
    found = [
        Chart(f"GEMM, {gpu}", "n (m = n = k)", "TFLOP/s", square_lines(report)),
        Chart(f"Attention, prefill, {gpu}", "sequence length", "TFLOP/s", prefill_lines(report)),
        Chart(f"Row-wise ops, {gpu}", "", "of the copy rate", bars=row_bars(report)),
        Chart(f"Decode, {gpu}", "context", "of the memory limit", decode_lines(report)),
        Chart(f"Decode of one sequence, {gpu}", "", "of the limit", bars=decode_bars(report)),
    ]
    return [chart for chart in found if chart.lines or chart.bars]


def write_plot(report: BenchmarkReport, path: Path) -> None:
    """Uses Matplotlib where installed, else writes an SVG. ValueError with nothing to draw."""
    found = charts(report)
    if not found:
        raise ValueError(
            "benchmark: a plot needs two square sizes of gemm, two lengths of attention, nn, or llm"
        )
    if importlib.util.find_spec("matplotlib") is not None:
        _with_matplotlib(found, path)
    else:
        path.write_text(to_svg(found), encoding="utf-8")


def _with_matplotlib(found: list[Chart], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    size = (WIDTH / 100, HEIGHT / 100 * len(found))
    figure, grid = pyplot.subplots(len(found), 1, figsize=size, squeeze=False)
    for axes, chart in zip(grid[:, 0], found, strict=True):
        for name, points in chart.lines.items():
            ours = name.startswith(OURS)
            axes.plot(*zip(*points, strict=True), "o-" if ours else "s--", label=name)
            axes.set_xscale("log", base=2)
        categories = _categories(chart.bars)
        for i, (name, values) in enumerate(chart.bars.items()):
            width = 0.8 / len(chart.bars)
            places = [categories.index(category) + i * width for category in values]
            axes.bar(places, list(values.values()), width, label=name)
            axes.set_xticks(range(len(categories)), categories, rotation=20)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        axes.set_title(chart.title)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _categories(bars: Bars) -> list[str]:
    return list(dict.fromkeys(category for values in bars.values() for category in values))


# --- SVG ----------------------------------------------------------------------------------------


def to_svg(found: list[Chart]) -> str:
    """The same plot without Matplotlib: the charts below each other."""
    font = 'font-family="sans-serif" font-size="12"'
    height = HEIGHT * len(found)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {font}>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for i, chart in enumerate(found):
        parts += [f'<g transform="translate(0 {i * HEIGHT})">', *_svg_chart(chart), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _svg_chart(chart: Chart) -> list[str]:
    step = _nice(chart.largest / 5)
    top = step * math.ceil(chart.largest / step)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)

    middle = f'x="{WIDTH / 2}" text-anchor="middle"'
    rotate = f'transform="rotate(-90 16 {HEIGHT / 2})"'
    parts = [
        f'<text {middle} y="22" font-size="15">{_escape(chart.title)}</text>',
        f'<text {middle} y="{HEIGHT - 12}">{_escape(chart.x_label)}</text>',
        f'<text x="16" y="{HEIGHT / 2}" text-anchor="middle" {rotate}>{chart.y_label}</text>',
    ]
    for i in range(round(top / step) + 1):
        at = y(i * step)
        parts.append(
            f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{i * step:g}</text>'
        )
    sizes = sorted({n for points in chart.lines.values() for n, _ in points})
    for i, (name, points) in enumerate(chart.lines.items()):
        parts += _svg_line(name, [(_x(n, sizes), y(rate)) for n, rate in points], i)
    parts += [_tick(_x(n, sizes), f"{n:g}") for n in sizes]
    return parts + _svg_bars(chart.bars, y)


def _x(n: float, sizes: list[float]) -> float:
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])
    return LEFT + (math.log2(n) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _tick(x: float, text: str) -> str:
    at = HEIGHT - BOTTOM + 18
    return f'<text x="{x:.1f}" y="{at}" text-anchor="middle">{_escape(text)}</text>'


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


def _svg_bars(bars: Bars, y: Callable[[float], float]) -> list[str]:
    """The legend is above the chart: bars may reach its top."""
    if not bars:
        return []
    categories = _categories(bars)
    room = (WIDTH - LEFT - RIGHT) / len(categories)
    width = 0.8 * room / len(bars)
    parts = [_tick(LEFT + (i + 0.5) * room, name) for i, name in enumerate(categories)]
    for i, (name, values) in enumerate(bars.items()):
        color = COLORS[i % len(COLORS)]
        at = LEFT + 90 * i
        parts += [
            f'<rect x="{at}" y="{TOP - 13}" width="8" height="8" fill="{color}"/>',
            f'<text x="{at + 12}" y="{TOP - 5}" font-size="10">{_escape(name)}</text>',
        ]
        for category, value in values.items():
            x = LEFT + (categories.index(category) + 0.1) * room + i * width
            size = f'width="{width:.1f}" height="{y(0) - y(value):.1f}"'
            parts.append(f'<rect x="{x:.1f}" y="{y(value):.1f}" {size} fill="{color}"/>')
    return parts


def _nice(step: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    return next(f * power for f in (1, 2, 5, 10) if f * power >= step * (1 - 1e-9))


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
