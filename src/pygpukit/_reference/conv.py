"""Convolutions of sequences and images. Computed in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pygpukit._reference.elementwise import FUNCTIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Optional = NDArray[Any] | None
    Pair = tuple[int, int]


def _wide(x: NDArray[Any]) -> NDArray[np.float32]:
    return x.astype(np.float32)


def _finish(
    total: NDArray[Any], bias: Optional, residual: Optional, activation: str, out: NDArray[Any]
) -> None:
    if bias is not None:
        total = total + _wide(bias).reshape(-1, *(1,) * (total.ndim - 2))
    if activation != "none":
        with np.errstate(over="ignore"):  # exp(-x) = inf gives 0
            total = FUNCTIONS[activation](total)
    out[...] = total if residual is None else total + _wide(residual)


def _windows(x: NDArray[Any], taps: Pair, stride: Pair, dilation: Pair, out: Pair) -> NDArray[Any]:
    """[batch, channels, out_h, out_w, taps_h, taps_w] of a padded image, without a copy."""
    b, c, h, w = x.strides
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:2], *out, *taps),
        (b, c, h * stride[0], w * stride[1], h * dilation[0], w * dilation[1]),
        writeable=False,
    )


def conv2d(
    x: NDArray[Any],
    w: NDArray[Any],
    bias: Optional,
    residual: Optional,
    *,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    activation: str,
    out: NDArray[Any],
) -> None:
    """products of windows and weights"""
    ph, pw = padding
    padded = np.pad(_wide(x), ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    windows = _windows(padded, w.shape[2:], stride, dilation, out.shape[2:])
    weights = _wide(w)
    per_in, per_out = x.shape[1] // groups, w.shape[0] // groups
    total = np.empty(out.shape, np.float32)
    for g in range(groups):
        part = windows[:, g * per_in : (g + 1) * per_in]
        of_group = slice(g * per_out, (g + 1) * per_out)
        product = np.tensordot(part, weights[of_group], ((1, 4, 5), (1, 2, 3)))
        total[:, of_group] = np.moveaxis(product, -1, 1)
    _finish(total, bias, residual, activation, out)


def conv1d(
    x: NDArray[Any],
    w: NDArray[Any],
    bias: Optional,
    residual: Optional,
    *,
    out: NDArray[Any],
    **options: Any,
) -> None:
    """conv2d of one row"""
    rest = None if residual is None else residual[:, :, None]
    conv2d(x[:, :, None], w[:, :, None], bias, rest, out=out[:, :, None], **options)


def conv_transpose1d(
    x: NDArray[Any],
    w: NDArray[Any],
    bias: Optional,
    residual: Optional,
    *,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    activation: str,
    out: NDArray[Any],
) -> None:
    """products of inputs and weights, added up where they fall"""
    step, pad, gap = stride[1], padding[1], dilation[1]
    per_in, per_out, taps = x.shape[1] // groups, w.shape[1], w.shape[2]
    reach = (x.shape[2] - 1) * step + gap * (taps - 1) + 1
    total = np.zeros((*out.shape[:2], max(reach, out.shape[2] + pad)), np.float32)
    for g in range(groups):
        of_group = slice(g * per_in, (g + 1) * per_in)
        products = np.einsum("bil,iot->bolt", _wide(x[:, of_group]), _wide(w[of_group]))
        for t in range(taps if x.shape[2] else 0):
            last = t * gap + (x.shape[2] - 1) * step + 1
            to = total[:, g * per_out : (g + 1) * per_out, t * gap : last : step]
            to += products[..., t]
    _finish(total[:, :, pad : pad + out.shape[2]], bias, residual, activation, out)


def causal_conv1d(
    x: NDArray[Any],
    w: NDArray[Any],
    bias: Optional,
    state: Optional,
    *,
    activation: str,
    out: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    """each channel with its own weights, continuing the state"""
    past = w.shape[1] - 1
    before = np.zeros((*x.shape[:2], past), x.dtype) if state is None else state
    joined = np.concatenate([before, x], -1)
    total = np.zeros(x.shape, np.float32)
    for j in range(w.shape[1]):
        total += _wide(w[:, j, None]) * _wide(joined[..., j : j + x.shape[2]])
    last = joined[..., joined.shape[2] - past :].copy()
    _finish(total, bias, None, activation, out[0])
    out[1][...] = last


__all__ = ["causal_conv1d", "conv1d", "conv2d", "conv_transpose1d"]
