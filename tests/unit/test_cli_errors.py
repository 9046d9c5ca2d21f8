"""The command lines given what they cannot use: a message and an exit code, never a traceback."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cases.llm import TINY

from pygpukit._cli import main

MODEL = [str(TINY), "--device", "cpu", "--dtype", "float32", "--max-length", "256"]
KOKORO = Path(__file__).parents[1] / "data" / "tiny-kokoro"


def failure(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert main(list(command)) == 1
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("no JSON", "line 2: Expecting value"),
        ('{"text": 3}', 'line 2: expected an object with "prompt"'),
        ("[1]", 'line 2: expected an object with "prompt"'),
        ('{"prompt": 3}', "line 2: generate: prompt is of type int"),
        ('{"prompt": "a", "options": 3}', 'line 2: "options" is 3'),
        ('{"prompt": "a", "options": {"foo": 1}}', "line 2: generate: unknown option"),
        (
            '{"prompt": "a", "options": {"prompt": "b"}}',
            "line 2: generate: unknown option 'prompt'",
        ),
        ('{"prompt": "a", "self": 1}', "line 2: generate: unknown option 'self'"),
        ('{"prompt": "a", "strategy": "x"}', "line 2: generate: unknown option 'strategy'"),
    ],
)
def test_json_lines(
    line: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f'{{"prompt": "a"}}\n{line}\n{{"prompt": "b"}}\n'))
    assert main(["generate", *MODEL, "--max-new-tokens", "2", "--json-lines"]) == 1
    out, err = capsys.readouterr()
    rows = [json.loads(row) for row in out.splitlines()]
    assert [set(row) for row in rows] == [{"prompt", "text"}, {"error"}, {"prompt", "text"}]
    assert rows[1]["error"].startswith(says)
    assert err == ""


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--device", "foo"], "load: device is 'foo'"),
        (["--max-length", "0"], "load: max_length is 0, expected at least 1"),
        (["--seed", "9" * 30], "generate: seed is 9999"),
        (["--file", "README.md"], "generate: --prompt and --file were given"),
    ],
)
def test_options(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert failure(capsys, "generate", *MODEL, "-p", "a", *options).startswith(f"pygpukit: {says}")


def test_text_that_is_no_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "binary"
    file.write_bytes(b"ab\xff")
    for command in ("generate", "perplexity"):
        says = failure(capsys, command, *MODEL, "--file", str(file))
        assert says == f"pygpukit: {command}: {str(file)!r} is not UTF-8 from byte 2 on\n"


def test_files_that_are_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nothing = str(tmp_path / "nothing")
    says = failure(capsys, "generate", nothing, "-p", "a")
    assert says == f"pygpukit: {nothing}: load: there is no such folder\n"
    says = failure(capsys, "generate", *MODEL, "--file", nothing)
    assert says == f"pygpukit: {nothing}: No such file or directory\n"
    assert failure(capsys, "check", nothing) == f"pygpukit: check: there is no file {nothing!r}\n"
    voice = ["--model", str(KOKORO), "--voice", "af_test", "--phonemes"]
    assert "whose folder does not exist" in failure(
        capsys, "say", "h", "--out", f"{nothing}/a.wav", *voice
    )


def test_windows_and_batches(capsys: pytest.CaptureFixture[str]) -> None:
    says = failure(capsys, "perplexity", *MODEL, "--file", "README.md", "--window", "1")
    assert says == "pygpukit: perplexity: --window is 1, expected 2 or more\n"
    says = failure(capsys, "transcribe", "a.wav", "--model", ".", "--batch", "-1")
    assert says == "pygpukit: transcribe: --batch is -1, expected 0 or more\n"


def test_a_question_that_is_too_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    questions = iter(["word " * 300, "Who is there?", "/exit"])
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda _: next(questions))
    assert main(["chat", *MODEL, "--max-new-tokens", "4"]) == 0
    out, err = capsys.readouterr()
    assert "/reset starts a new conversation" in err
    assert out.strip()


# --- processes ---


def run(*command: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pygpukit", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def test_interrupt() -> None:
    with run("chat", *MODEL) as process:
        assert process.stderr is not None
        process.stderr.readline()  # it waits for a question
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "pygpukit: interrupted\n")


def test_closed_pipe() -> None:
    prompt = ["-p", "In the beginning", "--max-new-tokens", "200"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pygpukit", "generate", *MODEL, *prompt],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("closed", "command", "wanted"),
    [
        (">&-", ("generate", *MODEL, "-p", "a", "--max-new-tokens", "2"), (0, "", "")),
        ("2>&-", ("generate", *MODEL, "-p", "a", "--max-new-tokens", "2"), (0, ", and\n", "")),
        ("<&-", ("generate", *MODEL, "--json-lines"), (0, "", "")),
        ("<&-", ("perplexity", *MODEL), (1, "", "pygpukit: perplexity: the text has 0 tokens")),
    ],
)
def test_streams_that_are_closed(
    closed: str, command: tuple[str, ...], wanted: tuple[int, str, str]
) -> None:
    program = [sys.executable, "-m", "pygpukit", *command]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *program], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == wanted[:2]
    assert done.stderr.startswith(wanted[2])
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pygpukit"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (1, "pygpukit: No space left on device\n")


def test_scripts_that_cannot_run_or_end_with_a_text(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import sys; sys.exit('no input')\n")
    with run("check", str(script)) as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.splitlines()[0]) == (1, "no input")
    with run("check", "--device", "sm_75", str(script)) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.startswith("pygpukit: ")
    assert "Traceback" not in err


def test_a_script_that_fails_is_reported(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("print('begins')\nraise KeyError('own')\n")
    with run("check", str(script)) as process:
        out, err = process.communicate(timeout=60)
    assert out == "begins\n"
    assert f'File "{script}", line 2' in err
    assert "runpy" not in err
    assert err.index("KeyError: 'own'") < err.index("no findings")


def test_check_shows_what_it_found_before_ctrl_c(tmp_path: Path) -> None:
    script = tmp_path / "stopped.py"
    script.write_text("raise KeyboardInterrupt\n")
    with run("check", str(script)) as process:
        _, text = process.communicate(timeout=60)
    assert process.returncode == 130
    assert text.startswith("Traceback")
    assert "runpy" not in text
    assert text.endswith("\nKeyboardInterrupt\n0 launches, no findings\n")


def test_check_refuses_a_negative_seed(capsys: pytest.CaptureFixture[str]) -> None:
    message = "pygpukit: check: --seed is -1, expected at least 0\n"
    assert failure(capsys, "check", "--seed", "-1", __file__) == message
