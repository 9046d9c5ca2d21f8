"""float32 by three TF32 products on a GPU: at most twice the error of float32, in every layout."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.ops.matmul_plan import explain_matmul, with_matmul_plan


def rms(got: gp.GPUArray, want: np.ndarray) -> float:
    return float(np.sqrt(np.mean((got.to_numpy().astype(np.float64) - want) ** 2)))


@pytest.mark.parametrize(("m", "n", "k"), [(70, 68, 132), (300, 200, 1000), (33, 65, 77)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_as_accurate_as_float32(m: int, n: int, k: int, turned: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(m)
    a = rng.standard_normal((m, k)).astype(np.float32)
    b = rng.standard_normal((k, n)).astype(np.float32)
    x = gp.from_numpy(np.ascontiguousarray(a.T)).T if turned[0] else gp.from_numpy(a)
    y = gp.from_numpy(np.ascontiguousarray(b.T)).T if turned[1] else gp.from_numpy(b)
    want = a.astype(np.float64) @ b

    def split() -> gp.GPUArray:
        return gp.matmul(x, y, precision="3xtf32")

    plain = rms(with_matmul_plan(lambda: gp.matmul(x, y, use_tf32=False), "simt"), want)
    plans = [c["text"] for c in explain_matmul(split).candidates if c["text"].startswith("mma")]
    assert plans
    for plan in plans:
        assert rms(with_matmul_plan(split, plan), want) <= 2 * plain, plan
    # One TF32 product, by a plan of tensor cores: small sizes may take float32's units.
    tf32 = with_matmul_plan(lambda: gp.matmul(x, y, use_tf32=True), "mma")
    assert rms(tf32, want) > 50 * plain


def test_infinities() -> None:
    a = np.ones((64, 64), np.float32)
    a[0, 3] = np.inf
    a[1, 3:5] = np.inf, -np.inf
    a[2, 3] = np.finfo(np.float32).max
    x = gp.from_numpy(a)
    got = with_matmul_plan(
        lambda: gp.matmul(x, gp.full((64, 64), 0.5), precision="3xtf32"), "mma"
    ).to_numpy()
    assert np.isposinf(got[0]).all()
    assert np.isnan(got[1]).all()
    assert np.isfinite(got[2:]).all()
