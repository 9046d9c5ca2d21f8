"""python -m pygpukit chat, generate, perplexity on CPU simulation."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases.llm import TINY, golden

from pygpukit._cli import main
from pygpukit.llm import language_model

MODEL = [str(TINY), "--device", "cpu", "--dtype", "float32", "--max-length", "256"]


def feed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_generate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = golden()["greedy"][0]
    wanted = text["text_float32"][:20]
    assert main(["generate", *MODEL, "--max-new-tokens", "24", "-p", text["prompt"]]) == 0
    assert capsys.readouterr().out.startswith(wanted)
    (tmp_path / "prompt.txt").write_text(text["prompt"])
    file = ["--file", str(tmp_path / "prompt.txt")]
    assert main(["generate", *MODEL, "--max-new-tokens", "24", *file]) == 0
    assert capsys.readouterr().out.startswith(wanted)


def test_json_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = [text["prompt"] for text in golden()["greedy"][:2]]
    feed(monkeypatch, "".join(json.dumps({"prompt": p}) + "\n\n" for p in prompts))
    assert main(["generate", *MODEL, "--max-new-tokens", "24", "--json-lines"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["prompt"] for row in rows] == prompts
    assert rows[0]["text"].startswith(golden()["greedy"][0]["text_float32"][:20])


def test_chat(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, "Who is there?\n/stats\n/reset\n/exit\nnever read\n")
    assert main(["chat", *MODEL, "--max-new-tokens", "6", "--system", "Be short."]) == 0
    out, err = capsys.readouterr()
    assert out.strip()
    assert "per second" in err


def test_perplexity(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, "In the beginning God created the heaven and the earth.")
    assert main(["perplexity", *MODEL]) == 0
    value, rest = capsys.readouterr().out.split(" ", 1)
    assert 1.0 < float(value) < 1000.0
    assert rest.startswith("over ")


def test_failures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["generate", "nowhere", "-p", "x"]) == 1
    assert "nowhere" in capsys.readouterr().err
    feed(monkeypatch, "")
    assert main(["perplexity", *MODEL]) == 1
    assert "expected 2 or more" in capsys.readouterr().err


def test_options_reach_the_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = golden()["greedy"][0]
    word = text["text_float32"][10:16]
    given = [*MODEL, "--max-new-tokens", "24", "-p", text["prompt"]]
    assert main(["generate", *given, "--stop", word, "--stop", "never there"]) == 0
    assert capsys.readouterr().out == text["text_float32"].split(word)[0] + "\n"
    seen: list[dict[str, Any]] = []

    def spy(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            seen.append(options)
            return function(*args, **options)

        return call

    monkeypatch.setattr(language_model, "load", spy(language_model.load))
    model = language_model.LanguageModel
    monkeypatch.setattr(model, "generate_stream", spy(model.generate_stream))
    greedy = ["--temperature", "1.0", "--min-p", "1.0", "--typical-p", "1.0"]  # the likeliest
    assert main(["generate", *given, *greedy]) == 0
    out = capsys.readouterr().out
    assert len(out) > 80
    assert text["text_float32"].startswith(out[:-1])
    loaded, generated = seen
    assert (loaded["kv_dtype"], loaded["persistent"]) == (None, False)
    assert [generated[name] for name in ("temperature", "min_p", "typical_p")] == [1.0] * 3
    assert main(["generate", *given, "--kv-dtype", "fp8", "--persistent"]) == 0
    assert (seen[2]["kv_dtype"], seen[2]["persistent"]) == ("fp8", True)
    assert not {"temperature", "min_p", "typical_p"} & set(seen[3])
    capsys.readouterr()
    for flag, value, words in (
        ("--frequency-penalty", "nan", "frequency_penalty is nan"),
        ("--repetition-penalty", "0", "repetition_penalty is 0"),
        ("--presence-penalty", "inf", "presence_penalty is inf"),
        ("--quantization", "int3", "int3"),
        ("--max-memory", "0", "0"),
    ):
        assert main(["generate", *given, flag, value]) == 1
        assert words in capsys.readouterr().err


def test_json_lines_go_on_after_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        '{"prompt": [888, 262], "max_new_tokens": 2}',
        "{",
        '{"text": "x"}',
        '{"prompt": "x", "beams": 3}',
        '{"prompt": "x", "options": 3}',
        '{"prompt": "x", "seed": 1, "options": {"seed": 2}}',
        "[" * 100_000,
        '{"prompt": [888], "options": {"max_new_tokens": 3}}',
    ]
    feed(monkeypatch, "\n".join(lines))
    assert main(["generate", *MODEL, "--json-lines", "--max-new-tokens", "4"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(row.get("text", ())) for row in rows] == [2, 0, 0, 0, 0, 0, 0, 3]
    words = ("line 2: ", '"prompt"', "unknown option 'beams'", '"options" is 3', '"seed" is given')
    for row, word in zip(rows[1:], words, strict=False):
        assert word in row["error"]
    for given in (["-p", "x"], ["--file", "x"]):
        assert main(["generate", *MODEL, "--json-lines", *given]) == 1
        assert "were given, expected one of them" in capsys.readouterr().err


def test_chat_commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, "/sats\nWho is there?\n/stats\n")
    options = ["--max-new-tokens", "6", "--template-option", "enable_thinking=false"]
    assert main(["chat", *MODEL, *options]) == 0
    err = capsys.readouterr().err
    assert "unknown command /sats; /stats:" in err
    assert "tokens in" in err
    feed(monkeypatch, "")
    assert main(["chat", *MODEL, "--template-option", "quiet"]) == 1
    assert "--template-option is 'quiet', expected NAME=VALUE" in capsys.readouterr().err
