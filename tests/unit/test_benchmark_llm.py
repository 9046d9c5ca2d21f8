"""python -m pygpukit.benchmark --llm: bytes and operations of models, cases, peers, the plot."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pygpukit._cli.terminal import ProgressLine
from pygpukit.benchmark import BenchmarkReport, BenchmarkSuite, GPUInfo, llm
from pygpukit.benchmark.__main__ import main
from pygpukit.benchmark.llm_peers import load_model_peers
from pygpukit.benchmark.llm_shapes import CONFIGS, TINY, ModelShape, shape_named
from pygpukit.benchmark.measure import Stats, Step
from pygpukit.benchmark.peers import load_engines
from pygpukit.benchmark.plot import decode_bars, decode_lines
from pygpukit.benchmark.session import Session

STATS = Stats(2.0, 1.0, 3.0, 0.5)


class Peer:
    """Stands for Transformers."""

    name = "transformers"
    version = "0"

    def __init__(self, fails_in: str = "") -> None:
        self.fails_in = fails_in
        self.calls: list[tuple[Any, ...]] = []
        self.released = 0

    def model(self, config: dict[str, Any]) -> Peer:
        assert config == TINY
        return self._done("model")

    def prefill(self, tokens: Sequence[int]) -> Step:
        return lambda: self._done("prefill", len(tokens))

    def decode(self, token: int, context: int, steps: int) -> Step:
        return lambda: self._done("decode", context, steps)

    def release(self) -> None:
        self.released += 1

    def _done(self, *call: Any) -> Peer:
        if call[0] == self.fails_in:
            raise RuntimeError(f"no {call[0]}\nand more")
        self.calls.append(call)
        return self


def session(*peers: Any, on_gpu: bool = False, gpu: str = "GPU A", **settings: Any) -> Session:
    engines, _ = load_engines([], on_gpu=False)
    report = BenchmarkReport("0.3.0", GPUInfo(gpu, 9, 0, 141.0, "580.0", "13.0"))
    return Session(
        engines,
        report,
        ProgressLine(quiet=True),
        1,
        2,
        on_gpu=on_gpu,
        model_peers=list(peers),
        **settings,
    )


# --- the suite ----------------------------------------------------------------------------------


def test_suite_on_cpu_simulation() -> None:
    suite = BenchmarkSuite(1, 2, peers=["transformers"], shapes=["qwen3-8b"]).add_llm()
    done = suite.run(verbose=False)
    names = [r.name for r in done.results]
    assert names == ["gemm", "prefill", "first_token", *["decode"] * 4, "load"]
    by_name = {r.name: r for r in done.results}
    gemm, prefill = by_name["gemm"], by_name["prefill"]
    assert gemm.tflops is not None
    assert prefill.tflops == pytest.approx(
        ModelShape("tiny", TINY).prefill_flops(32) / prefill.median_us / 1e6
    )
    assert prefill.extra["of_gemm"] == pytest.approx(prefill.tflops / gemm.tflops)
    assert prefill.extra["tokens_per_s"] == pytest.approx(32e6 / prefill.median_us)
    first = by_name["first_token"]
    assert first.extra["over_prefill_us"] == first.median_us - first.extra["prefill_us"]
    decodes = [r for r in done.results if r.name == "decode"]
    cases = [(r.params["batch"], r.params["context"]) for r in decodes]
    assert cases == [(1, 16), (1, 64), (2, 16), (2, 64)]
    for row in decodes:
        read = row.extra["weight_bytes"] + row.extra["cache_bytes"]
        assert row.bandwidth_gbps == pytest.approx(read / row.median_us / 1e3)
        assert row.extra["of_limit"] > row.extra["of_weight_limit"] > 0
        assert row.extra["tokens_per_s"] == pytest.approx(row.params["batch"] * 1e6 / row.median_us)
    assert "different_tokens" not in decodes[0].extra
    assert decodes[2].extra["different_tokens"] in (1, 2)
    assert by_name["load"].bandwidth_gbps is not None
    assert any("measured by the sum of 1 MiB" in note for note in done.notes)
    assert "peer transformers skipped: there is no GPU to compare on" in done.notes
    assert any(note.startswith("llm, decode: 4 shapes, of the limit") for note in done.notes)
    assert len(suite.compare(done).unchanged) == len(done.results)


def test_command_and_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "llm.svg"
    assert main(["--llm", "--quick", "--iterations", "1", "--plot", str(plot)]) == 0
    out = capsys.readouterr().out
    assert "model=tiny batch=1 context=16" in out
    assert "context=64" not in out
    texts = {element.text for element in ElementTree.parse(plot).iter()}
    assert {"Decode of one sequence, CPU Simulation", "tiny", "16"} <= texts


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--shapes", "qwen3-8b"], "--shapes needs --llm"),
        (["--batch", "8"], "--batch needs --llm"),
        (["--gemm", "--context", "128"], "--context needs --llm"),
        (["--peer-context", "128"], "--peer-context needs --llm"),
        (["--peers", "numpy,transformers"], "--peers transformers needs --llm"),
        (["--llm", "--shapes", "gpt-9"], "gpt-9 is not one of llama-3.2-1b, qwen3-0.6b"),
        (["--llm", "--batch", "0"], "'0' is not a size"),
        (["--llm", "--context", "x"], "--context"),
        (["--llm", "--peers", "vllm"], "vllm is not one of numpy, cupy, torch, transformers"),
        (["--llm", "--peer-context", "128"], "--peer-context needs --peers transformers"),
        (
            ["--llm", "--peers", "transformers", "--peer-context", "256"],
            "--peer-context: 256 is not in --context",
        ),
    ],
)
def test_bad_usage_exits_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert text in capsys.readouterr().err


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match=r"unknown shape 'gpt-9', expected llama-3\.2-1b"):
        BenchmarkSuite(shapes=["gpt-9"])
    with pytest.raises(ValueError, match="batches has 0, expected 1 or more"):
        BenchmarkSuite(batches=[1, 0])
    with pytest.raises(ValueError, match="contexts has -1, expected 1 or more"):
        BenchmarkSuite(contexts=[-1])
    with pytest.raises(ValueError, match=r"unknown peer 'vllm', expected numpy, .*transformers"):
        BenchmarkSuite(peers=["vllm"]).add_llm().run(verbose=False)


def test_cases() -> None:
    gpu = session(on_gpu=True)
    assert [shape.name for shape in llm.shapes(gpu)] == ["llama-3.2-1b", "qwen3-0.6b", "qwen3-8b"]
    assert llm.decode_cases(gpu) == [(b, c) for b in (1, 8, 32) for c in (128, 4096, 16384)]
    quick = session(on_gpu=True, quick=True)
    assert [shape.name for shape in llm.shapes(quick)] == ["qwen3-0.6b"]
    assert llm.decode_cases(quick) == [(1, 128)]
    given = session(
        on_gpu=True, quick=True, model_shapes=["qwen3-30b-a3b"], batches=[4, 1, 4], contexts=[64]
    )
    assert [shape.name for shape in llm.shapes(given)] == ["qwen3-30b-a3b"]
    assert llm.decode_cases(given) == [(1, 64), (4, 64)]


def test_what_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    real = llm.make_decoder

    def make_decoder(shape: ModelShape, model: Any, batch: int, *more: int) -> Any:
        if batch == 3:
            raise MemoryError("no room\nmore")
        return real(shape, model, batch, *more)

    monkeypatch.setattr(llm, "make_decoder", make_decoder)
    full = SimpleNamespace(free=ModelShape("tiny", TINY).num_bytes)
    monkeypatch.setattr(llm.shutil, "disk_usage", lambda folder: full)
    run = session(batches=[1, 3], contexts=[254, 255])
    llm.run(run)
    cases = [r.params["context"] for r in run.report.results if r.name == "decode"]
    assert cases == [254]
    assert "load" not in {r.name for r in run.report.results}
    notes = "\n".join(run.report.notes)
    assert "tiny batch 1 context 255 skipped: the model has 256 positions" in notes
    assert "tiny batch 3 context 254 skipped: MemoryError: no room" in notes
    assert "load of tiny skipped" in notes


def test_limit_of_an_h200() -> None:
    assert llm.read_rate(session(gpu="NVIDIA H200"))[0] == 4.43e12
    rate, source = llm.read_rate(session())
    assert 0 < rate < 4.43e12
    assert source.startswith("measured")


# --- peers --------------------------------------------------------------------------------------


def test_peers_are_timed_in_turn() -> None:
    peer = Peer()
    run = session(peer, contexts=[16, 64], peer_contexts=[64])
    llm.run(run)
    theirs = [r for r in run.report.results if r.impl == "transformers"]
    assert [(r.name, r.params.get("context")) for r in theirs] == [
        ("prefill", None),
        ("decode", 64),
    ]
    assert {call for call in peer.calls if call[0] == "decode"} == {("decode", 64, 2)}
    assert peer.released == 2  # before batch 2, and at the end
    notes = "\n".join(run.report.notes)
    assert "llm, prefill: 1 shapes, speedup over transformers" in notes
    assert "llm, decode: 1 shapes, speedup over transformers" in notes


@pytest.mark.parametrize(
    ("fails_in", "note", "rows"),
    [
        ("model", "transformers has no tiny: RuntimeError: no model", 0),
        ("prefill", "transformers stopped in tiny: prefill of 32 tokens: RuntimeError: no", 1),
        ("decode", "transformers stopped in tiny batch 1 context 128: RuntimeError: no decode", 1),
    ],
)
def test_a_peer_that_fails_is_a_note(fails_in: str, note: str, rows: int) -> None:
    run = session(Peer(fails_in), contexts=[128], batches=[1])
    llm.run(run)
    assert note in "\n".join(run.report.notes)
    assert "and more" not in "\n".join(run.report.notes)
    assert len([r for r in run.report.results if r.impl == "transformers"]) == rows
    assert "decode" in {r.name for r in run.report.results if r.impl == "pygpukit"}


def test_peers_that_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Peer:
        raise ModuleNotFoundError("torch")

    def broken() -> Peer:
        raise RuntimeError("no CUDA")

    from pygpukit.benchmark import llm_peers

    for make, why in ((missing, "it is not installed"), (broken, "RuntimeError: no CUDA")):
        monkeypatch.setattr(llm_peers, "_CLASSES", {"transformers": make})
        peers, notes = load_model_peers(["numpy", "transformers"], on_gpu=True)
        assert not peers
        assert notes == [f"peer transformers skipped: {why}"]


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama-3.2-1b", 1_235_814_400),
        ("qwen3-0.6b", 596_049_920),
        ("qwen3-8b", 8_190_735_360),
        ("qwen3-30b-a3b", 30_532_122_624),
    ],
)
def test_sizes_are_those_of_the_models(name: str, parameters: int) -> None:
    assert shape_named(name).num_bytes == 2 * parameters


def test_bytes_of_a_step() -> None:
    small, large, experts = (shape_named(f"qwen3-{x}") for x in ("0.6b", "8b", "30b-a3b"))
    assert small.step_weight_bytes(1) == small.num_bytes  # the head reads the embedding
    assert large.step_weight_bytes(32) == 2 * (8_190_735_360 - 151936 * 4096)
    # 8 of 128 experts of 3 matrices in each of 48 layers, and everything else but the embedding.
    expert = 3 * 768 * 2048
    rest = 30_532_122_624 - 48 * 128 * expert - 151936 * 2048
    assert experts.step_weight_bytes(1) == 2 * (rest + 48 * 8 * expert)
    assert experts.experts_read(1) == 8
    assert experts.experts_read(2) == 8 + 8 - 8 * 8 / 128
    assert experts.experts_read(10_000) == pytest.approx(128)
    assert small.experts_read(8) == 0
    assert small.cache_bytes(1) == 2 * 2 * 28 * 8 * 128
    assert experts.cache_bytes(32 * 4096) == 2 * 2 * 48 * 4 * 128 * 32 * 4096


def test_operations_of_a_prefill() -> None:
    tiny = ModelShape("tiny", TINY)
    layer = 64 * 32 + 2 * 32 * 32 + 32 * 64 + 3 * 32 * 48
    head = 64 * 32
    pairs = 1 + 2 + 3 + 4  # of queries and keys
    assert tiny.prefill_flops(4) == 2 * 2 * layer * 4 + 2 * head + 2 * 4 * pairs * 64
    moe = shape_named("qwen3-30b-a3b")
    layer = 2 * 4096 * 2048 + 2 * 512 * 2048 + 128 * 2048 + 8 * 3 * 768 * 2048
    assert moe.prefill_flops(1) == 48 * 2 * layer + 2 * 151936 * 2048 + 48 * 4 * 4096


def test_all_shapes_are_known_families() -> None:
    for name in CONFIGS:
        assert shape_named(name).max_positions >= max(llm.CONTEXTS) + llm.STEPS


# --- the plot -----------------------------------------------------------------------------------


def test_charts_of_decode() -> None:
    run = session()
    for impl, batch, context, share in (
        ("pygpukit", 1, 128, 0.9),
        ("transformers", 1, 128, 0.4),
        ("pygpukit", 1, 4096, 0.8),
        ("pygpukit", 8, 4096, 0.7),
    ):
        params = {"model": "m", "batch": batch, "context": context}
        run.add("llm", "decode", impl, STATS, 1, params=params, extra={"of_limit": share})
    assert decode_lines(run.report) == {"pygpukit m batch 1": [(128.0, 0.9), (4096.0, 0.8)]}
    assert decode_bars(run.report) == {
        "128": {"m": 0.9},
        "transformers 128": {"m": 0.4},
        "4096": {"m": 0.8},
    }
