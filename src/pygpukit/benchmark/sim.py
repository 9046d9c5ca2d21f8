"""The simulator: kernels on one host thread, and its start-up. Each case is a process of its own,
so that a machine with a GPU measures the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pygpukit import _native
from pygpukit.benchmark.measure import summarize
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session

REPEATS = 5

SAXPY = """
__global__ void saxpy(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}"""
CHAIN = """
__global__ void chain(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int k = 0; k < 64; ++k) v = v * 0.5f + x[i];
    y[i] = v;
}"""
MATMUL = """
__global__ void matmul(const float* a, const float* b, float* c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}"""
NAMES = ("saxpy", "chain", "matmul")

STARTUP = """
import ctypes, sys, time
start = time.perf_counter()
sim = ctypes.CDLL(sys.argv[1])
device, context = ctypes.c_int(), ctypes.c_void_p()
codes = [sim.cuInit(0), sim.cuDeviceGet(ctypes.byref(device), 0),
         sim.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)]
print((time.perf_counter() - start) * 1e6 if not any(codes) else -1.0)
"""


def measure(name: str, quick: bool) -> dict[str, object]:
    """In a process whose arrays are the host's: processor time of a kernel, its lane operations."""
    import numpy as np

    import pygpukit as gp

    rng = np.random.default_rng(1)
    args: tuple[Any, ...]
    shape: dict[str, Any]
    if name == "matmul":
        n = 64 if quick else 256
        a, b = (rng.standard_normal((n, n)).astype(np.float32) for _ in range(2))
        args = (gp.array(a), gp.array(b), gp.zeros((n, n)), n)
        shape = {"grid": (n // 16, n // 16), "block": (16, 16)}
        expected = a @ b
        kernel = gp.jit(MATMUL, name)
    else:
        n = 1 << (14 if quick else 20)
        x = rng.standard_normal(n).astype(np.float32)
        shape = {"grid": n // 256, "block": 256}
        if name == "saxpy":
            args, expected = (gp.array(x), gp.zeros(n), 2.0, n), 2 * x
        else:
            args, expected = (gp.array(x), gp.zeros(n), n), 2 * x
        kernel = gp.jit(SAXPY if name == "saxpy" else CHAIN, name)
    lane_ops = gp.sim.profile(kernel, *args, **shape).launches[0].lane_ops
    out: Any = args[1] if name != "matmul" else args[2]
    close = bool(np.allclose(out.to_numpy(), expected, rtol=1e-4, atol=1e-4))
    _native.sim_set_options(**{**_native.sim_options(), "threads": 1})
    samples = []
    for _ in range(REPEATS):
        start = time.process_time()
        kernel(*args, **shape)
        gp.synchronize()
        samples.append((time.process_time() - start) * 1e6)
    return {"samples": samples, "lane_ops": lane_ops, "correct": close, "size": n}


def _output(command: list[str]) -> str:
    env = dict(os.environ, PYGPUKIT_DEVICE="cpu")
    env.pop("PYGPUKIT_REQUIRE_GPU", None)
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise RuntimeError(f"benchmark: {command[:2]} failed\n{done.stderr}")
    return done.stdout


def run(session: Session) -> None:
    """Runs the suite."""
    library = Path(_native.__file__).parent / "libpygpukit_sim.so"
    if not library.exists() or not _native.nvrtc_info()["available"]:
        session.note("sim skipped: it needs NVRTC and the simulator's library")
        return
    for name in NAMES:
        session.step(f"sim: {name}")
        command = ["-m", "pygpukit.benchmark.sim", name, "quick" if session.quick else ""]
        found = json.loads(_output(command))
        stats = summarize(found["samples"])
        rate = found["lane_ops"] / stats.min
        session.add(
            "sim",
            name,
            OURS,
            stats,
            REPEATS,
            params={"n": found["size"]},
            correct=found["correct"],
            extra={"million_lane_ops_per_s": rate},
        )
        session.note(f"sim: {name}: {rate:.0f} million lane operations a second and core")
    session.step("sim: startup")
    samples = [float(_output(["-c", STARTUP, str(library)])) for _ in range(REPEATS)]
    if min(samples) < 0:
        raise RuntimeError("benchmark: the simulator does not start")
    session.add("sim", "startup", OURS, summarize(samples), REPEATS)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], "quick" in sys.argv[2:])))
