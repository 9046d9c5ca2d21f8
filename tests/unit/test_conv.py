"""The conv family on CPU simulation: case tables, out=, state."""

from __future__ import annotations

import pytest
from cases.conv import CASES, MUST_RAISE, Case, MustRaise
from cases.must_raise import run_must_raise
from cases.run_conv import run_case, run_out, run_state, run_weight_norm


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run_case(case)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case)


def test_out() -> None:
    run_out()


def test_causal_conv1d_in_pieces() -> None:
    run_state()


def test_fold_weight_norm() -> None:
    run_weight_norm()
