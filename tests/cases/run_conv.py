"""Runs the cases of the conv family on a device. Shared by tests/unit and tests/gpu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from cases.conv import FUNCTIONS, TOLERANCE, Case, normal
from cases.run_nn import to_device
from pygpukit.ops import conv


def run_case(case: Case, device: str | None = None, view: str = "whole") -> None:
    arguments = case.draw()
    options = dict(case.options)
    want = case.want(arguments, options)
    if case.has_residual:
        residual = normal(np.random.default_rng(1), want[0].shape, case.dtype)
        options["residual"] = residual
        want = case.want(arguments, options)
    given = [
        to_device(value, device, view if i == 0 else "whole") for i, value in enumerate(arguments)
    ]
    device_options = {name: to_device(value, device) for name, value in options.items()}
    result = FUNCTIONS[case.op](*given, **device_options)
    results = result if isinstance(result, tuple) else (result,)
    rtol, atol = TOLERANCE[case.dtype]
    atol *= case.size_of_products(arguments)
    for ours, theirs in zip(results, want, strict=True):
        assert ours.device == given[0].device
        assert ours.dtype.name == case.dtype
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours.to_numpy().astype(np.float64), theirs, rtol=rtol, atol=atol)
    for ours, before in zip(given, arguments, strict=True):
        if isinstance(before, np.ndarray):
            np.testing.assert_array_equal(ours.to_numpy(), before)


def run_out(device: str | None = None) -> None:
    """out= of another dtype, strided, over an input, over the residual."""
    rng = np.random.default_rng(3)
    host, weights = rng.normal(size=(2, 32, 40)).astype("f4"), rng.normal(size=(32, 32, 3))
    w = gp.from_numpy(weights.astype("f4"), device=device)

    def fresh() -> Any:
        return gp.from_numpy(host, device=device)

    want = conv.conv1d(fresh(), w, padding=1).to_numpy()
    x = fresh()
    assert conv.conv1d(x, w, padding=1, out=x) is x
    np.testing.assert_array_equal(x.to_numpy(), want)
    wider = gp.zeros((2, 32, 40), "float64", device=device)
    conv.conv1d(fresh(), w, padding=1, out=wider)
    np.testing.assert_array_equal(wider.to_numpy(), want)
    turned = gp.zeros((2, 40, 32), "float32", device=device)
    conv.conv1d(fresh(), w, padding=1, out=gp.permute_dims(turned, (0, 2, 1)))
    np.testing.assert_array_equal(turned.to_numpy().transpose(0, 2, 1), want)
    base = gp.zeros((2, 32, 64), "float32", device=device)
    conv.conv1d(fresh(), w, padding=1, out=base[:, :, 3:43])
    np.testing.assert_array_equal(base.to_numpy()[:, :, 3:43], want)
    assert not base.to_numpy()[:, :, 43:].any()
    rest = fresh()
    assert conv.conv1d(fresh(), w, padding=1, residual=rest, out=rest) is rest
    np.testing.assert_allclose(rest.to_numpy(), want + host, rtol=1e-5, atol=1e-5)


def run_state(device: str | None = None) -> None:
    """A sequence in pieces, the state in place, gives the bits of the whole."""
    rng = np.random.default_rng(4)
    x = gp.from_numpy(rng.normal(size=(2, 24, 60)).astype("f4"), device=device)
    w = gp.from_numpy(rng.normal(size=(24, 4)).astype("f4"), device=device)
    whole, last = conv.causal_conv1d(x, w, activation="silu")
    state, out = gp.zeros((2, 24, 3), device=device), gp.zeros_like(x)
    first = 0
    for length in (1, 30, 2, 4, 23):
        piece = slice(first, first + length)
        result = conv.causal_conv1d(
            x[:, :, piece], w, None, state, "silu", out=out[:, :, piece], state_out=state
        )
        assert result[1] is state
        first += length
    np.testing.assert_array_equal(out.to_numpy(), whole.to_numpy())
    np.testing.assert_array_equal(state.to_numpy(), last.to_numpy())
    np.testing.assert_array_equal(last.to_numpy(), x.to_numpy()[:, :, -3:])
    with pytest.raises(ValueError, match="causal_conv1d: out and state_out share memory"):
        conv.causal_conv1d(x[:, :, :3], w, out=out[:, :, :3], state_out=out[:, :, :3])


def run_weight_norm(device: str | None = None) -> None:
    rng = np.random.default_rng(5)
    for shape in ((6, 4, 3), (5, 7), (3, 2, 3, 3)):
        g, v = rng.normal(size=shape[:1]), rng.normal(size=shape)
        norm = np.sqrt((v**2).sum(tuple(range(1, v.ndim))))
        want = (g / norm).reshape(-1, *(1,) * (v.ndim - 1)) * v
        got = conv.fold_weight_norm(
            gp.from_numpy(g.reshape(-1, 1, 1).astype("f4"), device=device),
            gp.from_numpy(v.astype("f4"), device=device),
        )
        np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"fold_weight_norm: g has shape \(2,\), v \(3, 4\)"):
        conv.fold_weight_norm(gp.ones(2, device=device), gp.ones((3, 4), device=device))
