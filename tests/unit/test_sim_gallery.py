"""The gallery of faulty kernels: each is reported at its line, its repaired twin is not."""

from __future__ import annotations

import pytest
from cases.faulty_kernels import KERNELS, FaultyKernel

import pygpukit as gp

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

SEEDS = (0, 1, 2, 3)  # of the schedule; 0: warps and blocks in order


def check(kernel: gp.Kernel, case: FaultyKernel, seed: int) -> gp.sim.Report:
    shape = {"grid": case.grid, "block": case.block}
    x = gp.empty(case.n) if case.empty else gp.zeros(case.n)
    return gp.sim.check(kernel, x, case.n, seed=seed, **shape)


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
        assert lines, f"seed {seed}: {report}"
        assert lines <= set(case.lines), f"seed {seed}: {report}"
        assert {finding.kind for finding in report.findings} <= set(case.kinds), report


@pytest.mark.parametrize("case", KERNELS, ids=str)
def test_nothing_is_said_of_the_repaired_twin(case: FaultyKernel) -> None:
    kernel = gp.jit(case.repaired, "f")
    for seed in SEEDS:
        report = check(kernel, case, seed)
        assert report.ok, f"seed {seed}: {report}"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("deadlock_missing_bytes", "waits for parity 0 of the mbarrier at byte"),
        ("deadlock_missing_bytes", "(0 of 1 arrivals missing, 128 bytes missing)"),
        ("deadlock_wrong_phase", "waits for parity 1 of the mbarrier at byte"),
        ("deadlock_nobody_arrives", "(1 of 1 arrivals missing)"),
        ("deadlock_two_barriers", "warp 1 lanes 0xffffffff waits at barrier 2"),
        ("bounds_after_free", "memory of malloc, which was freed"),
        ("stale_cp_async", "the cp.async of line 9 writes, with no wait for its group"),
        ("stale_bulk_copy", "the bulk copy of line 15 writes, with no wait for its mbarrier"),
    ],
)
def test_the_text_says_who_waits_for_what(name: str, words: str) -> None:
    case = next(case for case in KERNELS if case.name == name)
    report = check(gp.jit(case.source, "f"), case, 0)
    assert any(words in finding.text for finding in report.findings), str(report)
