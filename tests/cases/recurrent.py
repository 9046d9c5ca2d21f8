"""Cases of the recurrent family: a float64 oracle for each op, and calls that are refused."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np

from cases.must_raise import MustRaise
from pygpukit.ops import recurrent

Shape = tuple[int, ...]
DTYPES = ("float32", "bfloat16", "float16")
# |got - want| <= atol + rtol * |want|; hidden states are below 1.
TOLERANCE = {"float32": (2e-5, 1e-5), "float16": (4e-3, 4e-3), "bfloat16": (3e-2, 3e-2)}


def normal(rng: np.random.Generator, shape: Shape, dtype: str, scale: float = 1.0) -> Any:
    return (rng.normal(size=shape) * scale).astype(dtype)


def wide(x: Any) -> Any:
    return 0.0 if x is None else x.astype(np.float64)


# --- oracles: one sample at a time, a gate at a time --------------------------------------------


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm_step(gates: Any, hidden: Any, h: Any, c: Any) -> Any:
    n = len(h)
    i, f, g, o = (gates[k * n : (k + 1) * n] + hidden[k * n : (k + 1) * n] for k in range(4))
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_step(gates: Any, hidden: Any, h: Any, c: Any) -> Any:
    n = len(h)
    r = sigmoid(gates[:n] + hidden[:n])
    z = sigmoid(gates[n : 2 * n] + hidden[n : 2 * n])
    new = np.tanh(gates[2 * n :] + r * hidden[2 * n :])
    return new + z * (h - new), c


def one_direction(step: Any, x: Any, weights: Any, h0: Any, c0: Any, reverse: bool) -> Any:
    w_ih, w_hh, b_ih, b_hh = map(wide, weights)
    size = w_hh.shape[1]
    out = np.zeros((*x.shape[:2], size))
    states = np.zeros((2, x.shape[0], size))
    for sample in range(x.shape[0]):
        h = np.zeros(size) if h0 is None else wide(h0)[sample]
        c = np.zeros(size) if c0 is None else wide(c0)[sample]
        order = range(x.shape[1])[:: -1 if reverse else 1]
        for t in order:
            h, c = step(w_ih @ wide(x[sample, t]) + b_ih, w_hh @ h + b_hh, h, c)
            out[sample, t] = h
        states[:, sample] = h, c
    return out, states[0], states[1]


def forward(step: Any, states: int) -> Callable[..., Any]:
    def oracle(x: Any, *args: Any, reverse: bool = False) -> Any:
        h0, c0 = (*args[4:], None, None)[:2]
        return one_direction(step, x, args[:4], h0, c0, reverse)[: 1 + states]

    return oracle


def bidirectional(step: Any, states: int) -> Callable[..., Any]:
    def oracle(x: Any, *args: Any) -> Any:
        h0, c0 = (*args[8:], None, None)[:2]
        halves = [
            one_direction(
                step,
                x,
                args[4 * d : 4 * d + 4],
                None if h0 is None else h0[d],
                None if c0 is None else c0[d],
                d == 1,
            )
            for d in range(2)
        ]
        stacked = [np.stack([half[1 + i] for half in halves]) for i in range(states)]
        return np.concatenate([half[0] for half in halves], -1), *stacked

    return oracle


def selective_scan(
    x: Any,
    delta: Any,
    a: Any,
    b: Any,
    c: Any,
    d: Any = None,
    z: Any = None,
    delta_bias: Any = None,
    delta_softplus: bool = False,
    state: Any = None,
) -> Any:
    out = np.zeros(x.shape)
    last = np.zeros((*x.shape[:2], a.shape[1]))
    for sample, channel in np.ndindex(*x.shape[:2]):
        h = np.zeros(a.shape[1]) if state is None else wide(state)[sample, channel]
        for t in range(x.shape[2]):
            dt = float(delta[sample, channel, t])
            dt += 0.0 if delta_bias is None else float(delta_bias[channel])
            dt = np.logaddexp(0, dt) if delta_softplus else dt
            value = float(x[sample, channel, t])
            h = np.exp(dt * wide(a)[channel]) * h + dt * wide(b[sample, :, t]) * value
            y = wide(c[sample, :, t]) @ h + (0.0 if d is None else float(d[channel]) * value)
            if z is not None:
                gate = float(z[sample, channel, t])
                y *= gate * sigmoid(gate)
            out[sample, channel, t] = y
        last[sample, channel] = h
    return out, last


ORACLES: dict[str, Callable[..., Any]] = {
    "lstm_forward": forward(lstm_step, 2),
    "lstm_bidirectional": bidirectional(lstm_step, 2),
    "gru_forward": forward(gru_step, 1),
    "gru_bidirectional": bidirectional(gru_step, 1),
    "selective_scan": selective_scan,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {name: getattr(recurrent, name) for name in ORACLES}


# --- cases --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    op: str
    name: str
    dtype: str
    draw_with: Callable[[np.random.Generator], tuple[Any, ...]]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.op}-{self.name}-{self.dtype}"

    def draw(self) -> tuple[Any, ...]:
        return self.draw_with(np.random.default_rng(zlib.crc32(str(self).encode())))

    def want(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        result: tuple[Any, ...] = ORACLES[self.op](*arguments, **self.options)
        return result


def weights(
    rng: np.random.Generator, gates: int, size: int, ins: int, dtype: str, bias: bool
) -> Any:
    shapes: tuple[Shape, ...] = ((gates * size, ins), (gates * size, size))
    drawn = [normal(rng, shape, dtype, 1 / np.sqrt(shape[1] or 1)) for shape in shapes]
    biases = [normal(rng, (gates * size,), dtype) if bias else None for _ in range(2)]
    return *drawn, *biases


# (batch, steps, in, hidden): around warps, blocks of units and columns in registers.
LAYERS: tuple[Shape, ...] = (
    (1, 1, 1, 1),
    (2, 5, 3, 8),
    (1, 7, 20, 33),
    (3, 4, 16, 128),
    (1, 3, 8, 200),
    (5, 3, 8, 300),  # columns in registers beyond those in shared memory
    (32, 2, 8, 530),
    (33, 2, 4, 12),
    (2, 0, 3, 4),
    (0, 3, 3, 4),
)
# (batch, channels, length, states)
SCANS: tuple[Shape, ...] = (
    (1, 1, 1, 1),
    (2, 9, 40, 16),
    (1, 33, 33, 5),
    (1, 4, 1030, 16),
    (2, 3, 64, 32),
    (1, 4, 0, 16),
    (0, 4, 9, 16),
)


def layer_cases(dtype: str) -> Iterator[Case]:
    for cell, gates, states in (("lstm", 4, 2), ("gru", 3, 1)):
        for number, (batch, steps, ins, size) in enumerate(LAYERS):

            def drawn(
                rng: np.random.Generator,
                directions: int,
                s: Shape = (batch, steps, ins, size),
                g: int = gates,
                n: int = states if number % 3 else 0,
                bias: bool = number % 4 != 2,
            ) -> Any:
                x = normal(rng, s[:3], dtype)
                sets = [weights(rng, g, s[3], s[2], dtype, bias) for _ in range(directions)]
                shape = (s[0], s[3]) if directions == 1 else (2, s[0], s[3])
                initial = [normal(rng, shape, dtype, 0.5) for _ in range(n)]
                return x, *(w for one in sets for w in one), *initial

            name = f"{batch}x{steps}x{ins}-{size}"
            for reverse in (False, True) if number % 2 else (False,):
                suffix = "-reverse" if reverse else ""
                yield Case(
                    f"{cell}_forward",
                    name + suffix,
                    dtype,
                    lambda rng, d=drawn: d(rng, 1),
                    {"reverse": reverse},
                )
            yield Case(f"{cell}_bidirectional", name, dtype, lambda rng, d=drawn: d(rng, 2))


def scan_cases(dtype: str) -> Iterator[Case]:
    for number, (batch, channels, length, states) in enumerate(SCANS):

        def drawn(
            rng: np.random.Generator,
            s: Shape = (batch, channels, length),
            n: int = states,
            full: bool = number % 3 != 0,
        ) -> Any:
            x = normal(rng, s, dtype)
            delta = (rng.uniform(0.01, 0.5, s)).astype(dtype)
            a = -rng.uniform(0.5, 2, (s[1], n)).astype("f4")
            b, c = (normal(rng, (s[0], n, s[2]), dtype) for _ in range(2))
            if not full:
                return x, delta, a, b, c
            d, bias = (normal(rng, s[1:2], "float32") for _ in range(2))
            state = normal(rng, (s[0], s[1], n), "float32")
            return x, delta, a, b, c, d, normal(rng, s, dtype), bias, True, state

        name = f"{batch}x{channels}x{length}-{states}"
        yield Case("selective_scan", name, dtype, drawn)


CASES = [case for dtype in DTYPES for make in (layer_cases, scan_cases) for case in make(dtype)]


F = FUNCTIONS


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


X = ones(2, 5, 3)
IH, HH, B = ones(16, 3), ones(16, 4), ones(16)
S = ones(2, 4, 6)
MUST_RAISE = [
    MustRaise("lstm_forward", "dtype",
              lambda a: F["lstm_forward"](a(X.astype("f8")), a(IH), a(HH)), TypeError,
              ("x has dtype float64", "float32")),
    MustRaise("lstm_forward", "2-d", lambda a: F["lstm_forward"](a(X[0]), a(IH), a(HH)),
              ValueError, ("x has shape (5, 3)", "(batch, steps, in)")),
    MustRaise("lstm_forward", "w_hh", lambda a: F["lstm_forward"](a(X), a(IH), a(HH[:12])),
              ValueError, ("w_hh has shape (12, 4)", "(4 * hidden, hidden)")),
    MustRaise("lstm_forward", "w_ih", lambda a: F["lstm_forward"](a(X), a(IH[:, :2]), a(HH)),
              ValueError, ("w_ih has shape (16, 2)", "(16, 3)")),
    MustRaise("lstm_forward", "w_ih dtype",
              lambda a: F["lstm_forward"](a(X), a(IH.astype("f2")), a(HH)), TypeError,
              ("w_ih has dtype float16", "x has float32")),
    MustRaise("lstm_forward", "b_ih", lambda a: F["lstm_forward"](a(X), a(IH), a(HH), a(B[:4])),
              ValueError, ("b_ih has shape (4,)", "(16,)")),
    MustRaise("lstm_forward", "b_hh",
              lambda a: F["lstm_forward"](a(X), a(IH), a(HH), None, a(B[:4])), ValueError,
              ("b_hh has shape (4,)", "(16,)")),
    MustRaise("lstm_forward", "h0",
              lambda a: F["lstm_forward"](a(X), a(IH), a(HH), h0=a(ones(2, 3))), ValueError,
              ("h0 has shape (2, 3)", "(2, 4)")),
    MustRaise("lstm_forward", "c0",
              lambda a: F["lstm_forward"](a(X), a(IH), a(HH), c0=a(ones(1, 2, 4))), ValueError,
              ("c0 has shape (1, 2, 4)", "(2, 4)")),
    MustRaise("lstm_forward", "out",
              lambda a: F["lstm_forward"](a(X), a(IH), a(HH), out=a(X)), ValueError,
              ("out", "(2, 5, 4)")),
    MustRaise("lstm_bidirectional", "w_hh_reverse",
              lambda a: F["lstm_bidirectional"](a(X), a(IH), a(HH), None, None, a(IH), a(HH[:8]),
                                                None, None),
              ValueError, ("w_hh_reverse has shape (8, 4)", "(16, 4)")),
    MustRaise("lstm_bidirectional", "h0",
              lambda a: F["lstm_bidirectional"](a(X), a(IH), a(HH), None, None, a(IH), a(HH), None,
                                                None, a(ones(2, 4))),
              ValueError, ("h0 has shape (2, 4)", "(2, 2, 4)")),
    MustRaise("gru_forward", "w_hh", lambda a: F["gru_forward"](a(X), a(IH), a(HH)), ValueError,
              ("w_hh has shape (16, 4)", "(3 * hidden, hidden)")),
    MustRaise("gru_bidirectional", "w_ih_reverse",
              lambda a: F["gru_bidirectional"](a(X), a(IH[:12]), a(HH[:12]), None, None, a(IH),
                                               a(HH[:12]), None, None),
              ValueError, ("w_ih_reverse has shape (16, 3)", "(12, 3)")),
    MustRaise("selective_scan", "delta",
              lambda a: F["selective_scan"](a(S), a(X), a(ones(4, 2)), a(S), a(S)), ValueError,
              ("delta has shape (2, 5, 3)", "(2, 4, 6)")),
    MustRaise("selective_scan", "a",
              lambda a: F["selective_scan"](a(S), a(S), a(ones(4, 33)), a(S), a(S)), ValueError,
              ("a has shape (4, 33)", "1 to 32 states")),
    MustRaise("selective_scan", "a dtype",
              lambda a: F["selective_scan"](a(S), a(S), a(np.ones((4, 2))), a(S[:, :2]),
                                            a(S[:, :2])),
              TypeError, ("a has dtype float64", "float32")),
    MustRaise("selective_scan", "b",
              lambda a: F["selective_scan"](a(S), a(S), a(ones(4, 2)), a(S), a(S)), ValueError,
              ("b has shape (2, 4, 6)", "(2, 2, 6)")),
    MustRaise("selective_scan", "state",
              lambda a: F["selective_scan"](a(S), a(S), a(ones(4, 2)), a(S[:, :2]), a(S[:, :2]),
                                            state=a(ones(2, 4))),
              ValueError, ("state has shape (2, 4)", "(2, 4, 2)")),
    MustRaise("selective_scan", "x",
              lambda a: F["selective_scan"](a(S[0]), a(S), a(ones(4, 2)), a(S), a(S)), ValueError,
              ("x has shape (4, 6)", "(batch, channels, length)")),
]  # fmt: skip
