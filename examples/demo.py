"""`make demo`: what PyGPUkit can do on this machine, in a few seconds.

Four short parts: what was found, arrays, a custom kernel, a CUDA graph. Every result is checked
against NumPy; the exit code is not zero if any of them is wrong. Without a GPU the same program
runs on CPU simulation.
"""

import json
import subprocess
import sys
import time

import numpy as np

import pygpukit as gp

checks: list[bool] = []


def title(text: str) -> None:
    print(f"\n== {text}")


def check(what: str, ok: bool) -> None:
    checks.append(bool(ok))
    print(f"   {'ok    ' if ok else 'WRONG '} {what}")


def report() -> tuple[str, str]:
    """Prints the report about this machine; the mode we run in, and why."""
    title("This machine (python -m pygpukit)")
    sys.stdout.flush()
    command = [sys.executable, "-m", "pygpukit"]
    subprocess.run(command, check=True)
    found = json.loads(
        subprocess.run([*command, "--json"], check=True, stdout=subprocess.PIPE).stdout
    )
    return found["mode"], found["why"].splitlines()[0].removesuffix(" Tried:")


def arrays() -> None:
    title("Arrays: (a + b) * 2, checked against NumPy")
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float16", "int32"):
        host_a = (rng.standard_normal((1000, 1000)) * 100).astype(dtype)
        host_b = (rng.standard_normal((1000, 1000)) * 100).astype(dtype)
        a, b = gp.from_numpy(host_a), gp.from_numpy(host_b)
        result = (a + b) * 2
        check(f"{result}", np.array_equal(result.to_numpy(), (host_a + host_b) * 2))


# CUDA C. On a GPU it is compiled at run time; on CPU simulation `scale_on_cpu` stands in for it.
SCALE = """
extern "C" __global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""


def scale_on_cpu(x, factor, n):
    x[:n] *= factor


def custom_kernel(on_gpu: bool) -> None:
    if on_gpu and not gp.is_nvrtc_available():
        title("Custom kernel: left out, NVRTC is missing (pip install pygpukit[jit])")
        return
    title("Custom kernel: scale(x, factor, n) in CUDA C")
    start = time.perf_counter()
    kernel = gp.jit(SCALE, func="scale", reference=scale_on_cpu)
    print(f"   {kernel}, made in {(time.perf_counter() - start) * 1000:.1f} ms")
    x = gp.ones(1_000_000)
    kernel(x, factor=0.5, n=x.size)
    where = "on the GPU" if on_gpu else "by its reference function, on the CPU"
    check(f"kernel(x, factor=0.5, n=x.size) ran {where}", (x.to_numpy() == 0.5).all())


def graph(on_gpu: bool) -> None:
    title("CUDA graph: 100 additions recorded once, replayed 10 times with one call each")
    total = gp.zeros(1000)
    one = gp.ones(1000)
    recorded = gp.CudaGraph()
    with recorded:
        for _ in range(100):
            gp.add(total, one, out=total)
    check(f"{recorded}: nothing has run yet", (total.to_numpy() == 0).all())
    start = time.perf_counter()
    for _ in range(10):
        recorded.replay()
    recorded.synchronize()
    spent = (time.perf_counter() - start) * 1e6 / 1000
    check("after 10 replays every element is 1000", (total.to_numpy() == 1000).all())
    print(f"   {spent:.2f} us per addition" + ("" if on_gpu else " (CPU simulation)"))


def main() -> int:
    start = time.perf_counter()
    print(f"PyGPUkit {gp.__version__} demo")
    mode, why = report()
    on_gpu = gp.empty(1).on_gpu
    arrays()
    custom_kernel(on_gpu)
    graph(on_gpu)
    title("Summary")
    print(f"   Ran in mode: {mode}, because: {why}")
    if not on_gpu:
        print("   The same program runs unchanged on a machine with an NVIDIA GPU.")
    good = sum(checks)
    print(f"   {good} of {len(checks)} checks passed in {time.perf_counter() - start:.1f} s.")
    return 0 if good == len(checks) else 1


if __name__ == "__main__":
    sys.exit(main())
