"""Decoding with 0.2's strategies, on any device."""

from __future__ import annotations

import pygpukit as gp
from cases.llm import TINY, golden
from pygpukit import llm

LENGTH = 96


def tiny(dtype: str = "float32", device: str | None = None) -> llm.CausalTransformerModel:
    """The tiny model with fixed caches."""
    model = llm.load_model_from_safetensors(TINY / "model.safetensors", dtype, device=device)
    for block in model.blocks:
        block.attn.init_fixed_cache(LENGTH, dtype)
    return model


def prompt_and_tokens(i: int = 0) -> tuple[list[int], list[int]]:
    """A prompt, and its greedy continuation in float32."""
    text = golden()["greedy"][i]
    return list(text["prompt_ids"]), list(text["float32"])


def greedy(logits: gp.GPUArray) -> int:
    return int(logits.to_numpy()[-1].argmax())


def prefill(model: llm.CausalTransformerModel, ids: list[int]) -> int:
    """Fills the fixed caches; the first new token."""
    batch = llm.DecodeBatch(len(ids))
    batch.bind(model)
    buffers = llm.PrefillBuffers.allocate(
        model.config, len(ids), model.embed_tokens.dtype.name, device=model.device
    )
    return greedy(model.get_logits(batch.step_batch(ids, 0, len(ids), buffers)))


def by_steps(model: llm.CausalTransformerModel, ids: list[int], count: int) -> list[int]:
    """DecodeM1 with buffers."""
    strategy = llm.DecodeM1()
    strategy.bind(model)
    dtype = model.embed_tokens.dtype.name
    buffers = llm.DecodeBuffers.allocate(model.config, dtype, device=model.device)
    tokens = [prefill(model, ids)]
    for position in range(len(ids), len(ids) + count - 1):
        hidden = strategy.step(tokens[-1], position, position + 1, buffers)
        tokens.append(greedy(model.get_logits(hidden)))
    return tokens


def by_graph(model: llm.CausalTransformerModel, ids: list[int], count: int) -> list[int]:
    """DecodeM1Graph."""
    tokens = [prefill(model, ids)]
    strategy = llm.DecodeM1Graph()
    strategy.bind(model)
    strategy.init_graph(LENGTH)
    for position in range(len(ids), len(ids) + count - 1):
        tokens.append(greedy(strategy.step_graph(tokens[-1], position, position + 1)))
    return tokens


def by_rounds(
    model: llm.CausalTransformerModel,
    strategy: llm.DecodeSpeculative | llm.DecodeJacobi,
    ids: list[int],
    count: int,
    *,
    lookahead: bool = False,
) -> tuple[list[int], int]:
    """(tokens, rounds) of speculative or Jacobi decoding."""
    strategy.bind(model)
    tokens, position, rounds = [prefill(model, ids)], len(ids), 0
    step = strategy.step_lookahead
    if not lookahead:
        step = (
            strategy.step_speculative
            if isinstance(strategy, llm.DecodeSpeculative)
            else strategy.step_jacobi
        )
    while len(tokens) < count:
        new, after, _ = step(tokens[-1], position, position + 1)
        assert after == position + len(new)
        tokens, position, rounds = tokens + new, after, rounds + 1
    return tokens[:count], rounds
