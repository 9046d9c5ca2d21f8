"""python -m pygpukit transcribe on CPU simulation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cases.asr import TINY, golden, wav

from pygpukit._cli import main

MODEL = ["--model", str(TINY), "--device", "cpu"]


def test_text_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transcribe", str(wav("clip2")), *MODEL, "--language", "en"]) == 0
    assert capsys.readouterr().out == golden()["clip2"]["text"] + "\n"


def test_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that cannot be read is named; the others are transcribed."""
    files = [str(wav("clip4")), str(tmp_path / "nowhere.wav"), str(TINY / "config.json")]
    more = ["--format", "txt,srt,vtt,json", "--out", str(tmp_path / "out"), "--words"]
    assert main(["transcribe", *files, *MODEL, *more]) == 1
    err = capsys.readouterr().err
    assert "nowhere.wav" in err
    assert "config.json" in err
    made = {path.suffix: path.read_text(encoding="utf-8") for path in (tmp_path / "out").iterdir()}
    assert sorted(made) == [".json", ".srt", ".txt", ".vtt"]
    assert made[".txt"].strip() == golden()["clip4"]["text"]
    assert "00:00:00,000 --> " in made[".srt"]
    assert made[".vtt"].startswith("WEBVTT")
    result = json.loads(made[".json"])
    assert result["language"] == "de"
    assert len(result["segments"][0]["words"]) == 3


def test_several_files_as_json_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(wav("clip4")), str(wav("clip2"))]
    assert main(["transcribe", *files, *MODEL, "--format", "json"]) == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [result["file"] for result in results] == files
    assert [result["text"] for result in results] == [
        *(golden()["clip4"]["text"], golden()["clip2"]["text"]),
    ]
    assert main(["transcribe", files[0], *MODEL, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        key: value for key, value in results[0].items() if key != "file"
    }


def test_output_is_checked_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No model is loaded: there is none."""

    def refused(*arguments: str) -> str:
        assert main(["transcribe", "--model", "nowhere", *arguments]) == 1
        return capsys.readouterr().err

    out = ["--out", str(tmp_path / "out")]
    assert "both become" in refused("a/talk.wav", "b/talk.wav", *out)
    assert "both become" in refused("talk.wav", "talk.flac", *out)
    assert "a/talk.wav and b/talk.wav" in refused("a/talk.wav", "b/talk.wav", *out)
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("x")
    assert "file is no folder" in refused("a.wav", "--out", str(tmp_path / "file"))
    assert "file is no folder" in refused("a.wav", "--out", str(tmp_path / "file" / "below"))
    assert "as srt need --out" in refused("a.wav", "b.wav", "--format", "srt")
    assert "as vtt need --out" in refused("a.wav", "b.wav", "--format", "vtt")
    assert "nowhere" in refused("a.wav", "b.wav", *out)


def test_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transcribe", str(wav("clip4")), *MODEL, "--format", "pdf"]) == 1
    assert "'pdf'" in capsys.readouterr().err
    assert main(["transcribe", str(wav("clip4")), *MODEL, "--format", "txt,srt"]) == 1
    assert "--out" in capsys.readouterr().err
    assert main(["transcribe", "x.wav", "--model", "nowhere"]) == 1
    assert "is no folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["transcribe", "x.wav"])
