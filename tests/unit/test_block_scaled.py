"""FP8 x FP8 with scales per 1 x 128 and 128 x 128: against float64 of the dequantised operands."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pygpukit as gp


def operand(rng: np.random.Generator, rows: int, k: int, block_rows: int) -> tuple[Any, Any, Any]:
    """e4m3 [rows, k], scales per block_rows x 128, and the numbers in float64."""
    values = rng.standard_normal((rows, k)).astype(ml_dtypes.float8_e4m3fn)
    scale = rng.uniform(0.1, 3, (-(-rows // block_rows), -(-k // 128))).astype(np.float32)
    spread = np.repeat(np.repeat(scale.astype(np.float64), block_rows, 0), 128, 1)[:rows, :k]
    return values, scale, values.astype(np.float64) * spread


def close(got: gp.GPUArray, want: NDArray[Any], rtol: float) -> None:
    error = np.abs(got.to_numpy().astype(np.float64) - want).max()
    assert error <= rtol * np.abs(want).max()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(5, 300, 400), (1, 1, 256), (130, 128, 128), (3, 7, 33), (3, 300, 33), (1, 130, 128)],
)
def test_scaled_matmul(m: int, n: int, k: int, dtype: Any) -> None:
    rng = np.random.default_rng(m + n + k)
    a, scale_a, wide_a = operand(rng, m, k, 1)
    b, scale_b, wide_b = operand(rng, n, k, 128)
    bias = gp.from_numpy(rng.standard_normal(n).astype(np.float32)).astype(dtype)
    got = gp.scaled_matmul(
        gp.from_numpy(a),
        gp.from_numpy(b).T,
        gp.from_numpy(scale_a),
        gp.from_numpy(np.ascontiguousarray(scale_b.T)),
        bias=bias,
        dtype=dtype,
    )
    assert got.dtype.name == dtype
    assert got.shape == (m, n)
    close(got, wide_a @ wide_b.T + bias.to_numpy().astype(np.float64), 2.0**-8)


def test_layouts_and_leading_dimensions() -> None:
    rng = np.random.default_rng(1)
    a, scale_a, wide_a = operand(rng, 6, 256, 1)
    b, scale_b, wide_b = operand(rng, 10, 256, 1)
    got = gp.scaled_matmul(
        gp.from_numpy(a.reshape(2, 3, 256)),
        gp.from_numpy(np.ascontiguousarray(b.T)),  # N-major, a scale per column and 128 of k
        gp.from_numpy(scale_a.reshape(2, 3, 2)),
        gp.from_numpy(np.ascontiguousarray(scale_b.T)),
    )
    close(got, (wide_a @ wide_b.T).reshape(2, 3, 10), 1e-6)


def test_name_of_0_2() -> None:
    rng = np.random.default_rng(2)
    a, scale_a, wide_a = operand(rng, 4, 300, 1)
    b, scale_b, wide_b = operand(rng, 200, 300, 128)
    sizes = gp.fp8_fp8_get_scale_sizes(4, 200, 300)
    assert sizes == (scale_a.size, scale_b.size)
    got = gp.matmul_fp8_fp8_blockwise_sm120(
        gp.from_numpy(a.view(np.uint8)),
        gp.from_numpy(np.ascontiguousarray(b.view(np.uint8).T)),
        gp.from_numpy(scale_a.ravel()),
        gp.from_numpy(np.ascontiguousarray(scale_b.T)),
    )
    want = np.clip(wide_a @ wide_b.T, -448, 448)
    close(got.view("float8_e4m3fn").astype("float32"), want, 1 / 15)
    with pytest.raises(ValueError, match=r"blockwise_sm120: scale_a has shape \(5,\), expected"):
        gp.matmul_fp8_fp8_blockwise_sm120(got, got.T, gp.ones(5), gp.ones(1))


def test_linear_quantizes_its_input_by_blocks() -> None:
    rng = np.random.default_rng(3)
    w = gp.from_numpy(rng.standard_normal((200, 384)).astype(np.float32))
    packed = gp.quantize(w, "fp8", block=True)
    x = gp.from_numpy(rng.standard_normal((9, 384)).astype(np.float32)).astype("bfloat16")
    got = gp.linear(x, packed, quantize_input=True)
    numbers = gp.quantize(x, "fp8", group=128).dequantize("float32").to_numpy().astype(np.float64)
    want = numbers @ packed.dequantize("float32").to_numpy().astype(np.float64).T
    close(got, want, 2.0**-8)
    with pytest.raises(ValueError, match="expected int8 or fp8 with a scale per row, fp8 in bl"):
        gp.linear(x, gp.quantize(w, "fp8", group=128), quantize_input=True)


def test_errors() -> None:
    a, b = (gp.zeros(shape, "float8_e4m3fn") for shape in ((2, 256), (256, 130)))
    with pytest.raises(TypeError, match="no engine takes them together"):
        gp.scaled_matmul(a, b, gp.ones((2, 2)), 1.0)
    with pytest.raises(ValueError, match=r"scale_a has shape \(2, 3\), expected one element"):
        gp.scaled_matmul(a, b, gp.ones((2, 3)), gp.ones((2, 2)))
    with pytest.raises(TypeError, match="b is float8_e5m2 with float32 scale per block of 128x128"):
        gp.scaled_matmul(a, b.astype("float8_e5m2"), gp.ones((2, 2)), gp.ones((2, 2)))
