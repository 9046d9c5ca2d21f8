"""Neural-network ops over rows: norms, softmax, likelihoods. Computed in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Optional = NDArray[Any] | None
    Pair = tuple[NDArray[Any], NDArray[Any]]


def _wide(x: NDArray[Any]) -> NDArray[np.float32]:
    return x.astype(np.float32)


def _affine(y: NDArray[Any], weight: Optional, bias: Optional, offset: float) -> NDArray[Any]:
    if weight is not None:
        y = y * (np.float32(offset) + _wide(weight))
    return y if bias is None else y + _wide(bias)


def _rms(x: NDArray[Any], eps: float) -> NDArray[Any]:
    mean = np.mean(np.square(x), axis=-1, keepdims=True)
    result: NDArray[Any] = x / np.sqrt(mean + np.float32(eps))
    return result


def _standard(x: NDArray[Any], eps: float) -> NDArray[Any]:
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return _rms(centred, eps)


def rmsnorm(
    x: NDArray[Any], weight: Optional, *, eps: float, offset: float, out: NDArray[Any]
) -> None:
    """x over its root mean square"""
    out[...] = _affine(_rms(_wide(x), eps), weight, None, offset)


def l2norm(
    x: NDArray[Any], weight: Optional, *, eps: float, offset: float, out: NDArray[Any]
) -> None:
    """rmsnorm without a weight"""
    out[...] = _rms(_wide(x), eps)


def layernorm(
    x: NDArray[Any], weight: Optional, bias: Optional, *, eps: float, out: NDArray[Any]
) -> None:
    """x minus its mean, over its standard deviation"""
    out[...] = _affine(_standard(_wide(x), eps), weight, bias, 0.0)


def add_rmsnorm(
    x: NDArray[Any],
    residual: NDArray[Any],
    weight: Optional,
    *,
    eps: float,
    offset: float,
    out: Pair,
) -> None:
    """rmsnorm of a sum, and the sum"""
    total = (_wide(x) + _wide(residual)).astype(x.dtype)
    out[0][...] = _affine(_rms(_wide(total), eps), weight, None, offset)
    out[1][...] = total


def add_layernorm(
    x: NDArray[Any],
    residual: NDArray[Any],
    weight: Optional,
    bias: Optional,
    *,
    eps: float,
    out: Pair,
) -> None:
    """layernorm of a sum, and the sum"""
    total = (_wide(x) + _wide(residual)).astype(x.dtype)
    out[0][...] = _affine(_standard(_wide(total), eps), weight, bias, 0.0)
    out[1][...] = total


def rmsnorm_fp8(
    x: NDArray[Any],
    residual: Optional,
    weight: Optional,
    *,
    eps: float,
    offset: float,
    out: tuple[NDArray[Any], ...],
) -> None:
    """rmsnorm as e4m3 values and a scale per row"""
    if residual is not None:
        x = (_wide(x) + _wide(residual)).astype(x.dtype)
        out[2][...] = x
    y = _affine(_rms(_wide(x), eps), weight, None, offset)
    largest = np.max(np.abs(y), axis=-1)
    scales = np.where(largest > 0, largest / np.float32(448), np.float32(1))
    out[0][...] = y / scales[..., None]
    out[1][...] = scales


def _groups(x: NDArray[Any], num_groups: int, eps: float) -> NDArray[Any]:
    rows = _wide(x).reshape(x.shape[0], num_groups, -1)
    return _standard(rows, eps).reshape(x.shape)


def _per_channel(x: NDArray[Any], weight: Optional) -> Optional:
    """With axes of size 1 after the channels."""
    return None if weight is None else weight.reshape(weight.shape + (1,) * (x.ndim - 2))


def groupnorm(
    x: NDArray[Any],
    weight: Optional,
    bias: Optional,
    *,
    num_groups: int,
    eps: float,
    out: NDArray[Any],
) -> None:
    """layernorm over groups of channels"""
    y = _groups(x, num_groups, eps)
    out[...] = _affine(y, _per_channel(x, weight), _per_channel(x, bias), 0.0)


def instancenorm(
    x: NDArray[Any], weight: Optional, bias: Optional, *, eps: float, out: NDArray[Any]
) -> None:
    """layernorm over each channel"""
    groupnorm(x, weight, bias, num_groups=x.shape[1], eps=eps, out=out)


def adain(
    x: NDArray[Any], scale: NDArray[Any], shift: NDArray[Any], *, eps: float, out: NDArray[Any]
) -> None:
    """instancenorm with a scale and a shift per sample"""
    y = _groups(x, x.shape[1], eps)
    out[...] = _affine(y, _per_channel(x, scale), _per_channel(x, shift), 1.0)


def _log_softmax(x: NDArray[Any], mask: Optional, axis: int, scale: float) -> NDArray[Any]:
    s = _wide(x) * np.float32(scale)
    if mask is not None:
        s = np.where(mask, s, np.float32(-np.inf))
    largest = np.max(s, axis=axis, keepdims=True)
    base = np.where(largest == -np.inf, np.float32(0), largest)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.log(np.sum(np.exp(s - base), axis=axis, keepdims=True))
        empty = total == -np.inf
        result: NDArray[Any] = s - base - np.where(empty, np.float32(0), total)
    return result


def softmax(x: NDArray[Any], mask: Optional, *, axis: int, scale: float, out: NDArray[Any]) -> None:
    """Exponentials over their sum"""
    out[...] = np.exp(_log_softmax(x, mask, axis, scale))


def log_softmax(
    x: NDArray[Any], mask: Optional, *, axis: int, scale: float, out: NDArray[Any]
) -> None:
    """The logarithm of softmax"""
    out[...] = _log_softmax(x, mask, axis, scale)


def embedding(
    table: NDArray[Any],
    ids: NDArray[Any],
    position_table: Optional,
    positions: Optional,
    *,
    scale: float,
    start: int,
    out: NDArray[Any],
) -> None:
    """scale * table[ids], plus rows of another table"""
    _check_rows("ids", ids, len(table))
    total = _wide(table[ids]) * np.float32(scale)
    if position_table is not None:
        if positions is None:
            positions = np.arange(start, start + (ids.shape[-1] if ids.ndim else 1))
        _check_rows("positions", positions, len(position_table))
        total = total + _wide(position_table[positions])
    out[...] = total.reshape(out.shape)


def _check_rows(argument: str, indices: NDArray[Any], rows: int) -> None:
    from pygpukit.core.errors import InvalidIndexError

    wrong = indices[(indices < 0) | (indices >= rows)]
    if wrong.size:
        raise InvalidIndexError(
            f"embedding: {argument}: index {wrong[0]} is out of bounds for axis 0 with size {rows}"
        )


def log_likelihood(
    logits: NDArray[Any], targets: NDArray[Any], *, ignore_index: int, out: NDArray[Any]
) -> None:
    """The logarithm of the softmax at the targets"""
    known = (targets >= 0) & (targets < logits.shape[-1])
    places = np.where(known, targets, 0)[..., None]
    chosen = np.take_along_axis(_log_softmax(logits, None, -1, 1.0), places, -1)[..., 0]
    out[...] = np.where(targets == ignore_index, 0, np.where(known, chosen, np.nan))


def _rotate(
    x: NDArray[Any], cos: NDArray[Any], sin: NDArray[Any], interleaved: bool, out: NDArray[Any]
) -> None:
    """x is [..., seq, heads, dim]; cos and sin are [..., seq, half]."""
    half = cos.shape[-1]
    cos, sin = (_wide(table)[..., None, :] for table in (cos, sin))
    first, second = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
        if interleaved
        else (slice(0, half), slice(half, 2 * half))
    )
    a, b = _wide(x[..., first]), _wide(x[..., second])
    result = x.copy()
    result[..., first] = a * cos - b * sin
    result[..., second] = b * cos + a * sin
    out[...] = result


def _positions(x: NDArray[Any], positions: Optional, start: int) -> NDArray[Any]:
    return np.arange(start, start + x.shape[-3]) if positions is None else positions


def rope(
    x: NDArray[Any],
    cos: NDArray[Any],
    sin: NDArray[Any],
    positions: Optional,
    *,
    start: int,
    interleaved: bool,
    out: NDArray[Any],
) -> None:
    """Pairs of elements rotated by angles from tables"""
    at = _positions(x, positions, start)
    known = ((at >= 0) & (at < len(cos)))[..., None]
    rows = np.where(known[..., 0], at, 0)
    at_cos, at_sin = (
        np.where(known, _wide(table)[rows], np.float32(np.nan)) for table in (cos, sin)
    )
    _rotate(x, at_cos, at_sin, interleaved, out)


def rope_computed(
    x: NDArray[Any],
    frequencies: NDArray[Any],
    positions: Optional,
    *,
    start: int,
    interleaved: bool,
    factor: float,
    out: NDArray[Any],
) -> None:
    """Pairs of elements rotated by position times frequency"""
    at = _positions(x, positions, start).astype(np.float64)
    angles = at[..., None] * frequencies.astype(np.float64)
    _rotate(x, np.cos(angles) * factor, np.sin(angles) * factor, interleaved, out)


__all__ = [
    "adain",
    "add_layernorm",
    "add_rmsnorm",
    "embedding",
    "groupnorm",
    "instancenorm",
    "l2norm",
    "layernorm",
    "log_likelihood",
    "log_softmax",
    "rmsnorm",
    "rmsnorm_fp8",
    "rope",
    "rope_computed",
    "softmax",
]
