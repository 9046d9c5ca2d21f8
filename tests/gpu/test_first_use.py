"""Where machine code comes from: bundled PTX first, NVRTC for the rest, the same bits from both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pygpukit import _native

pytestmark = pytest.mark.skipif(
    _native.bundle_info()["kernels"] == 0, reason="this build has no PTX bundle"
)

DIGESTS = """
import hashlib, json, sys
import pygpukit as gp
from pygpukit import _native
from pygpukit.benchmark import first_use
if sys.argv[1:] == ["nvrtc"]:
    _native.drop_bundle()
found = {}
for name, call in first_use.ops(gp):
    result = call()
    arrays = result if isinstance(result, (tuple, list)) else [result]
    bits = b"".join(x.to_numpy().tobytes() for x in arrays if isinstance(x, gp.GPUArray))
    found[name] = hashlib.sha256(bits).hexdigest()
print(json.dumps([found, _native.cache_info()["entries"]]))
"""


@pytest.mark.nvrtc
def test_bundled_and_compiled_kernels_give_the_same_bits(run_python, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    # The second child compiles some hundred kernels, beside other tests.
    bundled = run_python(DIGESTS, timeout_s=600, PYGPUKIT_CACHE_DIR=str(tmp_path / "a"))
    compiled = run_python(
        "import sys; sys.argv[1:] = ['nvrtc']\n" + DIGESTS,
        timeout_s=600,
        PYGPUKIT_CACHE_DIR=str(tmp_path / "b"),
    )
    assert bundled.returncode == 0, bundled.stderr
    assert compiled.returncode == 0, compiled.stderr
    (from_bundle, _), (from_nvrtc, count) = map(json.loads, (bundled.stdout, compiled.stdout))
    assert count > 40  # it did compile
    assert len(from_bundle) > 60
    assert from_bundle == from_nvrtc


def test_machine_code_of_bundled_kernels_is_kept(run_python, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    program = """
import time
import pygpukit as gp
from pygpukit import _native
a = gp.ones((256, 256))
gp.synchronize()
start = time.perf_counter()
(a @ a).to_numpy()
print(time.perf_counter() - start, _native.cache_info()["entries"])
"""
    variables = {
        "PYGPUKIT_CACHE_DIR": str(tmp_path),
        "PYGPUKIT_NVRTC_PATH": "/nonexistent",
        "PYGPUKIT_PREFETCH": "0",
        "PYGPUKIT_MATMUL": "native",  # loading cuBLASLt takes time too
        "CUDA_CACHE_DISABLE": "1",
    }
    first = run_python(program, **variables)
    again = run_python(program, **variables)
    assert first.returncode == 0, first.stderr
    assert int(first.stdout.split()[1]) == int(again.stdout.split()[1]) > 0
    assert float(again.stdout.split()[0]) < float(first.stdout.split()[0])
