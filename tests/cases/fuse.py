"""Functions for gp.fuse with ops over rows: arguments, shapes, a float64 oracle for each."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np

import pygpukit as gp
from cases.nn import layernorm, log_softmax, rmsnorm, softmax, wide
from pygpukit.ops import nn

DTYPES = ("float32", "bfloat16", "float16")
# |got - want| <= tolerance * (1 + |want|), for a few roundings to the dtype on the way.
TOLERANCE = {"float32": 1e-5, "float16": 8e-3, "bfloat16": 6e-2}

# Rows and width: around accesses, warps and registers, and more than they hold.
SHAPES = ((1, 1), (1, 7), (5, 8), (3, 33), (4, 64), (129, 24), (3, 1000), (2, 4096), (2, 4099))
LARGE = ((65536, 64), (3, 16384), (2, 32768), (3, 40000), (2, 20001), (1, 100000))

# The ops of a function, by library.
OURS: Any = SimpleNamespace(
    rmsnorm=nn.rmsnorm,
    layernorm=nn.layernorm,
    l2norm=nn.l2norm,
    softmax=nn.softmax,
    log_softmax=nn.log_softmax,
    sum=gp.sum,
    mean=gp.mean,
    max=gp.max,
    min=gp.min,
    gelu=gp.gelu,
    silu=gp.silu,
    where=gp.where,
    exp=gp.exp,
)


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


FLOAT64: Any = SimpleNamespace(
    rmsnorm=rmsnorm,
    layernorm=layernorm,
    l2norm=lambda x, eps=1e-6: rmsnorm(x, None, eps),
    softmax=softmax,
    log_softmax=log_softmax,
    sum=np.sum,
    mean=np.mean,
    max=np.max,
    min=np.min,
    gelu=_gelu,
    silu=lambda x: x / (1 + np.exp(-x)),
    where=np.where,
    exp=np.exp,
)
LAST = {"axis": -1, "keepdims": True}


@dataclass(frozen=True)
class Case:
    """`arguments`: row, vector, vector32 (float32), column, one, mask, number."""

    name: str
    arguments: str
    function: Callable[..., Any]
    exact: bool = True  # the bits of the ops one by one

    def __str__(self) -> str:
        return self.name

    def ours(self, *args: Any) -> Any:
        return self.function(OURS, *args)

    def want(self, *args: Any) -> Any:
        given = (wide(x) if getattr(x, "dtype", None) not in (None, np.bool_) else x for x in args)
        return self.function(FLOAT64, *given)

    def draw(self, shape: tuple[int, int], dtype: str) -> list[Any]:
        rng = np.random.default_rng(zlib.crc32(f"{self.name} {shape}".encode()))
        shapes = {"vector": shape[1:], "vector32": shape[1:], "column": (shape[0], 1), "one": (1,)}
        made: list[Any] = []
        for kind in self.arguments.split():
            if kind == "number":
                made.append(0.75)
            elif kind == "mask":
                mask = rng.random(shape) < 0.7
                mask[:, :1] = True
                made.append(mask)
            else:
                drawn = rng.normal(size=shapes.get(kind, shape))
                made.append(drawn.astype("float32" if kind == "vector32" else dtype))
        return made


CASES = (
    Case("add_rmsnorm", "row row vector", lambda m, x, r, w: m.rmsnorm(x + r, w, 1e-6) * 2),
    Case("rmsnorm", "row vector", lambda m, x, w: m.rmsnorm(x, w)),
    Case("offset", "row vector32", lambda m, x, w: m.rmsnorm(x, w, offset=1.0) + x),
    Case(
        "layernorm",
        "row vector vector row",
        lambda m, x, w, b, r: m.layernorm(m.gelu(x), w, b) + r,
    ),
    Case("plain_layernorm", "row", lambda m, x: m.layernorm(x)),
    Case("biased", "row vector", lambda m, x, b: m.layernorm(x * x, bias=b, eps=1e-3)),
    Case("softmax", "row column number", lambda m, x, t, c: m.softmax(x * t + c)),
    Case("log_softmax", "row one", lambda m, x, c: m.log_softmax(x * c)),
    Case(
        "masked", "mask row", lambda m, keep, x: m.softmax(m.where(keep, x, -np.inf), axis=-1) * 3
    ),
    Case("late_gate", "row row", lambda m, x, g: m.l2norm(x) * m.silu(g)),
    Case(
        "norm_of_norm",
        "row vector vector row",
        lambda m, x, w, b, r: m.rmsnorm(m.layernorm(x, w, b) + r, w) - b,
    ),
    Case("two_rows", "row vector", lambda m, x, w: m.softmax(x) * m.rmsnorm(x * w, w)),
    Case(
        "extremes",
        "row",
        lambda m, x: (x - m.min(x, **LAST)) / (m.max(x, **LAST) - m.min(x, **LAST) + 1),
    ),
    Case("largest", "row column", lambda m, x, c: m.max(x * c, **LAST) + c),
    Case("centred", "row", lambda m, x: x - m.mean(x, **LAST), exact=False),
    Case("square_sum", "row number", lambda m, x, c: m.sum(x * x, **LAST) * c, exact=False),
    Case(
        "by_hand",
        "row",
        lambda m, x: m.exp(x - m.max(x, **LAST)) / m.sum(m.exp(x - m.max(x, **LAST)), **LAST),
        exact=False,
    ),
    Case(
        "methods",
        "row",
        lambda m, x: (
            (x.sum(axis=-1, keepdims=True) - x.mean(axis=-1, keepdims=True))
            + x.max(axis=-1, keepdims=True) * x.min(axis=-1, keepdims=True)
        ),
        exact=False,
    ),
    Case("held_column", "row column", lambda m, x, c: m.rmsnorm(x * (c * 2)) * (c * 2)),
)


# --- random functions ---------------------------------------------------------------------------

# By name: of one value or two, the vectors w and b of a row's width, and the column c.
STEPS: dict[str, Callable[..., Any]] = {
    "add": lambda m, x, y, w, b, c: x + y,
    "multiply": lambda m, x, y, w, b, c: x * y,
    "scale": lambda m, x, y, w, b, c: x * c - b,
    "silu": lambda m, x, y, w, b, c: m.silu(x),
    "where": lambda m, x, y, w, b, c: m.where(x > y, x, w),
    "rmsnorm": lambda m, x, y, w, b, c: m.rmsnorm(x, w),
    "layernorm": lambda m, x, y, w, b, c: m.layernorm(x, w, b),
    "softmax": lambda m, x, y, w, b, c: m.softmax(x) + y,
    "log_softmax": lambda m, x, y, w, b, c: m.log_softmax(x * 0.5),
    "above": lambda m, x, y, w, b, c: x - m.max(y, **LAST),
    "below": lambda m, x, y, w, b, c: m.min(x, **LAST) + y,
}


def chain(steps: list[tuple[str, int, int]]) -> Case:
    """A function of `steps`: each takes two of the values so far. Norms keep them small."""

    def function(m: Any, x: Any, y: Any, w: Any, b: Any, c: Any) -> Any:
        values = [x, y]
        for name, i, j in steps:
            pair = (values[i % len(values)], values[j % len(values)])
            values.append(m.l2norm(STEPS[name](m, *pair, w, b, c)))
        return values[-1] * 2 + x

    name = " ".join(f"{name}{i}{j}" for name, i, j in steps)
    return Case(name, "row row vector vector column", function)


def random_chains(seed: int, count: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    names = list(STEPS)
    return [
        chain(
            [
                (names[rng.integers(len(names))], int(rng.integers(9)), int(rng.integers(9)))
                for _ in range(rng.integers(1, 5))
            ]
        )
        for _ in range(count)
    ]
