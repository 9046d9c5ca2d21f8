"""FP8 and INT8 GEMM, and the names 0.2 had for them and for packed weights.

The names of 0.2 take weights as bytes and convert them at every call; quantize() packs them once.
All run on every device: *_available() says whether the tensor cores of its name are there.
"""

from __future__ import annotations

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.core.arguments import require_arrays
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops._declared import low_precision as _declared
from pygpukit.ops._declared.low_precision import *  # noqa: F403
from pygpukit.ops.packed_names import *  # noqa: F403

matmul_fp8_sm90 = _native.matmul_fp8
matmul_fp8_sm100 = _native.matmul_fp8
matmul_fp8_sm120 = _native.matmul_fp8
gemm_fp8_f32_sm90 = _native.matmul_fp8
gemm_fp8_f32_sm100 = _native.matmul_fp8
gemm_fp8_f32_sm120 = _native.matmul_fp8


def _check_bytes(op: str, a: GPUArray, b: GPUArray) -> None:
    for name, x in (("a", a), ("b", b)):
        if x.dtype.name != "uint8":
            raise InvalidTypeError(f"{op}: {name} has dtype {x.dtype}, expected uint8")
        if x.ndim != 2:
            raise InvalidValueError(f"{op}: requires 2D arrays, {name} has shape {x.shape}")
    if a.shape[1] != b.shape[0]:
        raise InvalidValueError(
            f"{op}: dimension mismatch: a has shape {a.shape}, b has shape {b.shape}"
        )


def _as_bytes(op: str, product: GPUArray, out: GPUArray | None) -> GPUArray:
    """float32 as e4m3 bits, saturated."""
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


def matmul_fp8_fp8_sm120(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """a @ b of uint8 matrices that hold e4m3 bits; the result does too.

    Without scales; results saturate at 448. New code uses float8_e4m3fn arrays and
    scaled_matmul.
    """
    require_arrays("matmul_fp8_fp8_sm120", a=a, b=b)
    op = "matmul_fp8_fp8_sm120"
    _check_bytes(op, a, b)
    product = _native.scaled_matmul(a.view("float8_e4m3fn"), b.view("float8_e4m3fn"), 1.0, 1.0)
    return _as_bytes(op, product, out)


gemm_fp8_fp8_sm120 = matmul_fp8_fp8_sm120


def _block_scales(op: str, name: str, x: GPUArray, shape: tuple[int, int]) -> GPUArray:
    if x.dtype.name != "float32":
        raise InvalidTypeError(f"{op}: {name} has dtype {x.dtype}, expected float32")
    if x.shape not in (shape, (shape[0] * shape[1],)):
        raise InvalidValueError(f"{op}: {name} has shape {x.shape}, expected {shape}")
    return _native.reshape(x, shape)


def matmul_fp8_fp8_blockwise_sm120(
    a: GPUArray,
    b: GPUArray,
    scale_a: GPUArray,
    scale_b: GPUArray,
    *,
    out: GPUArray | None = None,
) -> GPUArray:
    """a @ b of uint8 matrices that hold e4m3 bits, with float32 scales; the result holds them too.

    scale_a is [m, ceil(k / 128)], scale_b [ceil(k / 128), ceil(n / 128)], or flat arrays of
    fp8_fp8_get_scale_sizes(m, n, k) elements. Results saturate at 448. New code uses
    float8_e4m3fn arrays and scaled_matmul.
    """
    op = "matmul_fp8_fp8_blockwise_sm120"
    require_arrays(op, a=a, b=b, scale_a=scale_a, scale_b=scale_b)
    _check_bytes(op, a, b)
    (m, k), n = a.shape, b.shape[1]
    blocks = -(-k // 128)
    product = _native.scaled_matmul(
        a.view("float8_e4m3fn"),
        b.view("float8_e4m3fn"),
        _block_scales(op, "scale_a", scale_a, (m, blocks)),
        _block_scales(op, "scale_b", scale_b, (blocks, -(-n // 128))),
    )
    return _as_bytes(op, product, out)


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
    """Whether the default device has the FP4 tensor cores of SM 120."""
    return _sm() >= 120


def gemv_nvf4_available() -> bool:
    """Whether the default device has the FP4 tensor cores of SM 120."""
    return _sm() >= 120


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
    """Elements of the scales that matmul_fp8_fp8_blockwise_sm120 takes for a and for b."""
    blocks = -(-K // 128)
    return M * blocks, -(-N // 128) * blocks


def nvf4_get_sizes(K: int, N: int) -> tuple[int, int]:
    """Bytes of NVF4 weights [K, N], and of their scales."""
    return K // 2 * N, -(-K // 32) * N


gemv_nvf4_get_sizes = nvf4_get_sizes


def fp8_init_lut() -> None:
    """A no-op: there are no tables to build."""


w8a16_gemm_init_lut = fp8_init_lut
grouped_gemm_init_lut = fp8_init_lut


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
    "gemv_nvf4_available",
    "gemv_nvf4_get_sizes",
    "grouped_gemm_init_lut",
    "matmul_fp8_fp8_blockwise_sm120",
    "matmul_fp8_fp8_sm120",
    "matmul_fp8_sm90",
    "matmul_fp8_sm100",
    "matmul_fp8_sm120",
    "nvf4_bf16_sm120_available",
    "nvf4_get_sizes",
    "w8a16_gemm_init_lut",
]
__all__ += _declared.__all__
