"""Selection and execution of suites."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import MappingProxyType

from pygpukit import _native
from pygpukit._cli.terminal import ProgressLine
from pygpukit.benchmark import (
    arrays,
    asr,
    attention,
    audio,
    copy,
    cpu,
    elementwise,
    fft,
    gemm,
    launch,
    linalg,
    llm,
    memory,
    nn,
    sharing,
    sim,
    startup,
    transfer,
    tts,
)
from pygpukit.benchmark.compare import Comparison, compare_reports
from pygpukit.benchmark.llm_peers import load_model_peers
from pygpukit.benchmark.llm_shapes import shape_named
from pygpukit.benchmark.peers import load_engines
from pygpukit.benchmark.report import BenchmarkReport
from pygpukit.benchmark.session import Session, get_gpu_info, machine_facts

SUITES: MappingProxyType[str, Callable[[Session], None]] = MappingProxyType(
    {
        "launch": launch.run,
        "startup": startup.run,
        "copy": copy.run,
        "elementwise": elementwise.run,
        "arrays": arrays.run,
        "gemm": gemm.run,
        "gemv": gemm.run_few_rows,
        "fp8": gemm.run_eight_bits,
        "attention": attention.run,
        "nn": nn.run,
        "linalg": linalg.run,
        "fft": fft.run,
        "audio": audio.run,
        "cpu": cpu.run,
        "sim": sim.run,
        "llm": llm.run,
        "asr": asr.run,
        "tts": tts.run,
        "memory": memory.run,
        "transfer": transfer.run,
        "sharing": sharing.run,
    }
)
# These take gigabytes and the whole GPU, or minutes.
ON_REQUEST = (
    "gemm",
    "gemv",
    "fp8",
    "attention",
    "nn",
    "linalg",
    "fft",
    "audio",
    "cpu",
    "sim",
    "llm",
    "asr",
    "tts",
    "memory",
    "transfer",
    "sharing",
)


def default_suites() -> list[str]:
    """The suites that run by default."""
    on_gpu = _native.default_device()[0] != "cpu"
    skipped = ON_REQUEST if on_gpu else (*ON_REQUEST, "startup")
    return [name for name in SUITES if name not in skipped]


def _positive(name: str, given: Iterable[int] | None) -> list[int] | None:
    numbers = None if given is None else list(given)
    for number in numbers or ():
        if number < 1:
            raise ValueError(f"BenchmarkSuite: {name} has {number}, expected 1 or more")
    return numbers


class BenchmarkSuite:
    """Measurements to run: ``BenchmarkSuite(quick=True).add_copy().add_elementwise().run()``."""

    def __init__(
        self,
        warmup: int = 10,
        iterations: int = 50,
        quick: bool = False,
        *,
        peers: Iterable[str] = (),
        sizes: Iterable[int] | None = None,
        dtypes: Iterable[str] | None = None,
        layouts: Iterable[str] | None = None,
        seq_lens: Iterable[int] | None = None,
        shapes_seed: int | None = None,
        random_shapes: int | None = None,
        seed: int = 0,
        candidates: int | None = None,
        probes: bool = False,
        seconds: float | None = None,
        quantization: str | None = None,
        shapes: Iterable[str] | None = None,
        batches: Iterable[int] | None = None,
        contexts: Iterable[int] | None = None,
        peer_contexts: Iterable[int] | None = None,
    ) -> None:
        if warmup < 0 or iterations < 1:
            raise ValueError(
                f"BenchmarkSuite: warmup is {warmup}, iterations is {iterations}, "
                "expected at least 0 and 1"
            )
        if shapes_seed is not None and shapes_seed < 0:
            raise ValueError(f"BenchmarkSuite: shapes_seed is {shapes_seed}, expected 0 or more")
        self.warmup = min(warmup, 5) if quick else warmup
        self.iterations = min(iterations, 20) if quick else iterations
        self.quick = quick
        self._peers = list(peers)
        self._sizes = None if sizes is None else list(sizes)
        self._product_dtypes = None if dtypes is None else list(dtypes)
        self._dtypes = ["float32", "bfloat16", "float16"]
        if self._product_dtypes is not None:  # some are for GEMM only
            self._dtypes = [name for name in self._product_dtypes if name in elementwise.DTYPES]
        self._layouts = None if layouts is None else list(layouts)
        self._seq_lens = None if seq_lens is None else list(seq_lens)
        self._shapes_seed = shapes_seed
        self._random_shapes = random_shapes
        self._seed = seed
        self._candidates = candidates
        self._probes = probes
        self._seconds = seconds
        self._quantization = quantization
        self._model_shapes = None if shapes is None else [shape_named(x).name for x in shapes]
        self._batches = _positive("batches", batches)
        self._contexts = _positive("contexts", contexts)
        self._peer_contexts = _positive("peer_contexts", peer_contexts)
        self._selected: list[str] = []
        self._last: BenchmarkReport | None = None

    def add(self, name: str) -> BenchmarkSuite:
        """Selects a suite by name."""
        if name not in SUITES:
            raise ValueError(f"benchmark: unknown suite '{name}', expected {', '.join(SUITES)}")
        if name not in self._selected:
            self._selected.append(name)
        return self

    def add_launch(self) -> BenchmarkSuite:
        """Host cost of small calls, and graph replay."""
        return self.add("launch")

    def add_startup(self) -> BenchmarkSuite:
        """Import, first result, first use of a custom kernel."""
        return self.add("startup")

    def add_copy(self) -> BenchmarkSuite:
        """Copies between host and device and on the device."""
        return self.add("copy")

    def add_elementwise(self) -> BenchmarkSuite:
        """add and mul."""
        return self.add("elementwise")

    def add_arrays(self) -> BenchmarkSuite:
        """Maps, casts, reductions, copies, gathers, sorts, scans, random numbers."""
        return self.add("arrays")

    def add_gemm(self) -> BenchmarkSuite:
        """GEMM."""
        return self.add("gemm")

    def add_gemv(self) -> BenchmarkSuite:
        """GEMM with 1 to 32 rows."""
        return self.add("gemv")

    def add_fp8_gemm(self) -> BenchmarkSuite:
        """FP8 and INT8 GEMM."""
        return self.add("fp8")

    def add_attention(self) -> BenchmarkSuite:
        """Prefill and decode, with grouped heads too."""
        return self.add("attention")

    add_gqa, add_w8a8_gemv = add_attention, add_fp8_gemm  # 0.2's names

    def add_nn(self) -> BenchmarkSuite:
        """Row-wise ops, grouped GEMM, sampling, convolutions, LSTM."""
        return self.add("nn")

    def add_linalg(self) -> BenchmarkSuite:
        """Factorisations, systems, eigenvalues and singular values."""
        return self.add("linalg")

    def add_fft(self) -> BenchmarkSuite:
        """Fourier transforms: powers of two, smooth lengths, primes, real ones, images."""
        return self.add("fft")

    def add_audio(self) -> BenchmarkSuite:
        """Spectra, mel and Whisper features, resampling and filters of 16 signals of 30 s."""
        return self.add("audio")

    def add_cpu(self) -> BenchmarkSuite:
        """CPU simulation beside NumPy: the cost of small calls, the time of large arrays."""
        return self.add("cpu")

    def add_sim(self) -> BenchmarkSuite:
        """The simulator: kernels on one host thread, start-up of its library."""
        return self.add("sim")

    def add_llm(self) -> BenchmarkSuite:
        """Language models with random weights: prefill, decode, time to the first token, load."""
        return self.add("llm")

    def add_asr(self) -> BenchmarkSuite:
        """Whisper with random weights: encoder, decode, an hour of sound cut at pauses."""
        return self.add("asr")

    def add_tts(self) -> BenchmarkSuite:
        """Kokoro with random weights: speech of phonemes, the first chunk of a stream."""
        return self.add("tts")

    def add_memory(self) -> BenchmarkSuite:
        """Allocation, eviction and restore."""
        return self.add("memory")

    def add_transfer(self) -> BenchmarkSuite:
        """The transfer engine: pinned, pageable, urgent copies."""
        return self.add("transfer")

    def add_sharing(self) -> BenchmarkSuite:
        """Latency under a saturating background load, compute splits, quotas."""
        return self.add("sharing")

    def add_all(self) -> BenchmarkSuite:
        """Every suite."""
        for name in SUITES:
            self.add(name)
        return self

    def run(self, verbose: bool = True) -> BenchmarkReport:
        """Runs the selected suites, or the default ones; shows progress on a terminal.

        Ctrl-C ends the run: the report has what was measured, and says so.
        """
        device, reason = _native.default_device()
        on_gpu = device != "cpu"
        progress = ProgressLine(quiet=not verbose)
        progress.show("looking for peers")
        engines, notes = load_engines(self._peers, on_gpu=on_gpu)
        models, more = load_model_peers(self._peers, on_gpu=on_gpu)
        report = BenchmarkReport(
            version=_native.__version__, gpu=get_gpu_info(), machine=machine_facts(engines, models)
        )
        if not on_gpu:
            report.note(f"CPU simulation: {reason.splitlines()[0].removesuffix(' Tried:')}")
        for note in (*notes, *more):
            report.note(note)
        session = Session(
            engines=engines,
            report=report,
            progress=progress,
            warmup=self.warmup,
            iterations=self.iterations,
            quick=self.quick,
            on_gpu=on_gpu,
            sizes=self._sizes,
            dtypes=self._dtypes,
            product_dtypes=self._product_dtypes,
            layouts=self._layouts,
            seq_lens=self._seq_lens,
            shapes_seed=self._shapes_seed,
            random_shapes=self._random_shapes,
            seed=self._seed,
            candidates=self._candidates,
            probes=self._probes,
            seconds=self._seconds,
            quantization=self._quantization,
            model_peers=models,
            model_shapes=self._model_shapes,
            batches=self._batches,
            contexts=self._contexts,
            peer_contexts=self._peer_contexts,
        )
        try:
            for name in self._selected or default_suites():
                SUITES[name](session)
        except KeyboardInterrupt:
            report.interrupted = True
            report.note(f"interrupted in {name}: later measurements are missing")
        finally:
            progress.clear()
        self._last = report
        return report

    def compare(
        self, baseline: BenchmarkReport | str | Path, threshold: float = 0.05
    ) -> Comparison:
        """Compares the last run (or a new one) with a baseline: a report or its file."""
        base = baseline if isinstance(baseline, BenchmarkReport) else BenchmarkReport.load(baseline)
        current = self._last if self._last is not None else self.run()
        return compare_reports(base, current, threshold)
