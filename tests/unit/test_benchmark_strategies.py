"""The benchmark of decoding strategies."""

import json
from pathlib import Path

import pytest
from cases.llm import TINY

import pygpukit as gp
from pygpukit.benchmark import strategies


@pytest.fixture(scope="module")
def model() -> gp.llm.LanguageModel:
    return gp.llm.load(TINY, "float32", device="cpu", max_length=128, max_batch=1)


def test_a_model_as_its_own_draft(model: gp.llm.LanguageModel) -> None:
    results = strategies.measure_strategies(
        model, [[5, 6, 7], [9, 10, 9, 10, 9]], draft=model, new=12, rounds=1
    )
    by_name = {row.name: row for row in results}
    assert set(by_name) == {"draft model", "n-gram", "self", "jacobi", "lookahead"}
    assert all(row.same_tokens for row in results)
    own = by_name["draft model"]
    assert own.acceptance == 1.0
    assert own.tokens_per_step > 2
    assert all(row.tokens_per_step >= 1 and row.worst_speedup <= row.speedup for row in results)


def test_another_text_is_noticed(model: gp.llm.LanguageModel) -> None:
    class Wrong:
        family, _model = model.family, model._model

        def generate(self, prompt: list[int], *, strategy: object, **options: object) -> list[int]:
            return [1] if strategy is None else [2]

    results = strategies.measure_strategies(Wrong(), [[5]], new=1, rounds=1)  # type: ignore[arg-type]
    assert not any(row.same_tokens for row in results)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "strategies.json"
    options = ["--device", "cpu", "--dtype", "float32", "--new", "8", "--rounds", "1"]
    code = strategies.main([str(TINY), *options, "--prompt", "In the", "--save", str(saved)])
    assert code == 0
    assert "lookahead" in capsys.readouterr().out
    rows = json.loads(saved.read_text())
    assert [row["name"] for row in rows] == ["n-gram", "self", "jacobi", "lookahead"]
