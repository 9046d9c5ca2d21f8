"""gp.fuse with no GPU: op by op by default, its own kernel under gp.sim."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

RNG = np.random.default_rng(7)


@gp.fuse
def gated(a: gp.GPUArray, b: gp.GPUArray) -> gp.GPUArray:
    return gp.gelu(a * b + 1.0) * 0.5


@gp.fuse
def normed(x: gp.GPUArray, weight: gp.GPUArray) -> gp.GPUArray:
    return gp.rmsnorm(x, weight) * 2.0


def normal(*shape: int) -> gp.GPUArray:
    return gp.from_numpy(RNG.standard_normal(shape).astype("float32"))


def test_a_check_runs_the_kernel_and_gives_the_same_result() -> None:
    a, b = normal(5, 33), normal(33)
    plain = gated(a, b).to_numpy()
    report = gp.sim.check(gated, a, b)
    assert report.ok
    assert len(report.launches) == 1
    np.testing.assert_allclose(report.result.to_numpy(), plain, rtol=1e-5, atol=1e-6)


def test_rows_too() -> None:
    x, weight = normal(6, 96), normal(96)
    plain = normed(x, weight).to_numpy()
    report = gp.sim.check(normed, x, weight)
    assert report.ok
    assert [launch.kernel for launch in report.launches] != []
    np.testing.assert_allclose(report.result.to_numpy(), plain, rtol=1e-5, atol=1e-6)


def test_out_may_be_an_operand() -> None:
    a, b = normal(4, 32), normal(4, 32)
    plain = gated(a, b).to_numpy()
    report = gp.sim.check(gated, a, b, out=a)
    assert report.ok
    assert report.result is a
    np.testing.assert_allclose(a.to_numpy(), plain, rtol=1e-5, atol=1e-6)


def test_a_profile_counts_its_lines() -> None:
    profile = gp.sim.profile(gated, normal(64), normal(64))
    assert any("fused" in line.file or "map.cuh" in line.file for line in profile.lines)
    assert sum(line.sectors for line in profile.lines) >= 3 * 64 * 4 // 32


def test_without_the_simulator_nothing_is_launched() -> None:
    launches: list[gp.sim.Launch] = []
    with gp.sim.recording(launches, check=True):
        pass
    gated(normal(8), normal(8))
    with gp.sim.recording(launches, check=True):
        gp.add(normal(8), 1.0)
    assert launches == []
