"""FP8 and INT8 GEMM, and the names 0.2 had for it.

Weight-only formats (FP8 weights with block scales, NVF4) are not supported: those functions raise
NotImplementedError, and their *_available() is False.
"""

from __future__ import annotations

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.arguments import require_arrays
from pygpukit.core.errors import InvalidTypeError, InvalidValueError, UnsupportedError
from pygpukit.ops._declared import low_precision as _declared
from pygpukit.ops._declared.low_precision import *  # noqa: F403

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


matmul_fp8_sm90 = _native.matmul_fp8
matmul_fp8_sm100 = _native.matmul_fp8
matmul_fp8_sm120 = _native.matmul_fp8
gemm_fp8_f32_sm90 = _native.matmul_fp8
gemm_fp8_f32_sm100 = _native.matmul_fp8
gemm_fp8_f32_sm120 = _native.matmul_fp8


def matmul_fp8_fp8_sm120(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """a @ b of uint8 matrices that hold e4m3 bits; the result does too.

    Without scales; results saturate at 448. New code uses float8_e4m3fn arrays and
    scaled_matmul.
    """
    require_arrays("matmul_fp8_fp8_sm120", a=a, b=b)
    op = "matmul_fp8_fp8_sm120"
    for name, x in (("a", a), ("b", b)):
        if x.dtype.name != "uint8":
            raise InvalidTypeError(f"{op}: {name} has dtype {x.dtype}, expected uint8")
        if x.ndim != 2:
            raise InvalidValueError(f"{op}: requires 2D arrays, {name} has shape {x.shape}")
    product = _native.scaled_matmul(a.view("float8_e4m3fn"), b.view("float8_e4m3fn"), 1.0, 1.0)
    limited = _native.clip(product, -448.0, 448.0)
    result = _native.astype(limited, "float8_e4m3fn").view("uint8")
    if out is None:
        return result
    if out.shape != result.shape:
        raise InvalidValueError(f"{op}: out has shape {out.shape}, the result has {result.shape}")
    if out.dtype.name != "uint8":
        raise InvalidTypeError(f"{op}: out has dtype {out.dtype}, expected uint8")
    _native.copy_into(out, result)
    return out


gemm_fp8_fp8_sm120 = matmul_fp8_fp8_sm120


# --- device capabilities -----------------------------------------------------------------------


def _sm() -> int:
    """Architecture of the default GPU; 0 on CPU simulation."""
    device, _ = _native.default_device()
    if device == "cpu":
        return 0
    sm: int = _native.device_traits(device)["sm"]
    return sm


def fp8_available() -> bool:
    """Whether the default device has tensor cores for FP8: SM 89 and newer."""
    return _sm() >= 89


def fp8_sm90_available() -> bool:
    """Whether the default device has the FP8 tensor cores of SM 90."""
    return 90 <= _sm() < 100


def fp8_sm100_available() -> bool:
    """Whether the default device has the FP8 tensor cores of SM 100."""
    return 100 <= _sm() < 120


def fp8_sm120_available() -> bool:
    """Whether the default device has the FP8 tensor cores of SM 120."""
    return _sm() >= 120


def fp8_fp8_sm120_available() -> bool:
    """Whether the default device has the FP8 tensor cores of SM 120."""
    return _sm() >= 120


def nvf4_bf16_sm120_available() -> bool:
    """False: NVF4 GEMM is not supported."""
    return False


def gemv_nvf4_available() -> bool:
    """False: NVF4 GEMM is not supported."""
    return False


gemm_fp8_f32_sm90_available = fp8_sm90_available
gemm_fp8_f32_sm100_available = fp8_sm100_available
gemm_fp8_f32_sm120_available = fp8_sm120_available
gemm_fp8_fp8_sm120_available = fp8_fp8_sm120_available
gemm_nvf4_bf16_sm120_available = nvf4_bf16_sm120_available


# --- sizes of packed weights --------------------------------------------------------------------


def fp8_get_sizes(K: int, N: int) -> tuple[int, int, int]:
    """Block scales of FP8 weights: blocks of 128 along K, along N, and their total bytes."""
    blocks_k, blocks_n = -(-K // 128), -(-N // 128)
    return blocks_k, blocks_n, 2 * blocks_k * blocks_n


def fp8_fp8_get_scale_sizes(M: int, N: int, K: int) -> tuple[int, int]:
    """(0, 0): block-scaled FP8 GEMM is not supported."""
    return 0, 0


def nvf4_get_sizes(K: int, N: int) -> tuple[int, int]:
    """Bytes of NVF4 weights [K, N], and of their scales."""
    return K // 2 * N, -(-K // 32) * N


gemv_nvf4_get_sizes = nvf4_get_sizes


def fp8_init_lut() -> None:
    """A no-op: there are no tables to build."""


w8a16_gemm_init_lut = fp8_init_lut
grouped_gemm_init_lut = fp8_init_lut


# --- not supported ------------------------------------------------------------------------------


def _missing(op: str, what: str, instead: str) -> NoReturn:
    raise UnsupportedError(f"{op}: {what} is not supported; {instead}")


_BLOCK_SCALED = "GEMM with FP8 weights and scales per block of 128 x 128"
_NVF4 = "NVF4 GEMM"
_DEQUANTIZE = "dequantize the weights to bfloat16 and use linear or grouped_gemm"


def matmul_fp8_fp8_blockwise_sm120(
    a: GPUArray,
    b: GPUArray,
    scale_a: GPUArray,
    scale_b: GPUArray,
    *,
    out: GPUArray | None = None,
) -> GPUArray:
    """Raises NotImplementedError: block-scaled FP8 GEMM is not supported."""
    _missing(
        "matmul_fp8_fp8_blockwise_sm120",
        "FP8 GEMM with scales per block",
        "scaled_matmul supports a scale per matrix, row or column",
    )


def gemv_fp8_bf16(
    a: GPUArray, b_nk: GPUArray, b_scale: GPUArray, *, out: GPUArray | None = None
) -> GPUArray:
    """Raises NotImplementedError: FP8 weights with block scales are not supported."""
    _missing("gemv_fp8_bf16", _BLOCK_SCALED, _DEQUANTIZE)


def gemv_fp8_bf16_batched(
    a: GPUArray, b_nk: GPUArray, b_scale: GPUArray, *, out: GPUArray | None = None
) -> GPUArray:
    """Raises NotImplementedError: FP8 weights with block scales are not supported."""
    _missing("gemv_fp8_bf16_batched", _BLOCK_SCALED, _DEQUANTIZE)


def w8a16_gemm_sm120(
    a: GPUArray, b_fp8: GPUArray, b_scale: GPUArray, *, out: GPUArray | None = None
) -> GPUArray:
    """Raises NotImplementedError: FP8 weights with block scales are not supported."""
    _missing("w8a16_gemm_sm120", _BLOCK_SCALED, _DEQUANTIZE)


def grouped_gemm_fp8_bf16(
    a: GPUArray,
    b_stacked: GPUArray,
    b_scale: GPUArray,
    row_expert_ids: GPUArray,
    *,
    out: GPUArray | None = None,
) -> GPUArray:
    """Raises NotImplementedError: FP8 weights with block scales are not supported."""
    _missing("grouped_gemm_fp8_bf16", _BLOCK_SCALED, _DEQUANTIZE)


def quantize_bf16_to_nvf4(x: GPUArray, out_data: GPUArray, out_scale: GPUArray) -> None:
    """Raises NotImplementedError: NVF4 is not supported."""
    _missing("quantize_bf16_to_nvf4", "NVF4 quantization", "float8_e4m3fn needs twice the memory")


def gemv_nvf4_bf16(
    a: GPUArray,
    b_data: GPUArray,
    b_scale: GPUArray,
    *,
    out: GPUArray | None = None,
    alpha: float = 1.0,
) -> GPUArray:
    """Raises NotImplementedError: NVF4 is not supported."""
    _missing("gemv_nvf4_bf16", _NVF4, _DEQUANTIZE)


def matmul_nvf4_bf16_sm120(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """Raises NotImplementedError: NVF4 is not supported."""
    _missing("matmul_nvf4_bf16_sm120", _NVF4, "matmul supports bfloat16 directly")


gemv_fp8_bf16_sm120 = gemv_fp8_bf16
gemm_w8a16_bf16_sm120 = w8a16_gemm_sm120

__all__ = [
    "fp8_available",
    "fp8_fp8_get_scale_sizes",
    "fp8_fp8_sm120_available",
    "fp8_get_sizes",
    "fp8_init_lut",
    "fp8_sm90_available",
    "fp8_sm100_available",
    "fp8_sm120_available",
    "gemm_fp8_f32_sm90",
    "gemm_fp8_f32_sm90_available",
    "gemm_fp8_f32_sm100",
    "gemm_fp8_f32_sm100_available",
    "gemm_fp8_f32_sm120",
    "gemm_fp8_f32_sm120_available",
    "gemm_fp8_fp8_sm120",
    "gemm_fp8_fp8_sm120_available",
    "gemm_nvf4_bf16_sm120_available",
    "gemm_w8a16_bf16_sm120",
    "gemv_fp8_bf16",
    "gemv_fp8_bf16_batched",
    "gemv_fp8_bf16_sm120",
    "gemv_nvf4_available",
    "gemv_nvf4_bf16",
    "gemv_nvf4_get_sizes",
    "grouped_gemm_fp8_bf16",
    "grouped_gemm_init_lut",
    "matmul_fp8_fp8_blockwise_sm120",
    "matmul_fp8_fp8_sm120",
    "matmul_fp8_sm90",
    "matmul_fp8_sm100",
    "matmul_fp8_sm120",
    "matmul_nvf4_bf16_sm120",
    "nvf4_bf16_sm120_available",
    "nvf4_get_sizes",
    "quantize_bf16_to_nvf4",
    "w8a16_gemm_init_lut",
    "w8a16_gemm_sm120",
]
__all__ += _declared.__all__
