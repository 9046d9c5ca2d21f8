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
# `make test` compiles each file for one architecture, and this many of its kernels (which share
# most of their code); `make kernels` every kernel for every architecture.
WHOLE = bool(os.environ.get("GPK_TEST_ALL_ARCHS"))
SAMPLE = 6
LARGE_SAMPLES = {"elementwise/map.cuh": 40, "fft/block.cuh": 12}  # many functors, many radices
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


def sampled(file: str, expressions: list[str]) -> list[str]:
    """Evenly spaced, the first and the last included."""
    count = min(LARGE_SAMPLES.get(file, SAMPLE), len(expressions))
    last = len(expressions) - 1
    return [expressions[i * last // max(count - 1, 1)] for i in range(count)]


def jobs(whole: bool = WHOLE) -> list[Job]:
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for _, file, expression, exact, _ in _native.builtin_kernels():
        groups.setdefault((file, tuple(exact) or ARCHS), []).append(expression)
    found = []
    for (file, archs), expressions in groups.items():
        known = [sm for sm in ARCHS if sm in archs]
        chosen = known if whole else [known[zlib.crc32(file.encode()) % len(known)]]
        kernels = expressions if whole else sampled(file, expressions)
        found += [
            Job(file, sm, tuple(kernels[i : i + CHUNK]))
            for sm in chosen
            for i in range(0, len(kernels), CHUNK)
        ]
    return found


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
