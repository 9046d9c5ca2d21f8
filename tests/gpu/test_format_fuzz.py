"""Random products of packed weights on a GPU; GPK_FUZZ_PRODUCTS=100000 for the long run."""

from __future__ import annotations

import pytest
from cases import format_fuzz


@pytest.mark.hardware("too long")
@pytest.mark.parametrize("part", range(4))
def test_random_products(part: int) -> None:
    for number in range(part, format_fuzz.count(400), 4):
        format_fuzz.run_product(number, most_rows=600, most=1200)
