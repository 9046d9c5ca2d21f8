"""Runs the cases of gp.ops.audio on a device. Shared by tests/unit and tests/gpu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from cases.audio import Case, Put
from cases.must_raise import Refused


def put_on(device: str | None) -> Put:
    return lambda x: gp.from_numpy(np.asarray(x, order="C"), device=device)


def run_case(case: Case, device: str | None = None) -> None:
    got: Any = case.run(put_on(device)).to_numpy()
    want = np.asarray(case.want())
    assert got.shape == want.shape
    scale = np.abs(want).max() if want.size else 0.0
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        got.astype(wide), want.astype(wide), rtol=0, atol=case.tolerance * scale
    )


def run_must_raise(case: Refused, device: str | None = None) -> None:
    with pytest.raises(case.error) as caught:
        case.call(put_on(device))
    for word in case.words:
        assert word in str(caught.value)
