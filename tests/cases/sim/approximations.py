"""Approximate instructions: the device's own answers are kept whole and compared within a bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from .program import LANES, Bytes, Program, lane_source, seed_of

Doubles = NDArray[np.float64]
Function = Callable[[Doubles, Doubles], Doubles]

# Instruction: what it computes of a and b, where a lies, the bound. b is between 1/2 and 2.
SINGLE: dict[str, tuple[Function, tuple[float, float], float]] = {
    "rcp.approx": (lambda a, b: 1 / a, (0.01, 100.0), 1e-6),
    "sqrt.approx": (lambda a, b: np.sqrt(a), (0.0, 1000.0), 1e-6),
    "rsqrt.approx": (lambda a, b: 1 / np.sqrt(a), (0.01, 1000.0), 1e-6),
    "sin.approx": (lambda a, b: np.sin(a), (-np.pi, np.pi), 2e-6),
    "cos.approx": (lambda a, b: np.cos(a), (-np.pi, np.pi), 2e-6),
    "lg2.approx": (lambda a, b: np.log2(a), (0.001, 1000.0), 2e-6),
    "ex2.approx": (lambda a, b: np.exp2(a), (-20.0, 20.0), 1e-6),
    "tanh.approx": (lambda a, b: np.tanh(a), (-4.0, 4.0), 1e-3),
    "div.approx": (lambda a, b: a / b, (-100.0, 100.0), 1e-6),
    "div.full": (lambda a, b: a / b, (-100.0, 100.0), 1e-6),
}
HALF: dict[str, tuple[Function, tuple[float, float], float]] = {
    "ex2.approx": (lambda a, b: np.exp2(a), (-8.0, 8.0), 2e-3),
    "tanh.approx": (lambda a, b: np.tanh(a), (-4.0, 4.0), 2e-3),
}


def program(
    name: str, kind: str, of: Function, between: tuple[float, float], bound: float
) -> Program:
    dtype, register = {"f32": (np.float32, "f"), "f16": (np.float16, "h")}[kind]
    title = f"approximate/{name}.{kind}"
    operands = 2 if name.startswith("div") else 1
    sources = ", ".join(f"%{register}{4 + i}" for i in range(operands))
    finish = "mov.b32 %r7, %f7;\ncvt.u64.u32 %rd7, %r7;"
    if kind == "f16":
        finish = "cvt.u64.u16 %rd7, %h7;"
    source = lane_source(f"{name}.{kind} %{register}7, {sources};\n{finish}")

    def inputs() -> NDArray[np.generic]:
        rng = np.random.default_rng(seed_of(title))
        return np.stack([rng.uniform(*between, LANES), rng.uniform(0.5, 2, LANES)]).astype(dtype)

    def image() -> Bytes:
        words = np.zeros((3, LANES), np.uint64)
        words[:2] = inputs().view(f"u{np.dtype(dtype).itemsize}")
        return words.view(np.uint8).ravel()

    def expect(_: Bytes) -> Bytes:
        a, b = inputs().astype(np.float64)
        result = of(a, b).astype(dtype)
        return result.view(f"u{result.itemsize}").astype(np.uint64).view(np.uint8)

    approximate = (np.dtype(dtype).name, bound)
    return Program(title, source, image, 8 * LANES, expect, approximate=approximate)


def programs() -> Iterator[Program]:
    for kind, table in (("f32", SINGLE), ("f16", HALF)):
        for name, (of, between, bound) in table.items():
            yield program(name, kind, of, between, bound)
