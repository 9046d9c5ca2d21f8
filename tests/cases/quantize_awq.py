"""Scale search of quantize_awq: layers with outlier channels, and what is measured on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import pygpukit as gp


@dataclass(frozen=True)
class Layer:
    format: str
    dtype: str = "float32"
    group: int | None = None
    zero_point: bool = False
    magnitudes: bool = False  # of channels, instead of samples

    def __str__(self) -> str:
        parts = [self.format, self.dtype, f"group={self.group}"]
        parts += ["zero_point"] * self.zero_point + ["magnitudes"] * self.magnitudes
        return " ".join(parts)


CASES = (
    Layer("int4"),
    Layer("int4", "bfloat16"),
    Layer("int4", "float16", 32, zero_point=True),
    Layer("int4", magnitudes=True),
    Layer("int8", "float32"),
    Layer("nf4", "bfloat16"),
    Layer("nvfp4", "bfloat16"),
)


def tokens(rng: np.random.Generator, count: int, k: int) -> Any:
    """Activations of which one channel in 32 is about 30 times larger."""
    size = np.ones(k)
    size[3::32] = 30.0
    return (rng.standard_normal((count, k)) * size).astype(np.float32)


def host(x: gp.GPUArray) -> Any:
    return x.astype("float32").to_numpy().astype(np.float64)


def run(case: Layer) -> None:
    rng = np.random.default_rng(17)
    n, k = 48, 256
    seen, unseen = tokens(rng, 64, k), tokens(rng, 200, k)
    w = gp.from_numpy(rng.standard_normal((n, k)).astype(np.float32)).astype(case.dtype)
    given = gp.from_numpy(np.abs(seen).mean(0) if case.magnitudes else seen)
    options: dict[str, Any] = {"group": case.group, "zero_point": case.zero_point}
    found = gp.quantize_awq(w, given.astype(case.dtype), case.format, **options)
    assert found.weight.dtype == w.dtype
    assert found.input_scale.dtype == w.dtype
    assert (found.weight.shape, found.input_scale.shape) == ((n, k), (k,))
    assert found.alpha > 0
    assert found.errors[round(found.alpha * 20)] == min(found.errors)

    plain = gp.quantize(w, case.format, **options)
    want = unseen.astype(np.float64) @ host(w).T
    rounded = unseen @ host(plain.dequantize("float32")).T
    scaled = (unseen * host(found.input_scale)) @ host(found.weight.dequantize("float32")).T
    before, after = (np.mean((y - want) ** 2) for y in (rounded, scaled))
    assert after < 0.5 * before, (before, after)
    check_linear(found, unseen[:5], scaled[:5], case.dtype)


def check_linear(found: Any, x: Any, want: Any, dtype: str) -> None:
    """As it is used: in the dtype of the layer."""
    given = gp.from_numpy(x).astype(dtype)
    got = host(gp.linear(given * found.input_scale, found.weight))
    part = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    assert (np.abs(got - want) <= part * np.abs(want).max()).all()
