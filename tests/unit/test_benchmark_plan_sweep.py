"""python -m pygpukit.benchmark --gemm --random --candidates: which plans, what is recorded."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pygpukit as gp
from pygpukit import _native
from pygpukit.benchmark import BenchmarkReport, BenchmarkSuite, plan_sweep
from pygpukit.benchmark.__main__ import main
from pygpukit.benchmark.plan_sweep import (
    HOPELESS,
    LEAST_OF_ENGINE,
    Pool,
    Stop,
    choose_candidates,
    operands,
)
from pygpukit.benchmark.product_cases import PROBES, Case, probe_cases


def every_plan(case: Case) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    a, b = operands(Pool([case], False).array, case, 0)
    (narrow,) = _native.explain_products(lambda: gp.matmul(a, b))
    (wide,) = _native.explain_products(lambda: gp.matmul(a, b), every_plan=True)
    return wide["candidates"], narrow["choice"]


def test_every_plan_is_a_superset() -> None:
    a, b = gp.ones((300, 256), "bfloat16"), gp.ones((256, 520), "bfloat16")
    (narrow,) = _native.explain_products(lambda: gp.matmul(a, b))
    (wide,) = _native.explain_products(lambda: gp.matmul(a, b), every_plan=True)
    texts = [plan["text"] for plan in wide["candidates"]]
    assert {plan["text"] for plan in narrow["candidates"]} < set(texts)
    assert wide["choice"] == narrow["choice"]
    last = texts[-1]  # not among the most promising, but can be forced
    forced = gp.with_matmul_plan(lambda: gp.explain_matmul(a, b), last)
    assert forced.choice is not None
    assert forced.choice["text"] == last


@pytest.mark.parametrize(("m", "n", "k", "layout"), [(300, 520, 256, "nt"), (2, 520, 512, "nn")])
def test_candidates_are_diverse(m: int, n: int, k: int, layout: str) -> None:
    plans, chosen = every_plan(Case("x", m, n, k, layout))
    picked = choose_candidates(plans, chosen, 10)
    texts = [plan["text"] for plan in picked]
    assert 10 <= len(texts) == len(set(texts)) <= 12
    assert chosen["text"] in texts
    times = [plan["predicted_us"] for plan in picked]
    assert times == sorted(times)
    best = min(plan["predicted_us"] for plan in plans)
    for engine in {plan["engine"] for plan in plans}:
        known = [p for p in plans if p["engine"] == engine and p["predicted_us"] < 4 * best]
        kinds = {(*p["tile"], p["cluster"]) for p in known}
        have = sum(plan["engine"] == engine for plan in picked)
        assert have >= min(LEAST_OF_ENGINE, len(kinds))
    tiles = {tuple(sorted(plan["tile"][:2])) for plan in picked if plan["engine"] == "wgmma"}
    assert len(tiles) >= 3


def test_hopeless_candidates_are_left_out() -> None:
    def plan(engine: str, us: float) -> dict[str, Any]:
        return {
            "text": f"{engine} {us}",
            "engine": engine,
            "predicted_us": us,
            "tile": (us, 1, 1),
            "cluster": 1,
            "splits": 1,
            "kernel": 0,
        }

    fast, slow, library = plan("wgmma", 1.0), plan("mma", HOPELESS + 1), plan("cublaslt", 1.0)
    assert choose_candidates([fast, library, slow], fast, 10) == [fast]
    assert choose_candidates([slow], slow, 10) == [slow]
    assert choose_candidates([fast, slow], slow, 10) == [fast, slow]  # the chosen one always is


def test_operands_are_views_of_one_pool() -> None:
    cases = [Case("x", 3, 5, 7, layout, "float32") for layout in ("nn", "nt", "tn", "tt")]
    pool = Pool(cases, False)
    host = pool.array.to_numpy()
    for case in cases:
        a, b = operands(pool.array, case, 0)
        assert (a.shape, b.shape) == ((3, 7), (7, 5))
        x, y = operands(host, case, 0)
        assert x.strides == ((4, 12) if case.layout[0] == "t" else (28, 4))
        assert (a.to_numpy() == x).all()
        assert (b.to_numpy() == y).all()
        assert len(set(x.ravel()) | set(y.ravel())) > 50  # random numbers


def test_stops_in_time() -> None:
    now = 0.0
    stop = Stop(10.0, lambda: now)
    now = 6.0
    assert (stop.after(0.6), stop.after()) == (True, False)
    before = signal.getsignal(signal.SIGTERM)
    with stop.on_signals():
        signal.raise_signal(signal.SIGTERM)
    assert stop.after()
    assert signal.getsignal(signal.SIGTERM) is before
    assert not Stop(None, lambda: now).after()


def test_sweep_on_cpu_simulation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sweep.json"
    command = ["--gemm", "--random", "3", "--seed", "5", "--candidates", "6", "--quiet"]
    assert main([*command, "--peers", "numpy", "--save", str(path)]) == 0
    report = BenchmarkReport.load(path)
    ours = [row for row in report.results if row.impl == "pygpukit"]
    assert len(ours) == len(report.results) // 2 == 3
    for row in ours:
        candidates = row.extra["candidates"]
        assert row.correct
        assert len(candidates) >= 3
        assert row.extra["plan"] in [c["plan"] for c in candidates]
        assert all(c["us"] > 0 and c["predicted_us"] > 0 and "note" not in c for c in candidates)
    notes = "\n".join(report.notes)
    assert "sweep: 3 shapes" in notes
    assert "fastest candidate over chosen plan: geometric mean" in notes
    assert "gemm, seed 5" in notes
    assert "speedup over numpy" in notes
    assert capsys.readouterr().err == ""


def test_wrong_results_and_failures_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    real, differences = _native.with_matmul_plan, iter((0.0, math.nan))

    def forced(call: Callable[[], Any], plan: str) -> Any:
        if plan.startswith("mma(kernel=3"):
            raise RuntimeError("no such kernel")
        return real(call, plan)

    monkeypatch.setattr(_native, "with_matmul_plan", forced)
    monkeypatch.setattr(plan_sweep, "_difference", lambda *_: next(differences, 0.0))
    suite = BenchmarkSuite(1, 1, random_shapes=1, seed=5, candidates=6).add("gemm")
    (row,) = suite.run(verbose=False).results
    notes = {c["plan"]: c.get("note") for c in row.extra["candidates"]}
    failed = [plan for plan, note in notes.items() if note == "RuntimeError: no such kernel"]
    assert [plan[:12] for plan in failed] == ["mma(kernel=3"]
    assert [*notes.values()].count("wrong result") == 1
    assert [*notes.values()].count(None) == len(notes) - 2


def test_time_limit_leaves_a_report() -> None:
    suite = BenchmarkSuite(1, 1, random_shapes=2, seed=5, candidates=4, seconds=1e-9).add("gemm")
    report = suite.run(verbose=False)
    assert report.results == []
    assert any("0 of 2 shapes measured" in note for note in report.notes)


def test_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    random = ["--gemm", "--random", "3", "--seed", "3"]
    for bad in (
        ["--gemm", "--candidates", "3"],
        [*random, "--seconds", "3"],
        [*random, "--probes"],
        [*random, "--candidates", "3", "--dtypes", "bf16,fp16"],
    ):
        with pytest.raises(SystemExit):
            main(bad)
    assert "--candidates" in capsys.readouterr().err
    with pytest.raises(ValueError, match="candidates are timed in one dtype"):
        BenchmarkSuite(random_shapes=1, candidates=2, dtypes=["int8"]).add("gemm").run(False)


def test_probes() -> None:
    cases = probe_cases(None)
    assert len(cases) == len(set(cases)) == len(PROBES)
    assert {case.dtype for case in probe_cases(["float16"])} == {"float16"}


SIM = """
import json
from pygpukit import _native
from pygpukit._cli.terminal import ProgressLine
from pygpukit.benchmark import plan_sweep
from pygpukit.benchmark.peers import load_engines
from pygpukit.benchmark.product_cases import Case
from pygpukit.benchmark.report import BenchmarkReport
from pygpukit.benchmark.session import Session, get_gpu_info

plan_sweep.MAX_SETS, plan_sweep.SAMPLE_US = 2, 1.0
report = BenchmarkReport("0", get_gpu_info())
engines, _ = load_engines([], on_gpu=True)
session = Session(engines, report, ProgressLine(quiet=True), on_gpu=True, candidates=5)
cases = [Case("random", 70, 136, 72, "nn"), Case("random", 1, 256, 128, "nt")]
plan_sweep.run(session, [*cases, Case("random", 33, 65, 129, "tn")])
print(json.dumps(report.to_dict()))
"""


@pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")
def test_graphs_in_the_simulator(run_python: Callable[..., Any]) -> None:
    done = run_python(SIM, PYGPUKIT_DEVICE="sim:sm_90a", PYGPUKIT_PREFETCH="0")
    report = json.loads(done.stdout)
    assert len(report["results"]) == 3
    for row in report["results"]:
        assert row["params"]["mode"] == "graph"
        assert row["correct"]
        assert all(c["us"] > 0 and "note" not in c for c in row["extra"]["candidates"])
    engines = {
        c["plan"].split("(")[0] for row in report["results"] for c in row["extra"]["candidates"]
    }
    assert engines >= {"wgmma", "mma", "gemv"}
