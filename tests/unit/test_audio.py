"""gp.ops.audio on CPU simulation: case tables, edge cases, objects."""

from __future__ import annotations

import pytest
from cases.audio import CASES, MUST_RAISE, Case, MustRaise
from cases.run_audio import run_case, run_must_raise


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run_case(case)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case)
