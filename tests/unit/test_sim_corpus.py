"""The simulator against exact oracles, and against a GPU's answers where they were recorded.

A sample by default; GPK_SIM_CORPUS=all runs every program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from cases.sim import corpus
from cases.sim.driver import Driver, simulator
from cases.sim.program import Program

pytestmark = pytest.mark.skipif(not simulator().exists(), reason="no simulator on this platform")

EVERY = 1 if os.environ.get("GPK_SIM_CORPUS") == "all" else 4
PROGRAMS = list(corpus.all_programs())
FAMILIES = sorted({program.family for program in PROGRAMS})
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_sim_corpus.py"


def sample(family: str) -> list[Program]:
    return [program for program in PROGRAMS if program.family == family][::EVERY]


@pytest.fixture(scope="module")
def driver() -> Driver:
    return Driver()


def test_there_are_enough_programs_with_names_of_their_own() -> None:
    assert len(PROGRAMS) >= 2000
    assert [name for name, n in Counter(p.name for p in PROGRAMS).items() if n > 1] == []
    assert all(program.expect is not None for program in PROGRAMS)


@pytest.mark.parametrize("family", FAMILIES)
def test_family(driver: Driver, family: str) -> None:
    answers = (corpus.read() or {"answers": {}})["answers"]
    wrong = {}
    for program in sample(family):
        out = driver.run(program)
        assert program.expect is not None
        problem = corpus.difference(program, out, program.expect(program.image()))
        if problem is None and program.name in answers:
            problem = corpus.disagreement(program, out, answers[program.name])
        if problem is not None:
            wrong[program.name] = problem
    assert wrong == {}


def test_a_wrong_bit_is_seen(driver: Driver) -> None:
    for name in ("integer/add.u32", "mma/m16n8k16.row.col.f32.f16.f16.f32-rounded"):
        program = next(p for p in PROGRAMS if p.name == name)
        out = driver.run(program)
        answer = corpus.record(program, out)
        assert corpus.disagreement(program, out, answer) is None
        changed = out.copy()
        changed[3] ^= 0x41
        assert program.expect is not None
        assert corpus.difference(program, changed, program.expect(program.image())) is not None
        assert corpus.disagreement(program, changed, answer) is not None
        assert corpus.disagreement(program, out, dict(answer, key="0")) is not None


def test_answers_of_the_simulator_make_a_file(tmp_path: Path, driver: Driver) -> None:
    path = tmp_path / "answers.json.gz"
    command = [sys.executable, str(SCRIPT), "--device", "sim", "--only", "warp/vote"]
    done = subprocess.run(
        [*command, "--output", str(path)], capture_output=True, text=True, check=True
    )
    programs = [program for program in PROGRAMS if "warp/vote" in program.name]
    assert done.stdout.startswith(f"{len(programs)} of {len(programs)} programs, 0 refused")
    content = corpus.read(path)
    assert content is not None
    for program in programs:
        answer = content["answers"][program.name]
        assert corpus.disagreement(program, driver.run(program), answer) is None
    assert corpus.read(tmp_path / "nothing") is None
