"""NumPy's functions on the GPU."""

from __future__ import annotations

import pytest
from cases import numpy_functions as cases
from cases import numpy_statistics as statistics


@pytest.mark.parametrize("case", [*cases.CASES, *statistics.CASES], ids=str)
def test_the_same_as_numpy(case: cases.Case) -> None:
    cases.run(case, "cuda")


# What only shows while a kernel runs is reported later on a GPU.
@pytest.mark.parametrize("case", [*cases.MUST_RAISE, *statistics.MUST_RAISE], ids=str)
def test_the_same_exception_as_numpy(case: cases.Case) -> None:
    cases.run_must_raise(case, "cuda")
