"""Whisper with random weights of real shapes: encoder, decode steps, an hour of sound.

The limit of a decode step is the time to read the decoder's weights, and the cross cache of every
window. Transformers runs eagerly, with its own cache.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import Any

from pygpukit import _native
from pygpukit.asr.config import WHISPER_CONFIGS, WhisperConfig
from pygpukit.benchmark.asr_long import add_long
from pygpukit.benchmark.interleave import events_sampler, host_sampler, measure_in_turn
from pygpukit.benchmark.llm import PERSISTENT, PERSISTENT_ROWS, read_rate
from pygpukit.benchmark.measure import Stats, Step, measure_kernel
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session
from pygpukit.random import default_rng

SHAPES = ("large-v3", "large-v3-turbo")
BATCHES = (1, 16)
STEPS = 64  # of a decode
MAX_SAMPLES = 7
_SMALL = WhisperConfig(
    vocab_size=120, num_mel_bins=16, d_model=32, encoder_layers=1, encoder_attention_heads=2,
    encoder_ffn_dim=64, decoder_layers=1, decoder_attention_heads=2, decoder_ffn_dim=64,
    max_source_positions=40, max_target_positions=16,
)  # fmt: skip


def run(session: Session) -> None:
    """Runs the suite."""
    bytes_per_s, source = read_rate(session)
    session.note(f"asr: the limit is memory at {bytes_per_s / 1e12:.4g} TB/s, {source}")
    shapes = {name: WHISPER_CONFIGS[name] for name in SHAPES[: 1 if session.quick else 2]}
    if not session.on_gpu:
        shapes = {"small": _SMALL}
    for name, config in shapes.items():
        session.step(f"asr: {name}: weights")
        dtype = "bfloat16" if session.on_gpu else "float32"
        model = random_whisper(config, dtype)
        peer = _peer(session, config)
        for batch in BATCHES[: 1 if session.quick else 2]:
            _encode(session, name, config, model, dtype, batch, peer)
            _decode(session, name, config, model, dtype, batch, peer, bytes_per_s)
        peer = None
        add_long(session, name, config, model)
        _native.trim()


# --- random weights ------------------------------------------------------------------------------


def tensor_shapes(config: WhisperConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The tensors of a Hugging Face folder."""
    d = config.d_model

    def norm(name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield f"{name}.weight", (d,)
        yield f"{name}.bias", (d,)

    def attention(name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield f"{name}.{part}.weight", (d, d)
            if part != "k_proj":
                yield f"{name}.{part}.bias", (d,)

    for part, layers, inner, positions in (
        ("encoder", config.encoder_layers, config.encoder_ffn_dim, config.max_source_positions),
        ("decoder", config.decoder_layers, config.decoder_ffn_dim, config.max_target_positions),
    ):
        top = f"model.{part}"
        yield f"{top}.embed_positions.weight", (positions, d)
        yield from norm(f"{top}.layer_norm")
        for i in range(layers):
            layer = f"{top}.layers.{i}"
            yield from attention(f"{layer}.self_attn")
            yield from norm(f"{layer}.self_attn_layer_norm")
            if part == "decoder":
                yield from attention(f"{layer}.encoder_attn")
                yield from norm(f"{layer}.encoder_attn_layer_norm")
            yield from norm(f"{layer}.final_layer_norm")
            yield f"{layer}.fc1.weight", (inner, d)
            yield f"{layer}.fc1.bias", (inner,)
            yield f"{layer}.fc2.weight", (d, inner)
            yield f"{layer}.fc2.bias", (d,)
    yield "model.decoder.embed_tokens.weight", (config.vocab_size, d)
    for name, channels in (("conv1", config.num_mel_bins), ("conv2", d)):
        yield f"model.encoder.{name}.weight", (d, channels, 3)
        yield f"model.encoder.{name}.bias", (d,)


def random_whisper(config: WhisperConfig, dtype: str) -> Any:
    """Weights made on the device."""
    rng = default_rng(3)
    shapes = dict(tensor_shapes(config))

    def make(name: str) -> Any:
        shape = shapes[name]
        spread = 0.02 if len(shape) == 1 else 1.0 / math.sqrt(math.prod(shape[1:]))
        values = _native.multiply(rng.standard_normal(shape, dtype="float32"), spread)
        return _native.astype(values, dtype)

    return _native.AsrModel.from_tensors(config.to_json(), shapes, make, dtype, None)


# --- measurements --------------------------------------------------------------------------------


def _samples(session: Session) -> int:
    return min(session.iterations, MAX_SAMPLES)


def _in_turn(session: Session, ours: Step, theirs: Step | None) -> dict[str, Stats]:
    named = {OURS: ours} if theirs is None else {OURS: ours, "transformers": theirs}
    sampler = events_sampler() if session.on_gpu else host_sampler()
    found = measure_in_turn(
        list(named.values()), sampler, min(session.warmup, 2), _samples(session)
    )
    return dict(zip(named, found, strict=True))


def _encode(
    session: Session,
    name: str,
    config: WhisperConfig,
    model: Any,
    dtype: str,
    batch: int,
    peer: TransformersWhisper | None,
) -> None:
    session.step(f"asr: {name}: encoder, batch {batch}")
    encoder = _native.AsrEncoder(model)
    shape = (batch, config.num_mel_bins, model.num_frames)
    mel = _native.astype(default_rng(4).standard_normal(shape, dtype="float32"), dtype)
    theirs = None if peer is None else peer.encode(batch)
    for impl, stats in _in_turn(session, lambda: encoder.encode(mel), theirs).items():
        session.add(
            "asr",
            "encoder",
            impl,
            stats,
            _samples(session),
            params={"model": name, "batch": batch},
            extra={"times_real_time": batch * 30e6 / stats.median},
        )


def _decode(
    session: Session,
    name: str,
    config: WhisperConfig,
    model: Any,
    dtype: str,
    batch: int,
    peer: TransformersWhisper | None,
    bytes_per_s: float,
) -> None:
    """Greedy steps by the host's clock, the prompt included."""
    steps = min(STEPS, config.max_target_positions - 4)
    session.step(f"asr: {name}: decode, batch {batch}")
    decoder = _native.AsrDecoder(model, batch, 1, True)
    shape = (batch, config.max_source_positions, config.d_model)
    states = _native.astype(default_rng(5).standard_normal(shape, dtype="float32"), dtype)
    sources = decoder.add(states)
    options = _native.AsrTextOptions(
        suppressed=[0],  # the end never comes
        begin_suppressed=[],
        eos=0,
        first_timestamp=-1,
        max_initial_timestamp=-1,
        temperature=0.0,
        top_k=0,
        seed=0,
        max_new_tokens=steps,
        num_beams=1,
        length_penalty=1.0,
        start_token=-1,
        no_speech_token=-1,
    )

    def ours() -> object:
        return decoder.decode(sources, [[1, 2, 3, 4]] * batch, options)

    named: dict[str, Step] = {OURS: ours}
    if session.on_gpu and batch <= PERSISTENT_ROWS:
        chained = _native.AsrDecoder(model, batch, 1, True, persistent=True)
        of_chained = chained.add(states)
        named[PERSISTENT] = lambda: chained.decode(of_chained, [[1, 2, 3, 4]] * batch, options)
    if peer is not None:
        named["transformers"] = peer.decode(batch, steps)
    itemsize = 2 if dtype == "bfloat16" else 4
    weights = sum(math.prod(s) for n, s in tensor_shapes(config) if n.startswith("model.decoder"))
    cross = 2 * config.decoder_layers * math.prod(shape)
    limit_us = (weights + cross) * itemsize / bytes_per_s * 1e6
    for impl, step in named.items():
        whole = measure_kernel(step, min(session.warmup, 2), _samples(session), _native.synchronize)
        stats = Stats(*(us / steps for us in whole))
        session.add(
            "asr",
            "decode",
            impl,
            stats,
            _samples(session),
            params={"model": name, "batch": batch},
            extra={
                "of_limit": limit_us / stats.median,
                "tokens_per_s": batch / stats.median * 1e6,
            },
        )


# --- Transformers --------------------------------------------------------------------------------


class TransformersWhisper:
    """The same shape by Transformers, in bfloat16 on the GPU."""

    def __init__(self, config: WhisperConfig) -> None:
        self._torch: Any = importlib.import_module("torch")
        module: Any = importlib.import_module("transformers")
        numbers = {k: v for k, v in config.to_dict().items() if k != "model_type"}
        settings = module.WhisperConfig(**numbers, pad_token_id=0, bos_token_id=0)
        before = self._torch.get_default_dtype()
        self._torch.set_default_dtype(self._torch.bfloat16)
        try:
            with self._torch.device("cuda"):
                self._model = module.WhisperForConditionalGeneration(settings).eval()
        finally:
            self._torch.set_default_dtype(before)
        self._config = config

    def _random(self, *shape: int) -> Any:
        return self._torch.randn(shape, device="cuda", dtype=self._torch.bfloat16)

    def encode(self, batch: int) -> Step:
        """A pass of the encoder."""
        frames = 2 * self._config.max_source_positions
        mel = self._random(batch, self._config.num_mel_bins, frames)

        def step() -> object:
            with self._torch.inference_mode():
                return self._model.model.encoder(mel).last_hidden_state

        return step

    def decode(self, batch: int, steps: int) -> Step:
        """Greedy steps after a prompt of four tokens."""
        torch = self._torch
        states = (self._random(batch, self._config.max_source_positions, self._config.d_model),)
        prompt = torch.tensor([[1, 2, 3, 4]] * batch, device="cuda")

        def step() -> object:
            with torch.inference_mode():
                ids, cache = prompt, None
                for _ in range(steps):
                    out = self._model(
                        encoder_outputs=states,
                        decoder_input_ids=ids,
                        past_key_values=cache,
                        use_cache=True,
                    )
                    ids, cache = out.logits[:, -1:].argmax(-1), out.past_key_values
                torch.cuda.synchronize()
                return ids

        return step


def _peer(session: Session, config: WhisperConfig) -> TransformersWhisper | None:
    if not session.on_gpu or not session.model_peers:
        return None
    try:
        return TransformersWhisper(config)
    except Exception as error:  # third-party code may raise anything
        session.note(f"transformers has no Whisper here: {type(error).__name__}")
        return None
