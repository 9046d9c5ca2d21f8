"""Texts, chats and batches of a language model: options, defaults of the folder, pages kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cases.llm import TINY, check_chat, golden

import pygpukit as gp

TEMPLATE = (
    "{% if enable_thinking is defined and not enable_thinking %}[quiet]{% endif %}"
    "{% if tools %}[{{ tools[0].name }}]{% endif %}"
    "{% if documents %}[{{ documents[0] }}]{% endif %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
)


@pytest.fixture(scope="module")
def tiny() -> gp.llm.LanguageModel:
    return gp.llm.load(TINY, "float32", device="cpu", max_length=640, max_batch=2)


def folder_with(path: Path, template: str = TEMPLATE, **generation: Any) -> Path:
    folder = Path(shutil.copytree(TINY, path / "model"))
    (folder / "chat_template.jinja").write_text(template)
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


def load(folder: Path, **options: Any) -> gp.llm.LanguageModel:
    return gp.llm.load(
        folder, "float32", device="cpu", **{"max_length": 256, "max_batch": 1, **options}
    )


# --- chat templates ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> gp.llm.LanguageModel:
    return load(folder_with(tmp_path_factory.mktemp("talker"), eos_token_id=0))


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        ({}, "user: Who?"),
        ({"enable_thinking": False}, "[quiet]user"),
        ({"template_options": {"enable_thinking": False}}, "[quiet]user"),
        ({"tools": [{"name": "clock"}]}, "[clock]user"),
        ({"documents": ["one"], "enable_thinking": False}, "[quiet][one]user"),
    ],
)
def test_template_variables(
    talker: gp.llm.LanguageModel, options: dict[str, Any], begins: str
) -> None:
    messages = [{"role": "user", "content": "Who?"}]
    kept = {"max_new_tokens": 4, "stop_tokens": []}
    ids = talker.tokenizer.encode(
        f"{begins.split('user')[0]}user: Who?\n", add_special_tokens=False
    )
    wanted = talker.tokenizer.decode(talker.generate(ids, **kept))  # type: ignore[arg-type]
    assert "".join(talker.chat(messages, **kept, **options)).strip() == wanted.strip()
    with gp.llm.Engine(talker, max_batch=2) as engine:
        request = engine.submit_chat(messages, **kept, **options)
        assert list(request.prompt_ids) == ids
        assert str(request.result()).strip() == wanted.strip()


def test_what_a_template_does_not_read_is_refused(talker: gp.llm.LanguageModel) -> None:
    messages = [{"role": "user", "content": "Who?"}]
    with gp.llm.Engine(talker, max_batch=2, start=False) as engine:
        for name, call in (("chat", talker.chat), ("submit_chat", engine.submit_chat)):
            with pytest.raises(TypeError, match=f"{name}: unknown option 'enable_talking'"):
                call(messages, enable_talking=False)  # type: ignore[operator]
            with pytest.raises(TypeError, match=f"{name}: template_options is of type list"):
                call(messages, template_options=[1])  # type: ignore[operator]
            with pytest.raises(ValueError, match=f"{name}: template_options has 'messages'"):
                call(messages, template_options={"messages": []})  # type: ignore[operator]
    assert {"messages", "tools", "documents"} < talker.tokenizer.chat_template().variables


TAKES_OPTIONS = (
    "{% if grammar or stop or logprobs or priority or qos or deadline or strategy or use_graph or "
    "max_new_tokens or stop_tokens %}x{% endif %}"
)


def test_a_template_leaves_the_options_of_the_call_alone(tmp_path: Path) -> None:
    eager = load(folder_with(tmp_path, TAKES_OPTIONS + TEMPLATE, eos_token_id=0))
    messages = [{"role": "user", "content": "Who?"}]
    kept: dict[str, Any] = {"max_new_tokens": 12, "stop_tokens": []}
    text = "".join(eager.chat(messages, **kept))
    with pytest.raises(TypeError, match="chat: strategy is of type str"):
        eager.chat(messages, strategy="nonsense")
    with gp.llm.Engine(eager, max_batch=2) as engine:
        with pytest.raises(TypeError, match="grammar is of type int"):
            engine.submit_chat(messages, grammar=3, **kept)
        stop = text[4:7]
        request = engine.submit_chat(messages, stop=stop, **kept)
        assert request.result() == text.split(stop)[0]


def test_the_template_is_chosen_as_for_the_text(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "{% if think %}[think]{% endif %}plain", eos_token_id=0)
    (folder / "additional_chat_templates").mkdir()
    other = folder / "additional_chat_templates" / "tool_use.jinja"
    other.write_text("{% if clock %}[clock]{% endif %}tools")
    model = load(folder)

    def text(**options: Any) -> str:
        return model.tokenizer.decode(_prompt(model, options))

    assert text(tools=None, think=1) == "[think]plain"
    assert text(tools=[], clock=1) == "[clock]tools"
    assert text(template_options={"chat_template": "tool_use"}, clock=1) == "[clock]tools"
    assert text(template_options={"tools": [{}]}, clock=1) == "[clock]tools"
    assert text(template_options={"think": 0}, think=1) == "plain"


def _prompt(model: gp.llm.LanguageModel, options: dict[str, Any]) -> list[int]:
    with gp.llm.Engine(model, max_batch=1, start=False) as engine:
        return list(engine.submit_chat([], max_new_tokens=1, **options).prompt_ids)


# --- pages of a chat -----------------------------------------------------------------------------


def test_a_chat_is_read_once(talker: gp.llm.LanguageModel) -> None:
    check_chat(talker, load(Path(str(talker.folder))))


def test_pages_are_shared(talker: gp.llm.LanguageModel) -> None:
    """The second turn takes pages for what is new only."""
    messages = [{"role": "user", "content": "In the beginning " * 40}]
    talker.generate([5], max_new_tokens=1)
    first = talker.chat(messages, max_new_tokens=2, stop_tokens=[])
    used = talker._runner.num_pages - talker._runner.num_free_pages
    again = talker.chat(messages, max_new_tokens=2, stop_tokens=[])  # beside the first
    assert talker._runner.num_pages - talker._runner.num_free_pages == used + 1
    assert list(first) == list(again)


# --- batches -------------------------------------------------------------------------------------


def test_a_text_is_as_long_beside_a_long_prompt_as_alone(tiny: gp.llm.LanguageModel) -> None:
    prompts: list[list[int]] = [[5] * 560, [888, 262, 2428], [5] * 620, [3]]
    alone = [tiny.generate(prompt, stop_tokens=[]) for prompt in prompts]
    assert [len(text) for text in alone] == [81, 256, 21, 256]
    assert tiny.generate_batch(prompts, stop_tokens=[]) == alone
    end = alone[1][-1]  # one of the texts ends early, where it also ends alone
    ended = [tiny.generate(prompt, stop_tokens=[end]) for prompt in prompts]
    assert tiny.generate_batch(prompts, stop_tokens=[end]) == ended
    words = ["In the beginning", "the " * 610]
    texts = [tiny.generate(word, stop=["zzz"]) for word in words]
    assert tiny.generate_batch(words, stop=["zzz"]) == texts


def test_more_prompts_than_a_batch_and_stop_strings(tiny: gp.llm.LanguageModel) -> None:
    prompts = [text["prompt"] for text in golden()["greedy"][:5]]
    options: dict[str, Any] = {"max_new_tokens": 20, "stop_tokens": []}
    alone = [tiny.generate(prompt, **options) for prompt in prompts]
    assert tiny.generate_batch(prompts, **options) == alone
    word = str(alone[0])[8:12]
    stopped = [str(text).split(word)[0] for text in alone]
    assert tiny.generate_batch(prompts, stop=word, **options) == stopped
    assert tiny.generate_batch([], **options) == []
    end = tiny.tokenizer.encode(str(alone[4]))[-1]
    options["stop_tokens"] = [end]
    ended = tiny.generate_batch(prompts, **options)
    assert ended != alone
    options["stop_tokens"] = iter([end])
    assert tiny.generate_batch(prompts, **options) == ended
    options["stop_tokens"] = []
    assert tiny.generate_batch(prompts, stop=iter([word]), **options) == stopped
    mixed = tiny.generate_batch([prompts[0], [888, 262, 2428]], **options)
    assert mixed == [alone[0], tiny.generate([888, 262, 2428], **options)]
    with pytest.raises(ValueError, match="generate_batch: stop is given for ids"):
        tiny.generate_batch([[1]], stop="x")
    with pytest.raises(TypeError, match="prompts is of type int, expected a list"):
        tiny.generate_batch(3)  # type: ignore[arg-type]


# --- defaults of the folder ----------------------------------------------------------------------


def test_stop_strings_and_max_length_of_the_folder(tmp_path: Path) -> None:
    text = golden()["greedy"][0]
    word = text["text_float32"][10:16]
    model = load(folder_with(tmp_path, stop_strings=[word], eos_token_id=[]))
    wanted = text["text_float32"].split(word)[0]
    assert model.generate(text["prompt"], max_new_tokens=64) == wanted
    assert model.generate_batch([text["prompt"]], max_new_tokens=64) == [wanted]
    assert len(str(model.generate(text["prompt"], max_new_tokens=64, stop=()))) > len(wanted)
    with gp.llm.Engine(model, max_batch=1) as engine:
        assert engine.submit(text["prompt"], max_new_tokens=64).result() == wanted
    limited = load(folder_with(tmp_path / "b", max_length=20, eos_token_id=[]))
    assert len(limited.generate([888, 262, 2428])) == 17
    assert len(limited.generate([888, 262, 2428], max_new_tokens=30)) == 30


def test_what_the_folder_asks_for_and_is_not_done_is_said(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, num_beams=4, no_repeat_ngram_size=3, suppress_tokens=[])
    words = "not supported.*no_repeat_ngram_size is 3, num_beams is 4$"
    with pytest.warns(UserWarning, match=words):
        load(folder)


# --- one rule for options ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"seed": -1}, ValueError, "seed is -1, expected 0 to 9223372036854775807"),
        ({"seed": 2**63}, ValueError, "seed is 9223372036854775808, expected 0 to"),
        ({"seed": 1.5}, TypeError, "seed is float 1.5, expected int"),
        ({"stop_tokens": 3}, TypeError, "stop_tokens is int 3, expected token ids"),
        ({"stop_tokens": [2**40]}, ValueError, "a token of stop_tokens is 1099511627776, expected"),
        ({"stop_tokens": ["x"]}, TypeError, "a token of stop_tokens is str 'x', expected int"),
        ({"top_k": -1}, ValueError, "top_k is -1"),
        ({"temperature": "warm"}, TypeError, "temperature is str 'warm', expected a number"),
        ({"max_new_tokens": 0}, ValueError, "max_new_tokens is 0"),
    ],
)
def test_the_same_refusals_everywhere(
    tiny: gp.llm.LanguageModel, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with gp.llm.Engine(tiny, max_batch=1, start=False) as engine:
        calls = (
            ("generate", lambda: tiny.generate([1], **options)),
            ("generate_batch", lambda: tiny.generate_batch([[1]], **options)),
            ("submit", lambda: engine.submit([1], **options)),
        )
        for name, call in calls:
            with pytest.raises(error, match=f"^{name}: {words}"):
                call()


def test_bad_arguments_of_load_and_engine(tiny: gp.llm.LanguageModel) -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"path": None}, TypeError, "load: path is of type NoneType, expected str"),
        ({"progress": 5}, TypeError, "load: progress is int 5, expected a function"),
        ({"max_memory": 0}, ValueError, "load: max_memory is 0, expected at least 1"),
        ({"max_memory": 1.5}, TypeError, "load: max_memory is float 1.5"),
    ]
    for options, error, words in cases:
        with pytest.raises(error, match=words):
            gp.llm.load(**{"path": TINY, "device": "cpu", **options})
    with pytest.raises(ValueError, match="Engine: kv_memory is 'much', expected bytes, an amount"):
        gp.llm.Engine(tiny, kv_memory="much")
    with gp.llm.Engine(tiny, kv_memory="4MiB", host_memory="1MiB", start=False) as engine:
        assert engine.metrics().pages == 32  # 2 * 4 layers * 2 heads * 32 elements of 4 bytes * 64
