"""Runs the cases of the recurrent family on a device. Shared by tests/unit and tests/gpu."""

from __future__ import annotations

import numpy as np

import pygpukit as gp
from cases.recurrent import FUNCTIONS, TOLERANCE, Case, normal, weights
from cases.run_nn import to_device
from pygpukit.ops import recurrent


def run_case(case: Case, device: str | None = None, view: str = "whole") -> None:
    arguments = case.draw()
    want = case.want(arguments)
    given = [
        to_device(value, device, view if i == 0 else "whole") for i, value in enumerate(arguments)
    ]
    results = FUNCTIONS[case.op](*given, **case.options)
    rtol, atol = TOLERANCE[case.dtype]
    for number, (ours, theirs) in enumerate(zip(results, want, strict=True)):
        assert ours.device == given[0].device
        assert ours.shape == theirs.shape
        is_scan_state = case.op == "selective_scan" and number == 1
        assert ours.dtype.name == ("float32" if is_scan_state else case.dtype)
        np.testing.assert_allclose(ours.to_numpy().astype(np.float64), theirs, rtol=rtol, atol=atol)
    for ours, before in zip(given, arguments, strict=True):
        if isinstance(before, np.ndarray):
            np.testing.assert_array_equal(ours.to_numpy(), before)


def run_pieces(device: str | None = None) -> None:
    """A sequence in two pieces, the states handed on, gives what it gives as a whole."""
    rng = np.random.default_rng(0)
    x = gp.from_numpy(normal(rng, (2, 12, 6), "float32"), device=device)
    given = [gp.from_numpy(w, device=device) for w in weights(rng, 4, 40, 6, "float32", True)]
    whole = recurrent.lstm_forward(x, *given)
    first = recurrent.lstm_forward(x[:, :5], *given)
    second = recurrent.lstm_forward(x[:, 5:], *given, *first[1:])
    np.testing.assert_allclose(
        whole[0].to_numpy()[:, 5:], second[0].to_numpy(), rtol=1e-5, atol=1e-6
    )
    for ours, theirs in zip(second[1:], whole[1:], strict=True):
        np.testing.assert_allclose(ours.to_numpy(), theirs.to_numpy(), rtol=1e-5, atol=1e-6)


def run_out(device: str | None = None) -> None:
    rng = np.random.default_rng(1)
    host = normal(rng, (2, 6, 8), "float32")
    given = [gp.from_numpy(w, device=device) for w in weights(rng, 3, 8, 8, "float32", True)]
    want = recurrent.gru_forward(gp.from_numpy(host, device=device), *given)[0].to_numpy()
    x = gp.from_numpy(host, device=device)
    assert recurrent.gru_forward(x, *given, out=x)[0] is x
    np.testing.assert_array_equal(x.to_numpy(), want)
    wide = gp.zeros((2, 6, 20), device=device)
    recurrent.gru_forward(gp.from_numpy(host, device=device), *given, out=wide[:, :, 3:11])
    np.testing.assert_array_equal(wide.to_numpy()[:, :, 3:11], want)
    turned = gp.zeros((2, 8, 6), device=device)
    recurrent.gru_forward(
        gp.from_numpy(host, device=device), *given, out=gp.permute_dims(turned, (0, 2, 1))
    )
    np.testing.assert_array_equal(turned.to_numpy().transpose(0, 2, 1), want)
