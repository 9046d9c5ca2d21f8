"""Random products of packed weights: formats x layouts x pitches x epilogues, against float64."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pygpukit as gp
from cases import quantize as cases
from cases.run_quantize import host

# GPK_FUZZ_PRODUCTS=100000 for the long run; GPK_FUZZ_SEED for others than those of CI.
SEED = int(os.environ.get("GPK_FUZZ_SEED", "19"))
UNITS = {"float32": 1e-6, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def count(default: int) -> int:
    return int(os.environ.get("GPK_FUZZ_PRODUCTS", str(default)))


def placed(rng: np.random.Generator, shape: tuple[int, int], dtype: str) -> gp.GPUArray:
    """Random numbers: contiguous, with a pitch, transposed, or off their alignment."""
    rows, cols = shape
    kind = rng.choice(["plain", "pitch", "transposed", "offset", "reversed"])
    more = int(rng.integers(1, 20))
    whole = {
        "pitch": (rows, cols + more),
        "transposed": (cols, rows),
        "offset": (rows + 1, cols + more),
    }.get(str(kind), shape)
    numbers = gp.from_numpy(rng.standard_normal(whole).astype(np.float32)).astype(dtype)
    if kind == "pitch":
        return numbers[:, :cols]
    if kind == "transposed":
        return numbers.T
    if kind == "offset":
        return numbers[1:, more:]
    return numbers[::-1] if kind == "reversed" else numbers


def activated(name: str | None, x: NDArray[Any]) -> NDArray[Any]:
    if name == "relu":
        return np.maximum(x, 0)
    if name == "silu":
        return x / (1 + np.exp(-x))
    if name == "gelu":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x


def run_product(number: int, most_rows: int = 200, most: int = 300) -> None:
    """Product `number` of the seed; its message names what can be drawn again."""
    rng = np.random.default_rng([SEED, number])
    fmt = cases.FORMATS[int(rng.integers(len(cases.FORMATS)))]
    dtype = str(rng.choice(cases.DTYPES))
    m = int(np.exp(rng.uniform(0, np.log(most_rows))))
    n, k = (int(rng.integers(1, most)) * int(rng.choice([1, 8])) for _ in range(2))
    k = max(k, 1)
    activation = [None, "relu", "silu", "gelu"][int(rng.integers(4))]
    about = f"product {number} of seed {SEED}: {fmt}, {dtype}, {m} x {n} x {k}, {activation}"
    w = placed(rng, (n, k), dtype)
    packed = gp.quantize(w, fmt.name, **fmt.options)
    x = placed(rng, (m, k), dtype)
    bias = placed(rng, (1, n), dtype)[0] if rng.integers(2) else None
    residual = None
    if rng.integers(2):
        residual = placed(rng, (m, n) if rng.integers(2) else (1, n), dtype)
    numbers = host(packed.dequantize("float32"))
    want = host(x) @ numbers.T
    size = np.abs(host(x)) @ np.abs(numbers).T
    unit = UNITS[dtype]
    # Weights are rounded to x's dtype by some engines: a sum of random errors.
    limit = (2e-6 + 0.05 * unit + 2.5 * unit / np.sqrt(k)) * size + unit * np.abs(want) + 1e-6
    if bias is not None:
        want = want + host(bias)
    want = activated(activation, want)
    if residual is not None:
        want = want + host(residual)
    limit = 1.2 * limit + 2 * unit * np.abs(want)
    if bias is not None:
        limit = limit + unit * np.abs(host(bias))
    out = None
    if rng.integers(2):
        turned = bool(rng.integers(2))
        whole = gp.zeros((n, m) if turned else (m, n + 3), dtype=dtype)
        out = whole.T if turned else whole[:, 3:]
    got = gp.linear(x, packed, bias, activation, residual, out=out)
    assert str(got.dtype) == dtype, about
    assert got.shape == (m, n), about
    wrong = np.abs(host(got) - want) > limit
    assert not wrong.any(), f"{about}: {int(wrong.sum())} of {wrong.size} wrong"
