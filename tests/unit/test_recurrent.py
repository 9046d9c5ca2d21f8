"""The recurrent family on CPU simulation: case tables, out=, sequences in pieces."""

from __future__ import annotations

import pytest
from cases.must_raise import run_must_raise
from cases.recurrent import CASES, MUST_RAISE, Case, MustRaise
from cases.run_recurrent import run_case, run_out, run_pieces

from pygpukit.ops import nn, recurrent


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run_case(case)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case)


def test_sequences_in_pieces() -> None:
    run_pieces()


def test_out() -> None:
    run_out()


def test_lstm_is_in_nn_too() -> None:
    assert nn.lstm_forward is recurrent.lstm_forward
    assert nn.lstm_bidirectional is recurrent.lstm_bidirectional
