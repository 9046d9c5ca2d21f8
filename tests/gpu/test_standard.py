"""Every function of the array API standard 2024.12, called on the GPU."""

from __future__ import annotations

import pytest
from cases import standard

import pygpukit as gp


@pytest.mark.parametrize("name", standard.CALLS)
def test_call(name: str) -> None:
    standard.check_call(name, lambda host: gp.from_numpy(host, device="cuda"))
