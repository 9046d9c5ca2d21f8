"""Cases of the nn family: arguments, a float64 oracle for each op, and calls that are refused."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np

import pygpukit as gp
from cases.must_raise import MustRaise
from pygpukit.ops import nn

Shape = tuple[int, ...]
DTYPES = ("float32", "bfloat16", "float16")
# |got - want| <= atol + rtol * |want|; results are of the order of 1.
TOLERANCE = {"float32": (1e-5, 2e-6), "float16": (1e-3, 1e-3), "bfloat16": (8e-3, 8e-3)}

# Widths around whole accesses, warps and what registers hold; an odd one for each.
ROWS: tuple[Shape, ...] = (
    (1,),
    (7,),
    (8,),
    (3, 0),
    (0, 8),
    (1, 33),
    (5, 64),
    (2, 3, 128),
    (129, 24),
    (3, 1000),
    (4, 1024),
    (2, 4099),
    (3, 5120),
    (1, 8192),
    (2, 16384),
    (1, 40000),
)
CHANNELS: tuple[Shape, ...] = ((2, 4), (1, 6, 1), (3, 8, 5), (2, 4, 64), (2, 12, 3, 7), (0, 4, 3))


def normal(rng: np.random.Generator, shape: Shape, dtype: str, scale: float = 1.0) -> Any:
    return (rng.normal(size=shape) * scale).astype(dtype)


def wide(x: Any) -> Any:
    return None if x is None else x.astype(np.float64)


# --- oracles ------------------------------------------------------------------------------------


def rms(x: Any, eps: float) -> Any:
    return x if x.size == 0 else x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)


def standard(x: Any, eps: float) -> Any:
    return x if x.size == 0 else rms(x - np.mean(x, axis=-1, keepdims=True), eps)


def rmsnorm(x: Any, weight: Any = None, eps: float = 1e-5, *, offset: float = 0.0) -> Any:
    y = rms(wide(x), eps)
    return y if weight is None else y * (offset + wide(weight))


def layernorm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    y = standard(wide(x), eps)
    y = y if weight is None else y * wide(weight)
    return y if bias is None else y + wide(bias)


def added(norm: Callable[..., Any]) -> Callable[..., Any]:
    def oracle(x: Any, residual: Any, *args: Any, **options: Any) -> Any:
        total = (x.astype(np.float32) + residual.astype(np.float32)).astype(x.dtype)
        return norm(total, *args, **options), wide(total)

    return oracle


def groupnorm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    y = standard(
        wide(x).reshape(x.shape[0], num_groups, int(np.prod(x.shape[1:])) // num_groups), eps
    )
    y = y.reshape(x.shape)
    for channel in range(x.shape[1]):
        y[:, channel] *= 1 if weight is None else float(weight[channel])
        y[:, channel] += 0 if bias is None else float(bias[channel])
    return y


def adain(x: Any, scale: Any, shift: Any, eps: float = 1e-5) -> Any:
    y = groupnorm(x, x.shape[1], eps=eps)
    for place in np.ndindex(*x.shape[:2]):
        y[place] = y[place] * (1 + float(scale[place])) + float(shift[place])
    return y


def softmax(x: Any, axis: int = -1, *, mask: Any = None, scale: float = 1.0) -> Any:
    s = wide(x) * scale
    e = np.exp(s - np.max(s, axis=axis, keepdims=True, initial=-1e300))
    e = e if mask is None else np.where(mask, e, 0)
    total = np.sum(e, axis=axis, keepdims=True)
    return e / np.where(total == 0, 1, total)


def log_softmax(x: Any, axis: int = -1, *, mask: Any = None, scale: float = 1.0) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(softmax(x, axis, mask=mask, scale=scale))


def log_likelihood(logits: Any, targets: Any, *, ignore_index: int = -100) -> Any:
    out = np.empty(targets.shape)
    for place in np.ndindex(*targets.shape):
        target = int(targets[place])
        if target == ignore_index:
            out[place] = 0
        elif not 0 <= target < logits.shape[-1]:
            out[place] = np.nan
        else:
            out[place] = log_softmax(logits[place])[target]
    return out


def rope(
    x: Any,
    cos: Any,
    sin: Any,
    positions: Any = None,
    *,
    start: int = 0,
    interleaved: bool = False,
) -> Any:
    out = wide(x)
    half = cos.shape[-1]
    for place in np.ndindex(*x.shape[:-1]):
        if positions is None:
            row = start + place[-2]
        else:
            row = int(positions[place[:-1] if positions.ndim > 1 else place[-2]])
        for j in range(half):
            a, b = (2 * j, 2 * j + 1) if interleaved else (j, half + j)
            known = 0 <= row < len(cos)
            turn = complex(cos[row, j], sin[row, j]) if known else complex(np.nan, np.nan)
            turned = complex(x[place][a], x[place][b]) * turn
            out[place][a], out[place][b] = turned.real, turned.imag
    return out


def rope_computed(
    x: Any, frequencies: Any, positions: Any = None, *, factor: float = 1.0, **options: Any
) -> Any:
    last = x.shape[-3] + options.get("start", 0)
    rows = np.arange(last if positions is None else int(positions.max(initial=0)) + 1)
    angles = rows[:, None] * frequencies.astype(np.float64)
    return rope(x, factor * np.cos(angles), factor * np.sin(angles), positions, **options)


def embedding(
    table: Any,
    ids: Any,
    *,
    scale: float = 1.0,
    position_table: Any = None,
    positions: Any = None,
    start: int = 0,
) -> Any:
    out = np.empty((*ids.shape, table.shape[1]))
    for place in np.ndindex(*ids.shape):
        out[place] = wide(table[ids[place]]) * scale
        if position_table is not None:
            row = start + (place[-1] if place else 0)
            if positions is not None:
                row = positions[place if positions.shape == ids.shape else place[-1]]
            out[place] += wide(position_table[row])
    return out


# --- cases --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One call; `arrays` are drawn in order: (shape, dtype, spread), or the array itself."""

    op: str
    name: str
    dtype: str
    arguments: Callable[[np.random.Generator], tuple[Any, ...]]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.op}-{self.dtype}-{self.name}"

    def draw(self) -> tuple[Any, ...]:
        return self.arguments(np.random.default_rng(zlib.crc32(str(self).encode())))

    def want(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        result = ORACLES[self.op](*arguments, **self.options)
        return result if isinstance(result, tuple) else (result,)


ORACLES: dict[str, Callable[..., Any]] = {
    "rmsnorm": rmsnorm,
    "layernorm": layernorm,
    "l2norm": lambda x, eps=1e-6: rms(wide(x), eps),
    "add_rmsnorm": added(rmsnorm),
    "add_layernorm": added(layernorm),
    "groupnorm": groupnorm,
    "instancenorm": lambda x, weight=None, bias=None, eps=1e-5: groupnorm(
        x, x.shape[1], weight, bias, eps
    ),
    "adain": adain,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "log_likelihood": log_likelihood,
    "rope": rope,
    "embedding": embedding,
    "rope_computed": rope_computed,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {name: getattr(nn, name) for name in nn.__all__}


def text(shape: Shape) -> str:
    return "x".join(map(str, shape))


def norm_cases(dtype: str) -> Iterator[Case]:
    for shape in ROWS:

        def x_and_weights(count: int, kind: str = dtype, shape: Shape = shape) -> Any:
            return lambda rng: (
                normal(rng, shape, dtype, 3),
                *(normal(rng, shape[-1:], kind) for _ in range(count)),
            )

        def sums(count: int, shape: Shape = shape) -> Any:
            return lambda rng: (
                normal(rng, shape, dtype, 3),
                normal(rng, shape, dtype),
                *(normal(rng, shape[-1:], dtype) for _ in range(count)),
            )

        yield Case("rmsnorm", text(shape), dtype, x_and_weights(1))
        yield Case("rmsnorm", f"{text(shape)}-plain", dtype, x_and_weights(0), {"eps": 1e-3})
        yield Case("layernorm", text(shape), dtype, x_and_weights(2))
        yield Case("layernorm", f"{text(shape)}-no-bias", dtype, x_and_weights(1))
        yield Case("l2norm", text(shape), dtype, x_and_weights(0))
        yield Case("add_rmsnorm", text(shape), dtype, sums(1), {"offset": 1.0})
        yield Case("add_layernorm", text(shape), dtype, sums(2))
        if dtype != "float32":
            yield Case(
                "rmsnorm", f"{text(shape)}-float32-weight", dtype, x_and_weights(1, "float32")
            )
    for shape in CHANNELS:

        def channels(count: int, groups: tuple[int, ...] = (), shape: Shape = shape) -> Any:
            return lambda rng: (
                normal(rng, shape, dtype, 3),
                *groups,
                *(normal(rng, shape[1:2], dtype) for _ in range(count)),
            )

        def styles(shape: Shape = shape) -> Any:
            return lambda rng: (
                normal(rng, shape, dtype, 3),
                normal(rng, shape[:2], dtype),
                normal(rng, shape[:2], dtype),
            )

        for groups in (1, 2, shape[1]):
            yield Case("groupnorm", f"{text(shape)}-by-{groups}", dtype, channels(2, (groups,)))
        yield Case("instancenorm", text(shape), dtype, channels(2), {"eps": 1e-3})
        yield Case("instancenorm", f"{text(shape)}-plain", dtype, channels(0))
        yield Case("adain", text(shape), dtype, styles())


def softmax_cases(dtype: str) -> Iterator[Case]:
    for op in ("softmax", "log_softmax"):
        for shape in ROWS:
            yield Case(op, text(shape), dtype, lambda rng, s=shape: (normal(rng, s, dtype, 3),))
        for shape, axis in (((5, 7), 0), ((3, 40, 9), 1), ((2, 3, 33, 65), 2), ((300, 2), 0)):
            yield Case(
                op,
                f"{text(shape)}-axis{axis}",
                dtype,
                lambda rng, s=shape, a=axis: (normal(rng, s, dtype, 3), a),
                {"scale": 0.25},
            )
        for shape, mask, axis in (
            ((4, 33), (33,), -1),
            ((4, 1024), (4, 1), -1),
            ((2, 3, 40, 40), (40, 40), -1),
            ((2, 3, 8, 16), (2, 1, 8, 1), 2),
            ((3, 5000), (3, 5000), -1),
        ):
            keep = np.random.default_rng(len(shape)).random(mask) < 0.6
            keep[..., 0] = False
            yield Case(
                op,
                f"{text(shape)}-mask-{text(mask)}-axis{axis}",
                dtype,
                lambda rng, s=shape, a=axis: (normal(rng, s, dtype, 3), a),
                {"mask": keep, "scale": 0.5},
            )


def likelihood_cases(dtype: str) -> Iterator[Case]:
    for shape in ((1,), (5, 33), (2, 3, 1000), (3, 0, 8), (2, 150001), (3, 65536)):
        for index in ("int32", "int64"):

            def rows(rng: np.random.Generator, s: Shape = shape, i: str = index) -> Any:
                targets = np.asarray(rng.integers(0, s[-1], s[:-1])).astype(i)
                if targets.size > 2:
                    targets.flat[0], targets.flat[1] = -100, s[-1]
                return normal(rng, s, dtype, 3), targets

            yield Case("log_likelihood", f"{text(shape)}-{index}", dtype, rows)


def rope_cases(dtype: str) -> Iterator[Case]:
    # (shape, angles per row, positions)
    for shape, half, places in (
        ((5, 2, 64), 32, None),
        ((5, 2, 64), 16, (5,)),
        ((2, 3, 4, 8), 3, (2, 3)),
        ((2, 3, 1, 130), 64, (3,)),
        ((2, 2, 3, 2, 16), 8, (2, 2, 3)),
        ((0, 2, 8), 4, None),
    ):
        for interleaved in (False, True):
            for table in {dtype, "float32"}:

                def drawn(
                    rng: np.random.Generator,
                    s: Any = shape,
                    h: int = half,
                    p: Any = places,
                    t: str = table,
                ) -> Any:
                    angles = rng.uniform(0, 6, (20, h))
                    x = normal(rng, s, dtype)
                    tables = np.cos(angles).astype(t), np.sin(angles).astype(t)
                    at = None if p is None else rng.integers(0, 20, p).astype("int32")
                    if at is not None and at.size > 3:
                        at.flat[0], at.flat[1] = -1, 20
                    return x, *tables, at

                yield Case(
                    "rope",
                    f"{text(shape)}-by-{half}-{table}-{'pairs' if interleaved else 'halves'}",
                    dtype,
                    drawn,
                    {"interleaved": interleaved, "start": 7},
                )

            def computed(
                rng: np.random.Generator, s: Any = shape, h: int = half, p: Any = places
            ) -> Any:
                frequencies = 10000.0 ** -(np.arange(h) / h)
                at = None if p is None else rng.integers(0, 3000, p)
                return normal(rng, s, dtype), frequencies.astype(np.float32), at

            yield Case(
                "rope_computed",
                f"{text(shape)}-by-{half}-{'pairs' if interleaved else 'halves'}",
                dtype,
                computed,
                {"interleaved": interleaved, "factor": 1.5},
            )


def embedding_cases(dtype: str) -> Iterator[Case]:
    rng = np.random.default_rng(3)
    for dim in (1, 33, 64, 1032):
        for shape in ((), (7,), (2, 5), (2, 0), (2, 1, 3)):
            for index in ("int32", "int64"):

                def rows(
                    rng: np.random.Generator, d: int = dim, s: Shape = shape, i: str = index
                ) -> Any:
                    return normal(rng, (50, d), dtype), np.asarray(rng.integers(0, 50, s)).astype(i)

                name = f"{text(shape) or 'one'}-of-{dim}-{index}"
                yield Case("embedding", name, dtype, rows)
                if index == "int64":
                    yield Case("embedding", f"{name}-scale", dtype, rows, {"scale": 5.5})
                    continue
                for table in {dtype, "float32"}:
                    options = {"position_table": normal(rng, (20, dim), table), "scale": -2.0}
                    yield Case(
                        "embedding", f"{name}-{table}-start", dtype, rows, {**options, "start": 4}
                    )
                    places = np.asarray(rng.integers(0, 20, shape))
                    options["positions"] = places.astype(index)
                    yield Case("embedding", f"{name}-{table}-positions", dtype, rows, options)
                    if len(shape) > 1:
                        one = rng.integers(0, 20, shape[-1])
                        yield Case(
                            "embedding",
                            f"{name}-{table}-shared",
                            dtype,
                            rows,
                            {**options, "positions": one},
                        )


CASES = [
    case
    for dtype in DTYPES
    for make in (norm_cases, softmax_cases, likelihood_cases, rope_cases, embedding_cases)
    for case in make(dtype)
]


F = FUNCTIONS
X = np.ones((2, 3), np.float32)
Y = np.ones((2, 2, 8), np.float32)
IDS = np.arange(3)


def longest(a: Callable[[Any], Any]) -> Any:
    """A row that no kernel can step through in 32 bits; it takes no memory."""
    return gp.broadcast_to(a(X[0, :1]), (2**31 - 1,))


MUST_RAISE = [
    MustRaise("rmsnorm", "width", lambda a: F["rmsnorm"](longest(a)), ValueError,
              ("(2147483647,)", "2**31 - 2**16")),
    MustRaise("softmax", "width", lambda a: F["softmax"](longest(a)), ValueError,
              ("(2147483647,)", "2**31 - 2**16")),
    MustRaise("rmsnorm", "dtype", lambda a: F["rmsnorm"](a(X.astype("f8"))), TypeError,
              ("x has dtype float64", "float32")),
    MustRaise("rmsnorm", "0-d", lambda a: F["rmsnorm"](a(X[0, 0])), ValueError, ("shape ()",)),
    MustRaise("rmsnorm", "weight shape", lambda a: F["rmsnorm"](a(X), a(X[0, :2])), ValueError,
              ("weight has shape (2,)", "(3,)", "(2, 3)")),
    MustRaise("rmsnorm", "weight dtype", lambda a: F["rmsnorm"](a(X), a(X[0].astype("f2"))),
              TypeError, ("weight has dtype float16", "float32")),
    MustRaise("rmsnorm", "eps", lambda a: F["rmsnorm"](a(X), None, -1.0), ValueError,
              ("eps is -1",)),
    MustRaise("rmsnorm", "out shape", lambda a: F["rmsnorm"](a(X), out=a(X[0])), ValueError,
              ("out", "(3,)", "(2, 3)")),
    MustRaise("rmsnorm", "no array", lambda a: F["rmsnorm"](X), TypeError, ("x",)),
    MustRaise("layernorm", "bias shape", lambda a: F["layernorm"](a(X), a(X[0]), a(X)), ValueError,
              ("bias has shape (2, 3)", "(3,)")),
    MustRaise("l2norm", "eps", lambda a: F["l2norm"](a(X), float("nan")), ValueError, ("eps is",)),
    MustRaise("add_rmsnorm", "residual", lambda a: F["add_rmsnorm"](a(X), a(X[0])), ValueError,
              ("residual has shape (3,)", "(2, 3)")),
    MustRaise("add_layernorm", "residual dtype",
              lambda a: F["add_layernorm"](a(X), a(X.astype("f2"))), TypeError,
              ("residual has dtype float16", "float32")),
    MustRaise("rmsnorm_fp8", "dtype", lambda a: F["rmsnorm_fp8"](a(X.astype(int))), TypeError,
              ("int64",)),
    MustRaise("groupnorm", "groups", lambda a: F["groupnorm"](a(X), 2), ValueError,
              ("num_groups is 2", "3 channels")),
    MustRaise("groupnorm", "no groups", lambda a: F["groupnorm"](a(X), 0), ValueError,
              ("num_groups is 0",)),
    MustRaise("instancenorm", "1-d", lambda a: F["instancenorm"](a(X[0])), ValueError,
              ("shape (3,)", "channels")),
    MustRaise("adain", "scale", lambda a: F["adain"](a(X), a(X[0]), a(X)), ValueError,
              ("scale has shape (3,)", "(2, 3)")),
    MustRaise("softmax", "0-d", lambda a: F["softmax"](a(X[0, 0])), ValueError, ("shape ()",)),
    MustRaise("softmax", "axis", lambda a: F["softmax"](a(X), 2), IndexError, ("axis 2",)),
    MustRaise("softmax", "mask dtype", lambda a: F["softmax"](a(X), mask=a(X)), TypeError,
              ("mask has dtype float32", "bool")),
    MustRaise("softmax", "mask shape", lambda a: F["softmax"](a(X), mask=a(X[:, :2] > 0)),
              ValueError, ("mask has shape (2, 2)", "(2, 3)")),
    MustRaise("log_softmax", "scale", lambda a: F["log_softmax"](a(X), scale=float("inf")),
              ValueError, ("scale is inf",)),
    MustRaise("log_likelihood", "targets",
              lambda a: F["log_likelihood"](a(X), a(np.zeros(3, int))), ValueError,
              ("targets has shape (3,)", "(2,)")),
    MustRaise("log_likelihood", "targets dtype", lambda a: F["log_likelihood"](a(X), a(X[:, 0])),
              TypeError, ("targets has dtype float32", "int32")),
    MustRaise("log_likelihood", "no columns",
              lambda a: F["log_likelihood"](a(X[:, :0]), a(np.zeros(2, int))), ValueError,
              ("(2, 0)", "at least one column")),
    MustRaise("rope", "x", lambda a: F["rope"](a(X), a(X), a(X)), ValueError,
              ("x has shape (2, 3)", "3 dimensions")),
    MustRaise("rope", "half", lambda a: F["rope"](a(X[None]), a(X), a(X)), ValueError,
              ("cos has 3 angles", "1 to 1")),
    MustRaise("rope", "tables", lambda a: F["rope"](a(Y), a(X), a(X[:1])), ValueError,
              ("sin has shape (1, 3)", "(2, 3)")),
    MustRaise("rope", "table dtype", lambda a: F["rope"](a(Y), a(X.astype("f2")), a(X)), TypeError,
              ("cos has dtype float16", "float32")),
    MustRaise("rope", "positions", lambda a: F["rope"](a(Y), a(X), a(X), a(np.zeros(3, int))),
              ValueError, ("positions has shape (3,)", "(2, 2, 8)")),
    MustRaise("rope", "positions dtype", lambda a: F["rope"](a(Y), a(X), a(X), a(X[0])), TypeError,
              ("positions has dtype float32", "int32")),
    MustRaise("rope_computed", "frequencies", lambda a: F["rope_computed"](a(Y), a(X)), ValueError,
              ("frequencies has shape (2, 3)",)),
    MustRaise("rope_computed", "dtype", lambda a: F["rope_computed"](a(Y), a(np.ones(3))),
              TypeError, ("frequencies has dtype float64", "float32")),
    MustRaise("rope", "start", lambda a: F["rope"](a(Y), a(X), a(X), start=1), ValueError,
              ("start is 1 for 2 tokens", "2 rows")),
    MustRaise("rope", "negative start", lambda a: F["rope"](a(Y), a(X), a(X), start=-1), ValueError,
              ("start is -1",)),
    MustRaise("embedding", "table", lambda a: F["embedding"](a(X[0]), a(IDS)), ValueError,
              ("table has shape (3,)", "(vocabulary, dim)")),
    MustRaise("embedding", "dtype", lambda a: F["embedding"](a(X.astype("f8")), a(IDS)), TypeError,
              ("table has dtype float64", "bfloat16")),
    MustRaise("embedding", "no array", lambda a: F["embedding"](X, a(IDS)), TypeError, ("table",)),
    MustRaise("embedding", "ids", lambda a: F["embedding"](a(X), a(X)), TypeError,
              ("ids has dtype float32", "int32 or int64")),
    MustRaise("embedding", "scale", lambda a: F["embedding"](a(X), a(IDS), scale=np.inf),
              ValueError, ("scale is inf",)),
    MustRaise("embedding", "out", lambda a: F["embedding"](a(X), a(IDS), out=a(X)), ValueError,
              ("out", "(2, 3)", "(3, 3)")),
    MustRaise("embedding", "an id", lambda a: F["embedding"](a(X), a(IDS)).to_numpy(), IndexError,
              ("ids: index 2 is out of bounds", "size 2")),
    MustRaise("embedding", "a negative id",
              lambda a: F["embedding"](a(X), a(IDS - 1)).to_numpy(), IndexError,
              ("ids: index -1 is out of bounds",)),
    MustRaise("embedding", "a position",
              lambda a: F["embedding"](
                  a(X), a(IDS // 2), position_table=a(X), positions=a(IDS)
              ).to_numpy(), IndexError, ("positions: index 2 is out of bounds", "size 2")),
    MustRaise("embedding", "position_table",
              lambda a: F["embedding"](a(X), a(IDS), position_table=a(X[:, :2])), ValueError,
              ("position_table has shape (2, 2)", "(rows, 3)")),
    MustRaise("embedding", "positions",
              lambda a: F["embedding"](a(X), a(IDS), position_table=a(X), positions=a(IDS[:2])),
              ValueError, ("positions has shape (2,)", "(3,)")),
    MustRaise("embedding", "no position_table",
              lambda a: F["embedding"](a(X), a(IDS), positions=a(IDS)), ValueError,
              ("positions was given without position_table",)),
    MustRaise("embedding", "start",
              lambda a: F["embedding"](a(X), a(IDS), position_table=a(X)), ValueError,
              ("start is 0 for 3 ids", "2 rows")),
    MustRaise("swiglu", "shapes", lambda a: F["swiglu"](a(X), a(X[:, :2])), ValueError,
              ("(2, 2)",)),
    MustRaise("geglu", "dtype",
              lambda a: F["geglu"](a(X.astype("c8")), a(X.astype("c8"))), TypeError,
              ("complex64",)),
    MustRaise("cross_entropy", "targets",
              lambda a: F["cross_entropy"](a(X), a(np.zeros(3, int))), ValueError,
              ("targets has shape (3,)", "(2,)")),
    MustRaise("cross_entropy", "out",
              lambda a: F["cross_entropy"](a(X), a(np.zeros(2, int)), out=a(X)), ValueError,
              ("out has shape (2, 3)", "()")),
    MustRaise("rope_table", "positions", lambda a: F["rope_table"]("a", 8), TypeError,
              ("max_positions is str 'a'",)),
    MustRaise("rope_frequencies", "scaling", lambda a: F["rope_frequencies"](8, scaling="x"),
              TypeError, ("scaling is 'x'", "mapping")),
    MustRaise("rope_frequencies", "dim", lambda a: F["rope_frequencies"]("8"), TypeError,
              ("dim is str '8'",)),
    MustRaise("rope_init_yarn", "scale", lambda a: F["rope_init_yarn"](8, 8, scale=0), ValueError,
              ("scale is 0", "above 0")),
    MustRaise("alibi_init_slopes", "type", lambda a: F["alibi_init_slopes"]("a"), TypeError,
              ("num_heads is str 'a'",)),
    MustRaise("split_qkv_batch", "type",
              lambda a: F["split_qkv_batch"](a(X), a(X), a(X), a(X), "4", 1, 1), TypeError,
              ("q_dim is str '4'",)),
    MustRaise("slice_rows_range_ptr", "start",
              lambda a: F["slice_rows_range_ptr"](a(X), a(X[:1]), a(IDS), 1), ValueError,
              ("start_pos_buf has shape (3,)",)),
    MustRaise("rope_table", "dim", lambda a: F["rope_table"](4, 7), ValueError, ("dim is 7",)),
    MustRaise("rope_frequencies", "kind",
              lambda a: F["rope_frequencies"](8, scaling={"type": "odd"}), ValueError,
              ("'odd'", "llama3")),
    MustRaise("rope_frequencies", "factor",
              lambda a: F["rope_frequencies"](8, scaling={"type": "linear"}), ValueError,
              ("factor of the linear scaling is missing",)),
    MustRaise("cross_entropy", "reduction",
              lambda a: F["cross_entropy"](a(X), a(np.zeros(2, int)), reduction="max"), ValueError,
              ("reduction is 'max'",)),
]  # fmt: skip
