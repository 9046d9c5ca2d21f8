"""Fused functions: arguments on a device, and their kernels compiled for the host."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import pygpukit as gp

ROOT = Path(__file__).resolve().parents[2]
INCLUDES = ("tests/native", "tests/native/host_cuda", "native/kernels")
COMPILER = shutil.which(os.environ.get("CXX", "c++"))

PRELUDE = """\
#include "host_cuda/host_cuda.h"
#include "nn/fused_rows.cuh"
#include "elementwise/activation.cuh"

extern "C" unsigned args_bytes() { return sizeof(gpk::FusedRowsArgs); }

// One instantiation of the launch for all kernels: threads and barriers take long to compile.
using HostKernel = void (*)(const gpk::FusedRowsArgs&);
static void run_kernel(unsigned grid, unsigned block, const gpk::FusedRowsArgs& args,
                       HostKernel kernel) {
  host_cuda::launch(grid, block, [&] { kernel(args); });
}
"""


def to_device(host: list[Any], device: str | None = None) -> tuple[Any, ...]:
    return tuple(gp.from_numpy(x, device=device) if isinstance(x, np.ndarray) else x for x in host)


@dataclass
class HostLaunch:
    """A launch as FusedRows.prepare() describes it."""

    name: str
    out: Any
    grid: int
    block: int
    args: bytes
    kept: list[Any]


@dataclass
class HostKernels:
    """Generated kernels in a library for the host (tests/native/host_cuda)."""

    text: str = PRELUDE
    calls: list[str] = field(default_factory=list)
    launches: list[HostLaunch] = field(default_factory=list)
    functors: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, function: Any, *given: Any, out: Any = None) -> Any:
        """Prepares function(*given); the array that run() fills."""
        result = function(*given)
        target = gp.empty(result.shape, result.dtype) if out is None else out
        rows = function._last
        inputs = function._compile(given).inputs(given)
        _, expression, grid, block, args, kept = rows.prepare(inputs, target)
        functor = self.functors.get(rows.source)
        if functor is None:
            functor = self.functors[rows.source] = f"Fused{len(self.functors)}"
            self.text += rows.source.replace("struct Fused ", f"struct {functor} ")
        kernel = expression.replace("gpk::Fused,", f"gpk::{functor},")
        body = f"[](const gpk::FusedRowsArgs& args) {{ {kernel}(args); }}"
        self.calls.append(f"run_kernel(grid, block, args, {body});")
        self.launches.append(HostLaunch(name, target, grid, block, args, [kept, given]))
        return target

    def run(self, folder: Path) -> None:
        """Compiles everything and launches it."""
        assert COMPILER is not None
        cases = "\n".join(f"    case {i}: {call} break;" for i, call in enumerate(self.calls))
        source, library = folder / "fused.cpp", folder / "fused.so"
        source.write_text(
            f'{self.text}\nextern "C" void launch(int which, unsigned grid, unsigned block,\n'
            "                       const gpk::FusedRowsArgs& args) {\n"
            f"  switch (which) {{\n{cases}\n  }}\n}}\n"
        )
        flags = ["-std=c++20", "-O0", "-w", "-fPIC", "-shared", "-pthread", "-ffp-contract=off"]
        flags += [f"-I{ROOT / include}" for include in INCLUDES]
        command = [COMPILER, *flags, str(source), "-o", str(library)]
        subprocess.run(command, check=True, timeout=300)
        loaded = ctypes.CDLL(str(library))
        for i, one in enumerate(self.launches):
            assert loaded.args_bytes() == len(one.args)
            buffer = ctypes.create_string_buffer(len(one.args) + 16)
            at = ctypes.addressof(buffer)
            at += -at % 16
            ctypes.memmove(at, one.args, len(one.args))
            loaded.launch(i, one.grid, one.block, ctypes.c_void_p(at))
