"""python -m pygpukit.benchmark --gemm --gemv: cases, interleaved timing, correctness, plots."""

from __future__ import annotations

import math
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pygpukit._cli.terminal import ProgressLine
from pygpukit.benchmark import BenchmarkReport, BenchmarkResult, BenchmarkSuite, GPUInfo
from pygpukit.benchmark.__main__ import main
from pygpukit.benchmark.gemm import product_error
from pygpukit.benchmark.interleave import geometric_mean, host_sampler, measure_in_turn
from pygpukit.benchmark.peers import load_engines
from pygpukit.benchmark.plot import Chart, check_plot_path, square_lines, to_svg, write_plot
from pygpukit.benchmark.product_cases import (
    FEW_ROWS,
    LAYOUTS,
    MANY_ROWS,
    PROJECTIONS,
    TOLERANCE,
    Case,
    eight_bit_cases,
    gemm_cases,
    gemv_cases,
    quick_cases,
    random_cases,
)
from pygpukit.benchmark.session import Session
from pygpukit.benchmark.summary import note_slow, note_speedups

GPU = GPUInfo("GPU A", 9, 0, 141.0, "580.0", "13.0")


def product(
    impl: str, n: int, median: float, mode: str = "graph", **params: object
) -> BenchmarkResult:
    given = {
        "impl": impl,
        "m": n,
        "n": n,
        "k": n,
        "layout": "nn",
        "dtype": "bfloat16",
        "mode": mode,
    }
    return BenchmarkResult(
        "square", "gemm", {**given, **params}, median, median, median, 0.0, tflops=n / median
    )


def report(*results: BenchmarkResult) -> BenchmarkReport:
    return BenchmarkReport("0.3.0", GPU, results=list(results))


# --- cases --------------------------------------------------------------------------------------


def test_the_suite_covers_what_it_should() -> None:
    cases = gemm_cases(None, None, None)
    assert len(cases) == len(set(cases)) >= 60
    assert len([case for case in cases if case.dtype in ("bfloat16", "float16")]) >= 60
    assert {case.layout for case in cases} == set(LAYOUTS)
    assert {case.m for case in cases if case.name in {p.name for p in PROJECTIONS}} == set(
        MANY_ROWS
    )
    assert any(case.k % 2 == 1 and case.n % 2 == 1 for case in cases)
    few = gemv_cases(None, None, None)
    assert {case.m for case in few} == set(FEW_ROWS)
    in_targets = {(2048, 2048), (4096, 4096), (4096, 14336), (14336, 4096), (8192, 8192)}
    assert in_targets | {(8192, 28672)} <= {(case.k, case.n) for case in few if case.m == 1}


def test_selection() -> None:
    assert {c.dtype for c in gemm_cases(None, ["float16"], None)} == {"float16"}
    assert {c.layout for c in gemv_cases(None, None, ["nn"])} == {"nn"}
    sized = gemm_cases([64, 96], ["float32", "tf32"], ["nt", "tt"])
    assert sized == [
        Case("square", n, n, n, layout, dtype)
        for dtype in ("float32", "tf32")
        for layout in ("nt", "tt")
        for n in (64, 96)
    ]
    quick = quick_cases(gemm_cases(None, None, None))
    assert 10 < len(quick) < 40
    assert {case.n for case in quick if case.name == "square"} >= {512, 4096, 16384}


def test_random_cases() -> None:
    cases = random_cases(400, 3, None, None)
    assert cases == random_cases(400, 3, None, None)
    assert cases != random_cases(400, 4, None, None)
    assert {case.layout for case in cases} == set(LAYOUTS)
    assert all(1 <= case.m <= 8192 for case in cases)
    assert all(128 <= size <= 16384 for case in cases for size in (case.n, case.k))
    assert sum(case.m <= 90 for case in cases) > 120  # about half
    odd = sum(case.n % 8 != 0 for case in cases)
    assert 120 < odd < 240
    assert {c.layout for c in random_cases(20, 1, ["float16"], ["nt"])} == {"nt"}


def test_random_shapes_on_cpu_simulation() -> None:
    suite = BenchmarkSuite(1, 2, random_shapes=3, seed=5, dtypes=["float32"], peers=["numpy"]).add(
        "gemm"
    )
    report = suite.run(verbose=False)
    ours = [row for row in report.results if row.impl == "pygpukit"]
    assert len(ours) == 3
    assert any("gemm, seed 5" in note and "of 3 below 0.95" in note for note in report.notes)


def test_random_needs_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    for bad in (["--gemm", "--random", "3"], ["--gemm", "--seed", "3"], ["--fft", "--random", "3"]):
        with pytest.raises(SystemExit):
            main(bad)
    assert "--random and --seed" in capsys.readouterr().err


def test_work_of_a_case() -> None:
    case = Case("x", 2, 3, 5, "nt", "float32")
    assert (case.flops, case.weight_bytes, case.input_bytes) == (60, 60, 100)


# --- timing -------------------------------------------------------------------------------------


def test_everyone_is_timed_in_every_round() -> None:
    now = 0.0
    order: list[str] = []

    def step(name: str, seconds: float) -> None:
        nonlocal now
        now += seconds
        order.append(name)

    stats = measure_in_turn(
        [lambda: step("a", 0.002), lambda: step("b", 0.004)], host_sampler(lambda: now), 3, 4
    )
    assert [round(s.median) for s in stats] == [2000, 4000]
    assert order[:4] == ["a", "a", "b", "b"]  # once to begin with, once to see how long it takes
    rounds = ["".join(order[i : i + 2]) for i in range(4, len(order), 2)]
    assert len(rounds) == 3 + 4  # settled after the requested number of rounds
    assert rounds == ["ab", "ba", "ab", "ab", "ba", "ab", "ba"]  # who begins moves on


def test_rounds_before_the_clock_has_settled_do_not_count() -> None:
    now = 0.0
    cost = 0.010

    def step() -> None:
        nonlocal now, cost
        now += cost
        cost = max(0.002, cost * 0.8)

    (stats,) = measure_in_turn([step], host_sampler(lambda: now), 1, 5)
    assert stats.max == pytest.approx(2000)


def test_a_short_step_is_repeated() -> None:
    now = 0.0

    def step() -> None:
        nonlocal now
        now += 1e-5

    (stats,) = measure_in_turn([step], host_sampler(lambda: now), 1, 2, min_sample_us=1000)
    assert stats.median == pytest.approx(10)
    assert now >= 2 * 100 * 1e-5


def test_geometric_mean() -> None:
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean([]) == 1.0


# --- correctness --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_product_error_sees_mistakes(dtype: str) -> None:
    rng = np.random.default_rng(0)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float32
    a = rng.standard_normal((300, 200)).astype(kind)
    b = rng.standard_normal((200, 500)).astype(kind)
    right = (a.astype(np.float64) @ b.astype(np.float64)).astype(kind)
    assert product_error(a, b, right) <= TOLERANCE[dtype]
    assert product_error(a, b, right[:-1]) == math.inf
    for row, column in ((0, 0), (299, 499)):  # both ends are always looked at
        wrong = right.copy()
        wrong[row, column] = np.nan
        assert product_error(a, b, wrong) == math.inf
        wrong = right.copy()
        wrong[row] = 0  # one row of many
        assert product_error(a, b, wrong) > TOLERANCE[dtype]
    shifted = np.roll(right, 1, axis=1)
    assert product_error(a, b, shifted) > 0.5


# --- suites -------------------------------------------------------------------------------------


def test_suites_on_cpu_simulation() -> None:
    suite = BenchmarkSuite(1, 2, quick=True, peers=["numpy"]).add_gemm().add_gemv()
    done = suite.run(verbose=False)
    ours = [r for r in done.results if r.impl == "pygpukit"]
    assert {r.category for r in ours} == {"gemm", "gemv"}
    assert {r.params["layout"] for r in ours} == set(LAYOUTS)
    assert {r.params["dtype"] for r in ours} == {"bfloat16", "float32"}
    assert all(r.correct for r in done.results)
    assert all(r.tflops is not None and r.tflops > 0 for r in done.results)
    assert all((r.bandwidth_gbps is not None) == (r.category == "gemv") for r in done.results)
    notes = [note for note in done.notes if "geometric mean" in note]
    assert [note.split(":")[0] for note in notes] == ["gemm", "gemv"]
    assert "TFLOP/s" in done.to_markdown()


def test_a_wrong_product_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from pygpukit.benchmark.peers import Ours

    def skips(self: Ours, dtype: str) -> object:
        return lambda a, b, out: None

    monkeypatch.setattr(Ours, "matmul", skips)
    done = BenchmarkSuite(1, 1, quick=True, sizes=[16]).add_gemm().run(verbose=False)
    assert [r.correct for r in done.results] == [False]


def test_eight_bits_on_cpu_simulation() -> None:
    suite = BenchmarkSuite(1, 1, quick=True, peers=["numpy"]).add_fp8_gemm()
    done = suite.run(verbose=False)
    assert {(r.category, r.impl) for r in done.results} == {("fp8", "pygpukit")}
    assert {r.params["dtype"] for r in done.results} == {"float8_e4m3fn", "int8"}
    assert {r.params["layout"] for r in done.results} == {"nt"}
    assert all(r.correct for r in done.results)
    assert all(r.rel_error == 0 for r in done.results if r.params["dtype"] == "int8")
    assert any("numpy has no GEMM for int8" in note for note in done.notes)


def test_every_dtype_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--gemm", "--quick", "--sizes", "8", "--iterations", "1", "--peers", "numpy"]
    assert (
        main([*command, "--dtypes", "fp64,fp32,fp16,bf16,tf32,3xtf32,float64_int8,fp8,int8"]) == 0
    )
    shown = capsys.readouterr()
    assert shown.out.count("gemm/square  pygpukit") == 9
    assert shown.out.count("gemm/square  numpy") == 3
    assert "WRONG" not in shown.err


def test_eight_bit_cases() -> None:
    cases = eight_bit_cases(None, None, None)
    assert {c.dtype for c in cases if c.name == "square"} == {"float8_e4m3fn", "int8"}
    assert {c.layout for c in cases} == {"nt"}
    assert [c.m for c in eight_bit_cases([64, 96], ["int8"], None)] == [64, 96]
    assert eight_bit_cases(None, ["bfloat16"], None) == []


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot, base = tmp_path / "plot.svg", tmp_path / "base.json"
    command = ["--gemm", "--gemv", "--quick", "--sizes", "8,16", "--iterations", "1"]
    command += ["--dtypes", "tf32,fp32", "--layouts", "NT", "--markdown"]
    assert main([*command, "--plot", str(plot), "--save", str(base)]) == 0
    out = capsys.readouterr().out
    assert "| gemm/square | pygpukit | m=16 n=16 k=16 layout=nt dtype=tf32 mode=eager |" in out
    assert "gemv/square" in out
    ElementTree.parse(plot)
    rows = BenchmarkReport.load(base).results
    assert len(rows) == 2 * 2 + 2 * 2 * len(FEW_ROWS)
    compare = [*command, "--quiet", "--compare", str(base), "--fail-on-regression"]
    assert main([*compare, "--threshold", "1e9"]) == 0
    for row in rows:
        row.median_us /= 1e6
    report(*rows).save(base)
    assert main(compare) == 1


def test_summary_prefers_graphs() -> None:
    done = report(
        product("pygpukit", 512, 10.0),
        product("torch", 512, 20.0),
        product("pygpukit", 512, 10.0, "eager"),
        product("torch", 512, 1.0, "eager"),
        product("pygpukit", 4096, 100.0, "eager"),
        product("torch", 4096, 50.0, "eager"),
    )
    engines, _ = load_engines([], on_gpu=False)

    class Peer:
        name = "torch"

    session = Session([*engines, Peer()], done, ProgressLine(quiet=True))  # type: ignore[list-item]
    note_speedups(session, "gemm", done.results)
    (note,) = done.notes
    assert note.startswith("gemm: 2 shapes, speedup over torch: geometric mean 1.000, worst 0.500")
    assert note.endswith("(square 4096 4096 4096 nn bfloat16)")
    note_slow(session, "gemm, seed 1", done.results, 0.95)
    assert done.notes[1] == (
        "gemm, seed 1: 1 of 2 below 0.95 of torch:\n  0.500 square 4096 4096 4096 nn bfloat16"
    )


# --- plots --------------------------------------------------------------------------------------


def test_lines_of_a_plot() -> None:
    lines = square_lines(
        report(
            product("torch", 512, 2.0),
            product("torch", 256, 1.0),
            product("pygpukit", 512, 1.0),
            product("pygpukit", 256, 1.0),
            product("pygpukit", 128, 1.0, layout="nt"),  # one point is no line
            product("pygpukit", 256, 1.0, k=64),
        )
    )
    assert lines == {
        "pygpukit bfloat16 NN": [(256.0, 256.0), (512.0, 512.0)],
        "torch bfloat16 NN": [(256.0, 256.0), (512.0, 256.0)],
    }
    assert next(iter(lines)).startswith("pygpukit")


def test_svg_is_valid_and_shows_every_line() -> None:
    lines = {
        "pygpukit <a>": [(512.0, 100.0), (4096.0, 740.0)],
        "torch": [(512.0, 90.0), (2048.0, 7.0)],
    }
    root = ElementTree.fromstring(to_svg([Chart("A & B", "n", "TFLOP/s", lines)]))
    space = "{http://www.w3.org/2000/svg}"
    texts = {element.text for element in root.iter(f"{space}text")}
    assert {"pygpukit <a>", "torch", "A & B", "512", "2048", "4096", "800"} <= texts
    drawn = root.findall(f".//{space}polyline")
    assert len(drawn) == 2
    assert len(root.findall(f".//{space}circle")) == 4
    for point in drawn[0].attrib["points"].split():
        x, y = map(float, point.split(","))
        assert 0 < x < 760
        assert 0 < y < 440


def test_plot_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    before = set(sys.modules)
    path = tmp_path / "x.svg"
    assert check_plot_path(path) is None
    assert "matplotlib is not installed" in str(check_plot_path(tmp_path / "x.png"))
    write_plot(report(product("pygpukit", 256, 1.0), product("pygpukit", 512, 1.0)), path)
    assert path.read_text().startswith("<svg")
    with pytest.raises(ValueError, match="a plot needs two square sizes"):
        write_plot(report(product("pygpukit", 256, 1.0)), path)
    assert "matplotlib" not in set(sys.modules) - before
