"""precision= of float32 products: plans, errors, and what refuses it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import pygpukit as gp


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
