"""Predicts how a day of mixed work shares one GPU, and draws it.

    python examples/scheduler_simulation.py [--policy priority] [--tasks 3000] [--out timeline.png]

The scheduler is the real one; device and clock are simulated, so no GPU is needed and the same
input always gives the same picture. PNG needs matplotlib; without it an SVG is written.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

from pygpukit.scheduler import GB, MB, SimDevice, SimResult, SimTask, simulate

COLORS = {"guaranteed": "#c0392b", "burstable": "#2e86c1", "best_effort": "#95a5a6"}


def make_trace(count: int, seed: int) -> list[SimTask]:
    """Latency-sensitive requests, burstable batch jobs, and background work."""
    rng = random.Random(seed)
    tasks: list[SimTask] = []
    now = 0.0
    for i in range(count):
        now += rng.expovariate(400.0)
        kind = rng.choices(list(COLORS), weights=(5, 3, 2))[0]
        if kind == "guaranteed":
            task = SimTask(f"request {i}", duration=rng.uniform(0.5e-3, 2e-3), memory=64 * MB)
            task.compute = 0.3
        elif kind == "burstable":
            task = SimTask(f"batch {i}", duration=rng.uniform(2e-3, 8e-3), memory=512 * MB)
            task.compute = 0.6
            if tasks and rng.random() < 0.3:
                task.after = [rng.randrange(max(0, i - 20), i)]
        else:
            task = SimTask(f"background {i}", duration=rng.uniform(5e-3, 20e-3), memory=GB)
        task.qos, task.arrival = kind, now
        task.estimate = task.duration * rng.uniform(0.7, 1.4)
        tasks.append(task)
    return tasks


def lanes(tasks: list[SimTask], result: SimResult) -> list[tuple[int, float, float, str]]:
    """(stream, start, end, class) of every task that ran."""
    bars = []
    for task, got in zip(tasks, result.tasks, strict=True):
        if got.started is not None and got.ended is not None:
            bars.append((got.stream, got.started, got.ended, str(task.qos)))
    return bars


def draw_png(path: Path, tasks: list[SimTask], result: SimResult) -> None:
    """The timeline with matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (top, middle, bottom) = plt.subplots(
        3, 1, sharex=True, figsize=(14, 8), gridspec_kw={"height_ratios": [3, 1, 1]}
    )
    for kind, color in COLORS.items():
        mine = [bar for bar in lanes(tasks, result) if bar[3] == kind]
        top.barh(
            [bar[0] for bar in mine],
            [bar[2] - bar[1] for bar in mine],
            left=[bar[1] for bar in mine],
            color=color,
            label=kind,
        )
    top.set_ylabel("stream")
    top.legend(loc="upper right")
    times = [sample.time for sample in result.timeline]
    middle.step(times, [sample.compute for sample in result.timeline], where="post")
    middle.set_ylabel("compute")
    bottom.step(times, [sample.waiting for sample in result.timeline], where="post", color="#555")
    bottom.set_ylabel("waiting")
    bottom.set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def draw_svg(path: Path, tasks: list[SimTask], result: SimResult) -> None:
    """The timeline without matplotlib."""
    width, row = 1400, 24
    bars = lanes(tasks, result)
    rows = max((bar[0] for bar in bars), default=0) + 1
    start = min((task.arrival for task in tasks), default=0.0)
    scale = width / max(result.makespan, 1e-9)
    height = rows * row + 120
    shapes = []
    for stream, begin, end, kind in bars:
        x, w = (begin - start) * scale, max((end - begin) * scale, 0.3)
        shapes.append(
            f'<rect x="{x:.2f}" y="{stream * row + 2}" width="{w:.2f}" height="{row - 4}" '
            f'fill="{COLORS[kind]}"/>'
        )
    base = rows * row + 100
    most = max((sample.waiting for sample in result.timeline), default=0) or 1
    points = " ".join(
        f"{(sample.time - start) * scale:.2f},{base - 80 * sample.waiting / most:.2f}"
        for sample in result.timeline
    )
    shapes.append(f'<polyline points="{points}" fill="none" stroke="#555"/>')
    shapes.append(
        f'<text x="4" y="{base + 14}" font-size="12">waiting tasks, at most {most}</text>'
    )
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    body = "\n".join(shapes)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n',
        encoding="utf-8",
    )


def draw(path: Path, tasks: list[SimTask], result: SimResult) -> Path:
    """PNG where matplotlib is installed, else SVG; returns the path."""
    if path.suffix == ".png":
        try:
            draw_png(path, tasks, result)
            return path
        except ImportError:
            path = path.with_suffix(".svg")
    draw_svg(path, tasks, result)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--policy", choices=("fifo", "sjf", "priority"), default="priority")
    parser.add_argument("--tasks", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("timeline.png"))
    args = parser.parse_args()
    tasks = make_trace(args.tasks, args.seed)
    begin = time.perf_counter()
    result = simulate(tasks, SimDevice(8 * GB), policy=args.policy)
    spent = time.perf_counter() - begin
    print(result.text())
    print(f"{len(tasks)} tasks, {result.makespan:.2f} s of GPU time, simulated in {spent:.2f} s")
    print(f"wrote {draw(args.out, tasks, result)}")


if __name__ == "__main__":
    main()
