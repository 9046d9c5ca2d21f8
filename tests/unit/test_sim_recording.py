"""Checks, profiles and walks inside of each other and on several threads, and wrong arguments."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import pygpukit as gp

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

FILL = "__global__ void fill(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }"


@pytest.fixture(scope="module")
def fill() -> gp.JITKernel:
    return gp.jit(FILL, "fill")


def test_a_check_in_a_check_loses_nothing(fill: gp.JITKernel) -> None:
    x, inner = gp.empty(8), []

    def program() -> None:
        fill(x, 9, grid=1, block=32)
        inner.append(gp.sim.check(fill, x, 8, grid=1, block=32))
        inner.append(gp.sim.profile(fill, x, 8, grid=1, block=32))
        inner.append(gp.sim.step(fill, x, 8, grid=1, block=32))
        fill(x, 10, grid=1, block=32)

    report = gp.sim.check(program)
    assert [launch.ok for launch in report.launches] == [False, True, True, True, False]
    assert [finding.kind for finding in report.findings] == ["out of bounds"] * 2
    assert inner[0].ok
    assert [len(made.launches) for made in inner[:2]] == [1, 1]
    assert any(line.warp_ops for line in inner[1].lines)
    assert len(inner[2]) > 0
    with pytest.raises(gp.CudaError, match="out of bounds"):  # checked no more
        fill(x, 9, grid=1, block=32)


def test_a_check_in_a_check_has_leaks_of_its_own() -> None:
    kept: list[Any] = []

    def keep(size: int) -> None:
        kept.append(gp.ones(size))

    def program() -> Any:
        keep(64)
        inner = gp.sim.check(keep, 128)
        keep(256)
        return inner

    report = gp.sim.check(program)
    assert [(leak.count, leak.bytes) for leak in report.result.leaks] == [(1, 512)]
    assert [(leak.count, leak.bytes) for leak in report.leaks] == [(3, 256 + 512 + 1024)]


def test_threads_check_at_once(fill: gp.JITKernel) -> None:
    reports: list[gp.sim.Report] = []

    def faulty() -> None:
        for _ in range(3):
            fill(gp.empty(8), 9, grid=1, block=32)

    def checks() -> None:
        reports.extend(gp.sim.check(faulty) for _ in range(10))

    threads = [threading.Thread(target=checks) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == 40
    assert min(len(report.findings) for report in reports) >= 3  # its own, and those of others
    assert len(gp.sim.check(fill, gp.empty(8), 8, grid=1, block=32).launches) == 1


def test_a_wrong_argument_leaves_the_options_alone(fill: gp.JITKernel) -> None:
    x = gp.empty(8)
    for call in (
        lambda: gp.sim.check(3),
        lambda: gp.sim.check(fill, x, 8, seed=-1),
        lambda: gp.sim.check(fill, x, 8, seed="a"),
        lambda: gp.sim.profile(None),
        lambda: gp.sim.step(fill, x, 8, block_index=3),
        lambda: gp.sim.step(fill, x, 8, block_index=("a", 0, 0)),
        lambda: gp.sim.step(fill, x, 8, block_index=(0, 0)),
        lambda: gp.sim.step(fill, x, 8, block_index=(-1, 0, 0)),
        lambda: gp.sim.step(fill, x, 8, warp="a"),
        lambda: gp.sim.step(fill, x, 8, max_steps=0),
    ):
        with pytest.raises(gp.InvalidArgument, match=r"^(check|profile|step): "):
            call()
    with pytest.raises(gp.CudaError, match="out of bounds"):
        fill(x, 9, grid=1, block=32)
