"""examples/voice_chat.py on small models: a file is heard, answered, and the reply written."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pygpukit as gp

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
WORDS = DATA / "tiny-whisper-words"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    folders = ("--asr", WORDS, "--llm", DATA / "tiny-qwen3-1m", "--tts", DATA / "tiny-kokoro")
    return subprocess.run(
        [sys.executable, ROOT / "examples" / "voice_chat.py", *map(str, folders), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("voice", [[], ["--voice", "af_test"]])
def test_a_conversation(tmp_path: Path, voice: list[str]) -> None:
    shutil.copy(WORDS / "clip0.wav", tmp_path / "a.wav")
    options = ["--language", "de", "--device", "cpu", "--max-new-tokens", "8"]
    done = run(*options, *voice, str(tmp_path / "a.wav"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("> ")
    assert "[first sound after" in done.stdout
    assert "transcribe " in done.stdout
    samples, rate = gp.tts.from_wav(tmp_path / "a.reply.wav")
    assert rate == 24000
    assert np.abs(samples).max() > 0


def test_a_voice_that_is_not_there(tmp_path: Path) -> None:
    done = run("--voice", "af_none", "--device", "cpu", str(tmp_path / "a.wav"))
    assert done.returncode == 1
    assert "af_none" in done.stderr
    assert "af_test" in done.stderr
