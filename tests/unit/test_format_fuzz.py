"""Random products of packed weights: on CPU simulation, and a sample on the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import format_fuzz

from pygpukit import _native

TESTS = Path(__file__).parents[1]

# Kernels in the simulator: packed (to 64 rows) and packed_gemm.
SIMULATED = """
import sys
sys.path.insert(0, {tests!r})
import numpy as np
import pygpukit as gp
from cases.run_quantize import host
rng = np.random.default_rng(3)
plans = (
    ("int4", 66, "packed_gemm"),
    ("nvfp4", 66, "packed_gemm"),
    ("int4", 3, "packed"),
    ("int4", 3, "dequantize"),
)
for name, m, plan in plans:
    w = gp.from_numpy(rng.standard_normal((20, 136)).astype(np.float32)).astype("bfloat16")
    packed = gp.quantize(w, name)
    x = gp.from_numpy(rng.standard_normal((m, 136)).astype(np.float32)).astype("bfloat16")
    bias = gp.from_numpy(rng.standard_normal(20).astype(np.float32)).astype("bfloat16")
    y = gp.with_matmul_plan(lambda: gp.linear(x, packed, bias, "relu"), plan)
    want = np.maximum(host(x) @ host(packed.dequantize("bfloat16")).T + host(bias), 0)
    assert (np.abs(host(y) - want) <= 2.0**-8 * np.abs(want) + 0.02).all(), (name, m)
print("passed")
"""


@pytest.mark.parametrize("part", range(4))
def test_random_products(part: int) -> None:
    for number in range(part, format_fuzz.count(80), 4):
        format_fuzz.run_product(number)


@pytest.mark.skipif(not _native.nvrtc_info()["available"], reason="NVRTC is not installed")
def test_sample_in_the_simulator() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIMULATED.format(tests=str(TESTS))],
        env=os.environ | {"PYGPUKIT_DEVICE": "sim"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout.endswith("passed\n"), done.stderr[-2000:]
