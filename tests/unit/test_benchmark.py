"""python -m pygpukit.benchmark: statistics, reports, comparison, command line."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.benchmark import (
    BenchmarkReport,
    BenchmarkResult,
    BenchmarkSuite,
    GPUInfo,
    compare_reports,
    get_gpu_info,
    measure_kernel,
)
from pygpukit.benchmark.__main__ import _parser, main
from pygpukit.benchmark.elementwise import TOLERANCE, relative_error
from pygpukit.benchmark.measure import CallCost
from pygpukit.benchmark.peers import load_engines

RESULT_KEYS = {
    "name",
    "category",
    "params",
    "median_us",
    "min_us",
    "max_us",
    "std_us",
    "tflops",
    "bandwidth_gbps",
    "correct",
    "rel_error",
    "iterations",
    "timestamp",
}
GPU = GPUInfo("GPU A", 9, 0, 141.0, "580.0", "13.0")


def result(name: str = "add", median: float = 10.0, **fields: Any) -> BenchmarkResult:
    params = fields.pop("params", {"impl": "pygpukit", "n": 4})
    return BenchmarkResult(
        name,
        "elementwise",
        params,
        median_us=median,
        min_us=median,
        max_us=median,
        std_us=0.0,
        **fields,
    )


def report(*results: BenchmarkResult, gpu: GPUInfo = GPU) -> BenchmarkReport:
    return BenchmarkReport("0.3.0", gpu, results=list(results))


class FakeClock:
    """A clock that advances only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# --- clocks -------------------------------------------------------------------------------------


def test_measure_kernel_statistics() -> None:
    clock = FakeClock()
    costs = iter([50.0, 50.0, 1.0, 2.0, 9.0, 4.0])  # two of warm-up, then four that count
    order: list[str] = []

    def fn() -> None:
        clock.now += next(costs)
        order.append("fn")

    def sync() -> None:
        clock.now += 0.25
        order.append("sync")

    median, low, high, std = measure_kernel(fn, 2, 4, sync, clock=clock)
    samples = [(cost + 0.25) * 1e6 for cost in (1.0, 2.0, 9.0, 4.0)]  # the sync after the call
    assert median == pytest.approx(statistics.median(samples))
    assert low == pytest.approx(min(samples))
    assert high == pytest.approx(max(samples))
    assert std == pytest.approx(float(np.std(samples)))
    assert order == ["fn"] * 2 + ["sync", "fn", "sync"] * 4


def test_measure_kernel_refuses_no_iterations() -> None:
    with pytest.raises(ValueError, match="iterations is 0"):
        measure_kernel(lambda: None, 0, 0)


def test_call_cost_does_not_time_the_drain() -> None:
    clock = FakeClock()
    drains = 0

    def call() -> None:
        clock.now += 3e-6

    def sync() -> None:
        nonlocal drains
        drains += 1
        clock.now += 1.0

    cost = CallCost("call()", {"call": call}, sync, calls=2000, chunk=500, clock=clock)
    assert cost.sample() == pytest.approx(3.0)
    assert cost.calls == 2000
    assert drains == 5


# --- reports ------------------------------------------------------------------------------------


def test_report_survives_a_file(tmp_path: Path) -> None:
    before = report(result(bandwidth_gbps=1.5, correct=True, rel_error=1e-8, iterations=50))
    before.results.append(result("call", extra={"over_floor_us": 0.4}))
    before.note("something")
    before.note("something")
    before.save(tmp_path / "r.json")
    data = json.loads((tmp_path / "r.json").read_text())
    assert set(data) == {"version", "timestamp", "gpu", "machine", "notes", "results"}
    assert set(data["gpu"]) == {
        "name",
        "sm_major",
        "sm_minor",
        "memory_gb",
        "driver_version",
        "cuda_version",
    }
    assert set(data["results"][0]) == RESULT_KEYS
    assert set(data["results"][1]) == RESULT_KEYS | {"extra"}
    assert data["notes"] == ["something"]
    assert BenchmarkReport.load(tmp_path / "r.json") == before


def test_report_of_a_wrong_result_is_valid_json() -> None:
    data = report(result(correct=False, rel_error=math.inf)).to_dict()
    assert data["results"][0]["rel_error"] is None
    json.dumps(data, allow_nan=False)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1, "gpu": {"x": 1}}'])
def test_load_refuses_other_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match="is not a benchmark report"):
        BenchmarkReport.load(tmp_path / "x.json")


def test_load_ignores_fields_of_other_versions(tmp_path: Path) -> None:
    data = report(result()).to_dict()
    data["results"][0]["added_later"] = 1
    (tmp_path / "x.json").write_text(json.dumps(data))
    assert BenchmarkReport.load(tmp_path / "x.json").results[0].name == "add"


def test_tables() -> None:
    full = report(result(bandwidth_gbps=4250.0, correct=False, rel_error=0.5))
    for text in (full.to_text(), full.to_markdown()):
        assert "elementwise/add" in text
        assert "4.25 TB/s" in text
        assert "WRONG" in text
    assert "| elementwise/add | pygpukit | n=4 |" in full.to_markdown()


def test_gpu_info() -> None:
    info = get_gpu_info()
    assert info.name == "CPU Simulation"
    assert (info.sm_major, info.sm_minor, info.cuda_version) == (0, 0, "")
    assert info.memory_gb > 0


# --- comparison ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("median", "kind", "delta"),
    [
        (10.0, "unchanged", 0.0),
        (10.5, "unchanged", -5.0),  # the threshold itself is not a change
        (10.6, "regressions", -6.0),
        (20.0, "regressions", -100.0),
        (9.5, "unchanged", 5.0),
        (9.0, "improvements", 10.0),
    ],
)
def test_threshold(median: float, kind: str, delta: float) -> None:
    comparison = compare_reports(report(result()), report(result(median=median)), 0.05)
    for name in ("regressions", "improvements", "unchanged"):
        entries = getattr(comparison, name)
        assert len(entries) == (1 if name == kind else 0)
        if entries:
            assert entries[0].delta_percent == pytest.approx(delta)
            assert entries[0].key == "elementwise:add:impl=pygpukit,n=4"
    assert comparison.has_regressions == (kind == "regressions")


def test_missing_and_new() -> None:
    old = report(result("add"), result("mul"))
    new = report(result("mul"), result("sub"), result("sub", params={"n": 5}))
    comparison = compare_reports(old, new)
    assert comparison.missing == ["elementwise:add:impl=pygpukit,n=4"]
    assert comparison.new == ["elementwise:sub:impl=pygpukit,n=4", "elementwise:sub:n=5"]
    assert not comparison.has_regressions
    assert "1 missing, 2 new" in comparison.to_text()


def test_the_order_of_params_does_not_matter() -> None:
    old = report(result(params={"a": 1, "b": 2}))
    new = report(result(params={"b": 2, "a": 1}))
    comparison = compare_reports(old, new)
    assert len(comparison.unchanged) == 1
    assert comparison.missing == comparison.new == []


def test_a_result_that_became_wrong_is_a_regression() -> None:
    comparison = compare_reports(
        report(result(correct=True)), report(result(median=5.0, correct=False))
    )
    assert comparison.has_regressions
    assert "became wrong" in comparison.to_text()


def test_peers_are_not_watched() -> None:
    peer = {"impl": "torch", "n": 4}
    comparison = compare_reports(
        report(result(params=peer)), report(result(params=peer, median=99.0))
    )
    assert comparison == compare_reports(report(), report())


def test_another_gpu_is_mentioned() -> None:
    other = GPUInfo("GPU B", 8, 0, 80.0, "", "12.0")
    text = compare_reports(report(), report(gpu=other)).to_text()
    assert "GPU A" in text
    assert "GPU B" in text


def test_negative_threshold() -> None:
    with pytest.raises(ValueError, match=r"threshold is -0\.1"):
        compare_reports(report(), report(), -0.1)


# --- correctness --------------------------------------------------------------------------------


def test_relative_error_sees_mistakes() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3_000_000), dtype=np.float32)
    right = a + b
    assert relative_error("add", a, b, right) <= TOLERANCE["float32"]
    assert relative_error("mul", a, b, right) > 0.1
    for place in (0, 2_999_999):  # both ends are always looked at
        wrong = right.copy()
        wrong[place] = np.nan
        assert relative_error("add", a, b, wrong) == math.inf
        wrong[place] = right[place] + 100
        assert relative_error("add", a, b, wrong) > TOLERANCE["float32"]


# --- suites -------------------------------------------------------------------------------------


def test_suite_is_chainable_and_measures(capsys: pytest.CaptureFixture[str]) -> None:
    suite = BenchmarkSuite(1, 2, quick=True, peers=["numpy"], sizes=[1000], dtypes=["float32"])
    done = suite.add_elementwise().add_copy().run(verbose=False)
    ours = [r for r in done.results if r.impl == "pygpukit"]
    assert {r.category for r in ours} == {"elementwise", "copy"}
    assert all(r.correct for r in done.results)
    assert all(r.min_us <= r.median_us <= r.max_us for r in done.results)
    assert {r.impl for r in done.results} == {"pygpukit", "numpy"}
    assert done.machine["peers"] == {"numpy": np.__version__}
    assert set(done.machine) >= {"commit", "python", "numpy", "platform"}
    assert len(suite.compare(done).unchanged) == len(ours)
    assert capsys.readouterr() == ("", "")


def test_memory_suite_checks_what_it_moves() -> None:
    suite = BenchmarkSuite(1, 2, quick=True, sizes=[4 << 20]).add_memory()
    results = {(r.name, r.params.get("bytes")): r for r in suite.run(verbose=False).results}
    assert {name for name, _ in results} == {
        *("empty_drop", "evict", "restore", "pressure_lru", "pressure_random")
    }
    assert all(r.correct is not False for r in results.values())
    assert results["evict", 4 << 20].extra["of_pinned_copy"] > 0
    assert results["pressure_lru", 4 << 20].extra["restores"] > 0
    assert gp.memory.stats()["limit"] == 0


def test_suite_refuses_bad_arguments() -> None:
    with pytest.raises(ValueError, match="iterations is 0"):
        BenchmarkSuite(iterations=0)
    with pytest.raises(ValueError, match="shapes_seed is -1"):
        BenchmarkSuite(shapes_seed=-1)
    with pytest.raises(ValueError, match="unknown suite 'x'"):
        BenchmarkSuite().add("x")
    with pytest.raises(ValueError, match="unknown peer 'x'"):
        BenchmarkSuite(peers=["x"]).add_copy().run()


def test_missing_peers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    engines, notes = load_engines(["numpy", "torch"], on_gpu=True)
    assert [engine.name for engine in engines] == ["pygpukit", "numpy"]
    assert notes == ["peer torch skipped: it is not installed"]


# --- command line -------------------------------------------------------------------------------

FAST = ["--copy", "--quick", "--sizes", "4096", "--iterations", "2", "--warmup", "1"]


def test_the_page_has_every_option() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    options = {name for action in _parser()._actions for name in action.option_strings}
    assert options - set(re.findall(r"--[\w-]+", text)) == {"-h", "--help"}
    rows = re.findall(r"^\| `(--\w+)` \|", text, re.MULTILINE)
    assert sorted(rows) == sorted(set(rows))
    suites = next(g for g in _parser()._action_groups if g.title == "what to measure")
    assert {a.option_strings[0] for a in suites._group_actions} - {"--all"} <= set(rows)


@pytest.mark.parametrize("text", ["x", "10,y", "0", "2**z", ""])
def test_bad_sizes_are_named(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--copy", "--sizes", text])
    assert stopped.value.code == 2
    wrong = next(part for part in text.split(",") if part != "10")
    assert f"--sizes: {wrong!r} is not a size, expected integers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--seq-lens", "512"], "--seq-lens needs --attention"),
        (["--shapes-seed", "1"], "--shapes-seed needs --attention or --nn"),
        (["--nn", "--shapes-seed", "-1"], "-1 is negative"),
        (["--dtypes", "fp4"], "fp4"),
        (["--peers", "matlab"], "matlab"),
        (["--sizes", "0"], "not a size"),
        (["--sizes", "x"], "--sizes"),
        (["--iterations", "0"], "below 1"),
        (["--threshold", "-1"], "negative"),
        (["--fail-on-regression"], "needs --compare"),
        (["--compare", "no-such-file.json"], "no-such-file.json"),
        (["--save", "no-such-folder/x.json"], "no-such-folder"),
        (["--gemm", "--layouts", "nx"], "nx is not one of nn, nt, tn, tt"),
        (["--plot", "x.svg"], "--plot needs --gemm, --attention, --nn or --llm"),
        (["--gemm", "--plot", "x.gif"], "neither .png nor .svg"),
        (["--gemm", "--plot", "no-such-folder/x.svg"], "no-such-folder"),
        (["--no-such-flag"], "--no-such-flag"),
    ],
)
def test_bad_usage_exits_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert text in capsys.readouterr().err


def test_regression_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tmp_path / "base.json"
    assert main([*FAST, "--quiet", "--save", str(base)]) == 0
    assert capsys.readouterr().out == ""
    data = json.loads(base.read_text())
    for row in data["results"]:
        row["median_us"] /= 1e6  # nothing is that fast
    base.write_text(json.dumps(data))
    compare = [*FAST, "--quiet", "--compare", str(base)]
    assert main(compare) == 0
    assert f"{len(data['results'])} slower" in capsys.readouterr().out
    assert main([*compare, "--fail-on-regression"]) == 1
    assert main([*compare, "--fail-on-regression", "--threshold", "1e12"]) == 0


def test_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FAST, "--markdown"]) == 0
    assert "| benchmark | impl |" in capsys.readouterr().out


def test_a_run_that_is_ended_keeps_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the signal that `timeout` sends, in the second suite of three."""
    from pygpukit.benchmark import suite

    def end(session: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(20)

    copy, arrays = suite.SUITES["copy"], suite.SUITES["arrays"]
    monkeypatch.setattr(suite, "SUITES", {"copy": copy, "elementwise": end, "arrays": arrays})
    path = tmp_path / "bench.json"
    before = signal.getsignal(signal.SIGTERM)
    assert main(["--quick", "--copy", "--elementwise", "--arrays", "--save", str(path)]) == 130
    assert signal.getsignal(signal.SIGTERM) is before
    report = BenchmarkReport.load(path)
    assert {result.category for result in report.results} == {"copy"}
    note = "interrupted in elementwise: later measurements are missing"
    assert note in report.notes
    assert note in capsys.readouterr().out


def test_quick_run_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    command = [sys.executable, "-m", "pygpukit.benchmark", "--quick", "--peers", "numpy,cupy"]
    start = time.perf_counter()
    done = subprocess.run(
        [*command, "--save", str(path)], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - start < 20
    assert done.stderr == ""  # no terminal, no progress
    loaded = BenchmarkReport.load(path)
    assert {r.category for r in loaded.results} == {"launch", "copy", "elementwise", "arrays"}
    assert all(r.correct is not False for r in loaded.results)
    assert any("there is no GPU" in note for note in loaded.notes)
    assert "note: peer cupy skipped" in done.stdout
    for r in loaded.results:
        assert set(r.to_dict()) == RESULT_KEYS
