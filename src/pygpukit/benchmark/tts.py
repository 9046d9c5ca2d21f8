"""Kokoro with random weights: speech of phonemes, and the first sentence of a stream.

The peer is the kokoro package with the same weights, where --peers has torch. Random weights give
every phoneme about max_dur / 2 frames, which is far more sound than a text has.
"""

from __future__ import annotations

import json
from typing import Any

from pygpukit import _native
from pygpukit.benchmark.interleave import (
    events_sampler,
    geometric_mean,
    host_sampler,
    measure_in_turn,
)
from pygpukit.benchmark.measure import Step
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session
from pygpukit.benchmark.tts_peer import NAME, KokoroPeer
from pygpukit.benchmark.tts_shapes import kokoro_shapes, random_weights
from pygpukit.random import default_rng
from pygpukit.tts.kokoro.config import KokoroConfig

PHONEMES = (100, 20)  # of a text, of its first sentence
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
    if speedups:
        session.note(
            f"tts: speedup over {NAME}: geometric mean {geometric_mean(speedups):.3f}, worst "
            f"{min(speedups):.3f}"
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
