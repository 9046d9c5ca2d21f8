"""Cases of the conv family: arguments, a float64 oracle for each op, and calls that are refused."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np

from cases.must_raise import MustRaise
from pygpukit.ops import conv

Shape = tuple[int, ...]
DTYPES = ("float32", "bfloat16", "float16")
# |got - want| <= rtol * |want| + atol * the norm of the products that were added up.
TOLERANCE = {"float32": (2e-6, 2e-6), "float16": (1e-3, 5e-4), "bfloat16": (8e-3, 4e-3)}


def normal(rng: np.random.Generator, shape: Shape, dtype: str) -> Any:
    return rng.normal(size=shape).astype(dtype)


def wide(x: Any) -> Any:
    return None if x is None else x.astype(np.float64)


ERF = np.vectorize(math.erf, otypes=[float])
ACTIVATIONS: dict[str | None, Callable[[Any], Any]] = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "gelu_erf": lambda x: 0.5 * x * (1 + ERF(x / np.sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


# --- oracles: every input to every output that it reaches ---------------------------------------


def pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def finish(total: Any, bias: Any, activation: str | None, residual: Any) -> Any:
    if bias is not None:
        total = total + wide(bias).reshape(-1, *(1,) * (total.ndim - 2))
    total = ACTIVATIONS[activation](total)
    return total if residual is None else total + wide(residual)


def conv2d(
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    activation: str | None = None,
    *,
    residual: Any = None,
) -> Any:
    (sh, sw), (ph, pw), (dh, dw) = pair(stride), pair(padding), pair(dilation)
    (h, width), (kh, kw) = x.shape[2:], w.shape[2:]
    oh = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1
    ow = (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    total = np.zeros((x.shape[0], w.shape[0], oh, ow))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for i, j in np.ndindex(kh, kw):
        for o, q in np.ndindex(oh, ow):
            r, c = o * sh + i * dh - ph, q * sw + j * dw - pw
            if not (0 <= r < h and 0 <= c < width):
                continue
            for g in range(groups):
                of_group = slice(g * per_out, (g + 1) * per_out)
                total[:, of_group, o, q] += (
                    wide(x[:, g * per_in : (g + 1) * per_in, r, c]) @ wide(w[of_group, :, i, j]).T
                )
    return finish(total, bias, activation, residual)


def conv1d(
    x: Any,
    w: Any,
    bias: Any = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    activation: str | None = None,
    *,
    residual: Any = None,
) -> Any:
    rest = None if residual is None else residual[:, :, None]
    pairs = (1, stride), (0, padding), (1, dilation)
    image = conv2d(x[:, :, None], w[:, :, None], bias, *pairs, groups, activation, residual=rest)
    return image[:, :, 0]


def conv_transpose1d(
    x: Any,
    w: Any,
    bias: Any = None,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    groups: int = 1,
    dilation: int = 1,
    activation: str | None = None,
    *,
    residual: Any = None,
) -> Any:
    taps, per_in, per_out = w.shape[2], x.shape[1] // groups, w.shape[1]
    length = (x.shape[2] - 1) * stride - 2 * padding + dilation * (taps - 1) + output_padding + 1
    total = np.zeros((x.shape[0], per_out * groups, length))
    for i, t in np.ndindex(x.shape[2], taps):
        o = i * stride + t * dilation - padding
        if not 0 <= o < length:
            continue
        for g in range(groups):
            of_group = slice(g * per_in, (g + 1) * per_in)
            total[:, g * per_out : (g + 1) * per_out, o] += wide(x[:, of_group, i]) @ wide(
                w[of_group, :, t]
            )
    return finish(total, bias, activation, residual)


def causal_conv1d(
    x: Any, w: Any, bias: Any = None, state: Any = None, activation: str | None = None
) -> Any:
    past = w.shape[1] - 1
    total = np.zeros(x.shape)
    history = np.zeros((*x.shape[:2], past)) if state is None else wide(state)
    for t in range(x.shape[2]):
        seen = np.concatenate([history, wide(x[:, :, t : t + 1])], -1)
        total[:, :, t] = (seen * wide(w)).sum(-1)
        history = seen[:, :, 1:]
    return finish(total, bias, activation, None), history


ORACLES: dict[str, Callable[..., Any]] = {
    "conv1d": conv1d,
    "conv2d": conv2d,
    "conv_transpose1d": conv_transpose1d,
    "causal_conv1d": causal_conv1d,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {name: getattr(conv, name) for name in ORACLES}


# --- cases --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    op: str
    name: str
    dtype: str
    draw_with: Callable[[np.random.Generator], tuple[Any, ...]]
    options: dict[str, Any] = field(default_factory=dict)
    has_residual: bool = False

    def __str__(self) -> str:
        return f"{self.op}-{self.name}-{self.dtype}"

    def draw(self) -> tuple[Any, ...]:
        return self.draw_with(np.random.default_rng(zlib.crc32(str(self).encode())))

    def want(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        result = ORACLES[self.op](*arguments, **options)
        return result if isinstance(result, tuple) else (result,)

    def size_of_products(self, arguments: tuple[Any, ...]) -> float:
        """The norm of one output's products: what its rounding errors are measured by."""
        w = arguments[1]
        per_output = w.size // w.shape[1 if self.op == "conv_transpose1d" else 0]
        return float(np.sqrt(max(per_output, 1)))


def sized(
    x: Shape, w: Shape, dtype: str, out: int | None
) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        bias = None if out is None else normal(rng, (out,), dtype)
        return normal(rng, x, dtype), normal(rng, w, dtype), bias

    return draw


def text(shape: Shape) -> str:
    return "x".join(map(str, shape))


# (x, w, options): lengths around tiles, odd ones, every option; the shapes of models, shortened.
SEQUENCES: tuple[tuple[Shape, Shape, dict[str, Any]], ...] = (
    ((1, 1, 1), (1, 1, 1), {}),
    ((2, 3, 9), (4, 3, 3), {"padding": 1}),
    ((1, 80, 131), (96, 80, 3), {"padding": 1, "activation": "gelu_erf"}),
    ((2, 70, 200), (130, 70, 3), {"stride": 2, "padding": 1, "activation": "gelu"}),
    ((1, 64, 64), (64, 64, 7), {"padding": 3, "activation": "relu"}),
    ((1, 128, 256), (128, 128, 11), {"padding": 25, "dilation": 5}),
    ((1, 40, 333), (33, 40, 3), {"padding": 3, "dilation": 3, "activation": "silu"}),
    ((1, 22, 121), (64, 22, 12), {"stride": 6, "padding": 3}),
    ((3, 16, 20), (40, 16, 1), {"activation": "relu"}),
    ((2, 16, 20), (40, 16, 1), {"stride": 3, "activation": "tanh"}),
    ((2, 16, 50), (24, 4, 5), {"groups": 4, "padding": 2}),
    ((2, 64, 40), (96, 32, 3), {"groups": 2, "padding": 1}),
    ((2, 12, 700), (12, 1, 4), {"groups": 12, "padding": 3}),
    ((1, 6, 33), (18, 1, 7), {"groups": 6, "stride": 2, "dilation": 2}),
    ((0, 4, 9), (5, 4, 3), {}),
    ((1, 4, 5), (3, 4, 5), {}),
)
IMAGES: tuple[tuple[Shape, Shape, dict[str, Any]], ...] = (
    ((1, 3, 12, 17), (20, 3, 3, 3), {"padding": 1}),
    ((2, 24, 9, 33), (40, 24, 3, 5), {"padding": (1, 2), "activation": "silu"}),
    ((1, 16, 20, 20), (70, 16, 3, 3), {"stride": 2, "padding": 1}),
    ((1, 64, 7, 8), (64, 64, 3, 3), {"dilation": (2, 1), "padding": (2, 0), "stride": (1, 2)}),
    ((1, 8, 11, 6), (8, 1, 3, 3), {"groups": 8, "padding": 1}),
    ((2, 20, 5, 6), (12, 20, 1, 1), {}),
    ((1, 3, 32, 32), (16, 3, 16, 16), {"stride": 16}),
)
TRANSPOSED: tuple[tuple[Shape, Shape, dict[str, Any]], ...] = (
    ((1, 2, 3), (2, 3, 4), {}),
    ((1, 64, 40), (64, 32, 20), {"stride": 10, "padding": 5}),
    ((2, 32, 65), (32, 20, 12), {"stride": 6, "padding": 3, "activation": "tanh"}),
    ((1, 24, 70), (24, 16, 4), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((2, 16, 30), (16, 8, 3), {"stride": 3, "groups": 2}),
    ((1, 16, 25), (16, 8, 3), {"stride": 2, "dilation": 3, "padding": 2}),
    ((1, 5, 40), (5, 1, 3), {"groups": 5, "stride": 2, "padding": 1, "output_padding": 1}),
    ((1, 40, 140), (40, 130, 3), {"padding": 1}),
    ((1, 8, 9), (8, 4, 2), {"stride": 5}),
)
# (x, taps, with state)
CAUSAL: tuple[tuple[Shape, int, bool], ...] = (
    ((1, 3, 1), 4, True),
    ((2, 70, 4), 4, True),
    ((2, 5, 37), 4, True),
    ((1, 6, 1030), 4, False),
    ((3, 4, 2), 7, True),
    ((2, 4, 9), 1, False),
    ((2, 3, 0), 4, True),
    ((0, 3, 5), 4, True),
)


def drawn_causal(
    shape: Shape, taps: int, has_state: bool, dtype: str
) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        arrays = [normal(rng, s, dtype) for s in (shape, (shape[1], taps), shape[1:2])]
        return *arrays, normal(rng, (*shape[:2], taps - 1), dtype) if has_state else None

    return draw


def cases_of(dtype: str) -> Iterator[Case]:
    for op, table in (("conv1d", SEQUENCES), ("conv2d", IMAGES), ("conv_transpose1d", TRANSPOSED)):
        for number, (x, w, options) in enumerate(table):
            transposed = op == "conv_transpose1d"
            out = w[1] * options.get("groups", 1) if transposed else w[0]
            name = "-".join([text(x), text(w), *map(str, options.values())])
            with_bias = out if number % 3 else None
            yield Case(op, name, dtype, sized(x, w, dtype, with_bias), options, number % 2 == 1)
    for shape, taps, has_state in CAUSAL:
        yield Case(
            "causal_conv1d",
            f"{text(shape)}-{taps}{'-state' if has_state else ''}",
            dtype,
            drawn_causal(shape, taps, has_state, dtype),
            {"activation": "silu"} if taps == 4 else {},
        )


CASES = [case for dtype in DTYPES for case in cases_of(dtype)]


F = FUNCTIONS
X = np.ones((2, 4, 9), np.float32)
W = np.ones((6, 4, 3), np.float32)
C = np.ones((4, 3), np.float32)
MUST_RAISE = [
    MustRaise("conv1d", "dtype", lambda a: F["conv1d"](a(X.astype("f8")), a(W)), TypeError,
              ("x has dtype float64", "float32")),
    MustRaise("conv1d", "2-d", lambda a: F["conv1d"](a(X[0]), a(W)), ValueError,
              ("x has shape (4, 9)", "(batch, in, length)")),
    MustRaise("conv1d", "w", lambda a: F["conv1d"](a(X), a(W[0])), ValueError,
              ("w has shape (4, 3)", "(out, in / groups, taps)")),
    MustRaise("conv1d", "w dtype", lambda a: F["conv1d"](a(X), a(W.astype("f2"))), TypeError,
              ("w has dtype float16", "x has float32")),
    MustRaise("conv1d", "channels", lambda a: F["conv1d"](a(X), a(W[:, :3])), ValueError,
              ("w has shape (6, 3, 3)", "3 input channels", "(2, 4, 9)")),
    MustRaise("conv1d", "groups", lambda a: F["conv1d"](a(X), a(W), groups=3), ValueError,
              ("groups is 3", "4 channels")),
    MustRaise("conv1d", "groups of the result",
              lambda a: F["conv1d"](a(X), a(W[:, :1]), groups=4), ValueError, ("groups is 4", "6")),
    MustRaise("conv1d", "no groups", lambda a: F["conv1d"](a(X), a(W), groups=0), ValueError,
              ("groups is 0",)),
    MustRaise("conv1d", "stride", lambda a: F["conv1d"](a(X), a(W), stride=0), ValueError,
              ("stride is", "1 or more")),
    MustRaise("conv1d", "padding", lambda a: F["conv1d"](a(X), a(W), padding=-1), ValueError,
              ("padding is", "0 or more")),
    MustRaise("conv1d", "dilation", lambda a: F["conv1d"](a(X), a(W), dilation=(1, 1)), ValueError,
              ("dilation is (1, 1)", "an integer")),
    MustRaise("conv1d", "kernel", lambda a: F["conv1d"](a(X), a(W), dilation=5), ValueError,
              ("9 elements", "needs 11")),
    MustRaise("conv1d", "bias", lambda a: F["conv1d"](a(X), a(W), a(W[0, 0])), ValueError,
              ("bias has shape (3,)", "(6,)")),
    MustRaise("conv1d", "residual", lambda a: F["conv1d"](a(X), a(W), residual=a(X)), ValueError,
              ("residual has shape (2, 4, 9)", "(2, 6, 7)")),
    MustRaise("conv1d", "activation", lambda a: F["conv1d"](a(X), a(W), activation="swish"),
              ValueError, ("activation", "gelu_erf")),
    MustRaise("conv1d", "out", lambda a: F["conv1d"](a(X), a(W), out=a(X)), ValueError,
              ("out", "(2, 6, 7)")),
    MustRaise("conv1d", "no array", lambda a: F["conv1d"](X, a(W)), TypeError, ("x",)),
    MustRaise("conv1d", "no taps", lambda a: F["conv1d"](a(X), a(W[:, :, :0])), ValueError,
              ("w has shape (6, 4, 0)", "one tap")),
    MustRaise("conv2d", "3-d", lambda a: F["conv2d"](a(X), a(W)), ValueError,
              ("x has shape (2, 4, 9)", "(batch, in, h, w)")),
    MustRaise("conv2d", "stride",
              lambda a: F["conv2d"](a(X[None]), a(W[None, :, :2]), stride=(1, 2, 3)), ValueError,
              ("w has shape", "input channels")),
    MustRaise("conv_transpose1d", "channels", lambda a: F["conv_transpose1d"](a(X), a(W)),
              ValueError, ("w has shape (6, 4, 3)", "(2, 4, 9)")),
    MustRaise("conv_transpose1d", "output_padding",
              lambda a: F["conv_transpose1d"](a(X), a(W[:4]), output_padding=1), ValueError,
              ("output_padding is 1", "stride 1")),
    MustRaise("conv_transpose1d", "padding",
              lambda a: F["conv_transpose1d"](a(X), a(W[:4]), padding=6), ValueError,
              ("padding 6 leaves no output",)),
    MustRaise("causal_conv1d", "w", lambda a: F["causal_conv1d"](a(X), a(W)), ValueError,
              ("w has shape (6, 4, 3)", "(4, taps)")),
    MustRaise("causal_conv1d", "channels", lambda a: F["causal_conv1d"](a(X), a(C[:3])),
              ValueError, ("w has shape (3, 3)", "(4, 3)")),
    MustRaise("causal_conv1d", "state",
              lambda a: F["causal_conv1d"](a(X), a(C), None, a(X[:, :, :3])), ValueError,
              ("state has shape (2, 4, 3)", "(2, 4, 2)")),
    MustRaise("causal_conv1d", "state dtype",
              lambda a: F["causal_conv1d"](a(X), a(C), None, a(X[:, :, :2].astype("f2"))),
              TypeError, ("state has dtype float16",)),
    MustRaise("causal_conv1d", "x", lambda a: F["causal_conv1d"](a(C), a(C)), ValueError,
              ("x has shape (4, 3)", "(batch, channels, length)")),
]  # fmt: skip
