"""The simulator used by several threads, and reports of many launches and of equal names."""

from __future__ import annotations

import threading

import pytest

import pygpukit as gp

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

SLOW = """__global__ void slow(float* x, int n) {
    for (int i = 0; i < n; ++i) x[threadIdx.x] += 1;
}"""
RACE = "__global__ void race(float* x) { x[0] = threadIdx.x; }"
BAD = "__global__ void bad(float* x) { x[threadIdx.x + 100] = 1; }"


def test_launches_of_other_threads_leave_a_check_alone() -> None:
    slow, race, bad = gp.jit(SLOW, "slow"), gp.jit(RACE, "race"), gp.jit(BAD, "bad")
    stop = threading.Event()

    def launch() -> None:
        y = gp.zeros(32)
        while not stop.is_set():
            slow(y, 2000, grid=1, block=32)

    thread = threading.Thread(target=launch)
    thread.start()
    for _ in range(200):
        report = gp.sim.check(race, gp.zeros(1), grid=1, block=64)
        assert "race" in {finding.kind for finding in report.findings}
    stop.set()
    thread.join()
    with pytest.raises(gp.CudaError, match="out of bounds"):  # no check is left open
        bad(gp.zeros(1), grid=1, block=1)


def test_kernels_are_loaded_while_others_fault() -> None:
    bad = gp.jit(BAD, "bad")
    stop = threading.Event()

    def fault() -> None:
        x = gp.zeros(1)
        while not stop.is_set():
            with pytest.raises(gp.CudaError):
                bad(x, grid=1, block=1)

    thread = threading.Thread(target=fault)
    thread.start()
    try:
        for number in range(60):
            source = f"__global__ void k(float* x) {{ x[threadIdx.x] = {number}; }}"
            y = gp.zeros(4)
            gp.jit(source, "k")(y, grid=1, block=4)
            assert y.tolist() == [number] * 4
    finally:
        stop.set()
        thread.join()


def test_a_fault_after_thousands_of_launches_is_reported() -> None:
    kernel = gp.jit("__global__ void f(float* x, int i) { x[i] = 1; }", "f")
    x = gp.zeros(4)

    def program() -> None:
        for _ in range(4200):
            kernel(x, 0, grid=1, block=1)
        kernel(x, 4, grid=1, block=1)

    assert [f.kind for f in gp.sim.check(program).findings] == ["out of bounds"]


def test_sources_of_one_name_are_told_apart() -> None:
    first = gp.RawModule(BAD).get_function("bad")
    second = gp.RawModule(BAD.replace("= 1", "= 2")).get_function("bad")
    x = gp.zeros(1)
    for kernel, text in ((first, "= 1;"), (second, "= 2;")):
        report = gp.sim.check(kernel, x, grid=1, block=1)
        assert text in report.findings[0].source
    profile = gp.sim.profile(lambda: [k(gp.zeros(101), grid=1, block=1) for k in (first, second)])
    assert len({line.source for line in profile.lines}) == 2


def test_the_source_of_a_kernel_that_is_gone() -> None:
    report = gp.sim.check(lambda: gp.jit(BAD, "bad")(gp.zeros(1), grid=1, block=1))
    assert "x[threadIdx.x + 100]" in report.findings[0].source


def test_options_with_nul() -> None:
    with pytest.raises(gp.InvalidArgument, match="NUL"):
        gp.jit(RACE, "race", ["-DA=\0"])
