"""Weights in 4 and 8 bits, and 2:4 sparse ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The quantiles that bitsandbytes documents.
NF4 = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ],
    np.float32,
)
_LARGEST = {
    "int8": 127.0,
    "int4": 7.0,
    "fp8": 448.0,
    "fp8_e5m2": 57344.0,
    "nvfp4": 6.0,
    "mxfp4": 6.0,
    "mxfp8": 448.0,
    "nf4": 1.0,
}
_FLOATS: dict[str, Any] = {
    "fp8": ml_dtypes.float8_e4m3fn,
    "mxfp8": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "nvfp4": ml_dtypes.float4_e2m1fn,
    "mxfp4": ml_dtypes.float4_e2m1fn,
}
_NIBBLES = ("int4", "nvfp4", "mxfp4", "nf4")
_EXPONENTS = {"mxfp4": 2, "mxfp8": 8}
_PLACES = np.array([0, 4, 8, 12], np.uint32)  # of the bits of four columns in 16 of them


def _spread(x: NDArray[Any], rows: int, k: int, group: int, scale_rows: int) -> NDArray[Any]:
    """One value per group as one per element of [rows, k]."""
    wide = np.repeat(np.repeat(x, scale_rows, axis=0)[:rows], group, axis=1)
    return wide[:, :k]


def _extremes(w: NDArray[Any], group: int, scale_rows: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The smallest and largest value of each group, 0 included."""
    rows, k = w.shape
    padded = np.pad(w, ((0, -rows % scale_rows), (0, -k % group)))
    shape = (padded.shape[0] // scale_rows, scale_rows, padded.shape[1] // group, group)
    blocks = padded.reshape(shape)
    return (
        np.minimum(blocks.min(axis=(1, 3)), np.float32(0)),
        np.maximum(blocks.max(axis=(1, 3)), np.float32(0)),
    )


def _scale_values(scales: NDArray[Any], tensor_scale: NDArray[Any] | None) -> NDArray[Any]:
    """Scales as float32."""
    if scales.dtype == np.uint8:
        return np.asarray(np.ldexp(np.float32(1), scales.astype(np.int32) - 127).astype(np.float32))
    wide = scales.astype(np.float32)
    return wide if tensor_scale is None else wide * tensor_scale.astype(np.float32)[:, None]


def _put_scales(
    out: NDArray[Any],
    lo: NDArray[Any],
    hi: NDArray[Any],
    format: str,
    zero_points: NDArray[Any] | None,
    tensor_scale: NDArray[Any] | None,
) -> None:
    amax = np.maximum(-lo, hi)
    if out.dtype == np.uint8:
        exponent = (amax.view(np.uint32) >> 23).astype(np.int32) - _EXPONENTS[format]
        out[...] = np.clip(exponent, 0, 254)
    elif tensor_scale is not None:
        whole = tensor_scale[:, None]  # of all rows, or of each
        scale = np.where(whole > 0, amax / np.float32(6) / whole, np.float32(0))
        out[...] = np.minimum(scale, np.float32(448)).astype(out.dtype)
    elif zero_points is not None:
        levels = np.float32(15 if format == "int4" else 255)
        scale = (hi - lo) / levels
        zero = np.rint(np.divide(-lo, scale, out=np.zeros_like(lo), where=scale > 0))
        zero_points[...] = np.minimum(zero, levels)
        out[...] = scale
    else:
        out[...] = amax / np.float32(_LARGEST[format])


def _encode(x: NDArray[Any], format: str, zero: NDArray[Any] | None) -> NDArray[Any]:
    """x, in units of the scale, as codes of 8 bits or of 4 in the low half."""
    if zero is not None:
        levels = 15 if format == "int4" else 255
        return np.asarray(np.clip(np.rint(x) + zero, 0, levels).astype(np.uint8))
    if format == "int8":
        return np.asarray(np.clip(np.rint(x), -128, 127).astype(np.int8).view(np.uint8))
    if format == "int4":
        return np.asarray(np.clip(np.rint(x), -8, 7).astype(np.int8).view(np.uint8) & np.uint8(15))
    if format == "nf4":
        middles = np.float32(0.5) * (NF4[:-1] + NF4[1:])
        return np.searchsorted(middles, x, side="left").astype(np.uint8)
    largest = np.float32(_LARGEST[format])
    return np.asarray(np.clip(x, -largest, largest).astype(_FLOATS[format]).view(np.uint8))


def quantize(
    w: NDArray[Any],
    *,
    out: tuple[NDArray[Any], NDArray[Any]],
    format: str,
    group: int,
    scale_rows: int,
    zero_points: NDArray[Any] | None,
    tensor_scale: NDArray[Any] | None,
) -> None:
    """out = (values, scales) of w [rows, k]; zero_points are written too

    values [rows, bytes] holds two 4-bit codes to a byte, low half first; scales have one element
    for scale_rows rows by group columns. Zeros past the last column.
    """
    values, scales = out
    rows, k = w.shape
    wide = w.astype(np.float32)
    with np.errstate(all="ignore"):
        lo, hi = _extremes(wide, group, scale_rows)
        _put_scales(scales, lo, hi, format, zero_points, tensor_scale)
        scale = _spread(_scale_values(scales, tensor_scale), rows, k, group, scale_rows)
        x = np.divide(wide, scale, out=np.zeros_like(wide), where=scale > 0)
        zero = None
        if zero_points is not None:
            zero = _spread(zero_points, rows, k, group, scale_rows).astype(np.float32)
        codes = _encode(x, format, zero)
    values[...] = 0
    if format in _NIBBLES:
        codes = np.pad(codes, ((0, 0), (0, k % 2)))
        codes = codes[:, 0::2] | codes[:, 1::2] << np.uint8(4)
    values[:, : codes.shape[1]] = codes


def quantize_rows(
    w: NDArray[Any],
    *,
    out: tuple[NDArray[Any], NDArray[Any]],
    format: str,
    group: int,
    row_scales: NDArray[Any] | None,
) -> None:
    """quantize of every row on its own; row_scales, the tensor scales of nvfp4, are written too"""
    if row_scales is not None:
        row_scales[...] = np.abs(w.astype(np.float32)).max(axis=1) / np.float32(448 * 6)
    quantize(
        w,
        out=out,
        format=format,
        group=group,
        scale_rows=1,
        zero_points=None,
        tensor_scale=row_scales,
    )


def dequantize(
    values: NDArray[Any],
    scales: NDArray[Any],
    *,
    out: NDArray[Any],
    format: str,
    group: int,
    scale_rows: int,
    zero_points: NDArray[Any] | None,
    tensor_scale: NDArray[Any] | None,
) -> None:
    """out [rows, k] = (code - zero point) * scale, computed in float32"""
    rows, k = out.shape
    codes = np.ascontiguousarray(values)
    if format in _NIBBLES:
        codes = np.stack([codes & np.uint8(15), codes >> np.uint8(4)], axis=-1).reshape(rows, -1)
    codes = np.ascontiguousarray(codes[:, :k])
    if zero_points is not None:
        zero = _spread(zero_points, rows, k, group, scale_rows)
        numbers = codes.astype(np.float32) - zero.astype(np.float32)
    elif format == "int8":
        numbers = codes.view(np.int8).astype(np.float32)
    elif format == "int4":
        numbers = ((codes ^ np.uint8(8)).astype(np.int16) - 8).astype(np.float32)
    elif format == "nf4":
        numbers = NF4[codes]
    else:
        numbers = codes.view(_FLOATS[format]).astype(np.float32)
    scale = _spread(_scale_values(scales, tensor_scale), rows, k, group, scale_rows)
    with np.errstate(all="ignore"):
        out[...] = (numbers * scale).astype(out.dtype)


def sparsify(w: NDArray[Any], *, out: tuple[NDArray[Any], NDArray[Any]]) -> None:
    """out = (values, metadata): of every four weights of a row the two of largest magnitude

    values [rows, columns] in order, 0 past the last. metadata [row blocks of 16, k blocks of 64,
    32]: word 4 g + t has columns 16 t to 16 t + 15 of rows g (low half) and g + 8, for each four
    columns two places of two bits, lowest first. Past the last row and column: 0 and 1.
    """
    values, metadata = out
    rows, k = w.shape
    groups = np.pad(w, ((0, -rows % 16), (0, -k % 64))).reshape(-1, metadata.shape[1] * 16, 4)
    # A stable sort: of equal magnitudes the first.
    place = np.argsort(-np.abs(groups.astype(np.float32)), axis=-1, kind="stable")[..., :2]
    place = np.sort(place, axis=-1)
    kept = np.take_along_axis(groups, place, -1).reshape(len(groups), -1)
    values[...] = kept[:rows, : values.shape[1]]
    bits = (place[..., 0] | place[..., 1] << 2).astype(np.uint32)
    halves = np.bitwise_or.reduce(bits.reshape(-1, 2, 8, metadata.shape[1], 4, 4) << _PLACES, -1)
    words = halves[:, 0] | halves[:, 1] << np.uint32(16)
    metadata[...] = words.swapaxes(1, 2).reshape(metadata.shape)


def expand_sparse(values: NDArray[Any], metadata: NDArray[Any], *, out: NDArray[Any]) -> None:
    """out [rows, k] = the weights that sparsify kept, zeros between them"""
    rows, k = out.shape
    row_blocks, k_blocks, _ = metadata.shape
    words = metadata.reshape(row_blocks, k_blocks, 8, 4).swapaxes(1, 2)
    halves = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=1)
    bits = (halves[..., None] >> _PLACES).reshape(row_blocks * 16, -1)[:rows]
    place = np.stack([bits & 3, bits >> 2 & 3], axis=-1).astype(np.int64)
    kept = np.zeros((rows, k_blocks * 32), np.float32)
    kept[:, : values.shape[1]] = values.astype(np.float32)
    wide = np.zeros((rows, k_blocks * 16, 4), np.float32)
    np.put_along_axis(wide, place, kept.reshape(rows, -1, 2), -1)
    with np.errstate(all="ignore"):
        out[...] = wide.reshape(rows, -1)[:, :k].astype(out.dtype)


__all__ = ["dequantize", "expand_sparse", "quantize", "quantize_rows", "sparsify"]
