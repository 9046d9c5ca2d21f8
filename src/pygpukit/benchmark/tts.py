"""Kokoro with random weights: speech of phonemes, and the first sentence of a stream.

The peer is the kokoro package with the same weights, where --peers has torch. Random weights give
every phoneme about max_dur / 2 frames, which is far more sound than a text has. The first chunk of
a stream is measured with a bias that gives about three, as trained weights do.
"""

from __future__ import annotations

import json
import math
from typing import Any

from pygpukit import _native
from pygpukit.benchmark.interleave import (
    events_sampler,
    geometric_mean,
    host_sampler,
    measure_in_turn,
)
from pygpukit.benchmark.measure import Step, measure_kernel
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session
from pygpukit.benchmark.tts_peer import NAME, KokoroPeer
from pygpukit.benchmark.tts_shapes import kokoro_shapes, random_weights
from pygpukit.random import default_rng
from pygpukit.tts.kokoro.config import KokoroConfig
from pygpukit.tts.kokoro.model import KokoroModel

PHONEMES = (100, 20, 400)  # of a text, of its first sentence, of a page
FIRST = 20  # phonemes of the first sentence of a stream
CHUNK = 4800  # samples of its chunks: 0.2 s
FRAMES = 3.0  # of a phoneme in speech
TINY = KokoroConfig(
    n_token=20,
    hidden_dim=16,
    n_layer=1,
    max_dur=2,
    style_dim=4,
    plbert_embedding_size=8,
    plbert_hidden_size=16,
    plbert_num_attention_heads=2,
    plbert_intermediate_size=16,
    plbert_num_hidden_layers=2,
    upsample_rates=(3, 2),
    upsample_kernel_sizes=(5, 4),
    upsample_initial_channel=8,
    resblock_kernel_sizes=(3,),
    resblock_dilation_sizes=((1, 3, 5),),
)
MAX_SAMPLES = 7


def run(session: Session) -> None:
    """Runs the suite."""
    config = KokoroConfig() if session.on_gpu else TINY
    widths = {} if session.on_gpu else {"width": 16, "text_width": 4}
    session.step("tts: weights")
    weights = random_weights(kokoro_shapes(config, **widths))
    peer = _peer(session, config, weights)
    speedups = []
    for dtype in ("bfloat16", "float32"):
        model = _native.KokoroModel(json.dumps(config.to_dict()), weights, dtype)
        for phonemes in PHONEMES[:1] if session.quick else PHONEMES:
            ratio = _speak(session, config, model, dtype, phonemes, peer)
            speedups += [] if ratio is None else [ratio]
        _first_chunk(session, config, weights, dtype)
    if speedups:
        session.note(
            f"tts: speedup over {NAME}: geometric mean {geometric_mean(speedups):.3f}, worst "
            f"{min(speedups):.3f}"
        )


def _first_chunk(
    session: Session, config: KokoroConfig, weights: dict[str, Any], dtype: str
) -> None:
    """From the call to the first samples in host memory, by the host's clock."""
    phonemes = FIRST if session.on_gpu else FIRST // 4
    session.step(f"tts: first chunk of {phonemes} phonemes, {dtype}")
    name = "predictor.duration_proj.linear_layer.bias"
    share = min(FRAMES / config.max_dur, 0.5)
    bias = _native.full((config.max_dur,), math.log(share / (1 - share)), "float32")
    native = _native.KokoroModel(json.dumps(config.to_dict()), {**weights, name: bias}, dtype)
    model = KokoroModel(native, config)
    styles = default_rng(4).standard_normal((64, 2 * config.style_dim), dtype="float32")
    model.add_voice("random", styles)
    letters = [s for s, token in config.vocab.items() if token < config.n_token and s.isalpha()]
    picked = default_rng(5).integers(0, len(letters), phonemes - 1).to_numpy().tolist()
    sentence = "".join(letters[i] for i in picked) + "."
    text = f"{sentence} {sentence} {sentence}"

    def first() -> Any:
        stream = model.generate_stream(text, CHUNK, voice="random", phonemes=True)
        return next(stream).to_numpy()

    count = min(session.iterations, MAX_SAMPLES)
    stats = measure_kernel(first, min(session.warmup, 2), count, _native.synchronize)
    row = next(model.synthesize_stream(text, "random", phonemes=True))
    session.add(
        "tts",
        "first_chunk",
        OURS,
        stats,
        count,
        params={"phonemes": phonemes, "dtype": dtype, "chunk": CHUNK},
        extra={"sentence_seconds": row.duration_sec},
    )


def _peer(session: Session, config: KokoroConfig, weights: dict[str, Any]) -> KokoroPeer | None:
    if not session.on_gpu or all(engine.name != "torch" for engine in session.peers):
        return None
    session.step(f"tts: {NAME}")
    try:
        return KokoroPeer(config, weights)
    except Exception as error:  # third-party code may raise anything
        session.note(f"tts: peer {NAME} skipped: {type(error).__name__}: {error}")
        return None


def _speak(
    session: Session,
    config: KokoroConfig,
    model: Any,
    dtype: str,
    phonemes: int,
    peer: KokoroPeer | None,
) -> float | None:
    """One text; the time of the peer over ours."""
    phonemes = phonemes if session.on_gpu else phonemes // 10
    what = f"{phonemes} phonemes, {dtype}"
    session.step(f"tts: {what}")
    ids = default_rng(3).integers(1, config.n_token, phonemes).to_numpy().tolist()
    tokens = [0, *ids, 0]
    style = default_rng(4).standard_normal((2 * config.style_dim,), dtype="float32")
    samples = model.run(tokens, style)[0].size
    steps: dict[str, Step] = {OURS: lambda: model.run(tokens, style)}
    if peer is not None:
        host_style = style.to_numpy()
        steps[NAME] = lambda: peer.run(tokens, host_style)
    sampler = events_sampler() if session.on_gpu else host_sampler()
    count = min(session.iterations, MAX_SAMPLES)
    stats = measure_in_turn(list(steps.values()), sampler, min(session.warmup, 2), count, 0.0)
    seconds = samples / config.sample_rate
    for impl, of_impl in zip(steps, stats, strict=True):
        session.add(
            "tts",
            "speak",
            impl,
            of_impl,
            count,
            params={"phonemes": phonemes, "dtype": dtype if impl == OURS else "float32"},
            extra={"seconds": seconds, "times_real_time": seconds / of_impl.median * 1e6},
        )
    return None if peer is None else stats[1].median / stats[0].median
