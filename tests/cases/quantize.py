"""Cases of the quantize family, with an oracle that does not use _reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

OPS = ("quantize", "dequantize")
DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Format:
    name: str
    group: int | None = None
    zero_point: bool = False
    block: bool = False

    def __str__(self) -> str:
        parts = [self.name]
        if self.group is not None:
            parts.append(f"g{self.group}")
        return "-".join(parts + ["zero"] * self.zero_point + ["block"] * self.block)

    @property
    def options(self) -> dict[str, Any]:
        return {"group": self.group, "zero_point": self.zero_point, "block": self.block}


FORMATS = (
    *(Format("int8", group) for group in (None, 0, 32, 64, 128)),
    *(Format("int4", group) for group in (None, 0, 32, 64, 128)),
    *(Format("int4", group, zero_point=True) for group in (0, 32, 64, 128)),
    Format("int8", zero_point=True),
    Format("int8", 64, zero_point=True),
    Format("fp8"),
    Format("fp8", 128),
    Format("fp8", block=True),
    *map(Format, ("fp8_e5m2", "nvfp4", "mxfp4", "mxfp8", "nf4")),
)

# Two of every four along k, float16 and bfloat16.
SPARSE = Format("2:4")
SPARSE_DTYPES = ("bfloat16", "float16")

# Largest relative error of rounding to a dtype; of float32 with an epilogue's.
UNITS = {"float32": 1e-6, "float16": 2.0**-11, "bfloat16": 2.0**-8}

# Of weights and activations at once.
BLOCK_FORMATS = ("mxfp8", "mxfp4", "nvfp4")

# n, k: within one group, several, tails, odd.
SHAPES = ((1, 1), (3, 31), (2, 64), (33, 136), (130, 257), (5, 384))

# Largest distance of a value from its rounding, over the largest magnitude of its group. Powers of
# two as scales may use only half of the range of codes; nf4's widest gap is next to -1.
STEPS = {
    "int8": 0.5 / 127,
    "int4": 0.5 / 7,
    "fp8": 16.0 / 448,
    "fp8_e5m2": 1.0 / 14,
    "nvfp4": 1.0 / 6 * 1.15,
    "mxfp4": 2.0 / 8 * 1.01,
    "mxfp8": 32.0 / 256 * 1.01,
    "nf4": 0.1520,
}

# Rows of each expert: few rows in all, and more than the kernels of few rows take.
GROUP_SIZES = ((3, 0, 11, 1, 0, 40, 2, 0), (70, 0, 5))

# n, k of 2:4: within one group of four, blocks of 16 x 64 and their tails.
SPARSE_SHAPES = ((1, 1), (3, 31), (16, 64), (17, 66), (33, 136), (130, 257))

MUST_RAISE: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("int5", {}, "quantize: format is 'int5', expected 'int8', 'int4'"),
    ("int4", {"group": 48}, "quantize: group is 48, int4 takes 32, 64, 128 or 0"),
    ("nvfp4", {"group": 32}, "quantize: group is 32, that of nvfp4 is 16"),
    ("fp8", {"zero_point": True}, "quantize: zero_point is True, fp8 has none"),
    ("int8", {"block": True}, "quantize: block is True, int8 has no blocks of 128 x 128"),
    ("2:4", {"group": 32}, "quantize: group is 32, 2:4 has no scales, so no groups"),
    ("2:4", {"zero_point": True}, "quantize: zero_point is True, 2:4 has none"),
    ("2:4", {"block": True}, "quantize: block is True, 2:4 has no blocks of 128 x 128"),
)


def weights(shape: tuple[int, ...], dtype: str, seed: int = 0) -> NDArray[Any]:
    """Normal numbers, with a row of zeros and a large value."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(shape).astype(np.float32)
    if w.shape[0] > 2:
        w[1] = 0
        w[2, 0] = 9.5
    return w.astype(np.dtype(dtype) if dtype != "bfloat16" else ml_dtypes.bfloat16)


def pruned(w: NDArray[Any]) -> NDArray[Any]:
    """w with two of every four numbers of a row, of equal magnitudes the first."""
    result = np.zeros_like(w)
    for i, row in enumerate(w.astype(np.float64)):
        for j in range(0, len(row), 4):
            places = range(j, min(j + 4, len(row)))
            for place in sorted(places, key=lambda at: (-abs(row[at]), at))[:2]:
                result[i, place] = w[i, place]
    return result


def group_amax(w: NDArray[Any], fmt: Format) -> NDArray[Any]:
    """The largest magnitude of each element's group; with zero points the span of values."""
    n, k = w.shape
    default = {"int8": 0, "int4": 128, "fp8": 0, "fp8_e5m2": 0, "nvfp4": 16, "mxfp4": 32}
    group = fmt.group
    if group is None:
        group = 128 if fmt.block else {**default, "mxfp8": 32, "nf4": 64}[fmt.name]
    result = np.empty((n, k))
    wide = w.astype(np.float64)
    for i in range(0, n, 128 if fmt.block else 1):
        rows = slice(i, i + (128 if fmt.block else 1))
        for j in range(0, k, group or k):
            part = wide[rows, j : j + (group or k)]
            span = max(part.max(), 0) - min(part.min(), 0)
            result[rows, j : j + (group or k)] = span if fmt.zero_point else np.abs(part).max()
    return result


def largest_error(fmt: Format, amax: NDArray[Any]) -> NDArray[Any]:
    """How far a value may be from what it was."""
    if fmt.zero_point:  # the zero point is rounded too
        return amax * (1.0 / (15 if fmt.name == "int4" else 255))
    return amax * STEPS[fmt.name]
