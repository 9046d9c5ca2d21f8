"""Chats that are read once, and LongRoPE, through the kernels."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from cases import llm_longrope as cases
from cases.llm import TINY, check_chat

import pygpukit as gp

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_chat_is_read_once(tmp_path: Path, dtype: str) -> None:
    folder = Path(shutil.copytree(TINY, tmp_path / "model"))
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    (folder / "chat_template.jinja").write_text(template)

    def load() -> gp.llm.LanguageModel:
        return gp.llm.load(folder, dtype, device="cuda", max_length=256, max_batch=1)

    check_chat(load(), load())


@pytest.mark.parametrize("use_graph", [True, False])
def test_a_text_that_grows_beyond_the_border(use_graph: bool) -> None:
    model, reference = cases.load("cuda"), cases.Reference(cases.FOLDER)
    cases.check_growth(model, reference, cases.BORDER - 2, use_graph)


def test_rows_and_requests_beyond_the_border() -> None:
    model, reference = cases.load("cuda"), cases.Reference(cases.FOLDER)
    cases.check_logits(model, reference, cases.BORDER + 1)
    cases.check_batch(model, reference)
    cases.check_engine(model, reference)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_rest_of_a_prompt_has_the_bits_of_the_whole(dtype: str) -> None:
    """Wherever a page ends, also where the last chunk would be one token."""
    model = gp.llm.load(TINY, dtype, device="cuda", max_length=256, max_batch=2)
    prompt = [(7 * i) % 4000 for i in range(140)]
    runner = model._runner
    whole = runner.make_sequence()
    wanted = gp.copy(runner.forward(whole, prompt, False)).to_numpy()
    for known in (128, 64):
        whole.truncate(known)
        part = whole.fork()
        got = gp.copy(runner.forward(part, prompt[known:], False)).to_numpy()
        np.testing.assert_array_equal(got, wanted)
    pieces = gp.llm.LanguageModel(model._model, max_length=256, max_batch=1, chunk=139)
    options = {"max_new_tokens": 4, "temperature": 1.0, "seed": 5, "stop_tokens": []}
    assert pieces.generate(prompt, **options) == model.generate(prompt, **options)
