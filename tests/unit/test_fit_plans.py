"""scripts/fit_plans.py: its model is that of wgmma_cost.cpp, and it finds constants again."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pygpukit.benchmark.plan_sweep import choose_candidates
from pygpukit.benchmark.product_cases import Case, probe_cases, random_cases

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "fit_plans.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fit_plans", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fit_plans"] = module
    spec.loader.exec_module(module)
    return module


def write_sweep(script: Any, path: Path, cases: list[Case], constants: dict[str, float]) -> None:
    """A sweep on a GPU of which another model is true."""
    numbers = random.Random(1)
    rows = []
    for case in cases:
        key = (case.m, case.n, case.k, case.layout)
        chosen, every = script.planned(*key)
        shape = script.Shape(case.name, *key, None, chosen, [])
        candidates = []
        for plan in choose_candidates(list(every.values()), every[chosen], 8):
            us = plan["predicted_us"]
            if plan["engine"] == "wgmma":
                us = script.wgmma_us(constants, shape, plan)
            candidates.append({"plan": plan["text"], "us": us * numbers.uniform(0.99, 1.01)})
        params = {"m": case.m, "n": case.n, "k": case.k, "layout": case.layout}
        params |= {"impl": "pygpukit", "dtype": "bfloat16"}
        best_us = min(candidate["us"] for candidate in candidates)
        candidates.append({"plan": "no such plan", "us": 0.1})
        candidates.append({"plan": candidates[0]["plan"], "us": 0.1, "note": "wrong result"})
        rows.append({"name": case.name, "params": params, "extra": {"candidates": candidates}})
        torch = {**params, "impl": "torch"}
        rows.append({"name": case.name, "params": torch, "median_us": best_us})
    path.write_text(json.dumps({"results": rows}))


def test_the_model_is_that_of_the_package(script: Any) -> None:
    shapes = []
    for case in [*probe_cases(None), *random_cases(60, 11, None, None)]:
        key = (case.m, case.n, case.k, case.layout)
        chosen, every = script.planned(*key)
        timed = [script.Timed(plan, 1.0) for plan in every.values()]
        shapes.append(script.Shape(case.name, *key, None, chosen, timed))
    script.check_port(shapes)
    script.CONSTANTS["kStartUs"] *= 1.1
    try:
        with pytest.raises(SystemExit, match=r"CONSTANTS are not those of wgmma_cost\.cpp"):
            script.check_port(shapes)
    finally:
        script.CONSTANTS["kStartUs"] /= 1.1


def test_fits_and_judges(script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    true = {**script.CONSTANTS, "kPartsNorm": 2.0, "kLooseRows": 1.2, "kStartUs": 2.6}
    one, other = tmp_path / "1.json", tmp_path / "2.json"
    write_sweep(script, one, random_cases(30, 1, None, None), true)
    write_sweep(script, other, random_cases(30, 2, None, None), true)
    fitted, held_out = script.read_sweep(one), script.read_sweep(other)
    before = script.loss(script.CONSTANTS, held_out)
    assert script.loss(script.fit(fitted, 600), held_out) < 0.5 * before
    assert script.main([str(one)]) == 0
    shown = capsys.readouterr().out
    assert "all rows, best / chosen: 30 shapes, geometric mean 0.9" in shown
    assert "all rows, torch / best: 30 shapes, geometric mean 1.000" in shown
    assert "wgmma kernel=0" in shown


def test_judges_the_best_plans_alone(script: Any, tmp_path: Path) -> None:
    chosen, every = script.planned(512, 1024, 2048, "nt")
    other = next(text for text in every if text != chosen)
    row = {"m": 512, "n": 1024, "k": 2048, "layout": "nt", "dtype": "bfloat16", "name": "odd"}
    row |= {"torch_us": 8.0, "plan": chosen, "us": 10.0, "best_plan": other, "best_us": 9.0}
    path = tmp_path / "plans.json"
    path.write_text(json.dumps({"results": [row, {**row, "dtype": "float16"}]}))
    (shape,) = script.read_sweep(path)
    assert (shape.torch_us, shape.best.us, script.by_package(shape).us) == (8.0, 9.0, 10.0)
