"""quantize_awq on a GPU."""

from __future__ import annotations

import pytest
from cases import quantize_awq


@pytest.mark.parametrize("case", quantize_awq.CASES, ids=str)
def test_held_out_error(case: quantize_awq.Layer) -> None:
    quantize_awq.run(case)
