"""python -m pygpukit.benchmark --attention --nn: shapes, interleaved cases, correctness, plots."""

from __future__ import annotations

import math
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native
from pygpukit._cli.terminal import ProgressLine
from pygpukit.benchmark import (
    BenchmarkReport,
    BenchmarkResult,
    BenchmarkSuite,
    GPUInfo,
    attention,
    nn,
    nn_experts,
    nn_speech,
)
from pygpukit.benchmark.__main__ import main
from pygpukit.benchmark.contest import MAX_NODES, Case, Entry, _prepare, run_case
from pygpukit.benchmark.interleave import host_sampler
from pygpukit.benchmark.nn_experts import Experts, Filter, group_sizes, is_possible
from pygpukit.benchmark.nn_rows import ROW_OPS
from pygpukit.benchmark.nn_speech import Conv, conv_reference
from pygpukit.benchmark.oracle import relative_error
from pygpukit.benchmark.peers import load_engines
from pygpukit.benchmark.plot import Chart, charts, prefill_lines, row_bars, to_svg
from pygpukit.benchmark.session import Session
from pygpukit.benchmark.sizes import Sizes

GPU = GPUInfo("GPU A", 9, 0, 141.0, "580.0", "13.0")


class Peer:
    """Stands for PyTorch, with NumPy's arrays."""

    name = "torch"
    version = "0"
    on_gpu = False
    namespace = SimpleNamespace(from_dlpack=np.from_dlpack)

    def __init__(self) -> None:
        self.released = 0

    def fill(self, array: Any, value: float) -> None:
        array[...] = value

    def capture(self, work: Callable[[], object]) -> None:
        return None

    def release(self) -> None:
        self.released += 1


def session(*peers: Any, on_gpu: bool = False, **settings: Any) -> Session:
    engines, _ = load_engines([], on_gpu=False)
    report = BenchmarkReport("0.3.0", GPU)
    return Session(
        [*engines, *peers], report, ProgressLine(quiet=True), 1, 2, on_gpu=on_gpu, **settings
    )


# --- suites -------------------------------------------------------------------------------------


def test_suites_on_cpu_simulation() -> None:
    suite = BenchmarkSuite(1, 2, quick=True, peers=["numpy"]).add_attention().add_nn()
    done = suite.run(verbose=False)
    names = {r.name for r in done.results}
    assert {"prefill", "decode", "decode_paged16", "decode_paged64", "decode_fp8"} <= names
    assert {op.name for op in ROW_OPS} <= names
    assert {f"sample_{how.name}" for how in nn_experts.FILTERS} <= names
    assert {"copy", "grouped_gemm", "dense_gemm", "lstm_bidirectional"} <= names
    assert {"whisper_stem", "kokoro_block", "kokoro_upsample"} <= names
    assert all(r.correct for r in done.results)
    assert {r.impl for r in done.results} == {"pygpukit"}
    assert all(r.tflops or r.bandwidth_gbps for r in done.results)
    assert all(r.tflops for r in done.results if r.name == "prefill")
    keys = [r.key for r in done.results]
    assert len(keys) == len(set(keys))
    notes = [note.split(":")[0] for note in done.notes]
    assert {"attention, paged decode", "attention, fp8 decode", "nn, rows"} <= set(notes)
    assert any("of the copy rate: geometric mean" in note for note in done.notes)
    fused = [r for r in done.results if r.name in ("fused_norm", "fused_softmax")]
    assert len(fused) == 4
    assert all(r.extra["over_separate"] > 0 for r in fused)
    assert any("speedup over the separate ops: geometric mean" in note for note in done.notes)
    assert len(suite.compare(done).unchanged) == len(done.results)


def test_names_of_0_2() -> None:
    assert BenchmarkSuite().add_gqa()._selected == ["attention"]
    assert BenchmarkSuite().add_w8a8_gemv()._selected == ["fp8"]


def test_wrong_results_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = _native.attention

    def forgets_the_mask(*arrays: Any, causal: bool, **more: Any) -> Any:
        return right(*arrays, causal=False, **more)

    monkeypatch.setattr(_native, "attention", forgets_the_mask)
    monkeypatch.setattr(_native, "softmax", lambda x, out=None: x if out is None else out)
    monkeypatch.setattr(_native, "grouped_gemm", lambda x, w, sizes, out: gp.matmul(x, w[0].T))
    suite = BenchmarkSuite(1, 1, quick=True).add_attention().add_nn()
    results = suite.run(verbose=False).results
    wrong = {r.name for r in results if not r.correct}
    fused = {"fused_softmax", "fused_softmax_separate"}
    assert wrong == {"prefill", "softmax", "grouped_gemm"} | fused
    assert {r.correct for r in results if r.name == "prefill" and not r.params["causal"]} == {True}


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot, base = tmp_path / "plot.svg", tmp_path / "base.json"
    command = ["--attention", "--nn", "--quick", "--iterations", "1", "--seq-lens", "4,8"]
    assert main([*command, "--plot", str(plot), "--save", str(base), "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "| attention/prefill | pygpukit | s=4 batch=8 heads=4/1 dim=128 causal=True " in out
    assert "WRONG" not in out
    texts = {element.text for element in ElementTree.parse(plot).iter()}
    assert {"Attention, prefill, CPU Simulation", "Row-wise ops, CPU Simulation"} <= texts
    compare = [*command, "--quiet", "--compare", str(base), "--threshold", "1e9"]
    assert main([*compare, "--fail-on-regression"]) == 0
    assert "0 missing, 0 new" in capsys.readouterr().out


def test_results_survive_without_a_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "x.svg"
    command = ["--attention", "--quick", "--iterations", "1", "--seq-lens", "4"]
    assert main([*command, "--plot", str(plot)]) == 0  # one length is no line
    shown = capsys.readouterr()
    assert "attention/decode_fp8" in shown.out
    assert "no plot: benchmark: a plot needs" in shown.err
    assert not plot.exists()


# --- shapes -------------------------------------------------------------------------------------


def test_fixed_shapes_are_those_of_the_targets() -> None:
    on_gpu = session(on_gpu=True)
    prefills = attention.prefill_shapes(on_gpu)
    assert len(set(prefills)) == 2 * 3 * 2 * 2
    assert {s.batch * s.length for s in prefills} == {16384}
    assert {s.heads // s.kv_heads for s in prefills} == {1, 4}
    assert {(s.batch, s.length) for s in attention.decode_shapes(on_gpu)} == {
        *((1, 4096), (1, 32768), (32, 4096), (64, 8192))
    }
    assert nn.row_shapes(on_gpu) == [(8192, 4096), (65536, 1024), (4096, 32768)]
    assert set(nn.small_row_shapes(on_gpu)) == {
        (rows, width) for rows in (1, 8, 64) for width in (1024, 4096, 8192)
    }
    experts = nn_experts.expert_shapes(on_gpu)
    assert {s.num for s in experts} == {8, 64, 128}
    assert nn_experts.sampling_shapes(on_gpu) == [(1, 151936), (32, 151936)]
    assert {s.batch for s in nn_speech.lstm_shapes(on_gpu)} == {1, 4, 16}
    quick = session(on_gpu=True, quick=True)
    for shapes in (
        attention.prefill_shapes,
        attention.decode_shapes,
        nn.row_shapes,
        nn.small_row_shapes,
        nn_experts.expert_shapes,
        nn_speech.conv_shapes,
        nn_speech.lstm_shapes,
    ):
        few: set[Any] = set(shapes(quick))
        assert 0 < len(few) < len(shapes(on_gpu))
        assert few <= set(shapes(on_gpu))


def test_work_of_attention() -> None:
    shape = attention.Shape(2, 8, 4, 1, 16)
    full = attention.prefill_case(attention.Shape(2, 8, 4, 1, 16, causal=False)).entries[0].flops
    assert full == 4 * 2 * 4 * 8 * 8 * 16
    assert attention.prefill_case(shape).entries[0].flops == full / 2
    moved = {
        e.name: e.bytes for e in attention.decode_case(attention.Shape(2, 64, 4, 1, 16)).entries
    }
    caches = 2 * 2 * 64 * 16
    assert moved == {
        "": 2 * caches,
        "decode_paged16": 2 * caches,
        "decode_paged64": 2 * caches,
        "decode_fp8": caches,
    }


def test_lengths_can_be_chosen() -> None:
    shapes = attention.prefill_shapes(session(on_gpu=True, seq_lens=[512, 20000]))
    assert {(s.batch, s.length) for s in shapes} == {(32, 512), (1, 20000)}


@pytest.mark.parametrize("on_gpu", [True, False])
def test_seeds_draw_shapes(on_gpu: bool) -> None:
    every = (
        attention.prefill_shapes,
        attention.decode_shapes,
        nn.row_shapes,
        nn.small_row_shapes,
        nn_experts.expert_shapes,
        nn_experts.sampling_shapes,
        nn_speech.conv_shapes,
        nn_speech.lstm_shapes,
    )
    for shapes in every:
        drawn: list[Any] = [shapes(session(on_gpu=on_gpu, shapes_seed=s)) for s in range(20)]
        assert drawn[7] == shapes(session(on_gpu=on_gpu, shapes_seed=7))
        assert drawn[7] != drawn[8]
    decodes = [
        shape
        for s in range(20)
        for shape in attention.decode_shapes(session(on_gpu=on_gpu, shapes_seed=s))
    ]
    assert all(s.length % max(attention.PAGES) == 0 < s.length for s in decodes)
    assert all(2 * s.cache_elems <= attention.MAX_CACHE_BYTES for s in decodes)


def test_sizes() -> None:
    sizes = Sizes(1, 2)
    drawn = [sizes.log(10, 1000, 8) for _ in range(500)]
    assert all(size % 8 == 0 and 8 <= size <= 1000 for size in drawn)
    assert 60 < np.median(drawn) < 160  # log-uniform
    assert {sizes.one(2, 5) for _ in range(50)} == {2, 5}
    assert Sizes(1, 3).log(1, 10**6) != Sizes(1, 2).log(1, 10**6)


def test_seeds_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--attention", "--nn", "--iterations", "1", "--shapes-seed", "3"]) == 0
    shown = capsys.readouterr()
    assert "WRONG" not in shown.err
    assert shown.out.count("attention/prefill") == 12
    assert "nn/conv1d" in shown.out


# --- one case -----------------------------------------------------------------------------------


def add_case(*entries: Entry) -> Case:
    def arrays() -> tuple[Any, ...]:
        return gp.asarray(np.arange(3.0)), gp.zeros(3, "float64")

    def ours(x: Any, out: Any) -> Callable[[], object]:
        return lambda: gp.add(x, x, out=out)

    return Case("double", {"n": 3}, arrays, [Entry(ours, doubled, bytes=48), *entries])


def doubled(arrays: tuple[Any, ...], out: Any) -> float:
    got = out.to_numpy() if hasattr(out, "to_numpy") else out
    return relative_error(got, 2 * arrays[0].to_numpy())


def theirs(delay: float, factor: float = 2.0) -> Callable[..., Callable[[], object]]:
    def build(module: Any, x: Any, out: Any) -> Callable[[], object]:
        def step() -> object:
            time.sleep(delay)
            return x * factor

        return step

    return build


def test_the_best_back_end_is_the_peer() -> None:
    peer = Peer()
    run = session(peer)
    entries = [
        Entry(theirs(d), doubled, impl="torch", backend=name, bytes=48)
        for name, d in (("slow", 0.02), ("fast", 0.0))
    ]
    results = run_case(run, "nn", add_case(*entries))
    assert [r.impl for r in results] == ["pygpukit", "torch"]
    assert results == run.report.results
    assert results[1].params == {"impl": "torch", "n": 3, "mode": "eager", "backend": "fast"}
    assert results[1].extra["slow_us"] > 1e4 > results[1].extra["fast_us"]
    assert all(r.correct and r.rel_error == 0 for r in results)
    assert results[0].bandwidth_gbps == pytest.approx(48e-3 / results[0].median_us)
    assert peer.released == 1


def test_a_peer_may_fail() -> None:
    def fails(*arrays: Any) -> Callable[[], object]:
        raise RuntimeError("no kernel\nfor this shape")

    run = session(Peer())
    broken = Entry(fails, doubled, impl="torch", backend="flash")
    wrong = Entry(theirs(0.0, 3.0), doubled, impl="torch", backend="math")
    results = run_case(run, "nn", add_case(broken, wrong))
    assert [r.correct for r in results] == [True, False]
    assert run.report.notes == ["torch flash stopped in double: RuntimeError: no kernel"]
    with pytest.raises(RuntimeError, match="no kernel"):  # ours may not
        run_case(run, "nn", Case("x", {}, lambda: (), [Entry(fails)]))


def test_graphs_have_many_nodes_and_fresh_results() -> None:
    captured: list[int] = []
    out = np.zeros(2)

    class Graphs(Peer):
        on_gpu = True

        def capture(self, work: Callable[[], object]) -> Any:
            calls.clear()
            work()
            captured.append(len(calls))
            return work

    calls: list[int] = []

    def build(module: Any) -> Callable[[], object]:
        def step() -> object:
            calls.append(1)
            out[...] = 5.0
            return out

        return step

    seen = []

    def error(arrays: Any, result: Any) -> float:
        seen.append(result.copy())
        return 0.0

    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1e-6
        return now

    entry = Entry(build, error, impl="torch")
    first = _prepare(Graphs(), entry, [(), ()], 0, host_sampler(clock))  # type: ignore[arg-type]
    assert captured == [MAX_NODES] == [first.calls]  # a step of 1 us, in graphs of at most so many
    assert np.array_equal(seen, np.full((2, 2), 5.0))
    slow = host_sampler(lambda: clock() * 5000)
    second = _prepare(Graphs(), entry, [(), ()], 400, slow)  # type: ignore[arg-type]
    assert second.calls == captured[1] == 2 * 2  # not as many of a slow one

    def skips(module: Any) -> Callable[[], object]:
        return lambda: out

    _prepare(Graphs(), Entry(skips, error, impl="torch"), [()], 0, host_sampler(clock))  # type: ignore[arg-type]
    assert np.isnan(seen[-1]).all()  # poisoned before the run that counts


# --- correctness --------------------------------------------------------------------------------


def test_relative_error() -> None:
    ref = np.ones((4, 10))
    assert relative_error(ref, ref) == 0
    assert relative_error(ref[:3], ref) == math.inf
    one_row = ref.copy()
    one_row[2] = 1.5
    assert relative_error(one_row, ref) == pytest.approx(0.25)  # a quarter more than the norm says
    one_row[2, 0] = np.nan
    assert relative_error(one_row, ref) == math.inf
    assert relative_error(np.zeros(3), np.zeros(3)) == 0


@pytest.mark.parametrize("transposed", [False, True])
def test_conv_reference(transposed: bool) -> None:
    rng = np.random.default_rng(0)
    shape = Conv("x", 3, 2, 11, 4, 2, 1, 3 if not transposed else 1, transposed)
    x, w, b = rng.normal(size=(3, 11)), rng.normal(size=(2, 3, 4)), rng.normal(size=2)
    wide = np.zeros((2, shape.out_length)) + b[:, None]
    for c in range(3):
        for o in range(2):
            for k in range(4):
                for i in range(11):
                    if transposed:
                        at, rest = i * 2 + k - 1, 0
                    else:
                        at, rest = divmod(i + 1 - 3 * k, 2)
                    if rest == 0 and 0 <= at < shape.out_length:
                        wide[o, at] += w[o, c, k] * x[c, i]
    weights = w.transpose(1, 0, 2) if transposed else w
    every = np.arange(shape.out_length)
    got = conv_reference(shape, x, weights, b, np.array([0, 1]), every)
    assert np.allclose(got, wide)


def test_possible_tokens() -> None:
    logits = np.array([0.0, 5.0, 4.0, -3.0])
    assert is_possible(Filter("greedy", 0.0), logits, 1)
    assert not is_possible(Filter("greedy", 0.0), logits, 2)
    assert is_possible(Filter("plain"), logits, 3)
    assert not is_possible(Filter("plain"), logits, -1)
    assert not is_possible(Filter("plain"), logits, 4)
    top_2 = [is_possible(Filter("top_k", top_k=2), logits, i) for i in range(4)]
    assert top_2 == [False, True, True, False]
    top_p = [is_possible(Filter("top_p", 1.0, top_p=0.7), logits, i) for i in range(4)]
    assert top_p == [False, True, False, False]


def test_group_sizes() -> None:
    shape = Experts(16, 100, 8, 8)
    assert np.array_equal(group_sizes(shape, False), [100] * 16)
    skewed = group_sizes(shape, True)
    assert skewed.sum() == 1600
    assert skewed.max() > 300
    assert skewed.dtype == np.int32


# --- plots --------------------------------------------------------------------------------------


def prefill(impl: str, s: int, tflops: float, **params: Any) -> BenchmarkResult:
    given = {"impl": impl, "s": s, "heads": "32/32", "dim": 128, "causal": True}
    return BenchmarkResult(
        "prefill", "attention", {**given, **params}, 1.0, 1.0, 1.0, 0.0, tflops=tflops
    )


def row(name: str, rows: int, share: float, impl: str = "pygpukit") -> BenchmarkResult:
    params = {"impl": impl, "rows": rows, "width": 8}
    extra = {"of_copy": share}
    return BenchmarkResult(name, "nn", params, 1.0, 1.0, 1.0, 0.0, extra=extra)


def test_charts() -> None:
    report = BenchmarkReport(
        "0.3.0",
        GPU,
        results=[
            prefill("torch", 4096, 500.0),
            prefill("pygpukit", 4096, 600.0),
            prefill("pygpukit", 1024, 400.0),
            prefill("torch", 1024, 450.0),
            prefill("pygpukit", 1024, 1.0, heads="32/8"),
            prefill("pygpukit", 1024, 300.0, causal=False),  # one point is no line
            row("rmsnorm", 16, 0.97),
            row("softmax", 16, 0.5),
            row("softmax", 16, 0.3, "torch"),
            row("rmsnorm", 32, 1.01),
        ],
    )
    lines = {
        "pygpukit dim 128 causal": [(1024.0, 400.0), (4096.0, 600.0)],
        "torch dim 128 causal": [(1024.0, 450.0), (4096.0, 500.0)],
    }
    bars = {"16x8": {"rmsnorm": 0.97, "softmax": 0.5}, "32x8": {"rmsnorm": 1.01}}
    assert prefill_lines(report) == lines
    assert row_bars(report) == bars
    found = charts(report)
    assert [(c.lines, c.bars) for c in found] == [(lines, {}), ({}, bars)]
    root = ElementTree.fromstring(to_svg(found))
    space = "{http://www.w3.org/2000/svg}"
    texts = {element.text for element in root.iter(f"{space}text")}
    assert {"of the copy rate", "rmsnorm", "softmax", "32x8", "torch dim 128 causal"} <= texts
    first, second = root.findall(f"{space}g")
    assert len(first.findall(f"{space}polyline")) == 2
    drawn = second.findall(f"{space}rect")
    assert len(drawn) == 2 + 3  # the legend and the bars
    heights = [float(bar.attrib["height"]) for bar in drawn if float(bar.attrib["height"]) > 8]
    assert heights[0] / heights[1] == pytest.approx(0.97 / 0.5, rel=1e-2)
    assert Chart("", "", "", bars=bars).largest == 1.01
