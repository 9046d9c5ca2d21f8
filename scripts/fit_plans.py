"""Judges the plans of matmul by sweeps, and fits the cost model of engine wgmma to them.

usage: fit_plans.py [--fit] SWEEP.json...

A sweep is what `python -m pygpukit.benchmark --gemm --random N --seed S --candidates K --save`
writes on a GPU. For each one this prints, by numbers of rows: the time of the fastest candidate and
of PyTorch over that of the plan that the installed package would choose, the geometric mean and
the worst, then the shapes below 0.95; and how far the predictions of each kernel are off. --fit
fits the constants of native/ops/matmul/wgmma_cost.cpp to the first sweep and judges them by the
others, which must have other seeds. The model is repeated here with its constants as parameters;
the script stops where the two disagree. docs/benchmarks/h200-plans.json can be judged too: it has
two times of a shape.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pygpukit import _native

Constants = dict[str, float]

# As in wgmma_cost.cpp (tensor_share() as kShare<width>), then plan/cost.cpp.
CONSTANTS: Constants = {
    "kL2BytesPerUs": 120e3,
    "kIntakeBytesPerUs": 133e3,
    "kStartUs": 1.8,
    "kStoreUs": 1.65,
    "kChunkUs": 0.06,
    "kReduceUs": 0.8,
    "kClusterUs": 1.0,
    "kClusterStepUs": 0.0035,
    "kDramShare": 0.964,
    "kStreamBytesPerUs": 49e3,
    "kRereadShare": 0.16,
    "kLooseLines": 1.25,
    "kLooseRows": 1.5,
    "kPartsNorm": 4.0,
    "kWaveNorm": 4.0,
    "kStridedStoreUs": 9.8,
    "kPackUs": 2.6,
    "kPackAccessesPerUs": 0.63e6,
    "kShare256": 0.99,
    "kShare192": 0.975,
    "kShare160": 0.96,
    "kShare96": 0.985,
    "kShare8": 0.61,
    "kDependencyUs": 2.0,
}
LAUNCH_US = 2.0
SMS, DRAM, TENSOR, L2_RATE = 132, 4.2e6, 132 * 4096 * 1600.0, 132 * 32 * 1600.0
L2_BYTES = 50 << 20
FLOOR = 0.95
ROWS = ((1, 1), (2, 8), (9, 64), (65, 512), (513, 1 << 30))
CHOICE_WEIGHT = 2.0  # of log(chosen / fastest), against squared errors of predictions


@dataclass
class Timed:
    """A candidate: the plan with its fields, and the measured time."""

    plan: dict[str, Any]
    us: float


@dataclass
class Shape:
    """A shape of a sweep, planned by the installed package."""

    name: str
    m: int
    n: int
    k: int
    layout: str
    torch_us: float | None
    chosen: str  # text of the plan
    timed: list[Timed]

    @property
    def label(self) -> str:
        """As in reports."""
        return f"{self.name} {self.m}x{self.n}x{self.k} {self.layout}"

    @property
    def best(self) -> Timed:
        """The fastest candidate."""
        return min(self.timed, key=lambda t: t.us)


# --- the model of engine wgmma --------------------------------------------------------------------


@dataclass
class Operand:
    """In the order of the kernel."""

    rows: int
    pitch: int  # bytes


def norm(power: float, *parts: float) -> float:
    """The longest hides most of the others."""
    longest = max(parts)
    return float(longest * sum((part / longest) ** power for part in parts) ** (1.0 / power))


def ceil_div(x: int, y: int) -> int:
    """x / y, rounded up."""
    return -(-x // y)


def widest(width: int, most: int) -> int:
    """Columns of one store."""
    return most if width % most == 0 else widest(width, most // 2)


def tensor_share(c: Constants, tile_n: int) -> float:
    """Of the rate of tensor cores."""
    if tile_n >= 256:
        return c["kShare256"]
    if tile_n == 160:
        return c["kShare160"]
    if tile_n > 160:
        return c["kShare192"]
    return c["kShare96"] if tile_n >= 96 else c["kShare8"]


def wgmma_us(c: Constants, shape: Shape, plan: Mapping[str, Any]) -> float:
    """As wgmma_cost.cpp, for one matrix of bfloat16 without an epilogue."""
    k = shape.k
    # One row is K-major however it is stored, and has any pitch (desc.cpp).
    one_row = ceil_div(k, 16) * 16
    a_pitch = one_row if shape.m == 1 else k if shape.layout[0] == "n" else shape.m
    a = Operand(shape.m, 2 * a_pitch)
    b = Operand(shape.n, 2 * (k if shape.layout[1] == "t" else shape.n))
    c_columns = shape.n
    if plan["transpose"]:
        a, b = b, a
    tile_m, tile_n, tile_k = plan["tile"]
    area = float(tile_m * tile_n)
    cluster, splits = plan["cluster"], plan["splits"]
    in_cluster = plan["kernel"] & 1 != 0
    share = 1 if in_cluster else cluster
    at_once = max(
        1, (SMS if cluster <= 2 else SMS * (80 if cluster == 4 else 70) // 100) // cluster
    )
    units = splits * ceil_div(ceil_div(a.rows, tile_m), share) * ceil_div(b.rows, tile_n)

    def row_bytes(operand: Operand, packed: bool) -> float:
        if packed or operand.pitch % 128 == 0:
            return 128.0
        return 128.0 * c["kLooseLines" if operand.pitch % 32 == 0 else "kLooseRows"]

    a_step = tile_m * row_bytes(a, plan["kernel"] & 2 != 0)
    b_step = tile_n * row_bytes(b, plan["kernel"] & 4 != 0)
    rate = tensor_share(c, tile_n) * TENSOR / SMS

    def step_us(blocks: float) -> float:
        return (c["kClusterStepUs"] if share > 1 else 0.0) + norm(
            c["kPartsNorm"],
            2.0 * area * tile_k / rate,
            (a_step + b_step / share) * blocks / (c["kL2BytesPerUs"] * SMS),
            (a_step + b_step) / c["kIntakeBytesPerUs"],
        )

    results = float(a.rows * b.rows)
    operand_bytes = 2.0 * k * (a.rows + b.rows)
    a_longer = a.rows > b.rows
    reads = ceil_div(b.rows, tile_n) if a_longer else ceil_div(a.rows, tile_m * share)
    rereads = c["kRereadShare"] * min(reads - 1, 2) * 2.0 * k * max(a.rows, b.rows)
    sums = 4.0 * results * splits if splits > 1 else 0.0
    memory = operand_bytes + 2.0 * results + sums + rereads

    width = tile_n // cluster if in_cluster else tile_n
    narrow = max(0.0, width / widest(width, 32 if splits > 1 else 64) - width / 32.0)
    if splits > 1:  # float32 sums, as if C were contiguous
        strided = 4 * b.rows % 16 != 0
    else:
        strided = 2 * c_columns % 16 != 0

    def wave_us(clusters: int) -> float:
        steps = ceil_div(ceil_div(k, tile_k), cluster if in_cluster else splits)
        blocks = float(clusters * cluster)
        if strided:
            elems = min(a.rows, tile_m) * min(b.rows, tile_n) / (cluster if in_cluster else 1)
            store = c["kStridedStoreUs"] * elems / (128.0 * 256.0)
        else:
            store = c["kStoreUs"] * area / (128.0 * 256.0) * (2.0 if splits > 1 else 1.0)
            store += c["kChunkUs"] * narrow
        stream = min(c["kDramShare"] * DRAM, blocks * c["kStreamBytesPerUs"])
        return norm(
            c["kWaveNorm"], steps * step_us(blocks) + store, memory * clusters / units / stream
        )

    full, rest = divmod(units, at_once)
    us = c["kStartUs"] + (full * wave_us(at_once) if full else 0.0)
    us += wave_us(rest) if rest else 0.0
    us += c["kClusterUs"] if cluster > 1 else 0.0
    us += c["kReduceUs"] * area / (128.0 * 64.0) * math.log2(cluster) if in_cluster else 0.0
    if splits > 1:
        num_bytes = results * (4.0 * splits + 2.0)
        slow = num_bytes >= 0.6 * L2_BYTES
        us += LAUNCH_US + c["kDependencyUs"] + num_bytes / (DRAM if slow else L2_RATE)
    for bit, operand in ((2, a), (4, b)):
        if plan["kernel"] & bit:
            align = min(operand.pitch & -operand.pitch, 16)
            rate = min(c["kPackAccessesPerUs"] * align, DRAM)
            us += c["kPackUs"] + 2.0 * operand.rows * k * 2.0 / rate
    return us * 1.001 if a.rows < b.rows else us


# --- sweeps ---------------------------------------------------------------------------------------


def planned(m: int, n: int, k: int, layout: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """The plan chosen on SM 90, and every plan by its text."""

    def operand(rows: int, columns: int, order: str) -> Any:
        shape = (columns, rows) if order == "t" else (rows, columns)
        array = _native.empty(shape, "bfloat16")
        return array.T if order == "t" else array

    a, b = operand(m, k, layout[0]), operand(k, n, layout[1])
    out = _native.empty((m, n), "bfloat16")

    def call() -> object:
        return _native.matmul(a, b, out=out)

    (narrow,) = _native.explain_products(call, 90)
    (every,) = _native.explain_products(call, 90, True)
    return narrow["choice"]["text"], {plan["text"]: plan for plan in every["candidates"]}


def read_best(rows: Iterable[Mapping[str, Any]]) -> list[Shape]:
    """Of h200-plans.json: the plan that was chosen, and the fastest of all."""
    shapes = []
    for row in rows:
        if row["dtype"] != "bfloat16":
            continue
        key = (row["m"], row["n"], row["k"], row["layout"])
        chosen, every = planned(*key)
        times = {row["plan"]: row["us"], row["best_plan"]: row["best_us"]}
        timed = [Timed(every[text], us) for text, us in times.items() if text in every]
        if timed:
            shapes.append(Shape(row["name"], *key, row["torch_us"], chosen, timed))
    return shapes


def read_sweep(path: Path) -> list[Shape]:
    """The shapes of a sweep in bfloat16. Candidates that no longer exist are left out."""
    torch: dict[tuple[Any, ...], float] = {}
    ours: dict[tuple[Any, ...], dict[str, Any]] = {}
    rows = json.loads(path.read_text(encoding="utf-8"))["results"]
    if rows and "best_plan" in rows[0]:
        return read_best(rows)
    for row in rows:
        p = row["params"]
        if p["dtype"] != "bfloat16":
            continue
        key = (row["name"], p["m"], p["n"], p["k"], p["layout"])
        if "candidates" in row.get("extra", {}):
            ours[key] = row
        elif p["impl"] == "torch":
            torch[key] = row["median_us"]
    shapes = []
    for key, row in ours.items():
        chosen, every = planned(*key[1:])
        timed = [
            Timed(every[candidate["plan"]], candidate["us"])
            for candidate in row["extra"]["candidates"]
            if "us" in candidate and "note" not in candidate and candidate["plan"] in every
        ]
        if timed:
            shapes.append(Shape(*key, torch.get(key), chosen, timed))
    return shapes


def check_port(shapes: Iterable[Shape]) -> None:
    """That wgmma_us() is the model of the installed package."""
    for shape in shapes:
        for timed in shape.timed:
            if timed.plan["engine"] != "wgmma":
                continue
            here, there = wgmma_us(CONSTANTS, shape, timed.plan), timed.plan["predicted_us"]
            if abs(here - there) > 1e-3 * there:
                raise SystemExit(
                    f"fit_plans: {shape.label} {timed.plan['text']}: {here:.3f} us here, "
                    f"{there:.3f} us in the package: CONSTANTS are not those of wgmma_cost.cpp"
                )


# --- judging --------------------------------------------------------------------------------------


def by_package(shape: Shape) -> Timed | None:
    """What the package would run; None where it was not measured."""
    return next((t for t in shape.timed if t.plan["text"] == shape.chosen), None)


def kernel_of(plan: Mapping[str, Any]) -> str | None:
    """A kernel of another engine than wgmma."""
    return None if plan["engine"] == "wgmma" else f"{plan['engine']} kernel={plan['kernel']}"


def predicted(constants: Constants, shape: Shape, timed: Timed) -> float:
    """With other constants, and those of fit() for other engines."""
    kernel = kernel_of(timed.plan)
    if kernel is None:
        return wgmma_us(constants, shape, timed.plan)
    return float(timed.plan["predicted_us"]) * constants.get(f"{kernel}, times", 1.0)


def by_constants(constants: Constants) -> Callable[[Shape], Timed]:
    """What other constants would choose, of the candidates that were measured."""
    return lambda shape: min(shape.timed, key=lambda t: predicted(constants, shape, t))


def summary(title: str, ratios: Sequence[tuple[float, str]]) -> str:
    """Geometric mean, worst, and how many are below the floor."""
    if not ratios:
        return f"  {title}: none"
    values = [ratio for ratio, _ in ratios]
    return (
        f"  {title}: {len(values)} shapes, geometric mean {statistics.geometric_mean(values):.3f}, "
        f"worst {min(values):.3f}, {sum(v < FLOOR for v in values)} below {FLOOR}"
    )


def judge(shapes: Sequence[Shape], choose: Callable[[Shape], Timed | None]) -> None:
    """Prints the ratios of the best candidate's and of PyTorch's time to the chosen plan's."""
    chosen = [(shape, timed) for shape in shapes if (timed := choose(shape)) is not None]
    if len(chosen) < len(shapes):
        print(f"  {len(shapes) - len(chosen)} of {len(shapes)} chosen plans were not measured")
    for low, high in (*ROWS, (1, 1 << 30)):
        part = [(s, t) for s, t in chosen if low <= s.m <= high and s.name != "probe"]
        rows = "all rows" if (low, high) == (1, 1 << 30) else f"rows {low} to {high}"
        if high == 1 << 30 and low > 1:
            rows = f"rows from {low}"
        print(summary(f"{rows}, best / chosen", [(s.best.us / t.us, s.label) for s, t in part]))
        torch = [(s.torch_us / t.us, s.label) for s, t in part if s.torch_us is not None]
        if torch:
            print(summary(f"{rows}, torch / chosen", torch))
        limit = [(s.torch_us / s.best.us, s.label) for s, _ in part if s.torch_us is not None]
        if limit:
            print(summary(f"{rows}, torch / best", limit))
    for shape, timed in sorted(chosen, key=lambda x: x[0].best.us / x[1].us):
        torch_us = shape.torch_us if shape.torch_us is not None else math.inf
        if min(shape.best.us, torch_us) / timed.us >= FLOOR and shape.name != "probe":
            continue
        print(
            f"    {shape.label}: chosen {timed.us:.1f} us {timed.plan['text']} "
            f"({timed.plan['predicted_us']:.1f}), best {shape.best.us:.1f} us "
            f"{shape.best.plan['text']} ({shape.best.plan['predicted_us']:.1f}), "
            f"torch {torch_us:.1f} us"
        )


def print_errors(shapes: Sequence[Shape]) -> None:
    """How far predictions are off, by engine and kernel; measured = a + b predicted."""
    groups: dict[str, list[tuple[float, float, str]]] = {}
    for shape in shapes:
        for t in shape.timed:
            plan = t.plan
            kind = f"{plan['engine']} kernel={plan['kernel']}"
            if plan["engine"] in ("wgmma", "mma"):
                tail = " k tail" if shape.k % plan["tile"][2] else ""
                kind += (" split-K" if plan["splits"] > 1 else "") + tail
            label = f"{shape.label} {plan['text']}"
            groups.setdefault(kind, []).append((float(plan["predicted_us"]), t.us, label))
    for kind, rows in sorted(groups.items()):
        ratios = sorted((us / guess, label) for guess, us, label in rows)
        values = [ratio for ratio, _ in ratios]
        a, b = line([(guess, us) for guess, us, _ in rows])
        print(
            f"  {kind}: {len(rows)} plans, measured / predicted {values[0]:.2f} to "
            f"{statistics.median(values):.2f} to {values[-1]:.2f}, "
            f"= {a:.2f} us + {b:.3f} predicted; slowest {ratios[-1][1]}"
        )


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """a and b of y = a + b x, by least squares of relative errors."""
    weights = [1.0 / (y * y) for _, y in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    both = zip(weights, points, strict=True)
    top = bottom = 0.0
    for w, (x, y) in both:
        top += w * (x - mean_x) * (y - mean_y)
        bottom += w * (x - mean_x) ** 2
    b = top / bottom if bottom > 0 else 1.0
    return mean_y - b * mean_x, b


# --- fitting --------------------------------------------------------------------------------------


def loss(constants: Constants, shapes: Sequence[Shape]) -> float:
    """Squared errors of predictions, more for plans near the fastest, and the cost of choices."""
    errors = weights = choices = 0.0
    for shape in shapes:
        best_us, chosen_us, least = shape.best.us, 0.0, math.inf
        for t in shape.timed:
            guess = predicted(constants, shape, t)
            if guess < least:
                least, chosen_us = guess, t.us
            weight = (best_us / t.us) ** 2
            errors += weight * math.log(guess / t.us) ** 2
            weights += weight
        choices += math.log(chosen_us / best_us)
    return errors / max(weights, 1.0) + CHOICE_WEIGHT * choices / max(len(shapes), 1)


def fit(shapes: Sequence[Shape], trials: int = 4000) -> Constants:
    """Random search from CONSTANTS, with a factor for every kernel of the other engines."""
    numbers = random.Random(0)
    others = {kernel_of(t.plan) for shape in shapes for t in shape.timed} - {None}
    constants = {**CONSTANTS, **{f"{kernel}, times": 1.0 for kernel in sorted(map(str, others))}}
    names = list(constants)
    least = loss(constants, shapes)
    for trial in range(trials):
        sigma = 0.2 * 0.05 ** (trial / trials)
        moved = {
            name: constants[name] * math.exp(numbers.gauss(0.0, sigma))
            for name in numbers.sample(names, numbers.randint(1, 3))
        }
        value = loss({**constants, **moved}, shapes)
        if value < least:
            constants, least = {**constants, **moved}, value
    return constants


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--fit", action="store_true", help="constants for wgmma_cost.cpp")
    parser.add_argument("sweeps", nargs="+", type=Path, metavar="SWEEP.json")
    args = parser.parse_args(argv)
    sweeps = {path: read_sweep(path) for path in args.sweeps}
    for path, shapes in sweeps.items():
        check_port(shapes)
        print(f"{path}: {len(shapes)} shapes, {sum(len(s.timed) for s in shapes)} plans")
        judge(shapes, by_package)
        print_errors(shapes)
    if args.fit:
        constants = fit(sweeps[args.sweeps[0]])
        print(f"fitted to {args.sweeps[0]}:")
        for name, value in constants.items():
            print(f"  {name} = {value:.4g}  (was {CONSTANTS.get(name, 1.0):.4g})")
        for path, shapes in sweeps.items():
            print(f"{path}, with these constants:")
            judge(shapes, by_constants(constants))
    return 0


if __name__ == "__main__":
    sys.exit(main())
