"""NumPy programs with nothing but the import changed, on CPU simulation."""

from __future__ import annotations

import pytest
from cases import programs


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_the_program_gives_what_it_gives_with_numpy(name: str) -> None:
    programs.check(name)
