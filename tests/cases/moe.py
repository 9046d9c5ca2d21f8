"""Cases of the moe family: float64 oracles, routings, permutations, and calls that are refused."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np

import pygpukit as gp
from cases.must_raise import MustRaise
from pygpukit.ops import moe

DTYPES = ("float32", "bfloat16", "float16")
OPS = ("moe_route", "moe_permute", "moe_unpermute")
# Of sums and products in that dtype, relative to the sum of magnitudes.
ROUNDING = {"float32": 2e-6, "bfloat16": 2.0**-8, "float16": 2.0**-10}


def rng_of(case: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(str(case).encode()))


# --- routing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Route:
    tokens: int
    experts: int
    top_k: int
    options: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    bias: bool = False

    def __str__(self) -> str:
        options = "-".join(f"{k}={v}" for k, v in self.options.items())
        bias = "-bias" if self.bias else ""
        return f"{self.tokens}x{self.experts}-top{self.top_k}-{options}{bias}-{self.dtype}"

    def draw(self) -> tuple[Any, Any]:
        """Logits on a grid, so that equal ones are equal in every precision; and the bias."""
        rng = rng_of(self)
        logits = np.round(rng.normal(size=(self.tokens, self.experts)) * 64) / 32
        bias = rng.normal(size=self.experts).astype(np.float32) if self.bias else None
        return logits.astype(self.dtype), bias


def route_cases() -> Iterator[Route]:
    for experts, top_k in ((1, 1), (8, 2), (31, 3), (64, 6), (128, 8), (256, 8), (513, 32)):
        yield Route(17, experts, top_k)
        yield Route(5, experts, top_k, {"scoring": "sigmoid", "scale": 2.5}, bias=True)
        yield Route(1, experts, top_k, {"renormalize": True})
    for dtype in DTYPES:
        yield Route(33, 60, 4, {"renormalize": True, "scale": 0.5}, dtype)
        yield Route(0, 8, 2, {}, dtype)
        yield Route(9, 1024, 8, {}, dtype)
    for groups, top_groups in ((8, 4), (4, 1), (32, 3), (2, 2)):
        options = {"num_groups": groups, "top_groups": top_groups}
        yield Route(21, 256, 6, options)
        deepseek = {**options, "scoring": "sigmoid", "renormalize": True, "scale": 2.5}
        yield Route(21, 256, 6, deepseek, bias=True)
    yield Route(7, 16, 2, {"num_groups": 16, "top_groups": 3}, bias=True)


ROUTES = list(route_cases())


def route(
    logits: Any,
    top_k: int,
    *,
    scoring: str = "softmax",
    renormalize: bool = False,
    num_groups: int = 1,
    top_groups: int = 1,
    bias: Any = None,
    scale: float = 1.0,
) -> tuple[Any, Any]:
    """Token by token, in float64."""
    weights = np.empty((len(logits), top_k))
    experts = np.empty((len(logits), top_k), int)
    for t, row in enumerate(logits.astype(np.float64)):
        exps = np.exp(row - row.max())
        scores = exps / exps.sum() if scoring == "softmax" else 1 / (1 + np.exp(-row))
        values = row if bias is None else scores + bias
        groups = np.arange(len(row)) // (len(row) // num_groups)
        marks = []
        for group in range(num_groups):
            inside = sorted(values[groups == group], reverse=True)
            marks.append((-sum(inside[: 1 if bias is None else 2]), group))
        kept = [group for _, group in sorted(marks)[:top_groups]]
        ranks = sorted((-values[e], e) for e in range(len(row)) if groups[e] in kept)
        experts[t] = [e for _, e in ranks[:top_k]]
        weights[t] = scores[experts[t]]
    if renormalize:
        weights /= weights.sum(1, keepdims=True)
    return weights * scale, experts


# --- permutations -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Permute:
    """draw: how experts are chosen."""

    tokens: int
    top_k: int
    experts: int
    width: int
    dtype: str = "float32"
    draw: str = "even"
    index: str = "int32"

    def __str__(self) -> str:
        sizes = f"{self.tokens}x{self.top_k}of{self.experts}x{self.width}"
        return f"{sizes}-{self.dtype}-{self.draw}-{self.index}"

    def ids(self) -> Any:
        rng = rng_of(self)
        shape = (self.tokens, self.top_k)
        if self.draw == "skewed":  # half of everything to one expert, most experts empty
            ids = np.where(rng.random(shape) < 0.5, self.experts // 2, self.experts - 1)
        elif self.draw == "wild":  # and ids that do not exist
            ids = rng.integers(-2, self.experts + 2, shape)
        else:
            ids = rng.integers(0, self.experts, shape)
        return ids.astype(self.index)

    def x(self) -> Any:
        return rng_of(self).normal(size=(self.tokens, self.width)).astype(self.dtype)


def permute_cases() -> Iterator[Permute]:
    for dtype in (*DTYPES, "float8_e4m3fn"):
        yield Permute(37, 2, 8, 64, dtype)
        yield Permute(5, 8, 16, 33, dtype, "wild")
    for draw in ("even", "skewed", "wild"):
        for index in ("int32", "int64"):
            yield Permute(19, 3, 5, 8, "bfloat16", draw, index)
            yield Permute(1300, 2, 60, 24, "bfloat16", draw, index)
    yield Permute(0, 2, 8, 16)
    yield Permute(3, 2, 8, 0)
    yield Permute(1, 1, 1, 1)
    yield Permute(1, 32, 1024, 16)
    yield Permute(256, 8, 128, 72)  # the most that one launch takes
    yield Permute(257, 8, 128, 72)
    yield Permute(5000, 8, 256, 40, "float16", "skewed")
    yield Permute(2100, 1, 1024, 5, "float16")


PERMUTES = list(permute_cases())


def permute(x: Any, ids: Any, experts: int) -> tuple[Any, Any, Any]:
    """By lists: rows, sizes, row_map."""
    flat = ids.reshape(-1)
    places = [[s for s in range(flat.size) if flat[s] == e] for e in range(experts)]
    order = [s for slots in places for s in slots]
    order += [s for s in range(flat.size) if not 0 <= flat[s] < experts]
    row_map = np.empty(flat.size, np.int32)
    row_map[order] = np.arange(flat.size)
    tokens = np.array(order, int) // (ids.shape[1] if ids.ndim == 2 else 1)
    return x[tokens], np.array([len(s) for s in places]), row_map.reshape(ids.shape)


def unpermute(rows: Any, row_map: Any, weights: Any = None) -> tuple[Any, Any]:
    """The sums in float64, and the sums of magnitudes."""
    out = np.zeros((len(row_map), rows.shape[1]))
    size = np.zeros_like(out)
    for t, j in np.ndindex(*row_map.shape):
        place = row_map[t, j]
        if 0 <= place < len(rows):
            term = rows[place].astype(np.float64) * (1 if weights is None else float(weights[t, j]))
            out[t] += term
            size[t] += np.abs(term)
    return out, size


# --- the layer ----------------------------------------------------------------------------------


def mlp(
    x: Any, gate_up: Any, down: Any, weights: Any, experts: Any, dtype: str
) -> tuple[Any, float]:
    """Expert by expert in float64, rounded where the layer rounds; and a bound of the error."""
    x, gate_up, down = (a.astype(np.float64) for a in (x, gate_up, down))
    out = np.zeros(x.shape)
    hidden = down.shape[2]
    for t, j in np.ndindex(*experts.shape):
        e = experts[t, j]
        both = (gate_up[e] @ x[t]).astype(dtype).astype(np.float64)
        gate, up = both[:hidden], both[hidden:]
        inner = (gate / (1 + np.exp(-gate)) * up).astype(dtype).astype(np.float64)
        out[t] += weights[t, j] * (down[e] @ inner).astype(dtype).astype(np.float64)
    return out, 30 * ROUNDING[dtype] * float(np.abs(out).max(initial=1.0))


# --- errors -------------------------------------------------------------------------------------


F = {name: getattr(moe, name) for name in moe.__all__}
N = {
    name: getattr(gp.core.backend.get_native_module(), name)
    for name in (
        "moe_topk_with_indices",
        "moe_softmax_topk",
        "moe_compute_permutation",
        "moe_gather",
        "moe_scatter",
        "moe_expand_expert_offsets",
    )
}
L = np.ones((3, 8), np.float32)
I2 = np.zeros((3, 2), np.int32)
X = np.ones((3, 4), np.float32)
MUST_RAISE = [
    MustRaise("moe_route", "dtype", lambda a: F["moe_route"](a(L.astype("f8")), 2), TypeError,
              ("logits has dtype float64", "float32")),
    MustRaise("moe_route", "1-d", lambda a: F["moe_route"](a(L[0]), 2), ValueError,
              ("logits has shape (8,)", "(tokens, experts)")),
    MustRaise("moe_route", "experts",
              lambda a: F["moe_route"](a(np.ones((1, 1025), "f4")), 2), ValueError,
              ("(1, 1025)", "1024 experts")),
    MustRaise("moe_route", "top_k", lambda a: F["moe_route"](a(L), 9), ValueError,
              ("top_k is 9", "1 to 8")),
    MustRaise("moe_route", "top_k of groups",
              lambda a: F["moe_route"](a(L), 5, num_groups=4, top_groups=2), ValueError,
              ("top_k is 5", "1 to 4")),
    MustRaise("moe_route", "no top_k", lambda a: F["moe_route"](a(L), 0), ValueError,
              ("top_k is 0",)),
    MustRaise("moe_route", "scoring", lambda a: F["moe_route"](a(L), 2, scoring="max"), ValueError,
              ("scoring is 'max'", "'sigmoid'")),
    MustRaise("moe_route", "groups", lambda a: F["moe_route"](a(L), 2, num_groups=3), ValueError,
              ("num_groups is 3", "8 experts")),
    MustRaise("moe_route", "top_groups",
              lambda a: F["moe_route"](a(L), 2, num_groups=4, top_groups=5), ValueError,
              ("top_groups is 5", "1 to 4")),
    MustRaise("moe_route", "bias", lambda a: F["moe_route"](a(L), 2, bias=a(L[0, :3])), ValueError,
              ("bias has shape (3,)", "(8,)")),
    MustRaise("moe_route", "bias dtype",
              lambda a: F["moe_route"](a(L), 2, bias=a(L[0].astype("f2"))), TypeError,
              ("bias has dtype float16", "float32")),
    MustRaise("moe_route", "scale", lambda a: F["moe_route"](a(L), 2, scale=float("nan")),
              ValueError, ("scale is nan",)),
    MustRaise("moe_permute", "ids dtype", lambda a: F["moe_permute"](a(X), a(X), 8), TypeError,
              ("experts has dtype float32", "int32")),
    MustRaise("moe_permute", "x shape", lambda a: F["moe_permute"](a(X[:2]), a(I2), 8), ValueError,
              ("x has shape (2, 4)", "(3, n)", "(3, 2)")),
    MustRaise("moe_permute", "x dtype", lambda a: F["moe_permute"](a(X.astype("f8")), a(I2), 8),
              TypeError, ("x has dtype float64", "4 bytes")),
    MustRaise("moe_permute", "experts", lambda a: F["moe_permute"](a(X), a(I2), 0), ValueError,
              ("num_experts is 0", "1 to 1024")),
    MustRaise("moe_permute", "choices",
              lambda a: F["moe_permute"](a(X), a(np.zeros((3, 33), "i4")), 8), ValueError,
              ("experts has shape (3, 33)", "32 choices")),
    MustRaise("moe_permute", "out", lambda a: F["moe_permute"](a(X), a(I2), 8, out=a(X)),
              ValueError, ("out", "(3, 4)", "(6, 4)")),
    MustRaise("moe_unpermute", "rows", lambda a: F["moe_unpermute"](a(X[0]), a(I2)), ValueError,
              ("rows has shape (4,)",)),
    MustRaise("moe_unpermute", "rows dtype", lambda a: F["moe_unpermute"](a(I2), a(I2)), TypeError,
              ("rows has dtype int32",)),
    MustRaise("moe_unpermute", "row_map", lambda a: F["moe_unpermute"](a(X), a(I2.astype("i8"))),
              TypeError, ("row_map has dtype int64", "int32")),
    MustRaise("moe_unpermute", "row_map shape",
              lambda a: F["moe_unpermute"](a(X), a(I2[None])), ValueError,
              ("row_map has shape (1, 3, 2)", "(tokens, top_k)")),
    MustRaise("moe_unpermute", "weights", lambda a: F["moe_unpermute"](a(X), a(I2), a(X)),
              ValueError, ("weights has shape (3, 4)", "(3, 2)")),
    MustRaise("moe_unpermute", "weights dtype",
              lambda a: F["moe_unpermute"](a(X), a(I2), a(I2.astype("f2"))), TypeError,
              ("weights has dtype float16", "float32")),
    MustRaise("moe_unpermute", "out", lambda a: F["moe_unpermute"](a(X), a(I2), out=a(X[:2])),
              ValueError, ("out", "(2, 4)", "(3, 4)")),
    MustRaise("moe_mlp", "shapes",
              lambda a: F["moe_mlp"](a(X), a(L), a(np.ones((8, 6, 4), "f4")),
                                     a(np.ones((8, 4, 2), "f4")), 2), ValueError,
              ("x has shape (3, 4)", "(8, 6, 4)", "2 * hidden")),
    MustRaise("moe_mlp", "no array", lambda a: F["moe_mlp"](X, a(L), a(L), a(L), 2), TypeError,
              ("x",)),
    MustRaise("moe_topk_with_indices", "values",
              lambda a: N["moe_topk_with_indices"](a(L), a(X), a(I2), 2), ValueError,
              ("values has shape (3, 4)", "(3, 2)")),
    MustRaise("moe_topk_with_indices", "indices",
              lambda a: N["moe_topk_with_indices"](a(L), a(X), a(X), 4), TypeError,
              ("indices has dtype float32", "int32")),
    MustRaise("moe_softmax_topk", "values", lambda a: N["moe_softmax_topk"](a(X), 3), ValueError,
              ("values has shape (3, 4)", "(tokens, 3)")),
    MustRaise("moe_compute_permutation", "counts",
              lambda a: N["moe_compute_permutation"](
                  a(I2), a(I2[0]), a(np.zeros(9, "i4")), a(I2.ravel()), a(I2.ravel()), 8, 2),
              ValueError, ("expert_counts has shape (2,)", "(8,)")),
    MustRaise("moe_gather", "gathered",
              lambda a: N["moe_gather"](a(X), a(I2.ravel()), a(X), 2), ValueError,
              ("gathered has shape (3, 4)", "(6, 4)")),
    MustRaise("moe_scatter", "reverse_perm",
              lambda a: N["moe_scatter"](a(X), a(X[:, :2]), a(I2.ravel()), a(X), 4), ValueError,
              ("reverse_perm has shape (6,)", "(tokens, 4)")),
    MustRaise("moe_expand_expert_offsets", "offsets",
              lambda a: N["moe_expand_expert_offsets"](a(I2[0]), a(I2[0]), 8), ValueError,
              ("expert_offsets has shape (2,)", "(8 + 1,)")),
]  # fmt: skip
