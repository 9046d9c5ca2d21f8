"""The complex functions of the GPU's elementwise kernels, compiled for the host."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import standard_values
from cases.run_fuse import COMPILER, INCLUDES, ROOT

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

OPS = [op for op, cases in standard_values.COMPLEX_CASES.items() if len(cases[0].parts) == 2]
SMOOTH = [op for op in OPS if op not in ("round", "sign")]
WIDER = {"complex64": "complex128", "complex128": "clongdouble"}
NUMPY = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
}

Call = Callable[[str, Any], Any]


@pytest.fixture(scope="module", params=["off", "fast"])
def device_function(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Call:
    """device_function(op, x). With and without products contracted to fma, as NVRTC does."""
    assert COMPILER is not None
    source = ROOT / "tests" / "native" / "host_cuda" / "complex_functions.cpp"
    library = tmp_path_factory.mktemp("complex") / "functions.so"
    flags = ["-std=c++20", "-O1", "-w", "-fPIC", "-shared", f"-ffp-contract={request.param}"]
    if request.param == "fast":
        flags.append("-march=native")
    flags += [f"-I{ROOT / include}" for include in INCLUDES]
    subprocess.run([COMPILER, *flags, str(source), "-o", str(library)], check=True, timeout=300)
    run = ctypes.CDLL(str(library)).gpk_complex_function
    run.restype = ctypes.c_bool

    def call(op: str, x: Any) -> Any:
        out = np.empty_like(x)
        given, result = (ctypes.c_void_p(a.ctypes.data) for a in (x, out))
        assert run(op.encode(), x.itemsize // 2, given, result, ctypes.c_longlong(x.size))
        return out

    return call


@pytest.mark.parametrize("dtype", WIDER)
@pytest.mark.parametrize("op", OPS)
def test_special_cases(device_function: Call, op: str, dtype: str) -> None:
    standard_values.check_call(op, dtype, lambda x: device_function(op, x))


def wide_log1p(z: Any) -> Any:
    """NumPy's adds 1 first."""
    return (
        0.5 * np.log1p(z.real * (2 + z.real) + z.imag * z.imag)
        + np.arctan2(z.imag, 1 + z.real) * 1j
    )


@pytest.mark.parametrize("dtype", WIDER)
@pytest.mark.parametrize("op", SMOOTH)
def test_accuracy(device_function: Call, op: str, dtype: str) -> None:
    """Within 4 units of the result's magnitude, over parts of many orders."""
    rng = np.random.default_rng(7)
    for least in (-1, -6, -30):
        if op == "log1p" and least < -1:
            continue  # re (2 + re) + im^2 cancels near |1 + z| = 1
        parts = 10.0 ** rng.uniform(least, 1, (2, 5000)) * rng.choice([-1, 1], (2, 5000))
        x = (parts[0] + 1j * parts[1]).astype(dtype)
        function = wide_log1p if op == "log1p" else NUMPY.get(op) or getattr(np, op)
        want = function(x.astype(WIDER[dtype]))
        off = np.abs(device_function(op, x) - want) / np.abs(want)
        worst = int(np.argmax(off))
        assert off[worst] <= 4 * np.finfo(dtype).eps, f"{op}({x[worst]})"
