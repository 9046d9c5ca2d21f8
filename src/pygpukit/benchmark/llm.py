"""Language models with random weights of real shapes: prefill, decode, first token, load.

Decode is timed at a context that was never computed: its part of the cache holds random numbers.
The limit of a step is the time to read its weights, and the keys and values of the context.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pygpukit import _native
from pygpukit.benchmark.interleave import events_sampler, host_sampler, measure_in_turn
from pygpukit.benchmark.llm_models import (
    make_decoder,
    prefill_step,
    random_ids,
    random_model,
    random_tensor,
)
from pygpukit.benchmark.llm_peers import ModelPeer, PeerModel
from pygpukit.benchmark.llm_shapes import DEFAULT_SHAPES, TINY, ModelShape, shape_named
from pygpukit.benchmark.measure import Stats, Step, measure_kernel, measure_step, summarize
from pygpukit.benchmark.report import OURS, BenchmarkResult
from pygpukit.benchmark.session import Session
from pygpukit.benchmark.summary import note_ratios, note_speedups, shape_label
from pygpukit.random import default_rng

BATCHES = (1, 8, 32)
CONTEXTS = (128, 4096, 16384)
PEER_CONTEXTS = (128,)
QUANTIZATIONS = ("fp8", "int8", "int4", "nvfp4")
QUICK_SHAPE = "qwen3-0.6b"
LOADED_SHAPE = "qwen3-0.6b"
H200_BYTES_PER_S = 4.43e12
STEPS = 32  # of a sample of decode
PREFILL_TOKENS = 4096
PREFILL_SAMPLE_US = 30_000.0  # several passes, so that the host is ahead of the device
PROMPT_TOKENS = 128  # of the first token
GEMM_SIZE = 8192
MAX_SAMPLES = 7
NUM_LOADS = 3
PERSISTENT, PERSISTENT_ROWS = "persistent", 8  # ours, with the layers of a step in one kernel

Peers = list[tuple[ModelPeer, PeerModel]]


def run(session: Session) -> None:
    """Runs the suite."""
    bytes_per_s, source = read_rate(session)
    session.note(f"llm: the limit is memory at {bytes_per_s / 1e12:.4g} TB/s, {source}")
    flops_per_s = _gemm_rate(session)
    rows: list[BenchmarkResult] = []
    for shape in shapes(session):
        with _skips_without_memory(session, shape.name):
            rows += _run_shape(session, shape, bytes_per_s, flops_per_s)
        _release(session)
    for name in ("prefill", "decode"):
        note_speedups(session, f"llm, {name}", [row for row in rows if row.name == name])
    shares = {
        shape_label(row): row.extra["of_limit"]
        for row in rows
        if row.impl == OURS and "of_limit" in row.extra
    }
    note_ratios(session, "llm, decode", "of the limit", shares)


def _run_shape(
    session: Session, shape: ModelShape, bytes_per_s: float, flops_per_s: float
) -> list[BenchmarkResult]:
    session.step(f"llm: {shape.name}: weights")
    model = random_model(shape, session.quantization)
    peers = _peer_models(session, shape)
    rows = _prefill(session, shape, model, peers, flops_per_s)
    _first_token(session, shape, model)
    cases = decode_cases(session)
    with_peers = [(1, context) for context in session.peer_contexts or PEER_CONTEXTS]
    for i, (batch, context) in enumerate(cases):
        if peers and not any(case in with_peers for case in cases[i:]):
            peers.clear()
            _release(session)
        with _skips_without_memory(session, f"{shape.name} batch {batch} context {context}"):
            contenders = peers if (batch, context) in with_peers else []
            rows += _decode(session, shape, model, batch, context, contenders, bytes_per_s)
        _native.trim()
    peers.clear()
    if shape.name in (LOADED_SHAPE, "tiny"):
        _load(session, shape)
    return rows


def _label(session: Session, shape: ModelShape) -> str:
    return shape.name if session.quantization is None else f"{shape.name} {session.quantization}"


@contextmanager
def _skips_without_memory(session: Session, what: str) -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        session.note(f"llm: {what} skipped: {_first_line(error)}")


def _release(session: Session) -> None:
    _native.trim()
    for peer in session.model_peers:
        peer.release()


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


# --- what to measure ----------------------------------------------------------------------------


def shapes(session: Session) -> list[ModelShape]:
    """The models: a tiny one without a GPU."""
    if not session.on_gpu:
        return [ModelShape("tiny", TINY)]
    default = (QUICK_SHAPE,) if session.quick else DEFAULT_SHAPES
    return [shape_named(name) for name in session.model_shapes or default]


def decode_cases(session: Session) -> list[tuple[int, int]]:
    """Batch and context, the smallest batch first."""
    batches: Sequence[int] = BATCHES if session.on_gpu else (1, 2)
    contexts: Sequence[int] = CONTEXTS if session.on_gpu else (16, 64)
    if session.quick:
        batches, contexts = batches[:1], contexts[:1]
    return sorted(
        {(b, c) for b in session.batches or batches for c in session.contexts or contexts}
    )


# --- rates of the machine -----------------------------------------------------------------------


def read_rate(session: Session) -> tuple[float, str]:
    """Bytes per second of reads, and where the number is from."""
    if "H200" in session.report.gpu.name:
        return H200_BYTES_PER_S, "what an H200 reads"
    count = 2**28 if session.on_gpu else 2**18
    x = _native.full(count, 1.0, "float32")
    stats = _measure_alone(session, lambda: _native.sum(x))
    return 4 * count / stats.median * 1e6, f"measured by the sum of {4 * count / 2**20:.0f} MiB"


def _gemm_rate(session: Session) -> float:
    n = GEMM_SIZE if session.on_gpu else 64
    session.step(f"llm: GEMM {n}")
    rng = default_rng(1)
    a, b = (rng.standard_normal((n, n), dtype="bfloat16") for _ in range(2))
    out = _native.empty((n, n), "bfloat16")
    stats = _measure_alone(session, lambda: _native.matmul(a, b.T, out=out))
    tflops = 2.0 * n**3 / stats.median / 1e6
    params = {"m": n, "n": n, "k": n, "dtype": "bfloat16", "layout": "nt"}
    session.add("llm", "gemm", OURS, stats, _samples(session), params=params, tflops=tflops)
    return tflops * 1e12


def _samples(session: Session) -> int:
    return min(session.iterations, MAX_SAMPLES)


def _measure_alone(session: Session, step: Step) -> Stats:
    return measure_step(step, session.warmup, _samples(session), on_gpu=session.on_gpu)


def _measure(
    session: Session, ours: Step, steps: dict[str, Step], min_sample_us: float = 0.0
) -> dict[str, Stats]:
    """Ours and those of peers in turn."""
    named = {OURS: ours, **steps}
    sampler = events_sampler() if session.on_gpu else host_sampler()
    all_stats = measure_in_turn(
        list(named.values()), sampler, min(session.warmup, 2), _samples(session), min_sample_us
    )
    return dict(zip(named, all_stats, strict=True))


# --- peers --------------------------------------------------------------------------------------


def _peer_models(session: Session, shape: ModelShape) -> Peers:
    found: Peers = []
    for peer in session.model_peers:
        session.step(f"llm: {shape.name}: {peer.name}")
        try:
            found.append((peer, peer.model(shape.config)))
        except Exception as error:  # third-party code may raise anything
            session.note(f"{peer.name} has no {shape.name}: {_first_line(error)}")
    return found


def _peer_steps(
    session: Session, peers: Peers, what: str, build: Callable[[PeerModel], Step]
) -> dict[str, Step]:
    """Steps that have run: the first calls compile, and may fail."""
    steps = {}
    for peer, model in peers:
        session.step(f"llm: {what}: {peer.name}")
        try:
            step = build(model)
            for _ in range(3):
                step()
            _native.synchronize()
            steps[peer.name] = step
        except Exception as error:
            session.note(f"{peer.name} stopped in {what}: {_first_line(error)}")
    return steps


# --- measurements -------------------------------------------------------------------------------


def _prefill(
    session: Session, shape: ModelShape, model: Any, peers: Peers, flops_per_s: float
) -> list[BenchmarkResult]:
    count = PREFILL_TOKENS if session.on_gpu else 32
    what = f"{shape.name}: prefill of {count} tokens"
    tokens = random_ids(shape, count)
    steps = _peer_steps(session, peers, what, lambda other: other.prefill(tokens))
    session.step(f"llm: {what}")
    flops = shape.prefill_flops(count)
    rows = []
    enough_us = PREFILL_SAMPLE_US if session.on_gpu else 0.0
    for impl, stats in _measure(session, prefill_step(model, tokens), steps, enough_us).items():
        tflops = flops / stats.median / 1e6
        rows.append(
            session.add(
                "llm",
                "prefill",
                impl,
                stats,
                _samples(session),
                params={"model": _label(session, shape), "tokens": count},
                tflops=tflops,
                extra={
                    "of_gemm": tflops * 1e12 / flops_per_s,
                    "tokens_per_s": count / stats.median * 1e6,
                },
            )
        )
    return rows


def _first_token(session: Session, shape: ModelShape, model: Any) -> None:
    """From the call to the first id, by the host's clock, beside the prefill alone."""
    from pygpukit.llm.language_model import LanguageModel

    count = PROMPT_TOKENS if session.on_gpu else 8
    session.step(f"llm: {shape.name}: first token")
    tokens = random_ids(shape, count)
    samples = _samples(session)
    warmup = min(session.warmup, 3)
    alone = measure_kernel(prefill_step(model, tokens), warmup, samples, _native.synchronize)
    texts = LanguageModel(model, max_length=2 * count, max_batch=1)

    def first() -> float:
        _native.synchronize()
        begin = time.perf_counter()
        next(texts.generate_stream(tokens, max_new_tokens=count))
        return (time.perf_counter() - begin) * 1e6

    for _ in range(warmup):
        first()
    stats = summarize([first() for _ in range(samples)])
    _native.synchronize()
    params = {"model": _label(session, shape), "tokens": count}
    extra = {"over_prefill_us": stats.median - alone.median, "prefill_us": alone.median}
    session.add("llm", "first_token", OURS, stats, samples, params=params, extra=extra)


def _decode(
    session: Session,
    shape: ModelShape,
    model: Any,
    batch: int,
    context: int,
    peers: Peers,
    bytes_per_s: float,
) -> list[BenchmarkResult]:
    steps = STEPS if session.on_gpu else 2
    what = f"{shape.name} batch {batch} context {context}"
    if context + steps > shape.max_positions:
        session.note(f"llm: {what} skipped: the model has {shape.max_positions} positions")
        return []
    session.step(f"llm: {what}")
    decoder = make_decoder(shape, model, batch, context, steps)
    token = random_ids(shape, 1)[0]
    others = _peer_steps(session, peers, what, lambda other: other.decode(token, context, steps))
    if session.on_gpu and batch <= PERSISTENT_ROWS:
        chained = make_decoder(shape, model, batch, context, steps, persistent=True)
        chained.run(1)
        if chained.explain().startswith("chain: "):
            others[PERSISTENT] = lambda: chained.run(steps)
    # Packed weights are as much smaller in a step as in the whole model.
    weight_bytes = shape.step_weight_bytes(batch) * model.num_bytes / shape.num_bytes
    cache_bytes = shape.cache_bytes(batch * context)
    rows = []
    for impl, of_steps in _measure(session, lambda: decoder.run(steps), others).items():
        stats = Stats(*(us / steps for us in of_steps))
        us = (weight_bytes + cache_bytes) / bytes_per_s * 1e6
        extra: dict[str, Any] = {
            "of_limit": us / stats.median,
            "of_weight_limit": weight_bytes / bytes_per_s * 1e6 / stats.median,
            "tokens_per_s": batch / stats.median * 1e6,
            "weight_bytes": round(weight_bytes),
            "cache_bytes": cache_bytes,
        }
        if impl == OURS and batch > 1:  # equal tokens choose equal experts
            extra["different_tokens"] = len(set(decoder.tokens()))
        rows.append(
            session.add(
                "llm",
                "decode",
                impl,
                stats,
                _samples(session),
                params={"model": _label(session, shape), "batch": batch, "context": context},
                bandwidth_gbps=(weight_bytes + cache_bytes) / stats.median / 1e3,
                extra=extra,
            )
        )
    return rows


def _load(session: Session, shape: ModelShape) -> None:
    """A folder from the page cache to the device."""
    from pygpukit.llm.language_model import load
    from pygpukit.llm.safetensors import save_safetensors

    session.step(f"llm: {shape.name}: load")
    with tempfile.TemporaryDirectory() as folder:
        if shutil.disk_usage(folder).free < 1.1 * shape.num_bytes:
            session.note(f"llm: load of {shape.name} skipped: {folder} has no room")
            return
        Path(folder, "config.json").write_text(shape.text, encoding="utf-8")
        rng = default_rng(1)
        save_safetensors(
            Path(folder, "model.safetensors"),
            {name: random_tensor(dims, role, rng) for name, dims, role in shape.tensors},
        )
        length = min(PREFILL_TOKENS, shape.max_positions)
        step = lambda: load(folder, max_length=length, max_batch=1)  # noqa: E731
        stats = measure_kernel(step, 1, NUM_LOADS, _native.synchronize)
    session.add(
        "llm",
        "load",
        OURS,
        stats,
        NUM_LOADS,
        params={"model": shape.name, "source": "page cache"},
        bandwidth_gbps=shape.num_bytes / stats.median / 1e3,
    )
