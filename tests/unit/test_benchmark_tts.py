"""The suite of text-to-speech, on a small model."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import pygpukit as gp
from pygpukit.benchmark.__main__ import main
from pygpukit.benchmark.report import BenchmarkReport
from pygpukit.benchmark.tts_peer import kokoro_module
from pygpukit.benchmark.tts_shapes import kokoro_shapes

TINY = Path(__file__).resolve().parents[1] / "data" / "tiny-kokoro"


def test_suite_on_cpu_simulation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "tts.json"
    assert main(["--tts", "--quick", "--iterations", "1", "--save", str(saved)]) == 0
    assert "phonemes=10" in capsys.readouterr().out
    report = BenchmarkReport.load(saved)
    names = ["speak", "first_chunk"]
    assert [(r.category, r.name) for r in report.results] == [("tts", name) for name in 2 * names]
    dtypes = ["bfloat16", "bfloat16", "float32", "float32"]
    assert [r.params["dtype"] for r in report.results] == dtypes
    assert all(r.extra["sentence_seconds"] > 0 for r in report.results[1::2])
    for row in report.results[::2]:
        assert row.extra["times_real_time"] == pytest.approx(
            row.extra["seconds"] / row.median_us * 1e6
        )


def test_shapes_are_those_of_checkpoints() -> None:
    config = gp.tts.KokoroConfig.from_json(TINY / "config.json")
    file = gp.llm.TorchFile(TINY / "kokoro-tiny.pth")
    stored = {
        name.replace(".module.", ".", 1): file.tensor_info(name).shape
        for name in file.tensor_names
        if ".norm.weight" not in name and ".norm.bias" not in name
    }
    assert kokoro_shapes(config, 24, 4) == stored
    full = kokoro_shapes(gp.tts.KokoroConfig())
    assert round(sum(math.prod(shape) for shape in full.values()) / 1e5) == 812


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="kokoro"):
        kokoro_module("modules")
