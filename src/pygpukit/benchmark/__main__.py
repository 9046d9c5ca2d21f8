"""``python -m pygpukit.benchmark``."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pygpukit._cli.terminal import run
from pygpukit.benchmark.elementwise import DTYPES
from pygpukit.benchmark.llm import BATCHES, CONTEXTS, PEER_CONTEXTS, QUANTIZATIONS
from pygpukit.benchmark.llm_shapes import CONFIGS, DEFAULT_SHAPES
from pygpukit.benchmark.peers import MODEL_PEERS, PEERS
from pygpukit.benchmark.plot import check_plot_path, write_plot
from pygpukit.benchmark.product_cases import EIGHT_BITS, FP8, LAYOUTS, SPLIT
from pygpukit.benchmark.report import BenchmarkReport
from pygpukit.benchmark.suite import SUITES, BenchmarkSuite

_SHORT = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": FP8}


def _integers(text: str) -> list[int]:
    """Parses "1024,2**20"."""
    numbers = []
    for part in text.split(","):
        base, power, exponent = part.partition("**")
        try:
            number = int(base) ** int(exponent) if power else int(base)
        except ValueError:
            number = 0
        if number < 1:
            raise argparse.ArgumentTypeError(
                f"{part!r} is not a size, expected integers above 0 such as 1024,2**20"
            )
        numbers.append(int(number))
    return numbers


def _dtype_names(text: str) -> list[str]:
    names = [_SHORT.get(part, part) for part in text.split(",")]
    for name in names:
        if name not in (*DTYPES, *EIGHT_BITS, "tf32", *SPLIT):
            known = ", ".join([*_SHORT, *DTYPES, *EIGHT_BITS, "tf32", *SPLIT])
            raise argparse.ArgumentTypeError(f"{name}: no suite supports it ({known})")
    return names


def _layout_names(text: str) -> list[str]:
    names = [name.lower() for name in text.split(",")]
    for name in names:
        if name not in LAYOUTS:
            raise argparse.ArgumentTypeError(f"{name} is not one of {', '.join(LAYOUTS)}")
    return names


def _peer_names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in (*PEERS, *MODEL_PEERS):
            known = ", ".join((*PEERS, *MODEL_PEERS))
            raise argparse.ArgumentTypeError(f"{name} is not one of {known}")
    return names


def _shape_names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in CONFIGS:
            raise argparse.ArgumentTypeError(f"{name} is not one of {', '.join(CONFIGS)}")
    return names


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None


def _count(text: str) -> int:
    number = _integer(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def _seed(text: str) -> int:
    number = _integer(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pygpukit.benchmark",
        description="Measures PyGPUkit on this machine. Without a selection: launch, startup (on a "
        "GPU), copy, elementwise and arrays.",
    )
    select = parser.add_argument_group("what to measure")
    select.add_argument("--all", action="store_true", help="every suite")
    select.add_argument("--launch", action="store_true", help="host cost of calls, graph replay")
    select.add_argument("--startup", action="store_true", help="import, first result, first kernel")
    select.add_argument("--copy", action="store_true", help="copies")
    select.add_argument("--elementwise", action="store_true", help="add and mul")
    select.add_argument("--arrays", action="store_true", help="reductions, copies, sorts, scans")
    select.add_argument("--gemm", action="store_true", help="GEMM")
    select.add_argument("--gemv", action="store_true", help="GEMM with 1 to 32 rows")
    select.add_argument("--fp8", action="store_true", help="FP8 and INT8 GEMM")
    select.add_argument("--attention", action="store_true", help="prefill and decode")
    select.add_argument("--nn", action="store_true", help="norms, experts, sampling, conv, LSTM")
    select.add_argument("--linalg", action="store_true", help="factorisations, eigenvalues")
    select.add_argument("--fft", action="store_true", help="Fourier transforms")
    select.add_argument("--audio", action="store_true", help="STFT, mel, resampling, filters")
    select.add_argument("--cpu", action="store_true", help="CPU simulation beside NumPy")
    select.add_argument("--sim", action="store_true", help="the simulator, on one host thread")
    select.add_argument("--llm", action="store_true", help="language models, random weights")
    select.add_argument("--asr", action="store_true", help="Whisper, random weights")
    select.add_argument("--tts", action="store_true", help="text-to-speech, random weights")
    select.add_argument("--memory", action="store_true", help="allocation, eviction")
    select.add_argument("--transfer", action="store_true", help="the transfer engine")
    select.add_argument("--sharing", action="store_true", help="partitions and QoS classes")
    how = parser.add_argument_group("how")
    how.add_argument("--peers", type=_peer_names, default=[], metavar="numpy,cupy,torch")
    models = parser.add_argument_group("language models (--llm)")
    models.add_argument(
        "--shapes",
        type=_shape_names,
        metavar="NAMES",
        help=f"of {', '.join(CONFIGS)}; default: {', '.join(DEFAULT_SHAPES)}",
    )
    models.add_argument(
        "--batch", type=_integers, metavar=_list(BATCHES), help="sequences of a decode step"
    )
    models.add_argument(
        "--context", type=_integers, metavar=_list(CONTEXTS), help="tokens before a decode step"
    )
    models.add_argument(
        "--quantization", choices=QUANTIZATIONS, help="of the linear layers' weights"
    )
    models.add_argument(
        "--peer-context",
        type=_integers,
        metavar=_list(PEER_CONTEXTS),
        help="contexts, of --context, at which --peers transformers decodes (batch 1)",
    )
    how.add_argument(
        "--sizes",
        type=_integers,
        metavar="2**20,2**24",
        help="elements (elementwise), bytes (copy), n of square GEMMs (gemm, gemv)",
    )
    how.add_argument("--dtypes", type=_dtype_names, metavar="fp32,bf16,fp16,tf32,fp8")
    how.add_argument(
        "--layouts", type=_layout_names, metavar="nn,nt,tn,tt", help="of gemm and gemv operands"
    )
    how.add_argument(
        "--seq-lens", type=_integers, metavar="1024,4096", help="lengths of attention's prefill"
    )
    how.add_argument(
        "--shapes-seed",
        type=_seed,
        metavar="N",
        help="random shapes instead of the fixed ones (attention, nn)",
    )
    how.add_argument(
        "--random",
        type=_count,
        metavar="N",
        help="of gemm: N random shapes instead of the fixed ones, drawn by --seed",
    )
    how.add_argument("--seed", type=_seed, metavar="S", help="of --random")
    how.add_argument(
        "--candidates",
        type=_count,
        metavar="K",
        help="of --random: K candidate plans of every shape, for the cost model",
    )
    how.add_argument(
        "--probes", action="store_true", help="of --candidates: also shapes that were mispredicted"
    )
    how.add_argument(
        "--seconds", type=_count, metavar="T", help="of --candidates: stop after so long"
    )
    how.add_argument("--quick", action="store_true", help="5 warm-up, 20 runs, fewer sizes")
    how.add_argument("--warmup", type=_count, default=10)
    how.add_argument("--iterations", type=_count, default=50)
    out = parser.add_argument_group("results")
    out.add_argument("--save", type=Path, metavar="FILE", help="write the JSON")
    out.add_argument("--compare", type=Path, metavar="FILE", help="compare with an earlier JSON")
    out.add_argument("--threshold", type=float, default=0.05, help="relative change to report")
    out.add_argument(
        "--fail-on-regression", action="store_true", help="exit code 1 when anything is slower"
    )
    out.add_argument(
        "--plot",
        type=Path,
        metavar="FILE.svg",
        help="square GEMMs, prefill, row-wise ops and decode of models, SVG or PNG",
    )
    out.add_argument("--quiet", action="store_true", help="no table, no progress")
    out.add_argument("--markdown", action="store_true", help="the table in Markdown")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    1 only for a regression with --fail-on-regression, 2 for bad usage, 130 for a run that Ctrl-C or
    SIGTERM ended: what it had measured is printed and saved.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    if args.seq_lens and not (args.attention or args.all):
        parser.error("--seq-lens needs --attention")
    if args.shapes_seed is not None and not (args.attention or args.nn or args.all):
        parser.error("--shapes-seed needs --attention or --nn")
    if (args.random is not None or args.seed is not None) and not args.gemm:
        parser.error("--random and --seed need --gemm")
    if (args.random is None) != (args.seed is None):
        parser.error("--random and --seed go together")
    if args.candidates is not None and args.random is None:
        parser.error("--candidates needs --random")
    if (args.seconds is not None or args.probes) and args.candidates is None:
        parser.error("--seconds and --probes need --candidates")
    if args.candidates is not None and len(args.dtypes or ()) > 1:
        parser.error("--candidates needs one dtype")
    if not (args.llm or args.all):
        for option in ("shapes", "batch", "context", "quantization", "peer_context"):
            if getattr(args, option):
                parser.error(f"--{option.replace('_', '-')} needs --llm")
        for peer in MODEL_PEERS:
            if peer in args.peers and not args.asr:
                parser.error(f"--peers {peer} needs --llm or --asr")
    if args.peer_context:
        if not set(args.peers) & set(MODEL_PEERS):
            parser.error(f"--peer-context needs --peers {MODEL_PEERS[0]}")
        for context in args.peer_context:
            if context not in (args.context or CONTEXTS):
                parser.error(f"--peer-context: {context} is not in --context")
    if args.threshold < 0:
        parser.error(f"--threshold {args.threshold} is negative")
    if args.fail_on_regression and not args.compare:
        parser.error("--fail-on-regression needs --compare")
    if args.save and not args.save.resolve().parent.is_dir():
        parser.error(f"--save: the folder of {args.save} does not exist")
    if args.plot and (why := check_plot_path(args.plot)):
        parser.error(f"--plot: {why}")
    if args.plot and not (args.gemm or args.attention or args.nn or args.llm or args.all):
        parser.error("--plot needs --gemm, --attention, --nn or --llm")
    baseline = None
    if args.compare:  # before the run: a typo should not cost a run
        try:
            baseline = BenchmarkReport.load(args.compare)
        except (OSError, ValueError) as error:
            parser.error(f"--compare: {error}")

    suite = BenchmarkSuite(
        args.warmup,
        args.iterations,
        args.quick,
        peers=args.peers,
        sizes=args.sizes,
        dtypes=args.dtypes,
        layouts=args.layouts,
        seq_lens=args.seq_lens,
        shapes_seed=args.shapes_seed,
        random_shapes=args.random,
        seed=args.seed or 0,
        candidates=args.candidates,
        probes=args.probes,
        seconds=args.seconds,
        quantization=args.quantization,
        shapes=args.shapes,
        batches=args.batch,
        contexts=args.context,
        peer_contexts=args.peer_context,
    )
    for name in SUITES:
        if args.all or getattr(args, name):
            suite.add(name)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        report = suite.run(verbose=not args.quiet)
    finally:
        signal.signal(signal.SIGTERM, before)
    if args.save:
        report.save(args.save)
    if args.plot:
        try:
            write_plot(report, args.plot)
        except ValueError as error:  # the results are worth more
            print(f"no plot: {error}", file=sys.stderr)
    if not args.quiet:
        print(report.to_markdown() if args.markdown else report.to_text())
    for result in report.results:
        if result.correct is False:
            print(f"WRONG RESULT: {result.key}", file=sys.stderr)
    if report.interrupted:
        return 130
    if baseline is None:
        return 0
    comparison = suite.compare(baseline, args.threshold)
    print(comparison.to_text())
    return 1 if comparison.has_regressions and args.fail_on_regression else 0


if __name__ == "__main__":
    sys.exit(run(main))
