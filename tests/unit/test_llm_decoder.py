"""Decode steps by hand: LlmSequence.skip, LlmDecoder, LlmRunner.cache, llm_tensors."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pygpukit import _native
from pygpukit.benchmark.llm_models import random_model
from pygpukit.benchmark.llm_shapes import TINY, ModelShape
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.llm.language_model import LanguageModel

SHAPE = ModelShape("tiny", TINY)
PROMPT = [3, 1, 4, 1, 5]


def new_runner(max_length: int = 64) -> Any:
    return _native.LlmRunner(random_model(SHAPE), 8, 2, max_length, 0, 16)


def test_steps_are_those_of_generate() -> None:
    model = random_model(SHAPE)
    wanted = LanguageModel(model, max_length=64).generate(PROMPT, max_new_tokens=7)
    runner = _native.LlmRunner(model, 8, 1, 64, 0, 16)
    sequence = runner.make_sequence()
    logits = runner.forward(sequence, PROMPT, False)
    first = int(np.argmax(logits.to_numpy().astype(np.float32)))
    decoder = _native.LlmDecoder(runner, [sequence], [first], True)
    found = [first]
    for steps in range(1, 7):  # each run starts after the prompt
        decoder.run(steps)
        found += decoder.tokens()
        assert sequence.length == len(PROMPT)
    assert found == wanted


def test_sequences_are_kept_alive() -> None:
    runner = new_runner()
    decoder = _native.LlmDecoder(runner, [runner.make_sequence() for _ in range(2)], [1, 2], False)
    decoder.run(3)
    assert len(decoder.tokens()) == 2


def test_skip_takes_pages_and_leaves_the_cache() -> None:
    runner = new_runner()
    for layer in range(2):
        for array in runner.cache(layer):
            assert array.shape == (runner.num_pages, 16, 2, 16)
            array[...] = 0.5
    sequence = runner.make_sequence()
    sequence.skip(17)
    sequence.skip(0)
    assert sequence.length == 17
    assert runner.num_pages - runner.num_free_pages == 2
    _native.LlmDecoder(runner, [sequence], [1], True).run(1)
    keys = runner.cache(1)[0].to_numpy().astype(np.float32)
    changed = np.argwhere((keys != 0.5).any(axis=(2, 3)))
    assert len(changed) == 1  # the token after those that were skipped
    assert changed[0][1] == 1


@pytest.mark.parametrize("count", [-1, 65])
def test_skip_refuses(count: int) -> None:
    sequence = new_runner().make_sequence()
    with pytest.raises(InvalidValueError, match=r"count is -1|65 tokens, expected at most"):
        sequence.skip(count)
    assert sequence.length == 0


def test_decoder_refuses() -> None:
    runner = new_runner()
    one, two = runner.make_sequence(), runner.make_sequence()
    make = _native.LlmDecoder
    with pytest.raises(InvalidValueError, match="0 sequences and 0 tokens"):
        make(runner, [], [], True)
    with pytest.raises(InvalidValueError, match="2 sequences and 1 tokens"):
        make(runner, [one, two], [1], True)
    with pytest.raises(InvalidValueError, match="a sequence is given twice"):
        make(runner, [one, one], [1, 2], True)
    with pytest.raises(InvalidTypeError, match="a sequence is None"):
        make(runner, [one, None], [1, 2], True)  # type: ignore[list-item]
    decoder = make(runner, [one], [64], True)
    with pytest.raises(InvalidValueError, match="steps is 0, expected 1 or more"):
        decoder.run(0)
    with pytest.raises(InvalidValueError, match="65 tokens, expected at most max_length, 64"):
        decoder.run(65)
    with pytest.raises(InvalidValueError, match="token 64, expected 0 to 63"):
        decoder.run(1)
    with pytest.raises(InvalidValueError, match="back is 0"):
        decoder.tokens()
    with pytest.raises(InvalidValueError, match="layer is 2, expected 0 to 1"):
        runner.cache(2)


def test_tensors_of_a_config() -> None:
    tensors = {name: (shape, role) for name, shape, role in _native.llm_tensors(SHAPE.text)}
    assert tensors["model.embed_tokens.weight"] == ((64, 32), "embedding")
    assert tensors["model.layers.1.mlp.down_proj.weight"] == ((32, 48), "down")
    assert "lm_head.weight" not in tensors
    assert len(tensors) == 2 + 2 * 11
    with pytest.raises(InvalidValueError, match="model_type"):
        _native.llm_tensors(json.dumps({**TINY, "model_type": "no-such-model"}))
    with pytest.raises(InvalidValueError, match=r"config\.json"):
        _native.llm_tensors("{")
