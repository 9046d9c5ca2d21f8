"""The names that 0.2 had for linear layers with FP8 weights in blocks of 128 x 128 and with NVF4.

NVF4 of 0.2 is e2m1 along k, low nibble first, in arrays [k / 2, n], with a scale per 32 of k whose
byte means (1 + m / 8) * 2^(e - 7): no subnormals, no NaN, so not e4m3. quantize(w, "nvfp4") is the
published format (e4m3 per 16 of k, one float32 per weight).
"""

from __future__ import annotations

from pygpukit import _native
from pygpukit._native import GPUArray, PackedWeight
from pygpukit.core.arguments import require_arrays
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.conversion import asarray

_BLOCK = 128  # of FP8 scales, both ways
_GROUP = 32  # of NVF4 scales, along k
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _check(op: str, name: str, x: GPUArray, dtype: str, shape: tuple[int, ...] | int) -> None:
    """x has that dtype, and that shape or number of dimensions."""
    if x.dtype.name != dtype:
        raise InvalidTypeError(f"{op}: {name} has dtype {x.dtype}, expected {dtype}")
    if isinstance(shape, int):
        if x.ndim != shape:
            raise InvalidValueError(
                f"{op}: {name} has shape {x.shape}, expected {shape} dimensions"
            )
    elif x.shape != shape:
        raise InvalidValueError(f"{op}: {name} has shape {x.shape}, expected {shape}")


def _blocks(size: int) -> int:
    return -(-size // _BLOCK)


# --- FP8 weights with scales per block ----------------------------------------------------------


def _pad_rows(values: GPUArray) -> GPUArray:
    """Rows of bytes, padded with zeros to a multiple of 16."""
    rows, size = values.shape
    if size % 16 == 0:
        return _native.ascontiguousarray(values)
    padded = _native.zeros((rows, -(-size // 16) * 16), "uint8", device=values.device)
    _native.copy_into(padded[:, :size], values)
    return padded


def _fp8_weight(values: GPUArray, scale: GPUArray) -> PackedWeight:
    """Bytes [n, k] and bfloat16 scales [n / 128, k / 128]."""
    return PackedWeight(
        _pad_rows(values),
        _native.ascontiguousarray(_native.astype(scale, "float32")),
        format="fp8",
        block=True,
        shape=values.shape,
        dtype="bfloat16",
    )


def _fp8_linear(
    op: str, a: GPUArray, b: GPUArray, scale: GPUArray, out: GPUArray | None
) -> GPUArray:
    """a [..., k] times bytes [n, k]; arguments are checked but for those of b and its scales."""
    _check(op, "b_nk", b, "uint8", 2)
    n, k = b.shape
    _check(op, "b_scale", scale, "bfloat16", (_blocks(n), _blocks(k)))
    _check(op, "a", a, "bfloat16", (*a.shape[:-1], k))
    return _native.linear(a, _fp8_weight(b, scale), out=out)


def gemv_fp8_bf16(
    a: GPUArray, b_nk: GPUArray, b_scale: GPUArray, *, out: GPUArray | None = None
) -> GPUArray:
    """a [k] times FP8 weights: bytes [n, k], bfloat16 scales per 128 x 128; bfloat16 [n].

    New code packs the weights once, PackedWeight(..., format="fp8", block=True), and uses linear.
    """
    require_arrays("gemv_fp8_bf16", a=a, b_nk=b_nk, b_scale=b_scale)
    _check("gemv_fp8_bf16", "a", a, "bfloat16", 1)
    return _fp8_linear("gemv_fp8_bf16", a, b_nk, b_scale, out)


def gemv_fp8_bf16_batched(
    a: GPUArray, b_nk: GPUArray, b_scale: GPUArray, *, out: GPUArray | None = None
) -> GPUArray:
    """gemv_fp8_bf16 of rows: a [m, k] gives [m, n]."""
    require_arrays("gemv_fp8_bf16_batched", a=a, b_nk=b_nk, b_scale=b_scale)
    _check("gemv_fp8_bf16_batched", "a", a, "bfloat16", 2)
    return _fp8_linear("gemv_fp8_bf16_batched", a, b_nk, b_scale, out)


def w8a16_gemm_sm120(
    a: GPUArray, b_fp8: GPUArray, b_scale: GPUArray, *, out: GPUArray | None = None
) -> GPUArray:
    """a [m, k] times FP8 weights [k, n] with bfloat16 scales [k / 128, n / 128]; bfloat16.

    The weights are transposed at every call; gemv_fp8_bf16_batched takes them as [n, k].
    """
    op = "w8a16_gemm_sm120"
    require_arrays(op, a=a, b_fp8=b_fp8, b_scale=b_scale)
    _check(op, "a", a, "bfloat16", 2)
    _check(op, "b_fp8", b_fp8, "uint8", (a.shape[1], b_fp8.shape[-1]))
    _check(op, "b_scale", b_scale, "bfloat16", tuple(_blocks(size) for size in b_fp8.shape))
    return _fp8_linear(op, a, b_fp8.T, b_scale.T, out)


def grouped_gemm_fp8_bf16(
    a: GPUArray,
    b_stacked: GPUArray,
    b_scale: GPUArray,
    row_expert_ids: GPUArray,
    *,
    out: GPUArray | None = None,
) -> GPUArray:
    """Row i of a [m, k] times the FP8 weights of expert row_expert_ids[i]; bfloat16 [m, n].

    b_stacked is uint8 [experts, n, k], b_scale bfloat16 [experts, n / 128, k / 128], the ids int32.
    Rows of no expert (an id out of range) are zero.
    """
    op = "grouped_gemm_fp8_bf16"
    require_arrays(op, a=a, b_stacked=b_stacked, b_scale=b_scale, row_expert_ids=row_expert_ids)
    _check(op, "b_stacked", b_stacked, "uint8", 3)
    experts, n, k = b_stacked.shape
    _check(op, "a", a, "bfloat16", 2)
    _check(op, "a", a, "bfloat16", (a.shape[0], k))
    _check(op, "b_scale", b_scale, "bfloat16", (experts, _blocks(n), _blocks(k)))
    _check(op, "row_expert_ids", row_expert_ids, "int32", (a.shape[0],))
    # A stack has its scales by row: those of 128 rows are equal.
    scales = _native.repeat(_native.astype(b_scale, "float32"), _BLOCK, axis=1)[:, :n]
    weights = PackedWeight(
        _pad_rows(_native.reshape(b_stacked, (experts * n, k))),
        _native.reshape(_native.ascontiguousarray(scales), (experts * n, _blocks(k))),
        format="fp8",
        group=_BLOCK,
        shape=b_stacked.shape,
        dtype="bfloat16",
    ).dequantize("bfloat16")
    return _native.grouped_gemm(a, weights, expert_ids=row_expert_ids, out=out)


gemv_fp8_bf16_sm120 = gemv_fp8_bf16
gemm_w8a16_bf16_sm120 = w8a16_gemm_sm120


# --- NVF4 ---------------------------------------------------------------------------------------


def _nvf4_codes(x: GPUArray) -> tuple[GPUArray, GPUArray]:
    """float32 [k, n], k a multiple of 32: e2m1 codes [k, n] and scale bytes [k / 32, n]."""
    k, n = x.shape
    groups = _native.reshape(x, (k // _GROUP, _GROUP, n))
    largest = _native.max(_native.abs(groups), axis=1) / _E2M1[-1]
    # Three bits of mantissa, rounded to nearest, with a bias of 7.
    bits = (largest.view("uint32") + (1 << 19)) >> 20
    code = _native.clip(_native.astype(bits, "int32") - (120 << 3), 0, 127)
    scaled = groups / _native.expand_dims(_nvf4_scales(code), 1)
    magnitude = _native.abs(scaled)
    codes = _native.astype(scaled < 0.0, "uint8") * 8
    for i in range(7):  # halfway between neighbours: to the even code
        middle = 0.5 * (_E2M1[i] + _E2M1[i + 1])
        above = magnitude > middle if i % 2 == 0 else magnitude >= middle
        codes = codes + _native.astype(above, "uint8")
    return _native.reshape(codes, (k, n)), _native.astype(code, "uint8")


def _nvf4_scales(code: GPUArray) -> GPUArray:
    """The float32 scales of bytes."""
    bits = (_native.astype(code, "int32") & 127) << 20
    return (bits + (120 << 23)).view("float32")


def _nvf4_numbers(data: GPUArray, scale: GPUArray, k: int) -> GPUArray:
    """bfloat16 [k, n] of NVF4 [k / 2, n]: exact, products of 2 and 4 bits."""
    pairs = _native.stack([data & 15, data >> 4], axis=1)
    nibbles = _native.reshape(pairs, (2 * data.shape[0], data.shape[1]))
    table = asarray([*_E2M1, *(-x for x in _E2M1)], "float32", device=data.device)
    values = _native.take(table, _native.astype(nibbles, "int32"))
    wide = _native.repeat(_nvf4_scales(scale), _GROUP, axis=0)[:k]
    return _native.astype(values * wide, "bfloat16")


def quantize_bf16_to_nvf4(x: GPUArray, out_data: GPUArray, out_scale: GPUArray) -> None:
    """bfloat16 [k, n] as 0.2's NVF4, k even: bytes [k / 2, n], and [ceil(k / 32), n] for scales.

    The outputs are uint8 of at least nvf4_get_sizes(k, n) elements, filled from their start.
    Scales are the largest magnitude of 32 over 6, values are rounded to nearest even.
    """
    op = "quantize_bf16_to_nvf4"
    require_arrays(op, x=x, out_data=out_data, out_scale=out_scale)
    _check(op, "x", x, "bfloat16", 2)
    k, n = x.shape
    if k % 2 != 0:
        raise InvalidValueError(f"{op}: x has shape {x.shape}, expected an even k")
    groups = -(-k // _GROUP)
    for name, buffer, size in (
        ("out_data", out_data, k // 2 * n),
        ("out_scale", out_scale, groups * n),
    ):
        _check(op, name, buffer, "uint8", buffer.ndim)
        if buffer.size < size:
            raise InvalidValueError(
                f"{op}: {name} has {buffer.size} elements, expected at least {size}"
            )
        if not buffer.is_contiguous():
            raise InvalidValueError(f"{op}: {name} is strided, expected a contiguous array")
    if x.size == 0:
        return
    wide = _native.zeros((groups * _GROUP, n), "float32", device=x.device)
    _native.copy_into(wide[:k], _native.astype(x, "float32"))
    codes, scales = _nvf4_codes(wide)
    packed = codes[0:k:2] | (codes[1:k:2] << 4)
    for buffer, values in ((out_data, packed), (out_scale, scales)):
        flat = _native.reshape(values, (-1,))
        _native.copy_into(_native.reshape(buffer, (-1,))[: flat.size], flat)


def gemv_nvf4_bf16(
    a: GPUArray,
    b_data: GPUArray,
    b_scale: GPUArray,
    *,
    out: GPUArray | None = None,
    alpha: float = 1.0,
) -> GPUArray:
    """alpha * (a @ b): a bfloat16 [k], b in 0.2's NVF4; bfloat16 [n].

    b_data is uint8 [k / 2, n], b_scale uint8 [ceil(k / 32), n]. New code uses linear with
    quantize(w, "nvfp4"), which reads 4 bits per weight; here they become bfloat16 first.
    """
    op = "gemv_nvf4_bf16"
    require_arrays(op, a=a, b_data=b_data, b_scale=b_scale)
    _check(op, "a", a, "bfloat16", 1)
    k = a.shape[0]
    if k % 2 != 0:
        raise InvalidValueError(f"{op}: a has shape {a.shape}, expected an even k")
    _check(op, "b_data", b_data, "uint8", (k // 2, b_data.shape[-1]))
    _check(op, "b_scale", b_scale, "uint8", (-(-k // _GROUP), b_data.shape[-1]))
    return _native.matmul(a, _nvf4_numbers(b_data, b_scale, k), out, alpha=alpha)


def matmul_nvf4_bf16_sm120(a: GPUArray, b: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
    """a @ b of bfloat16 matrices, both quantised to nvfp4 along k on the way; bfloat16."""
    op = "matmul_nvf4_bf16_sm120"
    require_arrays(op, a=a, b=b)
    for name, x in (("a", a), ("b", b)):
        _check(op, name, x, "bfloat16", 2)
    if a.shape[1] != b.shape[0]:
        raise InvalidValueError(
            f"{op}: dimension mismatch: a has shape {a.shape}, b has shape {b.shape}"
        )
    if a.size == 0 or b.size == 0:  # nothing to find a scale in
        return _native.matmul(a, b, out)
    return _native.linear(
        _native.quantize(a, "nvfp4").dequantize(),
        _native.quantize(_native.ascontiguousarray(b.T), "nvfp4"),
        out=out,
    )


__all__ = [
    "gemm_w8a16_bf16_sm120",
    "gemv_fp8_bf16",
    "gemv_fp8_bf16_batched",
    "gemv_fp8_bf16_sm120",
    "gemv_nvf4_bf16",
    "grouped_gemm_fp8_bf16",
    "matmul_nvf4_bf16_sm120",
    "quantize_bf16_to_nvf4",
    "w8a16_gemm_sm120",
]
