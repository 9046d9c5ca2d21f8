"""Every built-in kernel compiles, for a spread of architectures, without local memory."""

from __future__ import annotations

import re

import pytest
from cases import compile as compiling

from pygpukit import _native

FILES = sorted({row[1] for row in _native.builtin_kernels()})

# "pattern of symbols": "why they may use local memory". A pattern must match something.
TRIGONOMETRY = (
    "sin, cos and tan of large numbers reduce them by a table of 2/pi (Payne-Hanek) in CUDA's math "
    "library, with a few words of local memory that only this rare path touches"
)
ALLOWED_LOCAL_MEMORY: dict[str, str] = {
    r"map_\w+INS_\d(Sin|Cos|Tan|Snake)E": TRIGONOMETRY,
    r"gemv_mma_kernelINS_\w+Li[1248]ELi[12]ELi4E": "up to ten words, none on SM90: one block less",
    r"gemv_mma_kernelINS_7float16ELi4ELi2E": "two registers more, one block less",
    r"prefill_wgmma_kernelI\w+Li64ELi128ELi3E": "two words, outside of the loop over keys",
    r"gemm_wgmma_kernelI\w+Li128ELi256E\w+Lj76E": "seven words; three warpgroups have 168 each",
    r"fft_blockI[fd]Li[1-5]\d\dELi1E": "four words, once; the other way is a second pass",
    r"qr_leafINS_7ComplexIdEELb1E": "six words, on SM120 alone, for two blocks more",
    r"fft_blockI[fd]Li\d+ELi[24]ELi4356E": "seven words of a column of 4096, on SM80 alone",
    r"map_\w+INS_\d(Exp|Exp2|Expm1|Sinh|Cosh|Tanh|Power)ENS_7ComplexI": TRIGONOMETRY,
}

# ptxas would rather spill a little than use one register more and lose a block per multiprocessor:
# up to so many bytes, at most so many registers. Kernels that run out of registers have more of
# both.
CHOSEN_SPILLS = {40: 128, 48: 32, 64: 16, 80: 16, 96: 16, 128: 16}

# The first test waits for all compiles. Every variant for every architecture takes a while.
TIMEOUT_SECONDS = 0 if compiling.WHOLE else 900

pytestmark = pytest.mark.skipif(
    not _native.nvrtc_info()["available"], reason="NVRTC is not installed"
)


@pytest.fixture(scope="module")
def compiled() -> list[compiling.Done]:
    return compiling.compile_all()


def is_allowed(kernel: compiling.Compiled) -> bool:
    if kernel.stack == 0 and kernel.spills == 0:
        return True
    if any(re.search(pattern, kernel.symbol) for pattern in ALLOWED_LOCAL_MEMORY):
        return kernel.stack <= 64 + max(CHOSEN_SPILLS.values())
    return 0 < kernel.stack <= kernel.spills + 8 and any(
        kernel.registers <= registers and kernel.spills <= spills
        for registers, spills in CHOSEN_SPILLS.items()
    )


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("file", FILES)
def test_compiles_without_local_memory(compiled: list[compiling.Done], file: str) -> None:
    done = [one for one in compiled if one.job.file == file]
    assert done
    for one in done:
        assert one.problem == "", f"{file} for sm_{one.job.sm}: {one.problem}"
        assert one.is_cubin
        assert len(one.kernels) >= len(one.job.expressions)  # plain kernels come with any other
    bad = [
        f"sm_{one.job.sm}: {kernel}"
        for one in done
        for kernel in one.kernels
        if not is_allowed(kernel)
    ]
    assert bad == []


def test_every_file_is_compiled() -> None:
    every = {(row[1], row[2]) for row in _native.builtin_kernels()}
    for whole in (False, True):
        jobs = compiling.jobs(whole)
        seen = {(job.file, expression) for job in jobs for expression in job.expressions}
        assert {file for file, _ in seen} == set(FILES)
        assert seen <= every
        assert not whole or seen == every
        for sm in compiling.ARCHS:  # each gets a fair share
            assert len({job.file for job in jobs if job.sm == sm}) >= 8


def test_kernels_have_different_names() -> None:
    rows = [(row[1], row[2]) for row in _native.builtin_kernels()]
    assert len(set(rows)) == len(rows)


def test_allowed_local_memory_gives_reasons() -> None:
    assert all(len(reason) > 20 for reason in ALLOWED_LOCAL_MEMORY.values())
