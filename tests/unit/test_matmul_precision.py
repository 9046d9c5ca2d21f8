"""precision= of products: plans, errors, and what refuses it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native

TESTS = Path(__file__).parents[1]


@pytest.fixture
def kept_precision() -> Iterator[None]:
    before = gp.get_matmul_precision()
    yield
    gp.set_matmul_precision(before)


def square(dtype: str = "float32") -> gp.GPUArray:
    return gp.ones((256, 256), dtype=dtype)


@pytest.mark.parametrize("call", [gp.matmul, gp.linear])
def test_result(call: object) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((24, 24)).astype(np.float32) for _ in range(2))
    got = call(gp.from_numpy(a), gp.from_numpy(b), precision="3xtf32").to_numpy()  # type: ignore[operator]
    want = a.astype(np.float64) @ (b if call is gp.matmul else b.T)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_plans_split_float32_only_where_asked() -> None:
    x = square()
    for precision, expected in (
        ("3xtf32", True),
        ("float32", False),
        ("tf32", False),
        (None, False),
    ):
        plan = gp.explain_matmul(
            lambda precision=precision: gp.matmul(x, x, precision=precision), sm=80
        )
        assert ("3xtf32" in str(plan)) is expected
        engines = {c["text"].split("(")[0] for c in plan.candidates}
        assert ("mma" in engines) is (precision in ("3xtf32", "tf32"))
        assert "simt" in engines


@pytest.mark.usefixtures("kept_precision")
def test_of_all_calls() -> None:
    x = square()
    gp.set_matmul_precision("3xtf32")
    assert gp.get_matmul_precision() == "3xtf32"
    assert "3xtf32" in str(gp.explain_matmul(lambda: x @ x, sm=80))
    assert "3xtf32" not in str(gp.explain_matmul(lambda: gp.matmul(x, x, use_tf32=False), sm=80))
    half = square("float16")
    assert (half @ half).dtype == gp.float16  # other dtypes do as before


def test_refused() -> None:
    x = square()
    half = square("float16")
    with pytest.raises(TypeError, match="matmul: precision is '3xtf32', operands are float16"):
        gp.matmul(half, half, precision="3xtf32")
    with pytest.raises(TypeError, match="linear: precision is '3xtf32', operands are float64"):
        gp.linear(square("float64"), square("float64"), precision="3xtf32")
    with pytest.raises(ValueError, match="matmul: precision is 'high', expected 'float32', 'tf32'"):
        gp.matmul(x, x, precision="high")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="use_tf32 and precision are both given"):
        gp.matmul(x, x, use_tf32=True, precision="tf32")
    with pytest.raises(ValueError, match="set_matmul_precision: precision is 'high'"):
        gp.set_matmul_precision("high")  # type: ignore[arg-type]
    packed = gp.quantize(x, "int8")
    for call in (gp.linear, lambda a, w, **k: gp.matmul(a, w.T, **k)):
        with pytest.raises(ValueError, match="precision"):
            call(x, packed, precision="3xtf32")


def test_slices_of_float64() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((9, 31)), rng.standard_normal((31, 12))
    x, y = gp.from_numpy(a), gp.from_numpy(b)
    got = gp.matmul(x, y, precision="float64_int8")
    np.testing.assert_allclose(got.to_numpy(), a @ b, rtol=0, atol=1e-13)
    layer = gp.linear(x, y.T, gp.ones(12, "float64"), "relu", precision="float64_int8")
    np.testing.assert_allclose(layer.to_numpy(), np.maximum(a @ b + 1, 0), rtol=0, atol=1e-13)


def test_plans_slice_float64_only_where_asked() -> None:
    x = square("float64")
    for precision in ("float64_int8", "float32", None):
        for sm in (80, 90, 120):
            plan = gp.explain_matmul(
                lambda precision=precision: gp.matmul(x, x, precision=precision), sm=sm
            )
            engines = {c["text"].split("(")[0] for c in plan.candidates}
            assert ("ozaki" in engines) is (precision == "float64_int8")
            assert ("float64_int8" in str(plan)) is (precision == "float64_int8")
            assert "general" in engines
    layer = gp.explain_matmul(
        lambda: gp.linear(x, x, gp.ones(256, "float64"), precision="float64_int8"), sm=89
    )
    assert "unfused" in next(c["text"] for c in layer.candidates if c["text"].startswith("ozaki"))


@pytest.mark.usefixtures("kept_precision")
def test_slices_of_all_float64_calls() -> None:
    x = square("float64")
    gp.set_matmul_precision("float64_int8")
    assert gp.get_matmul_precision() == "float64_int8"
    assert "float64_int8" in str(gp.explain_matmul(lambda: x @ x, sm=89))
    assert "float64_int8" in str(gp.explain_matmul(lambda: gp.linear(x, x), sm=89))
    plain = gp.explain_matmul(lambda: gp.matmul(x, x, precision="float32"), sm=89)
    assert "float64_int8" not in str(plain)
    y = square()
    assert "tf32" not in str(gp.explain_matmul(lambda: y @ y, sm=89))


def test_slices_refused() -> None:
    for dtype in ("float32", "complex128", "int64"):
        x = square(dtype)
        with pytest.raises(
            TypeError,
            match=f"matmul: precision is 'float64_int8', operands are {dtype}, expected float64",
        ):
            gp.matmul(x, x, precision="float64_int8")


@pytest.mark.skipif(not _native.nvrtc_info()["available"], reason="NVRTC is not installed")
@pytest.mark.parametrize("device", ["sm_80", "sm_90a"])
def test_slices_in_the_simulator(device: str) -> None:
    code = (
        "from cases import float64_int8 as f\n"
        "[f.run(case) for case in f.CASES]\n"
        "f.run_overflow(), f.run_same_bits()\n"
        "print('passed')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYGPUKIT_DEVICE": f"sim:{device}", "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout.endswith("passed\n"), done.stderr[-2000:]
