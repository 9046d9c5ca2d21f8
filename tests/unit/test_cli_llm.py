"""python -m pygpukit chat, generate, perplexity on CPU simulation."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from pygpukit._cli import main
from tests.cases.llm import TINY, golden

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
