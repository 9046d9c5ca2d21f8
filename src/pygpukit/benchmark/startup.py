"""Start-up: whole processes measured from outside, first use of a custom kernel from inside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

from pygpukit.benchmark.launch import SCALE
from pygpukit.benchmark.measure import Stats, summarize
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session

REPEATS = 15
COLD_REPEATS = 5
PEER_REPEATS = 5  # some take seconds to start

FIRST_RESULT = {
    OURS: "import pygpukit as gp; x = gp.ones(256); (x + x).to_numpy()",
    "cupy": "import cupy; x = cupy.ones(256, dtype='float32'); (x + x).get()",
    "torch": "import torch; x = torch.ones(256, device='cuda'); (x + x).cpu().numpy()",
}

# The context exists before the clock starts; finding and loading NVRTC is part of first use.
FIRST_KERNEL = f"""
import time
import pygpukit as gp
jit = gp.jit
gp.empty(256)
source = {SCALE!r}
start = time.perf_counter()
jit(source, "scale")
print((time.perf_counter() - start) * 1e6)
"""


@dataclass
class Row:
    """A process to time. `over` names the row it is compared with, and the figure's name."""

    name: str
    impl: str
    code: str
    over: tuple[str, str] | None = None
    samples: list[float] = field(default_factory=list)


def _rows(session: Session) -> list[Row]:
    peers = [peer.name for peer in session.peers if peer.name != "numpy"]
    bare = ("bare_python", "over_bare_us")
    return [
        Row("bare_python", "python", "pass"),
        Row("import", OURS, "import pygpukit", bare),
        Row("import", "numpy", "import numpy", bare),
        *(Row("import", peer, f"import {peer}", bare) for peer in peers),
        Row(
            "import_after_numpy",
            OURS,
            "import numpy; import pygpukit",
            ("import:numpy", "over_numpy_us"),
        ),
        Row("first_result", OURS, FIRST_RESULT[OURS]),
        *(Row("first_result", peer, FIRST_RESULT[peer]) for peer in peers),
    ]


def run(session: Session) -> None:
    """Runs the suite. The processes of all rows are interleaved."""
    rows = _rows(session)
    for row in rows:
        session.step(f"startup: {row.name}, {row.impl}")
        _process(row.code)  # warms the disk, compiles .pyc files and built-in kernels
    for repeat in range(REPEATS):
        for row in rows:
            if row.impl not in (OURS, "python", "numpy") and repeat >= PEER_REPEATS:
                continue
            session.step(f"startup: {row.name}, {row.impl} (run {repeat + 1} of {REPEATS})")
            start = time.perf_counter()
            _process(row.code)
            row.samples.append((time.perf_counter() - start) * 1e6)
    bases = {"bare_python": rows[0], "import:numpy": rows[2]}
    for row in rows:
        stats = summarize(row.samples)
        extra = {}
        if row.over is not None:
            base, figure = row.over
            extra[figure] = stats.median - summarize(bases[base].samples).median
        _record(session, row.name, row.impl, stats, extra)
    if session.on_gpu:
        _first_uses(session)
    if session.jit_works:
        _first_kernel(session)
    else:
        session.note("startup/jit_cold and jit_cached skipped: they need a GPU and NVRTC")


def _first_uses(session: Session) -> None:
    """Built-in ops with an empty cache: one GEMM alone, and a session of many ops."""
    for name, only in (
        ("cold_matmul_bfloat16", "matmul_bfloat16_4096"),
        ("cold_matmul_float32", "matmul_float32_4096"),
        ("cold_session", ""),
    ):
        samples = []
        for repeat in range(COLD_REPEATS):
            session.step(f"startup: {name} (run {repeat + 1} of {COLD_REPEATS})")
            with tempfile.TemporaryDirectory() as folder:
                found = json.loads(
                    _run(
                        ["-m", "pygpukit.benchmark.first_use", only],
                        PYGPUKIT_CACHE_DIR=folder,
                        CUDA_CACHE_DISABLE="1",
                    )
                )
            samples.append(found["sum"] * 1e6)
        session.add("startup", name, OURS, summarize(samples), COLD_REPEATS)


def _first_kernel(session: Session) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cold = iter(range(10 * REPEATS))

        def fresh() -> float:
            return _inside(os.path.join(folder, f"cold-{next(cold)}"))

        def cached() -> float:
            return _inside(os.path.join(folder, "warm"))

        for name, sample in (("jit_cold", fresh), ("jit_cached", cached)):
            session.step(f"startup: {name}")
            sample()
            _record(session, name, OURS, summarize([sample() for _ in range(REPEATS)]))


def _record(
    session: Session, name: str, impl: str, stats: Stats, extra: dict[str, Any] | None = None
) -> None:
    session.add("startup", name, impl, stats, REPEATS, extra=extra or {})


def _inside(cache_dir: str) -> float:
    return float(_process(FIRST_KERNEL, PYGPUKIT_CACHE_DIR=cache_dir))


def _process(code: str, **environment: str) -> str:
    return _run(["-c", code], **environment)


def _run(arguments: list[str], **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(f"startup: a process failed: {last[0]}")
    return done.stdout
