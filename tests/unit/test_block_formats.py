"""mxfp8, mxfp4 and nvfp4 times activations in the same format: gp.linear(quantize_input=True)."""

from __future__ import annotations

import numpy as np
import pytest
from cases import quantize as cases
from cases.run_quantize import host, rounded_rows, run_quantized_input

import pygpukit as gp


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("shape", [(20, 136), (7, 33), (1, 1), (40, 512)], ids=str)
@pytest.mark.parametrize("fmt", cases.BLOCK_FORMATS)
def test_linear(fmt: str, shape: tuple[int, int], dtype: str) -> None:
    run_quantized_input(fmt, 5, shape, dtype)


@pytest.mark.parametrize("fmt", cases.BLOCK_FORMATS)
def test_rows_do_not_depend_on_each_other(fmt: str) -> None:
    packed = gp.quantize(gp.from_numpy(cases.weights((24, 96), "bfloat16")), fmt)
    x = cases.weights((6, 96), "bfloat16", 3)
    x[4] *= 1000
    rows = gp.from_numpy(x)
    whole = host(gp.linear(rows, packed, quantize_input=True))
    for i in range(6):
        one = host(gp.linear(rows[i : i + 1], packed, quantize_input=True))
        np.testing.assert_array_equal(one[0], whole[i])


@pytest.mark.parametrize("fmt", cases.BLOCK_FORMATS)
def test_swiglu_norm_and_leading_dimensions(fmt: str) -> None:
    packed = gp.quantize(gp.from_numpy(cases.weights((24, 64), "float32")), fmt)
    x = gp.from_numpy(cases.weights((6, 64), "float32", 3))
    gate, up = np.split(rounded_rows(x, fmt) @ host(packed.dequantize("float32")).T, 2, axis=-1)
    y = gp.linear(x.reshape((2, 3, 64)), packed, activation="swiglu", quantize_input=True)
    assert y.shape == (2, 3, 12)
    want = gate / (1 + np.exp(-gate)) * up
    np.testing.assert_allclose(host(y).reshape(6, 12), want, rtol=1e-3, atol=1e-3)
    norm = gp.full(64, 0.5)
    y = gp.linear(x, packed, norm=norm, eps=1e-6, quantize_input=True)
    want = rounded_rows(gp.rmsnorm(x, norm, eps=1e-6), fmt) @ host(packed.dequantize("float32")).T
    np.testing.assert_allclose(host(y), want, rtol=1e-4, atol=1e-4)


def test_zeros_and_large_numbers() -> None:
    for fmt in cases.BLOCK_FORMATS:
        packed = gp.quantize(gp.ones((4, 64)), fmt)
        zeros = gp.linear(gp.zeros((3, 64)), packed, quantize_input=True)
        np.testing.assert_array_equal(host(zeros), 0)
        y = host(gp.linear(gp.full((2, 64), 1e30), packed, quantize_input=True))
        np.testing.assert_allclose(y, 64e30, rtol=0.5)


def test_native_where_there_is_one() -> None:
    for fmt in cases.BLOCK_FORMATS:
        packed = gp.quantize(gp.ones((256, 512), dtype="bfloat16"), fmt)
        x = gp.ones((100, 512), dtype="bfloat16")

        def run(x: gp.GPUArray = x, packed: gp.PackedWeight = packed) -> gp.GPUArray:
            return gp.linear(x, packed, quantize_input=True)

        first = {
            sm: str(gp.explain_matmul(run, sm=sm).candidates[0]["text"]) for sm in (90, 100, 120)
        }
        assert first[90].startswith("dequantize(")
        assert first[100].startswith("dequantize(")
        assert first[120].startswith("scaled_mma(")


def test_errors() -> None:
    packed = gp.quantize(gp.ones((4, 64)), "nvfp4")
    for option in ({"few_rows": True}, {"batch_invariant": True}):
        with pytest.raises(ValueError, match="quantize_input goes neither with few_rows nor with"):
            gp.linear(gp.ones((2, 64)), packed, quantize_input=True, **option)
    with pytest.raises(ValueError, match="w is nf4, group 64; expected int8 or fp8 with a scale"):
        gp.linear(gp.ones((2, 64)), gp.quantize(gp.ones((4, 64)), "nf4"), quantize_input=True)
