"""Key/value caches on CPU simulation."""

from __future__ import annotations

import pytest
from cases import run_paged_cache as run
from cases.must_raise import run_must_raise
from cases.paged_cache import CASES, DTYPES, FP8, MUST_RAISE, Case, MustRaise


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run.run_case(case)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case)


def test_views() -> None:
    run.run_views()


def test_fp8_saturates() -> None:
    run.run_fp8_saturates()


def test_slots() -> None:
    run.run_slots()


@pytest.mark.parametrize("dim", [3, 64])
@pytest.mark.parametrize("dtype", [*DTYPES, FP8])
def test_pages(dtype: str, dim: int) -> None:
    run.run_pages(dtype, dim)


def test_names_of_0_2() -> None:
    run.run_names_of_0_2()
