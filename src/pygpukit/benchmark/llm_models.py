"""Language models with random weights on the default device, and the steps that are timed."""

from __future__ import annotations

from typing import Any

from pygpukit import _native
from pygpukit.benchmark.llm_shapes import ModelShape
from pygpukit.benchmark.measure import Step
from pygpukit.random import default_rng

PAGE = 64


def random_tensor(shape: tuple[int, ...], role: str, rng: Any) -> Any:
    """A weight as an untrained model has it, drawn on the device."""
    if "norm" in role:
        return _native.full(shape, 1.0, "bfloat16")
    return rng.normal(0.0, 0.02, shape, dtype="bfloat16")


def random_model(shape: ModelShape, quantization: str | None = None) -> _native.LlmModel:
    """In bfloat16, on the default device; linear layers packed where `quantization` says so."""
    rng = default_rng(1)
    by_name = {name: (dims, role) for name, dims, role in shape.tensors}
    dims_of = {name: dims for name, (dims, _) in by_name.items()}
    load = lambda name: random_tensor(*by_name[name], rng)  # noqa: E731
    return _native.LlmModel(shape.text, "", dims_of, load, "bfloat16", None, quantization)


def random_ids(shape: ModelShape, count: int) -> list[int]:
    """Tokens of a text."""
    import numpy as np

    return [int(x) for x in np.random.default_rng(count).integers(0, shape.vocab_size, count)]


def prefill_step(model: Any, tokens: list[int]) -> Step:
    """A pass over a new text."""
    runner = _native.LlmRunner(model, len(tokens), 1, len(tokens), 0, PAGE)
    sequence = runner.make_sequence()

    def step() -> object:
        sequence.truncate(0)
        return runner.forward(sequence, tokens, False)

    return step


def make_decoder(
    shape: ModelShape,
    model: Any,
    batch: int,
    context: int,
    steps: int,
    persistent: bool = False,
) -> _native.LlmDecoder:
    """Sequences of `context` tokens that were never computed."""
    runner = _native.LlmRunner(model, batch, batch, context + steps, 0, PAGE, None, persistent)
    rng = default_rng(2)
    for layer in range(model.num_layers):
        for array in runner.cache(layer):
            array[...] = rng.standard_normal(array.shape[1:], dtype="bfloat16")
    sequences = [runner.make_sequence() for _ in range(batch)]
    for sequence in sequences:
        sequence.skip(context)
    return _native.LlmDecoder(runner, sequences, random_ids(shape, batch), True)
