"""Decode steps as one kernel (native/ops/chain), with the bits of a launch for each op."""

from __future__ import annotations

from typing import Any

import numpy as np

import pygpukit as gp
from cases.llm import TINY
from pygpukit import _native
from pygpukit.asr.config import WhisperConfig
from pygpukit.benchmark.asr import random_whisper


def load(folder: Any, dtype: str) -> _native.LlmModel:
    return _native.LlmModel.load_folder(str(folder), dtype, None, False, 0, None, None, None)


def decode(
    model: _native.LlmModel,
    lengths: list[int],
    *,
    persistent: bool,
    layers: int,
    max_length: int = 128,
    kv_dtype: str | None = None,
    use_graph: bool = False,
    steps: int = 2,
) -> tuple[list[list[int]], list[np.ndarray], str]:
    """Tokens of each step, keys and values of all layers, and how the layers were launched."""
    rng = np.random.default_rng(sum(lengths))
    runner = _native.LlmRunner(model, 64, len(lengths), max_length, 0, 64, kv_dtype, persistent)
    word = "uint16" if kv_dtype is None else "uint8"
    caches = [half.view(word) for i in range(layers) for half in runner.cache(i)]
    for half in caches:  # what no step writes is compared too
        half[...] = 0
    sequences = []
    for length in lengths:
        sequence = runner.make_sequence()
        ids = rng.integers(1, 500, length).tolist()
        for first in range(0, length, 64):
            runner.forward(sequence, ids[first : first + 64], False)
        sequences.append(sequence)
    first_tokens = rng.integers(1, 500, len(lengths)).tolist()
    decoder = _native.LlmDecoder(runner, sequences, first_tokens, use_graph)
    tokens = []
    for count in range(1, steps + 1):
        decoder.run(count)
        tokens.append(list(decoder.tokens()))
    return tokens, [half.to_numpy() for half in caches], decoder.explain()


def check(model: _native.LlmModel, lengths: list[int], **options: Any) -> str:
    """How the persistent one was launched."""
    tokens, caches, _ = decode(model, lengths, persistent=False, **options)
    got, cached, text = decode(model, lengths, persistent=True, **options)
    assert got == tokens
    for mine, wanted in zip(cached, caches, strict=True):
        np.testing.assert_array_equal(mine, wanted)
    return text


def whisper_texts(*, persistent: bool) -> tuple[list[tuple[list[int], float]], str]:
    """Layer norms, biases and cross attention: tokens and log-probabilities of two sources."""
    config = WhisperConfig(
        vocab_size=120, num_mel_bins=16, d_model=128, encoder_layers=1, encoder_attention_heads=2,
        encoder_ffn_dim=64, decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=320,
        max_source_positions=300, max_target_positions=32,
    )  # fmt: skip
    decoder = _native.AsrDecoder(random_whisper(config, "bfloat16"), 2, 1, False, persistent)
    states = np.random.default_rng(5).standard_normal((2, 300, 128)).astype("float32")
    options = _native.AsrTextOptions(
        suppressed=[0], begin_suppressed=[], eos=0, first_timestamp=-1, max_initial_timestamp=-1,
        temperature=0.0, top_k=0, seed=0, max_new_tokens=4, num_beams=1, length_penalty=1.0,
        start_token=-1, no_speech_token=-1,
    )  # fmt: skip
    sources = decoder.add(gp.from_numpy(states).astype("bfloat16"))
    found = []
    for some in (sources[:1], sources):
        texts = decoder.decode(some, [[1, 2, 3, 4]] * len(some), options)
        found += [(list(text.tokens), float(text.mean_logprob)) for text in texts]
    return found, decoder.explain()


def run_whisper() -> None:
    part = gp.scheduler.partition("chain", compute=0.06)
    try:
        with part:
            texts, _ = whisper_texts(persistent=False)
            got, text = whisper_texts(persistent=True)
        assert got == texts
        assert text.startswith("chain: ") == (gp.get_sm_version() >= 90), text
    finally:
        part.close()


def run_tiny() -> None:
    """One row, whose cache write is part of attention, and three; short and split contexts."""
    model = load(TINY, "bfloat16")
    # A partition of few multiprocessors: a chain has a block for each.
    part = gp.scheduler.partition("chain", compute=0.06)
    try:
        with part:
            for lengths, max_length in (([20], 128), ([9, 20, 31], 128), ([300], 1024)):
                text = check(model, lengths, layers=4, max_length=max_length)
                assert text.startswith("chain: ") == (gp.get_sm_version() >= 90), text
    finally:
        del model
        part.close()
