"""Quantised weights with scales per channel, chosen by what flows through them (AWQ)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import DataType, GPUArray, PackedWeight
from pygpukit.core.arguments import require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

_OP = "quantize_awq"
_LEAST = 1e-4  # of the largest mean magnitude: channels below count as that


class AwqWeight(NamedTuple):
    """What quantize_awq() found: x @ w.T is nearly linear(x * input_scale, weight).

    The scale can also be folded into what makes x: the weights of a norm, or the rows of a linear
    layer, times input_scale.
    """

    weight: PackedWeight
    input_scale: GPUArray  # [k], dtype of w
    alpha: float  # the exponent of the mean magnitudes; 0: all scales are 1
    errors: tuple[float, ...]  # mean square of the output's error for each alpha, from 0 to 1


def _check(w: GPUArray, activations: GPUArray) -> None:
    require_arrays(_OP, w=w, activations=activations)
    if w.ndim != 2 or w.size == 0:
        raise InvalidValueError(f"{_OP}: w has shape {w.shape}, expected (n, k), not empty")
    for name, x in (("w", w), ("activations", activations)):
        if x.dtype.name not in ("float16", "bfloat16", "float32"):
            raise InvalidTypeError(
                f"{_OP}: {name} has dtype {x.dtype}, expected float16, bfloat16 or float32"
            )
    if activations.ndim == 0 or activations.shape[-1] != w.shape[1] or activations.size == 0:
        raise InvalidValueError(
            f"{_OP}: activations has shape {activations.shape}, w has shape {w.shape}; "
            f"expected (..., {w.shape[1]}), not empty"
        )
    if activations.device != w.device:
        raise InvalidValueError(
            f"{_OP}: activations is on {activations.device}, w on {w.device}; expected one device"
        )


def _mean_magnitudes(activations: GPUArray) -> GPUArray:
    """Of each channel, above 0."""
    mean = _native.abs(activations.astype("float32"))
    if mean.ndim > 1:
        mean = _native.mean(mean.reshape(-1, mean.shape[-1]), 0)
    largest = float(mean.max())
    if not 0.0 <= largest < float("inf"):
        raise InvalidValueError(
            f"{_OP}: activations has infinities or NaN, expected finite numbers"
        )
    return _native.maximum(mean, largest * _LEAST if largest > 0.0 else 1.0)


def _input_scale(mean: GPUArray, alpha: float, dtype: str) -> GPUArray:
    """mean^-alpha around 1, rounded to the dtype it will multiply in."""
    scale = mean**-alpha
    middle = math.sqrt(float(scale.max()) * float(scale.min()))
    return (scale / middle).astype(dtype)


class _Search:
    """Weights, activations and a format: what each alpha is tried on."""

    def __init__(self, w: GPUArray, activations: GPUArray, options: dict[str, Any]) -> None:
        self.w = w.astype("float32")
        self.dtype = w.dtype
        self.options = options
        self.mean = _mean_magnitudes(activations)
        self.rows = None
        if activations.ndim > 1:
            self.rows = activations.astype("float32").reshape(-1, w.shape[1])

    def error(self, change: GPUArray) -> float:
        """Mean square of what a change of the weights does to outputs."""
        if self.rows is None:  # channels as if they were independent
            return float(_native.mean(_native.square(change * self.mean)))
        return float(_native.mean(_native.square(_native.linear(self.rows, change))))

    def run(self, alpha: float) -> tuple[float, float, GPUArray, PackedWeight]:
        scale = _input_scale(self.mean, alpha, self.dtype.name)
        back = scale.astype("float32")
        packed = _native.quantize(self.w / back, **self.options)
        error = self.error(packed.dequantize("float32") * back - self.w)
        return error, alpha, scale, packed


def _with_dtype(packed: PackedWeight, dtype: DataType) -> PackedWeight:
    return PackedWeight(
        packed.values,
        packed.scales,
        packed.zero_points,
        packed.tensor_scale,
        format=packed.format,
        group=packed.group,
        block=packed.block,
        shape=packed.shape,
        dtype=dtype,
    )


def quantize_awq(
    w: GPUArray,
    activations: GPUArray,
    format: str = "int4",
    *,
    group: int | None = None,
    zero_point: bool = False,
    block: bool = False,
    steps: int = 20,
) -> AwqWeight:
    """Weights w [n, k] packed by quantize() after a search for a scale per channel of k.

    activations are samples [..., k] of what w multiplies, or the mean magnitude of each channel
    [k]. Channels with large activations are made larger before rounding, w * s with
    s = mean|x|^alpha, and x is divided by s instead. Of alpha = 0, 1 / steps, ..., 1 the one with
    the least error of x @ w.T is taken; 0 is plain rounding. format, group, zero_point and block
    are those of quantize(). It waits for the device.
    """
    _check(w, activations)
    if not isinstance(format, str):
        raise InvalidTypeError(f"{_OP}: format is {format!r}, expected a str")
    _native.check_packing(_OP, format, group, zero_point, block)
    if format == "2:4":
        raise InvalidValueError(
            f"{_OP}: format is '2:4', which rounds nothing; expected 4 or 8 bits"
        )
    count = whole(_OP, "steps", steps, 1, 1000)
    options = {"format": format, "group": group, "zero_point": zero_point, "block": block}
    search = _Search(w, activations, options)
    best = search.run(0.0)
    errors = [best[0]]
    for step in range(1, count + 1):
        tried = search.run(step / count)
        errors.append(tried[0])
        best = min(best, tried, key=lambda found: found[0])
    _, alpha, scale, packed = best
    return AwqWeight(_with_dtype(packed, w.dtype), scale, alpha, tuple(errors))


__all__ = ["AwqWeight", "quantize_awq"]

name_all(globals(), __all__)
