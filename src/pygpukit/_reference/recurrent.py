"""LSTM, GRU and Mamba's selective scan. Computed in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Optional = NDArray[Any] | None
    Outs = tuple[NDArray[Any], ...]


def _wide(x: NDArray[Any]) -> NDArray[np.float32]:
    return x.astype(np.float32)


def _sigmoid(x: NDArray[Any]) -> Any:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _part(x: NDArray[Any], w: NDArray[Any], bias: Optional) -> NDArray[Any]:
    product: NDArray[Any] = _wide(x) @ _wide(w).T
    return product if bias is None else product + _wide(bias)


def _lstm_cell(x: NDArray[Any], h: NDArray[Any], states: list[NDArray[Any]]) -> None:
    i, f, g, o = np.split(x + h, 4, axis=-1)
    states[1] = _sigmoid(f) * states[1] + _sigmoid(i) * np.tanh(g)
    states[0] = _sigmoid(o) * np.tanh(states[1])


def _gru_cell(x: NDArray[Any], h: NDArray[Any], states: list[NDArray[Any]]) -> None:
    (xr, xz, xn), (hr, hz, hn) = np.split(x, 3, axis=-1), np.split(h, 3, axis=-1)
    z = _sigmoid(xz + hz)
    states[0] = (1 - z) * np.tanh(xn + _sigmoid(xr + hr) * hn) + z * states[0]


def _run(
    cell: Callable[..., None],
    x: NDArray[Any],
    weights: tuple[Any, ...],
    initial: tuple[Optional, ...],
    reverse: bool,
    outs: Outs,
) -> None:
    """One direction; outs are the outputs of all steps and the last states."""
    w_ih, w_hh, b_ih, b_hh = weights
    zeros = np.zeros((x.shape[0], w_hh.shape[1]), np.float32)
    states = [zeros if state is None else _wide(state) for state in initial]
    inputs = _part(x, w_ih, b_ih)
    steps = range(x.shape[1])
    for t in reversed(steps) if reverse else steps:
        cell(inputs[:, t], _part(states[0], w_hh, b_hh), states)
        outs[0][:, t] = states[0]
    for out, state in zip(outs[1:], states, strict=True):
        out[...] = state


def _both(
    cell: Callable[..., None],
    x: NDArray[Any],
    weights: tuple[Any, ...],
    initial: tuple[Optional, ...],
    out: Outs,
) -> None:
    hidden = out[0].shape[2] // 2
    for d in range(2):
        _run(
            cell,
            x,
            weights[4 * d : 4 * d + 4],
            tuple(None if state is None else state[d] for state in initial),
            d == 1,
            (out[0][:, :, d * hidden : (d + 1) * hidden], *(state[d] for state in out[1:])),
        )


def lstm_forward(x: NDArray[Any], *args: Any, reverse: bool, out: Outs) -> None:
    """step by step"""
    _run(_lstm_cell, x, args[:4], args[4:], reverse, out)


def lstm_bidirectional(x: NDArray[Any], *args: Any, out: Outs) -> None:
    """lstm_forward, forward and backward"""
    _both(_lstm_cell, x, args[:8], args[8:], out)


def gru_forward(x: NDArray[Any], *args: Any, reverse: bool, out: Outs) -> None:
    """step by step"""
    _run(_gru_cell, x, args[:4], args[4:], reverse, out)


def gru_bidirectional(x: NDArray[Any], *args: Any, out: Outs) -> None:
    """gru_forward, forward and backward"""
    _both(_gru_cell, x, args[:8], args[8:], out)


def selective_scan(
    x: NDArray[Any],
    delta: NDArray[Any],
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    d: Optional,
    z: Optional,
    delta_bias: Optional,
    state: Optional,
    *,
    delta_softplus: bool,
    out: Outs,
) -> None:
    """step by step"""
    dt: NDArray[Any] = _wide(delta)
    if delta_bias is not None:
        dt = dt + delta_bias[:, None]
    if delta_softplus:
        dt = np.maximum(dt, 0) + np.log1p(np.exp(-np.abs(dt)))
    h: Any = np.zeros((*x.shape[:2], a.shape[1]), np.float32) if state is None else state.copy()
    y: NDArray[Any] = np.empty(x.shape, np.float32)
    values, b, c = _wide(x), _wide(b), _wide(c)
    for t in range(x.shape[2]):
        step = dt[:, :, t, None]
        h = np.exp(step * a) * h + step * b[:, None, :, t] * values[:, :, t, None]
        y[:, :, t] = (h * c[:, None, :, t]).sum(-1)
    if d is not None:
        y = y + d[:, None] * values
    if z is not None:
        gate = _wide(z)
        y = y * gate * _sigmoid(gate)
    out[0][...] = y
    out[1][...] = h


__all__ = [
    "gru_bidirectional",
    "gru_forward",
    "lstm_bidirectional",
    "lstm_forward",
    "selective_scan",
]
