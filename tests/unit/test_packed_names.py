"""The names of 0.2 for FP8 block weights and NVF4, called and compared with NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pygpukit as gp

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def bf16(x: NDArray[Any]) -> gp.GPUArray:
    return gp.from_numpy(x.astype(ml_dtypes.bfloat16))


def wide(x: gp.GPUArray) -> NDArray[Any]:
    return x.to_numpy().astype(np.float64)


def fp8_weight(rng: np.random.Generator, *shape: int) -> tuple[Any, Any, NDArray[Any]]:
    """Bytes [..., n, k], bfloat16 scales, and the numbers they stand for."""
    values = rng.standard_normal(shape).astype(ml_dtypes.float8_e4m3fn)
    *lead, n, k = shape
    scale = rng.uniform(0.5, 2, (*lead, -(-n // 128), -(-k // 128))).astype(ml_dtypes.bfloat16)
    spread = np.repeat(np.repeat(scale.astype(np.float64), 128, -2), 128, -1)[..., :n, :k]
    return values.view(np.uint8), scale, values.astype(np.float64) * spread


def close(got: gp.GPUArray, want: NDArray[Any], rtol: float = 2**-8) -> None:
    np.testing.assert_allclose(wide(got), want, rtol=rtol, atol=rtol * np.abs(want).max() * 2)
    assert got.dtype.name == "bfloat16"


@pytest.mark.parametrize(("n", "k"), [(130, 264), (8, 128), (5, 33)])
def test_fp8_weights(n: int, k: int) -> None:
    rng = np.random.default_rng(n)
    values, scale, numbers = fp8_weight(rng, n, k)
    x = bf16(rng.standard_normal((3, k)))
    w, s = gp.from_numpy(values), gp.from_numpy(scale)
    want = wide(x) @ numbers.T
    close(gp.gemv_fp8_bf16_batched(x, w, s), want)
    close(gp.gemv_fp8_bf16(x[0], w, s), want[0])
    close(
        gp.w8a16_gemm_sm120(x, gp.from_numpy(values.T.copy()), gp.from_numpy(scale.T.copy())), want
    )
    out = gp.zeros((3, n), "bfloat16")
    assert gp.gemv_fp8_bf16_batched(x, w, s, out=out) is out
    close(out, want)


def test_fp8_experts() -> None:
    rng = np.random.default_rng(3)
    values, scale, numbers = fp8_weight(rng, 3, 140, 160)
    x = bf16(rng.standard_normal((6, 160)))
    ids = np.array([2, 0, 1, 2, -1, 0], np.int32)
    got = gp.grouped_gemm_fp8_bf16(
        x, gp.from_numpy(values), gp.from_numpy(scale), gp.from_numpy(ids)
    )
    want = np.stack(
        [numbers[e] @ row if e >= 0 else np.zeros(140) for e, row in zip(ids, wide(x), strict=True)]
    )
    close(got, want)


def decode(data: NDArray[Any], scale: NDArray[Any], k: int) -> NDArray[Any]:
    """NVF4 of 0.2 by its description."""
    codes = np.stack([data & 15, data >> 4], 1).reshape(-1, data.shape[1])[:k]
    bits = scale.astype(np.int64)
    factor = (1 + (bits & 7) / 8) * 2.0 ** ((bits >> 3 & 15) - 7)
    return np.asarray(E2M1[codes] * np.repeat(factor, 32, 0)[:k])


@pytest.mark.parametrize("k", [2, 64, 100])
def test_nvf4_round_trip(k: int) -> None:
    rng = np.random.default_rng(k)
    x = bf16(rng.standard_normal((k, 7)) * 3)
    data = gp.zeros((k // 2, 7), "uint8")
    scale = gp.zeros((-(-k // 32), 7), "uint8")
    assert gp.quantize_bf16_to_nvf4(x, data, scale) is None
    numbers = decode(data.to_numpy(), scale.to_numpy(), k)
    padded = np.pad(np.abs(wide(x)), ((0, -k % 32), (0, 0)))
    largest = np.repeat(padded.reshape(-1, 32, 7).max(1), 32, 0)[:k]
    # Half of the widest step, 2 of 6, and the scale's own rounding.
    assert np.all(np.abs(numbers - wide(x)) <= largest * (1 / 6 + 1 / 16))
    a = bf16(rng.standard_normal(k))
    close(gp.gemv_nvf4_bf16(a, data, scale, alpha=0.5), 0.5 * (wide(a) @ numbers))


def test_nvf4_takes_every_scale_byte() -> None:
    data = gp.full((16, 128), 0x22, dtype="uint8")  # ones
    scale = gp.from_numpy(np.arange(128, dtype=np.uint8)[None])
    a = bf16(np.eye(1, 32)[0])
    want = decode(np.full((16, 128), 0x22, np.uint8), scale.to_numpy(), 32)[0]
    np.testing.assert_array_equal(wide(gp.gemv_nvf4_bf16(a, data, scale)), want)


def test_nvf4_of_equal_inputs_is_exact() -> None:
    twos = gp.full((128, 128), 2.0, dtype="bfloat16")
    np.testing.assert_array_equal(wide(gp.matmul_nvf4_bf16_sm120(twos, twos)), 512.0)
    assert gp.matmul_nvf4_bf16_sm120(twos[:0], twos).shape == (0, 128)


def test_errors() -> None:
    x, w = gp.ones((2, 128), "bfloat16"), gp.zeros((8, 128), "uint8")
    s = gp.ones((1, 1), "bfloat16")
    with pytest.raises(TypeError, match="gemv_fp8_bf16_batched: a has dtype float32, expected bfl"):
        gp.gemv_fp8_bf16_batched(gp.ones((2, 128)), w, s)
    with pytest.raises(ValueError, match=r"gemv_fp8_bf16: a has shape \(2, 128\), expected 1 dim"):
        gp.gemv_fp8_bf16(x, w, s)
    with pytest.raises(ValueError, match=r"b_scale has shape \(1, 1\), expected \(2, 1\)"):
        gp.gemv_fp8_bf16_batched(x, gp.zeros((129, 128), "uint8"), s)
    with pytest.raises(ValueError, match=r"a has shape \(2, 128\), expected \(2, 64\)"):
        gp.gemv_fp8_bf16_batched(x, w[:, :64], s)
    with pytest.raises(ValueError, match=r"w8a16_gemm_sm120: b_fp8 has shape \(8, 128\), expected"):
        gp.w8a16_gemm_sm120(x, w, s)
    with pytest.raises(TypeError, match="row_expert_ids has dtype int64, expected int32"):
        gp.grouped_gemm_fp8_bf16(x, w[None], s[None], gp.zeros(2, "int64"))
    with pytest.raises(ValueError, match="out_scale has 3 elements, expected at least 4"):
        gp.quantize_bf16_to_nvf4(
            gp.ones((32, 4), "bfloat16"), gp.zeros(64, "uint8"), gp.zeros(3, "uint8")
        )
    with pytest.raises(ValueError, match="expected an even k"):
        gp.quantize_bf16_to_nvf4(gp.ones((31, 4), "bfloat16"), w, w)
    with pytest.raises(ValueError, match=r"gemv_nvf4_bf16: b_data has shape \(8, 128\), expected"):
        gp.gemv_nvf4_bf16(x[0], w, w)
    with pytest.raises(ValueError, match="matmul_nvf4_bf16_sm120: dimension mismatch"):
        gp.matmul_nvf4_bf16_sm120(x, x)
