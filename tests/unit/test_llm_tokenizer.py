"""Tokenizers of model folders: golden ids, special tokens, templates, and files that are wrong."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import tokenizers as cases
from cases.tokenizers import MODEL

from pygpukit import llm
from pygpukit.core.errors import InvalidTypeError, InvalidValueError, MissingPackageError
from pygpukit.llm import ChatTemplateError, Detokenizer, Tokenizer

GOLDEN = json.loads((MODEL / "golden.json").read_text(encoding="utf-8"))["greedy"]
CHAT = [{"role": "user", "content": "Who goes there?"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the model's text files, to change."""
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(MODEL / name, tmp_path)
    return tmp_path


def change(path: Path, **values: object) -> None:
    data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**data, **values}), encoding="utf-8")


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden["prompt"][:10])
def test_golden(golden: dict[str, Any]) -> None:
    tokenizer = cases.tokenizer("model")
    assert tokenizer.encode(golden["prompt"]) == golden["prompt_ids"]
    assert tokenizer.decode(golden["prompt_ids"]) == golden["prompt"]
    assert tokenizer.decode(golden["float32"]) == golden["text_float32"]
    detokenizer = Detokenizer(tokenizer)
    pieces = [*map(detokenizer.push, golden["float32"]), detokenizer.finish()]
    assert "".join(pieces) == golden["text_float32"]


def test_vocabulary() -> None:
    tokenizer = cases.tokenizer("model")
    assert (len(tokenizer), tokenizer.vocab_size) == (4096, 4096)
    assert tokenizer.token_to_id("<|im_start|>") == 1
    assert tokenizer.id_to_token(1) == "<|im_start|>"
    assert tokenizer.token_to_id("no such token") is None
    assert tokenizer.id_to_token(4096) is None
    assert tokenizer.special_ids == {0, 1, 2}
    assert tokenizer.decode([1, 888, 2]) == "In"
    assert tokenizer.decode([1, 888, 2], skip_special_tokens=False) == "<|im_start|>In<|im_end|>"
    assert tokenizer.decode([]) == tokenizer.decode([4096, 99999]) == ""


def test_special_tokens_of_the_folder(folder: Path) -> None:
    tokenizer = Tokenizer(folder)
    assert tokenizer.special_tokens == {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (None, 0, 0)
    assert tokenizer.eos_token_ids == (0,), "the tokenizer's, without other files"
    change(folder / "config.json", eos_token_id=1)
    assert Tokenizer(folder).eos_token_ids == (1,)
    change(folder / "generation_config.json", eos_token_id=[2, 0])
    assert Tokenizer(folder).eos_token_ids == (2, 0)
    change(
        folder / "tokenizer_config.json",
        bos_token={"content": "<|im_start|>", "special": True},
        eos_token=None,
        unk_token="<none>",
    )
    change(folder / "special_tokens_map.json", eos_token="<|im_end|>", bos_token="<|endoftext|>")
    tokenizer = Tokenizer(folder)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert tokenizer.special_tokens["unk_token"] == "<none>"


def test_a_file_alone() -> None:
    tokenizer = Tokenizer(MODEL / "tokenizer.json")
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (
        None,
        0,
        None,
    )
    assert tokenizer.eos_token_ids == (0,)
    text = (MODEL / "tokenizer.json").read_text(encoding="utf-8")
    assert Tokenizer.from_json(text).encode("In the") == tokenizer.encode("In the")
    sentencepiece = cases.tokenizer("byte_fallback")
    assert (sentencepiece.bos_token_id, sentencepiece.eos_token_id) == (1, 2)
    assert cases.tokenizer("no_decoder").eos_token_ids == ()
    with pytest.raises(ChatTemplateError, match="no template 'default', the model has none"):
        tokenizer.apply_chat_template(CHAT)


def test_neither_cut_nor_padded(folder: Path) -> None:
    limit = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    fill = {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None}
    fill |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"}
    change(folder / "tokenizer.json", truncation=limit, padding=fill)
    assert Tokenizer(folder).encode("In the beginning") == [888, 262, 2428]


def test_chat() -> None:
    tokenizer = cases.tokenizer("model")
    text = tokenizer.apply_chat_template(CHAT)
    assert text == "<|im_start|>user\nWho goes there?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.apply_chat_template(CHAT, add_generation_prompt=False).endswith("<|im_end|>\n")
    ids = tokenizer.encode_chat(CHAT)
    assert (ids[0], ids.count(1), ids.count(2)) == (1, 2, 1)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_special_tokens_and_variables_reach_the_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ eos_token }}{{ bos_token }}{{ thinking }}")
    tokenizer = Tokenizer(folder)
    assert tokenizer.apply_chat_template(CHAT, thinking=True) == "<|endoftext|>True"
    assert tokenizer.apply_chat_template(CHAT, eos_token="E") == "E"


def test_templates_by_name(folder: Path) -> None:
    config = folder / "tokenizer_config.json"
    change(config, chat_template="from the config")
    assert Tokenizer(folder).apply_chat_template(CHAT).startswith("<|im_start|>"), "the file counts"
    (folder / "chat_template.jinja").unlink()
    assert Tokenizer(folder).apply_chat_template(CHAT) == "from the config"
    named = [
        {"name": "default", "template": "plain"},
        {"name": "tool_use", "template": "tools: {{ tools | length }}"},
        {"name": "rag", "template": "documents: {{ documents | length }}"},
    ]
    change(config, chat_template=named)
    tokenizer = Tokenizer(folder)
    assert set(tokenizer.chat_templates) == {"default", "tool_use", "rag"}
    assert tokenizer.apply_chat_template(CHAT) == "plain"
    assert tokenizer.apply_chat_template(CHAT, tools=[{}]) == "tools: 1"
    chosen = tokenizer.apply_chat_template(CHAT, chat_template="rag", documents=[1, 2])
    assert chosen == "documents: 2"
    with pytest.raises(ChatTemplateError, match="no template 'x', the model has 'default', 'tool_"):
        tokenizer.apply_chat_template(CHAT, chat_template="x")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "short.jinja").write_text("short")
    (folder / "chat_template.jinja").write_text("long")
    tokenizer = Tokenizer(folder)
    assert set(tokenizer.chat_templates) == {"default", "short"}
    assert tokenizer.apply_chat_template(CHAT, chat_template="short") == "short"


def test_wrong_arguments() -> None:
    tokenizer = cases.tokenizer("model")
    for call, error, text in (
        (lambda: tokenizer.encode(b"x"), InvalidTypeError, "encode: text is of type bytes"),
        (lambda: tokenizer.encode("\ud800"), InvalidValueError, "encode: text has surrogates"),
        (lambda: tokenizer.decode(["x"]), InvalidTypeError, "decode: ids has an element that is"),
        (lambda: tokenizer.decode([-1]), InvalidTypeError, "decode: ids has an element that is"),
        (lambda: tokenizer.decode([2**32]), InvalidTypeError, "decode: ids has an element that"),
        (lambda: tokenizer.token_to_id(1), InvalidTypeError, "token_to_id: token is of type int"),
        (lambda: tokenizer.id_to_token("x"), InvalidTypeError, "id_to_token: token_id is str 'x'"),
        (lambda: tokenizer.id_to_token(-1), InvalidValueError, "token_id is -1"),
        (lambda: Tokenizer.from_json(b"{}"), InvalidTypeError, "from_json: text is of type bytes"),
        (lambda: Tokenizer.from_json("{}"), InvalidValueError, "from_json: text: is no tokenizer"),
        (lambda: Tokenizer.from_json("\ud800"), InvalidValueError, "is no tokenizer"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_wrong_files(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        Tokenizer(folder / "nowhere")
    with pytest.raises(InvalidValueError, match=r"tokenizer_config.json: is no tokenizer"):
        Tokenizer(folder / "tokenizer_config.json")
    change(folder / "tokenizer_config.json", chat_template=7)
    (folder / "chat_template.jinja").unlink()
    for wrong in (7, [7], [{"name": "x"}], [{"template": "x"}], {"a": 1}):
        change(folder / "tokenizer_config.json", chat_template=wrong)
        with pytest.raises(InvalidValueError, match=r"tokenizer_config.json: chat_template is"):
            Tokenizer(folder)
    (folder / "chat_template.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidValueError, match=r"chat_template.jinja: is not UTF-8"):
        Tokenizer(folder)
    (folder / "tokenizer_config.json").write_text("[]")
    with pytest.raises(InvalidValueError, match=r"tokenizer_config.json: is JSON of type list"):
        Tokenizer(folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"tokenizer.json"):
        Tokenizer(folder)


def test_damaged_tokenizers() -> None:
    """A typed error, or a tokenizer that works; never anything else."""
    good = cases.tokenizer("byte_fallback")._tokenizer.to_str()
    source, loaded = random.Random(7), 0
    for _ in range(300):
        text = list(good)
        for _ in range(source.randint(1, 3)):
            at = source.randrange(len(text))
            text[at : at + source.choice((0, 1, 1, 40))] = source.choice('0"{}[],:x\u2581-')
        try:
            tokenizer = Tokenizer.from_json("".join(text))
        except InvalidValueError:
            continue
        loaded += 1
        with contextlib.suppress(InvalidValueError):
            assert isinstance(tokenizer.decode(tokenizer.encode(cases.SENTENCES[3])), str)
    assert 0 < loaded < 300


@pytest.mark.parametrize("package", ["tokenizers", "jinja2"])
def test_without_the_extra(package: str, run_python: Any) -> None:
    done = run_python(
        f"import sys; sys.modules['{package}'] = None\n"
        "from pygpukit import llm\n"
        "from pygpukit.core.errors import MissingPackageError\n"
        "try:\n"
        f"    t = llm.Tokenizer({str(MODEL)!r})\n"
        "    assert t.encode('In') == [888]\n"
        "    t.apply_chat_template([])\n"
        "except MissingPackageError as error:\n"
        "    assert isinstance(error, ImportError)\n"
        "    print(error)\n"
    )
    assert done.returncode == 0, done.stderr
    assert f"needs the package {package}: pip install 'pygpukit[llm]'" in done.stdout


def test_importing_the_package_loads_neither(run_python: Any) -> None:
    done = run_python(
        "import sys, pygpukit as gp\n"
        "assert gp.llm.__all__\n"
        "assert not {'tokenizers', 'jinja2', 'numpy'} & set(sys.modules)\n"
    )
    assert done.returncode == 0, done.stderr


def test_every_name_resolves() -> None:
    for name in llm.__all__:
        assert getattr(llm, name).__doc__
    with pytest.raises(AttributeError, match=r"module 'pygpukit.llm' has no attribute 'nothing'"):
        _ = llm.nothing
    assert issubclass(MissingPackageError, ImportError)
    assert "pygpukit.llm" in sys.modules
