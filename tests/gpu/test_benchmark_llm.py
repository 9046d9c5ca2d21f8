"""The suite llm on a GPU: rows make sense, and graphs decode what eager steps do."""

from __future__ import annotations

import pytest

from pygpukit import _native
from pygpukit.benchmark import BenchmarkSuite
from pygpukit.benchmark.llm_models import make_decoder, random_model
from pygpukit.benchmark.llm_shapes import TINY, ModelShape, shape_named

pytestmark = pytest.mark.gpu


def test_quick_run() -> None:
    done = BenchmarkSuite(2, 3, quick=True).add_llm().run(verbose=False)
    rows = {r.name: r for r in done.results}
    assert set(rows) == {"gemm", "prefill", "first_token", "decode", "load"}
    assert rows["decode"].params["model"] == "qwen3-0.6b"
    assert 0.02 < rows["decode"].extra["of_limit"] < 1.1  # more: steps were not waited for
    assert 0.02 < rows["prefill"].extra["of_gemm"] < 1.2
    assert rows["first_token"].median_us > rows["decode"].median_us
    assert (rows["load"].bandwidth_gbps or 0) > 0.1


def test_weights_are_all_there() -> None:
    shape = shape_named("qwen3-0.6b")
    model = random_model(shape)
    assert model.num_bytes == shape.num_bytes
    decoder = make_decoder(shape, model, 8, 128, 32)
    decoder.run(32)
    tokens = decoder.tokens()
    decoder.run(32)
    assert decoder.tokens() == tokens  # every run starts at the same place
    assert all(0 <= token < shape.vocab_size for token in tokens)


def test_graphs_decode_what_eager_steps_do() -> None:
    shape = ModelShape("tiny", TINY)
    runner = _native.LlmRunner(random_model(shape), 4, 3, 128, 0, 64)
    for layer in range(2):
        for array in runner.cache(layer):
            array[...] = 0.25
    sequences = [runner.make_sequence() for _ in range(3)]
    for i, sequence in enumerate(sequences):
        sequence.skip(60 + i)  # pages end at 64
    found = []
    for use_graph in (False, True, True):
        decoder = _native.LlmDecoder(runner, sequences, [1, 2, 3], use_graph)
        for steps in (1, 8):
            decoder.run(steps)
            found.append(decoder.tokens())
    assert found[:2] == found[2:4] == found[4:]
