"""Run the gallery of faulty kernels under compute-sanitizer and beside it in the simulator.

    python scripts/sanitize_gallery.py verdicts.json [--arch sm_90a] [NAME ...]

Needs a GPU, nvcc and compute-sanitizer; the simulator's part needs NVRTC. Each kernel of
tests/cases/faulty_kernels and its repaired twin become a program of their own; a tool's verdict on
it is "reported" (with the lines it names), "clean", "hangs", "failed" where the program ended badly
and the tool said nothing, or "not built".
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ["PYGPUKIT_DEVICE"] = "cpu"  # where kernels run in the simulator, checked by array

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from cases.faulty_kernels import KERNELS, FaultyKernel  # noqa: E402

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
FOUND = 99  # exit code of compute-sanitizer where it reports something
TIMEOUT_S = 30
JOBS = 12

MAIN = """
#include <cstdio>
int main() {{
  float* x = nullptr;
  cudaMalloc(&x, {n} * sizeof(float));
  {clear}
  f<<<{grid}, {block}>>>(x, {n});
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) std::printf("%s\\n", cudaGetErrorString(error));
  return error == cudaSuccess ? 0 : 1;
}}
"""


def build(case: FaultyKernel, source: str, folder: Path, arch: str) -> Path:
    """The kernel's lines come first, so that their numbers stay."""
    file = folder / f"{case.name}.cu"
    clear = "" if case.empty else f"cudaMemset(x, 0, {case.n} * sizeof(float));"
    file.write_text(source + MAIN.format(n=case.n, grid=case.grid, block=case.block, clear=clear))
    program: Path = folder / case.name
    virtual = arch.replace("sm_", "compute_")
    command = ["nvcc", "-gencode", f"arch={virtual},code={arch}", "-lineinfo", "-std=c++17", "-w"]
    command += ["-o", str(program), str(file)]
    subprocess.run(command, check=True, capture_output=True)
    return program


def run_tool(tool: str, program: Path) -> dict[str, Any]:
    log = program.with_suffix(f".{tool}")
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND)]
    command += ["--log-file", str(log), str(program)]
    try:
        code = subprocess.run(command, timeout=TIMEOUT_S, capture_output=True).returncode
    except subprocess.TimeoutExpired:
        return {"verdict": "hangs", "lines": []}
    verdict = {0: "clean", FOUND: "reported"}.get(code, "failed")
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = {int(line) for line in re.findall(rf"{program.name}\.cu:(\d+)", text)}
    return {"verdict": verdict, "lines": sorted(lines)}


def simulate(case: FaultyKernel, source: str) -> dict[str, Any]:
    import pygpukit as gp

    kernel = gp.jit(source, "f")
    x = (gp.empty if case.empty else gp.zeros)(case.n, device="cpu")
    report = gp.sim.check(kernel, x, case.n, grid=case.grid, block=case.block)
    return {
        "verdict": "clean" if report.ok else "reported",
        "kinds": sorted({finding.kind for finding in report.findings}),
        "lines": sorted({finding.line for finding in report.findings}),
    }


def judge(case: FaultyKernel, arch: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": case.name, "kind": case.kind, "lines": case.lines}
    for twin, source in (("faulty", case.source), ("repaired", case.repaired)):
        with tempfile.TemporaryDirectory() as folder:
            try:
                program = build(case, source, Path(folder), arch)
            except subprocess.CalledProcessError as error:
                row[twin] = {"verdict": "not built", "text": error.stderr.decode()[:400]}
                continue
            row[twin] = {tool: run_tool(tool, program) for tool in TOOLS}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("names", nargs="*", help="kernels of the gallery; all unless given")
    parser.add_argument("--arch", default="sm_90a")
    args = parser.parse_args()
    known = {case.name for case in KERNELS}
    if unknown := set(args.names) - known:
        parser.error(f"no such kernel: {', '.join(sorted(unknown))}")
    wanted = [case for case in KERNELS if not args.names or case.name in args.names]
    with ThreadPoolExecutor(JOBS) as pool:
        rows = list(pool.map(lambda case: judge(case, args.arch), wanted))
    args.output.write_text(json.dumps(rows, indent=1) + "\n")
    for case, row in zip(wanted, rows, strict=True):
        row["faulty"]["simulator"] = simulate(case, case.source)
        row["repaired"]["simulator"] = simulate(case, case.repaired)
        print(case.name, row["faulty"], flush=True)
    args.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
