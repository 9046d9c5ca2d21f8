"""The gallery of faulty kernels: each is reported at its line, its repaired twin is not."""

from __future__ import annotations

import pytest
from cases.faulty_kernels import KERNELS, FaultyKernel

import pygpukit as gp

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

SEEDS = (0, 1, 2, 3)  # of the schedule; 0: warps and blocks in order


def check(kernel: gp.Kernel, case: FaultyKernel, seed: int) -> gp.sim.Report:
    shape = {"grid": case.grid, "block": case.block}
    return gp.sim.check(kernel, gp.zeros(case.n), case.n, seed=seed, **shape)


def test_the_gallery_is_complete() -> None:
    assert len(KERNELS) >= 30
    assert all(case.lines for case in KERNELS)
    kinds = {"race", "stale read", "missing fence", "deadlock", "divergent barrier"}
    kinds |= {"out of bounds", "misaligned", "uninitialised", "use after exit"}
    assert {case.kind for case in KERNELS} == kinds


@pytest.mark.parametrize("case", KERNELS, ids=str)
def test_the_fault_is_reported_at_its_line(case: FaultyKernel) -> None:
    kernel = gp.jit(case.source, "f")
    for seed in SEEDS:
        report = check(kernel, case, seed)
        lines = {finding.line for finding in report.findings if finding.kind == case.kind}
        assert lines and lines <= set(case.lines), f"seed {seed}: {report}"
        assert {finding.kind for finding in report.findings} <= set(case.kinds), report


@pytest.mark.parametrize("case", KERNELS, ids=str)
def test_nothing_is_said_of_the_repaired_twin(case: FaultyKernel) -> None:
    kernel = gp.jit(case.repaired, "f")
    for seed in SEEDS:
        report = check(kernel, case, seed)
        assert report.ok, f"seed {seed}: {report}"
