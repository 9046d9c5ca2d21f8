"""Built-in kernels compiled in worker processes; tests/unit/test_builtin_kernels looks at them."""

from __future__ import annotations

import os
import re
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from pygpukit import _native

ARCHS = (80, 86, 89, 90, 100, 120)
SHARED = {
    "elementwise/map.cuh": 8,
    "reduction/rows.cuh": 5,
    "reduction/even_rows.cuh": 5,
    "reduction/columns.cuh": 5,
    "matmul/gemm_wgmma.cuh": 4,
    "matmul/gemm_mma.cuh": 5,
    "nn/norm.cuh": 5,
    "nn/softmax.cuh": 4,
    "attention/decode_mma.cuh": 3,
    "fft/block.cuh": 8,
    "audio/spectrogram.cuh": 3,
}
CHUNK = 40  # kernels of one compilation: the headers are parsed once for all of them

PROPERTIES = re.compile(
    r"Compiling entry function '(\S+)'.*?"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
    r"Used (\d+) registers",
    re.DOTALL,
)


@dataclass(frozen=True)
class Job:
    file: str
    sm: int
    expressions: tuple[str, ...]


@dataclass(frozen=True)
class Compiled:
    """ptxas's statistics for one kernel."""

    symbol: str
    stack: int
    spills: int
    registers: int


@dataclass(frozen=True)
class Done:
    job: Job
    kernels: tuple[Compiled, ...] = ()
    is_cubin: bool = False
    problem: str = ""


def archs_of(file: str, expression: str, exact: list[int]) -> list[int]:
    """All six where GPK_TEST_ALL_ARCHS is set (make kernels).

    Else one, and of the many instantiations of a few files, which share their code, one in a
    few and those that may use local memory. A fixed choice, spread over the architectures.
    """
    archs = [sm for sm in ARCHS if sm in exact] if exact else list(ARCHS)
    number = zlib.crc32(expression.encode())
    if os.environ.get("GPK_TEST_ALL_ARCHS"):
        return archs
    every = SHARED.get(file, 1)
    if re.search("Sin|Tanh|Var", expression):
        every = 1
    return [] if number // 6 % every else [archs[number % len(archs)]]


def jobs() -> list[Job]:
    groups: dict[tuple[str, int], list[str]] = {}
    for _, file, expression, exact, _ in _native.builtin_kernels():
        for sm in archs_of(file, expression, exact):
            groups.setdefault((file, sm), []).append(expression)
    return [
        Job(file, sm, tuple(expressions[i : i + CHUNK]))
        for (file, sm), expressions in groups.items()
        for i in range(0, len(expressions), CHUNK)
    ]


def compile_job(job: Job) -> Done:
    try:
        image, log = _native.compile_builtin(
            job.file, job.sm, False, ["--ptxas-options=-v"], list(job.expressions)
        )
    except Exception as error:  # reported by the test of its file
        return Done(job, problem=str(error)[:3000])
    kernels = tuple(
        Compiled(symbol, int(stack), max(int(stores), int(loads)), int(registers))
        for symbol, stack, stores, loads, registers in PROPERTIES.findall(log)
    )
    problem = "wgmma instructions are serialized" if "serialized" in log else ""
    return Done(job, kernels, image[:4] == b"\x7fELF", problem)


def compile_all() -> list[Done]:
    """On every core; largest jobs first."""
    todo = sorted(jobs(), key=lambda job: -len(job.expressions))
    with ProcessPoolExecutor(os.cpu_count() or 1, get_context("spawn")) as pool:
        return list(pool.map(compile_job, todo))
